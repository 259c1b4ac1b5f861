#include "calyrex/eval/judge/verdict_file.h"

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"

namespace calyrex::eval {
namespace {

constexpr int64_t kMaxTurns = 1000;
constexpr size_t kMaxCriteria = 1000;

int64_t read_count(const Json& row, const char* name, int64_t low, int64_t high, const std::string& source) {
  const auto found = row.find(name);
  if (found == row.end() || !found->is_number_integer() || *found < low || *found > high) {
    fail(ErrorCode::kInvalidArgument, "{}: {} must be a whole number from {} to {}", source, name, low, high);
  }
  return found->get<int64_t>();
}

Decision read_decision(const Json& value, bool turn_holds, const std::string& source) {
  if (value.is_boolean()) {
    if (value.get<bool>()) return Decision::kYes;
    return turn_holds ? Decision::kNotApplicable : Decision::kNo;
  }
  const std::optional<Decision> decision =
      value.is_string() ? parse_decision(value.get<std::string>()) : std::nullopt;
  if (!decision) fail(ErrorCode::kInvalidArgument, "{}: verdict must hold true, false or a word", source);
  return *decision;
}

TurnVerdict read_turn(const Json& row, const std::string& source) {
  const auto verdict = row.find("verdict");
  if (verdict == row.end() || !verdict->is_object() || verdict->empty() || verdict->size() > kMaxCriteria) {
    fail(ErrorCode::kInvalidArgument, "{}: verdict must be an object of 1 to {} criteria", source,
         kMaxCriteria);
  }
  const bool turn_holds = row.contains("all_ok") && read_count(row, "all_ok", 0, 1, source) == 1;
  TurnVerdict turn;
  for (const auto& [id, value] : verdict->items()) {
    turn.decisions[id] = read_decision(value, turn_holds, source);
  }
  if (const auto response = row.find("response"); response != row.end() && !response->is_null()) {
    if (!response->is_string()) fail(ErrorCode::kInvalidArgument, "{}: response must be text", source);
    turn.response = response->get<std::string>();
  }
  return turn;
}

}  // namespace

VerdictTable read_verdicts(const std::filesystem::path& path) {
  VerdictTable table;
  for_each_json_line(path, [&](int64_t line, const Json& row) {
    const std::string source = fmt::format("{}:{}", path.string(), line);
    if (!row.is_object()) fail(ErrorCode::kInvalidArgument, "{}: expected an object", source);
    const int64_t dialogue = read_count(row, "system_id", 0, int64_t{1} << 40, source);
    const int64_t turn = read_count(row, "round_index", 1, kMaxTurns, source);
    if (!table.emplace(std::pair(dialogue, turn), read_turn(row, source)).second) {
      fail(ErrorCode::kInvalidArgument, "{}: dialogue {}, turn {} is there already", source, dialogue, turn);
    }
  });
  return table;
}

}  // namespace calyrex::eval
