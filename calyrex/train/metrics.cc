#include "calyrex/train/metrics.h"

#include <cmath>
#include <utility>
#include <vector>

namespace calyrex::train {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;

/// Keeps the lines up to `last_step` and opens the file for more.
LineWriter open_log(const std::filesystem::path& path, int64_t last_step) {
  if (last_step == 0 || !std::filesystem::exists(path)) return LineWriter(path, LineWriter::Mode::kTruncate);
  std::string kept;
  int64_t expected = 1;
  for_each_line(path, kMaxLineBytes, [&](int64_t, std::string_view line) {
    // A process that was killed may leave a last line that is cut off; it is behind the checkpoint.
    if (expected > last_step) return;
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object() && row.value("step", int64_t{0}) == expected) {
      kept.append(line).push_back('\n');
      ++expected;
    }
  });
  write_file_atomically(path, kept);
  return LineWriter(path, LineWriter::Mode::kAppend);
}

Json thinned(const std::vector<std::pair<int64_t, double>>& points, int64_t max_points, const char* key) {
  Json list = Json::array();
  const auto count = static_cast<int64_t>(points.size());
  const int64_t kept = std::min(count, max_points);
  for (int64_t i = 0; i < kept; ++i) {
    const int64_t index = kept == 1 ? count - 1 : i * (count - 1) / (kept - 1);
    const auto& [step, value] = points[static_cast<size_t>(index)];
    list.push_back({{"step", step}, {key, value}});
  }
  return list;
}

}  // namespace

Json metrics_to_json(const StepMetrics& metrics) {
  Json json = {{"step", metrics.step},
               {"loss", metrics.loss},
               {"tokens", metrics.tokens},
               {"label_tokens", metrics.label_tokens},
               {"grad_norm", metrics.grad_norm},
               {"learning_rate", metrics.learning_rate},
               {"seconds", std::round(metrics.seconds * 1e4) / 1e4}};
  Json blocks = Json::object();
  for (const auto& [layer, norm] : metrics.block_grad_norms) {
    blocks[layer < 0 ? "other" : fmt::format("blocks.{}", layer)] = norm;
  }
  json["block_grad_norms"] = blocks;
  if (metrics.eval_loss) json["eval_loss"] = *metrics.eval_loss;
  return json;
}

MetricsLog::MetricsLog(std::filesystem::path path, int64_t last_step) : writer_(open_log(path, last_step)) {}

void MetricsLog::write(const StepMetrics& metrics) {
  writer_.write_line(to_json_line(metrics_to_json(metrics)));
}

Json read_loss_curve(const std::filesystem::path& path, int64_t max_points) {
  std::vector<std::pair<int64_t, double>> losses, eval_losses;
  for_each_json_line(path, [&](int64_t, const Json& row) {
    const auto step = row.at("step").get<int64_t>();
    losses.emplace_back(step, row.at("loss").get<double>());
    if (row.contains("eval_loss")) eval_losses.emplace_back(step, row.at("eval_loss").get<double>());
  });
  Json curve = {{"loss", thinned(losses, max_points, "loss")}};
  if (!eval_losses.empty()) curve["eval_loss"] = thinned(eval_losses, max_points, "eval_loss");
  return curve;
}

void TrainingProgress::show(const StepMetrics& metrics) {
  constexpr double kSmoothing = 0.9;
  const double speed = static_cast<double>(metrics.tokens) / std::max(1e-9, metrics.seconds);
  const bool first = seconds_per_step_ == 0.0;
  const auto smooth = [&](double& value, double next) {
    value = first ? next : kSmoothing * value + (1.0 - kSmoothing) * next;
  };
  smooth(tokens_per_second_, speed);
  smooth(loss_, metrics.loss);
  smooth(seconds_per_step_, metrics.seconds);
  const double left = seconds_per_step_ * static_cast<double>(total_steps_ - metrics.step);
  line_.show(fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", metrics.step, total_steps_,
                         loss_, tokens_per_second_, format_duration(left)));
}

}  // namespace calyrex::train
