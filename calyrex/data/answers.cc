#include "calyrex/data/answers.h"

#include <map>
#include <optional>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"

namespace calyrex::data {
namespace {

std::string field(const Json& json, const char* name, const std::string& place) {
  if (!json[name].is_string()) fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is no text", place, name);
  return json[name].get<std::string>();
}

}  // namespace

std::vector<std::string> read_answers(const std::filesystem::path& path, const std::vector<RuleRow>& rows) {
  std::multimap<std::string, size_t> by_id;
  std::multimap<std::string, size_t> by_prompt;
  for (size_t i = 0; i < rows.size(); ++i) {
    by_id.emplace(rows[i].id, i);
    by_prompt.emplace(rows[i].user, i);
  }
  std::vector<std::optional<std::string>> answers(rows.size());
  for_each_json_line(path, [&](int64_t number, const Json& json) {
    const std::string place = fmt::format("{}:{}", path.string(), number);
    const char* name = nullptr;
    for (const char* candidate : {"prompt", "key", "id"}) {
      if (json.is_object() && json.contains(candidate)) name = candidate;
    }
    if (name == nullptr || !json.contains("response")) {
      fail(ErrorCode::kInvalidArgument, "{}: expected {{\"id\" or \"key\" or \"prompt\", \"response\"}}",
           place);
    }
    const std::string key = field(json, name, place);
    const auto& index = std::string_view(name) == "prompt" ? by_prompt : by_id;
    if (index.count(key) != 1) {
      fail(ErrorCode::kInvalidArgument, "{}: {} \"{}\" matches {} rows; give the id of one", place, name, key,
           index.count(key));
    }
    auto& answer = answers[index.find(key)->second];
    if (answer) fail(ErrorCode::kInvalidArgument, "{}: {} \"{}\" is answered twice", place, name, key);
    answer = field(json, "response", place);
  });
  std::vector<std::string> result;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!answers[i])
      fail(ErrorCode::kInvalidArgument, "{}: no response to row {}", path.string(), rows[i].id);
    result.push_back(std::move(*answers[i]));
  }
  return result;
}

}  // namespace calyrex::data
