#include "calyrex/eval/run/ask.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/sha256.h"

namespace calyrex::eval {
namespace {

const text::Messages& messages_of(const Ask& ask) {
  return std::visit([](const auto& each) -> const text::Messages& { return each.messages; }, ask);
}

}  // namespace

AskKind ask_kind(const Ask& ask) {
  const auto* generate = std::get_if<GenerateAsk>(&ask);
  if (generate == nullptr) return AskKind::kScore;
  return generate->recipient == Recipient::kJudge ? AskKind::kJudgement : AskKind::kAnswer;
}

size_t ask_bytes(const Ask& ask) {
  size_t bytes = 0;
  for (const text::Message& message : messages_of(ask)) bytes += message.content.size();
  if (const auto* score = std::get_if<ScoreAsk>(&ask))
    bytes += score->prompt.size() + score->completion.size();
  return bytes;
}

bool has_system_message(const Ask& ask) {
  return std::ranges::any_of(messages_of(ask), [](const text::Message& message) {
    return message.role == "system" || message.role == "developer";
  });
}

Json ask_to_json(const Ask& ask) {
  Json json = Json::object();
  json["messages"] = text::messages_to_json(messages_of(ask));
  if (const auto* score = std::get_if<ScoreAsk>(&ask)) {
    json["prompt"] = score->prompt;
    json["completion"] = score->completion;
    return json;
  }
  const auto& generate = std::get<GenerateAsk>(ask);
  json["tools"] = generate.tools;
  json["max_new_tokens"] = generate.max_new_tokens;
  json["stop"] = generate.stop;
  json["temperature"] = generate.temperature;
  return json;
}

std::string ask_digest(std::string_view identity, const Ask& ask, std::string_view draw) {
  const auto* generate = std::get_if<GenerateAsk>(&ask);
  const bool drawn = generate != nullptr && generate->temperature > 0.0;
  return sha256_hex(fmt::format("{}\n{}\n{}", identity, drawn ? draw : "", to_json_line(ask_to_json(ask))));
}

lm::GenerateRequest to_request(const GenerateAsk& ask, const lm::AdapterChoice& adapter, uint64_t seed) {
  lm::GenerateRequest request;
  request.prompt.messages = ask.messages;
  request.prompt.tools = ask.tools;
  request.adapter = adapter;
  request.sampling.temperature = ask.temperature;
  if (ask.temperature > 0.0) request.sampling.seed = seed;
  request.max_new_tokens = ask.max_new_tokens;
  request.stop = ask.stop;
  return request;
}

lm::ScoreRequest to_request(const ScoreAsk& ask, const lm::AdapterChoice& adapter) {
  lm::ScoreRequest request;
  request.prompt.messages = ask.messages;
  if (ask.messages.empty()) request.prompt.text = ask.prompt;
  request.completion = ask.completion;
  request.adapter = adapter;
  return request;
}

Json reply_to_json(const Reply& reply) {
  Json json = Json::object();
  if (reply.logprobs.empty()) {
    json["text"] = reply.text;
    if (reply.truncated) json["truncated"] = true;
  } else {
    json["logprobs"] = reply.logprobs;
    json["greedy"] = reply.greedy;
  }
  return json;
}

Reply reply_from_json(const Json& json, std::string_view source) {
  try {
    Reply reply;
    if (json.contains("text")) {
      reply.text = json.at("text").get<std::string>();
      reply.truncated = json.value("truncated", false);
    } else {
      // JSON has no infinity: a token that the model holds for impossible is null.
      for (const Json& value : json.at("logprobs")) {
        reply.logprobs.push_back(value.is_null() ? -std::numeric_limits<double>::infinity()
                                                 : value.get<double>());
      }
      reply.greedy = json.at("greedy").get<bool>();
    }
    return reply;
  } catch (const Json::exception&) {
    fail(ErrorCode::kCorruptData, "{}: not a reply of a model", source);
  }
}

}  // namespace calyrex::eval
