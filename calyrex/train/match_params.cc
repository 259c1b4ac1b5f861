#include "calyrex/train/match_params.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "calyrex/base/error.h"

namespace calyrex::train {
namespace {

using weights::AdapterConfig;
using weights::LoraModule;

constexpr double kTolerance = 0.005;

/// The whole number near `guess` whose count comes nearest to the target.
int64_t nearest(double guess, int64_t lowest, int64_t target, const std::function<int64_t(int64_t)>& count) {
  const auto middle = static_cast<int64_t>(std::llround(guess));
  int64_t best = std::max(lowest, middle - 1);
  for (int64_t size = best; size <= std::max(lowest, middle + 1); ++size) {
    if (std::abs(count(size) - target) < std::abs(count(best) - target)) best = size;
  }
  return best;
}

MatchedSize match_width(AdapterConfig config, int64_t target) {
  const bool cal = config.kind == weights::AdapterKind::kCal;
  int64_t& width = cal ? config.cal.intermediate_size : config.parallel_mlp.intermediate_size;
  const auto count = [&](int64_t size) {
    width = size;
    return weights::count_parameters(config);
  };
  const auto one = static_cast<double>(count(1)), two = static_cast<double>(count(2));
  const double guess = 1.0 + (static_cast<double>(target) - one) / (two - one);
  const int64_t best = nearest(guess, cal ? 0 : 1, target, count);
  MatchedSize result{.config = {}, .parameters = count(best), .size = fmt::format("width {}", best)};
  if (best == 0) result.size = "width 0 (attention alone)";
  result.config = std::move(config);
  return result;
}

/// Modules whose rank is raised by one, chosen so that what they add comes nearest to `missing`: whole kinds
/// of projections, largest first, then single ones from the last layer down.
std::vector<std::string> raised_modules(const std::vector<LoraModule>& modules, int64_t missing) {
  std::map<std::string, std::vector<const LoraModule*>> kinds;  // "q_proj" -> its modules, by layer
  for (const LoraModule& module : modules) {
    kinds[module.name.substr(module.name.rfind('.') + 1)].push_back(&module);
  }
  std::vector<std::string> names;
  for (const auto& [name, members] : kinds) names.push_back(name);
  const auto unit = [&](const std::string& name) {
    return kinds[name].front()->in + kinds[name].front()->out;
  };
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return unit(a) > unit(b); });
  std::vector<std::string> raised;
  for (const std::string& name : names) {
    const std::vector<const LoraModule*>& members = kinds[name];
    const bool last = name == names.back();
    const int64_t half =
        last ? unit(name) / 2 : 0;  // the smallest unit is rounded, the others are not exceeded
    const int64_t fitting = std::max<int64_t>(0, (missing + half) / unit(name));
    const auto taken = static_cast<size_t>(std::min(fitting, static_cast<int64_t>(members.size())));
    missing -= static_cast<int64_t>(taken) * unit(name);
    if (taken == members.size()) {
      raised.push_back(name);
    } else {
      for (size_t n = members.size() - taken; n < members.size(); ++n) raised.push_back(members[n]->name);
    }
  }
  return raised;
}

MatchedSize match_rank(AdapterConfig config, int64_t target, const weights::ModelConfig& backbone,
                       bool scale_follows) {
  const auto set_rank = [&](int64_t rank) {
    config.lora.rank = rank;
    if (scale_follows) config.lora.alpha = static_cast<double>(rank);
    config = weights::resolve_adapter_config(std::move(config), backbone);
    return weights::count_parameters(config);
  };
  const auto unit = static_cast<double>(set_rank(1));
  const int64_t rank = nearest(static_cast<double>(target) / unit, 1, target, set_rank);
  MatchedSize result{.config = {}, .parameters = set_rank(rank), .size = fmt::format("rank {}", rank)};
  if (std::abs(result.deviation(target)) > kTolerance) {
    const int64_t lower = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(target) / unit));
    const int64_t base = set_rank(lower);
    const std::vector<std::string> raised = raised_modules(config.lora_modules, target - base);
    for (const std::string& name : raised) {
      config.lora.rank_pattern.emplace_back(name, lower + 1);
      if (scale_follows) config.lora.alpha_pattern.emplace_back(name, static_cast<double>(lower + 1));
    }
    result.parameters = set_rank(lower);
    result.size = fmt::format("rank {}", lower);
    if (!raised.empty()) result.size += fmt::format(", {} in {}", lower + 1, fmt::join(raised, ", "));
  }
  result.config = std::move(config);
  return result;
}

}  // namespace

AdapterSettings parse_match_params(const Json& match_params) {
  return with_context("adapter.match_params", [&] {
    if (!match_params.is_object() || !match_params.contains("kind")) {
      fail(ErrorCode::kInvalidArgument,
           "expected the adapter to match, e.g. {{kind: cal, placement: late8th}}");
    }
    AdapterSettings settings;
    read_fields(config_from_json(match_params, "adapter.match_params"), settings);
    if (settings.kind == TrainedKind::kFull || !settings.match_params.is_null() || settings.init_from) {
      fail(ErrorCode::kInvalidArgument, "cal, lora or parallel_mlp with a size of its own can be matched");
    }
    return settings;
  });
}

MatchedSize match_parameters(AdapterConfig config, int64_t target, const weights::ModelConfig& backbone,
                             bool scale_follows) {
  CALYREX_CHECK(target > 0 && config.kind != weights::AdapterKind::kFull);
  if (config.kind == weights::AdapterKind::kLora) {
    return match_rank(std::move(config), target, backbone, scale_follows);
  }
  return match_width(std::move(config), target);
}

}  // namespace calyrex::train
