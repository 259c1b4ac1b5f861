#include "calyrex/eval/tasks/sample_lists.h"

#include <algorithm>
#include <set>
#include <utility>

#include "calyrex/base/error.h"

namespace calyrex::eval {

std::string row_id(const RowFields& row, std::string_view name) {
  const Json& value = row.json(name);
  return value.is_number_integer() ? value.dump() : row.filled_text(name);
}

void check_unique_ids(const Samples& samples, const std::filesystem::path& data) {
  std::set<std::string> seen;
  for (const auto& sample : samples) {
    if (!seen.insert(sample->id()).second) {
      fail(ErrorCode::kInvalidArgument, "{}: two rows have the id '{}'", data.string(), sample->id());
    }
  }
}

Samples take_turns(std::vector<Samples> parts) {
  size_t longest = 0;
  for (const Samples& part : parts) longest = std::max(longest, part.size());
  Samples all;
  for (size_t i = 0; i < longest; ++i) {
    for (Samples& part : parts) {
      if (i < part.size()) all.push_back(std::move(part[i]));
    }
  }
  return all;
}

void require_no_shots(const TaskInfo& info, const LoadOptions& options) {
  if (options.shots.value_or(0) != 0) {
    fail(ErrorCode::kUnsupported, "{} is asked without examples: leave --shots out", info.name);
  }
}

int shots_of(const TaskInfo& info, const LoadOptions& options, int usual, int most) {
  const int shots = options.shots.value_or(usual);
  if (shots < 0 || shots > most) {
    fail(ErrorCode::kInvalidArgument, "--shots {}: {} takes 0 to {}", shots, info.name, most);
  }
  return shots;
}

}  // namespace calyrex::eval
