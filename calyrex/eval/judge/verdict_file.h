// Verdicts of SysBench runs on disk: what a judge said of each turn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "calyrex/eval/judge/judgement.h"

namespace calyrex::eval {

/// One turn of one dialogue.
struct TurnVerdict {
  std::map<std::string, Decision> decisions;  // by criterion id
  std::optional<std::string> response;        // the answer that was judged, where the file has it
};

/// By dialogue (system_id) and turn (from 1).
using VerdictTable = std::map<std::pair<int64_t, int64_t>, TurnVerdict>;

/// Reads lines {"system_id", "round_index", "verdict": {id: true | false | word}, "all_ok"?: 0 | 1,
/// "response"?}. A turn with all_ok 1 has no criterion that the judge called unmet, so a false there is "not
/// applicable" (the published files write other words than yes so). Throws kInvalidArgument with file, line
/// and field.
VerdictTable read_verdicts(const std::filesystem::path& path);

}  // namespace calyrex::eval
