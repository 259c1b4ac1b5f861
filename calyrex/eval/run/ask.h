// Asks and replies as the runner sends, keeps and names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/core/task.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::eval {

/// What a reply was asked for.
enum class AskKind { kAnswer, kJudgement, kScore };
AskKind ask_kind(const Ask& ask);

/// Bytes of all that an ask holds: by this the work is sorted.
size_t ask_bytes(const Ask& ask);
/// Whether an ask has a system (or developer) message, which a span would lie on.
bool has_system_message(const Ask& ask);

/// All that an answer depends on besides the model.
Json ask_to_json(const Ask& ask);

/// A request's digest: `identity` tells who answers, `draw` tells apart samplings of one ask (used only when
/// the answer is drawn).
std::string ask_digest(std::string_view identity, const Ask& ask, std::string_view draw);

/// Requests without prompt tokens worked out.
lm::GenerateRequest to_request(const GenerateAsk& ask, const lm::AdapterChoice& adapter, uint64_t seed);
lm::ScoreRequest to_request(const ScoreAsk& ask, const lm::AdapterChoice& adapter);

Json reply_to_json(const Reply& reply);
/// Throws kCorruptData naming `source` when it is no reply.
Reply reply_from_json(const Json& json, std::string_view source);

}  // namespace calyrex::eval
