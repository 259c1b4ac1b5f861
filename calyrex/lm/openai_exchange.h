// One attempt to get an answer from an OpenAI-compatible endpoint. Internal to lm.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "calyrex/base/error.h"
#include "calyrex/lm/openai_wire.h"

namespace calyrex::lm {

/// Where and how requests are sent. The key is a secret: it appears in no message.
struct OpenAiEndpoint {
  std::string base;  // ends before "/chat/completions"
  std::string key;   // empty: no Authorization header
  std::string key_variable;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds answer_timeout{600'000};  // from sending to the answer's last byte
  size_t max_answer_bytes = size_t{16} << 20;
};

/// The base address of what a user typed: "/v1" for a bare host, without a final "/chat/completions" or "/".
/// kInvalidArgument for anything but http and https.
std::string openai_base_url(std::string_view typed);

/// Why an attempt gave no answer.
struct OpenAiFailure {
  Error error;
  bool retryable = false;
  bool endpoint_down = false;      // the endpoint's fault, not the request's
  bool wants_other_limit = false;  // asks for "max_completion_tokens"
  std::optional<std::chrono::milliseconds> retry_after = {};
};

/// Called with text as it arrives; false ends the answer there.
using OnText = std::function<bool(std::string_view text)>;

/// Sends one chat-completions body and reads its answer, streamed or whole, into `answer`. Throws only
/// kCancelled, when `cancelled` said so.
std::optional<OpenAiFailure> exchange_chat(const OpenAiEndpoint& endpoint, std::string_view body,
                                           const std::function<bool()>& cancelled, OpenAiAnswer& answer,
                                           const OnText& on_text);

/// Asks for the list of models and gives the name of the first.
std::optional<OpenAiFailure> fetch_first_model(const OpenAiEndpoint& endpoint, std::string& name);

}  // namespace calyrex::lm
