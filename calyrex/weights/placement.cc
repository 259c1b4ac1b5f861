// After which layers the blocks stand (PAPER.md, "Placement").
#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::weights {
namespace {

/// Layers first, first + step, ... up to last.
struct Preset {
  std::string_view name;
  int64_t first;
  int64_t last;
  int64_t step = 1;
};

std::vector<Preset> presets(int64_t layers) {
  const int64_t end = layers - 1;
  return {
      {"late8th", std::max<int64_t>(0, 7 * layers / 8 - 1), end},
      {"all", 0, end},
      {"early-half", 0, layers / 2 - 1},
      {"late-half", layers / 2, end},
      {"early-quarter", 0, layers / 4 - 1},
      {"mid-quarter", 3 * layers / 8, 5 * layers / 8 - 1},
      {"late-quarter", 3 * layers / 4, end},
      {"last", end, end},
      {"every-2nd", 1, end, 2},
      {"every-4th", 3, end, 4},
  };
}

std::vector<int64_t> parse_list(const std::string& text, int64_t num_layers) {
  std::vector<int64_t> layers;
  try {
    const Json list = parse_json(text, "placement", {.max_bytes = 1 << 16, .max_depth = 2});
    for (const Json& item : list) layers.push_back(item.is_number_integer() ? item.get<int64_t>() : -1);
  } catch (const Error&) {
    fail(ErrorCode::kInvalidArgument, "placement '{}' is no list of layers; write e.g. [25, 27]", text);
  }
  std::sort(layers.begin(), layers.end());
  const bool distinct = std::adjacent_find(layers.begin(), layers.end()) == layers.end();
  if (layers.empty() || !distinct || layers.front() < 0 || layers.back() >= num_layers) {
    fail(ErrorCode::kInvalidArgument, "placement '{}': layers must be distinct whole numbers from 0 to {}",
         text, num_layers - 1);
  }
  return layers;
}

}  // namespace

std::vector<int64_t> resolve_placement(const std::string& placement, int64_t num_layers) {
  if (placement.starts_with('[')) return parse_list(placement, num_layers);
  std::vector<std::string> names;
  for (const Preset& preset : presets(num_layers)) {
    names.emplace_back(preset.name);
    if (preset.name != placement) continue;
    std::vector<int64_t> layers;
    for (int64_t layer = preset.first; layer <= preset.last; layer += preset.step) layers.push_back(layer);
    if (layers.empty()) {
      fail(ErrorCode::kInvalidArgument, "placement '{}' holds no layer of a model with {}", placement,
           num_layers);
    }
    return layers;
  }
  const std::string near = nearest_word(placement, names);
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  fail(ErrorCode::kInvalidArgument, "unknown placement '{}'; {}", placement,
       near.empty() ? fmt::format("known: {}, or a list such as [25, 27]", all)
                    : fmt::format("did you mean '{}'?", near));
}

}  // namespace calyrex::weights
