#include "calyrex/lm/openai_wire.h"

#include <algorithm>

#include "calyrex/base/error.h"

namespace calyrex::lm {
namespace {

constexpr size_t kMaxEventBytes = size_t{4} << 20;
constexpr size_t kMaxErrorBytes = 300;
constexpr size_t kMaxStops = 4;  // what the format allows; the client itself watches for all of them
constexpr int64_t kMaxToolCalls = 128;

/// The member of an object; nullptr when absent, null, or `json` is no object.
const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void fail_shape(std::string_view what) {
  fail(ErrorCode::kUnavailable, "the answer is no chat completion: {}", what);
}

const Json& only_choice(const Json& json) {
  const Json* choices = member(json, "choices");
  if (choices == nullptr || !choices->is_array()) fail_shape("no list \"choices\"");
  if (choices->empty()) fail_shape("\"choices\" is empty");
  return choices->front();
}

int64_t count_of(const Json& json, const char* name) {
  const Json* value = member(json, name);
  return value != nullptr && value->is_number_unsigned() ? value->get<int64_t>() : 0;
}

std::string string_of(const Json& json, const char* name) {
  const Json* value = member(json, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

void add_sampling(Json& body, const Sampling& sampling) {
  body["temperature"] = sampling.temperature;
  if (sampling.top_p != 1.0) body["top_p"] = sampling.top_p;
  // Not of the original format, but what vLLM, llama.cpp and this program's own server read.
  if (sampling.top_k != 0) body["top_k"] = sampling.top_k;
  if (sampling.min_p != 0.0) body["min_p"] = sampling.min_p;
  if (sampling.repetition_penalty != 1.0) body["repetition_penalty"] = sampling.repetition_penalty;
  if (sampling.seed) body["seed"] = *sampling.seed;
  for (const auto& [id, bias] : sampling.logit_bias) body["logit_bias"][std::to_string(id)] = bias;
}

}  // namespace

std::string openai_request_body(const GenerateRequest& request, const OpenAiBodyOptions& options) {
  if (request.prompt.messages.empty()) {
    if (!request.prompt.text && request.prompt.token_ids.empty()) {
      fail(ErrorCode::kInvalidArgument, "the prompt is empty");
    }
    fail(ErrorCode::kUnsupported, "an endpoint takes prompts as messages, not as text or token ids");
  }
  if (request.top_logprobs > 0) {
    fail(ErrorCode::kUnsupported, "an endpoint's log-probabilities are not read (top_logprobs)");
  }
  Json body = Json::object();
  body["model"] = options.model;
  body["messages"] = text::messages_to_json(request.prompt.messages);
  if (!request.prompt.tools.is_null()) body["tools"] = request.prompt.tools;
  body[options.max_completion_tokens ? "max_completion_tokens" : "max_tokens"] = request.max_new_tokens;
  add_sampling(body, request.sampling);
  if (!request.stop.empty()) {
    Json& stop = body["stop"] = Json::array();
    for (size_t i = 0; i < std::min(request.stop.size(), kMaxStops); ++i) stop.push_back(request.stop[i]);
  }
  if (request.ignore_eos) body["ignore_eos"] = true;
  if (options.stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  return to_json_line(body);
}

void SseParser::push(std::string_view bytes) {
  for (const char byte : bytes) {
    const bool second_half = after_return_ && byte == '\n';
    after_return_ = byte == '\r';
    if (second_half) continue;
    if (byte == '\n' || byte == '\r') {
      end_line();
    } else {
      if (line_.size() + data_.size() >= kMaxEventBytes) {
        fail(ErrorCode::kUnavailable, "an event of the answer's stream has more than {} bytes",
             kMaxEventBytes);
      }
      line_.push_back(byte);
    }
  }
}

void SseParser::end_line() {
  if (line_.empty()) {
    if (std::exchange(has_data_, false)) on_data_(std::exchange(data_, {}));
    return;
  }
  std::string_view line = line_;
  if (line.starts_with("data:")) {
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_.push_back('\n');
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
}

void OpenAiAnswer::read_usage(const Json& json) {
  const Json* usage = member(json, "usage");
  if (usage == nullptr) return;
  usage_.prompt_tokens = count_of(*usage, "prompt_tokens");
  usage_.completion_tokens = count_of(*usage, "completion_tokens");
  if (const Json* details = member(*usage, "prompt_tokens_details")) {
    usage_.cached_tokens = count_of(*details, "cached_tokens");
  }
}

void OpenAiAnswer::read_reason(const Json& choice) {
  const Json* reason = member(choice, "finish_reason");
  if (reason == nullptr) return;
  if (!reason->is_string()) fail_shape("\"finish_reason\" is no string");
  reason_ = *reason == "length" ? FinishReason::kLength : FinishReason::kStop;
}

void OpenAiAnswer::read_tool_calls(const Json& message) {
  const Json* calls = member(message, "tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) fail_shape("\"tool_calls\" is no list");
  int64_t position = 0;
  for (const Json& call : *calls) {
    const Json* index = member(call, "index");
    const int64_t place = index != nullptr && index->is_number_integer() ? index->get<int64_t>() : position;
    ++position;
    if (place < 0 || place >= kMaxToolCalls) fail_shape("more tool calls than anyone makes");
    const Json* function = member(call, "function");
    if (function == nullptr) continue;
    tool_calls_[place].name += string_of(*function, "name");
    tool_calls_[place].arguments += string_of(*function, "arguments");
  }
}

void OpenAiAnswer::read_completion(const Json& json) {
  const Json& choice = only_choice(json);
  const Json* message = member(choice, "message");
  if (message == nullptr || !message->is_object()) fail_shape("no object \"message\"");
  const Json* content = member(*message, "content");
  if (content != nullptr && !content->is_string()) fail_shape("\"content\" is no string");
  if (content == nullptr && member(*message, "tool_calls") == nullptr && !message->contains("content")) {
    fail_shape("no \"content\"");
  }
  if (content != nullptr) text_ = content->get<std::string>();
  read_tool_calls(*message);
  read_reason(choice);
  if (!reason_) reason_ = FinishReason::kStop;
  read_usage(json);
}

std::string OpenAiAnswer::read_chunk(const Json& json) {
  if (const Json* error = member(json, "error")) {
    fail(ErrorCode::kUnavailable, "the endpoint ended its answer with an error: {}",
         openai_error_message(to_json_line({{"error", *error}})));
  }
  read_usage(json);
  const Json* choices = member(json, "choices");
  if (choices == nullptr || !choices->is_array()) fail_shape("no list \"choices\"");
  if (choices->empty()) return "";  // the chunk that brings the usage
  const Json& choice = choices->front();
  read_reason(choice);
  const Json* delta = member(choice, "delta");
  if (delta == nullptr) return "";
  read_tool_calls(*delta);
  const Json* content = member(*delta, "content");
  if (content == nullptr) return "";
  if (!content->is_string()) fail_shape("\"content\" is no string");
  text_ += content->get_ref<const std::string&>();
  return content->get<std::string>();
}

std::string OpenAiAnswer::finish() {
  std::string calls;
  for (const auto& [index, call] : tool_calls_) {
    // The arguments are JSON already, or what the model wrote instead of it.
    calls += fmt::format("{}<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                         text_.empty() && calls.empty() ? "" : "\n", to_json_line(call.name),
                         call.arguments.empty() ? "{}" : call.arguments);
  }
  text_ += calls;
  tool_calls_.clear();
  return calls;
}

std::string openai_error_message(std::string_view body) {
  std::string message;
  try {
    const Json json = parse_json(body, "the error", {.max_bytes = size_t{1} << 20, .max_depth = 32});
    if (const Json* error = member(json, "error")) {
      message = error->is_string() ? error->get<std::string>() : string_of(*error, "message");
    }
    if (message.empty()) message = string_of(json, "message");
    if (message.empty()) message = string_of(json, "detail");
  } catch (const Error&) {
    // No JSON: shown as it is.
  }
  if (message.empty()) message = body.substr(0, body.find('\n'));
  message = message.substr(0, kMaxErrorBytes);
  std::replace_if(
      message.begin(), message.end(),
      [](char letter) { return static_cast<unsigned char>(letter) < 32 || letter == 127; }, ' ');
  return message;
}

}  // namespace calyrex::lm
