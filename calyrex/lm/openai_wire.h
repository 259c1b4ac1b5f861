// The OpenAI chat-completions format as a client writes and reads it: request bodies, whole answers, streams.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "calyrex/base/json.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::lm {

/// What differs between endpoints. Newer models of some call the limit "max_completion_tokens".
struct OpenAiBodyOptions {
  std::string model;
  bool stream = false;
  bool max_completion_tokens = false;
};

/// The JSON body of a chat-completions request. Values at their defaults are left out. Throws kUnsupported
/// naming what an endpoint cannot do: prompts of text or ids, top_logprobs.
std::string openai_request_body(const GenerateRequest& request, const OpenAiBodyOptions& options);

/// Server-sent events (WHATWG HTML, section 9.2): calls back with the data of each event. Bounded: a line or
/// event of more than 4 MiB throws kUnavailable.
class SseParser {
 public:
  explicit SseParser(std::function<void(std::string_view data)> on_data) : on_data_(std::move(on_data)) {}

  void push(std::string_view bytes);

 private:
  void end_line();

  std::function<void(std::string_view)> on_data_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // "\r" was last: a "\n" belongs to it
};

/// One answer, read whole or chunk by chunk. Tool calls come at its end as
/// `<tool_call>\n{"name": ..., "arguments": ...}\n</tool_call>`, as local templates write them.
class OpenAiAnswer {
 public:
  /// A whole chat completion. Throws kUnavailable naming what is missing or ill-typed.
  void read_completion(const Json& json);
  /// One chunk of a stream; returns its text. The tool calls are returned by finish().
  std::string read_chunk(const Json& json);
  /// Text that ends the answer.
  std::string finish();

  const std::string& text() const { return text_; }
  /// Whether the endpoint said that the answer is complete.
  bool finished() const { return reason_.has_value(); }
  FinishReason reason() const { return reason_.value_or(FinishReason::kStop); }
  const Usage& usage() const { return usage_; }

 private:
  struct ToolCall {
    std::string name;
    std::string arguments;
  };

  void read_usage(const Json& json);
  void read_reason(const Json& choice);
  void read_tool_calls(const Json& message);

  std::string text_;
  std::map<int64_t, ToolCall> tool_calls_;  // by index
  std::optional<FinishReason> reason_;
  Usage usage_;
};

/// The message of an error body ({"error": {"message": ...}}, {"error": "..."}, {"message": ...}), else the
/// body's first line; at most 300 bytes, without control characters.
std::string openai_error_message(std::string_view body);

}  // namespace calyrex::lm
