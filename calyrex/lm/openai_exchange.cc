#include "calyrex/lm/openai_exchange.h"

#include <algorithm>
#include <ctime>
#include <span>

#include "calyrex/lm/openai_retry.h"
#include "calyrex/weights/http_client.h"

namespace calyrex::lm {
namespace {

using weights::HttpRequest;
using weights::HttpResponse;

constexpr size_t kMaxErrorBody = size_t{64} << 10;
constexpr int kMaxDepth = 64;

/// Thrown through the HTTP client when the text that came is enough.
struct EnoughText {};
/// Thrown through it when the answer is too large: asking again would not help.
struct TooLarge {};

std::string header(const HttpResponse& response, const std::string& name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? "" : found->second;
}

bool ok(const HttpResponse& response) { return response.status >= 200 && response.status < 300; }

bool is_event_stream(const HttpResponse& response) {
  return header(response, "content-type").starts_with("text/event-stream");
}

std::string without_key(std::string text, const std::string& key) {
  for (size_t at = 0; !key.empty() && (at = text.find(key, at)) != std::string::npos;) {
    text.replace(at, key.size(), "***");
  }
  return text;
}

HttpRequest request_to(const OpenAiEndpoint& endpoint, std::string_view path) {
  HttpRequest request;
  request.url = endpoint.base + std::string(path);
  request.bearer_token = endpoint.key;
  request.connect_timeout_ms = endpoint.connect_timeout.count();
  request.total_timeout_ms = endpoint.answer_timeout.count();
  request.silent_seconds = endpoint.answer_timeout.count() / 1000 + 1;
  return request;
}

OpenAiFailure failure(const OpenAiEndpoint& endpoint, ErrorCode code, std::string_view message) {
  return {.error = Error(
              code, fmt::format("{}: {}", endpoint.base, without_key(std::string(message), endpoint.key)))};
}

/// What a status other than success means.
OpenAiFailure status_failure(const OpenAiEndpoint& endpoint, const HttpResponse& response,
                             std::string_view body) {
  const int64_t status = response.status;
  const std::string message = openai_error_message(body);
  const std::string text = fmt::format("status {}{}{}", status, message.empty() ? "" : ": ", message);
  if (is_retryable_status(status)) {
    OpenAiFailure result = failure(endpoint, ErrorCode::kUnavailable, text);
    result.retryable = result.endpoint_down = true;
    if (const auto wait = parse_retry_after(header(response, "retry-after"), std::time(nullptr))) {
      result.retry_after = *wait;
    }
    return result;
  }
  if (status == 401 || status == 403) {
    OpenAiFailure result =
        failure(endpoint, ErrorCode::kUnavailable,
                fmt::format("{} (the key is taken from the environment variable {}, which is {})", text,
                            endpoint.key_variable, endpoint.key.empty() ? "not set" : "set"));
    result.endpoint_down = true;
    return result;
  }
  if (status == 404) return failure(endpoint, ErrorCode::kNotFound, text);
  if (status == 400 || status == 413 || status == 422) {
    OpenAiFailure result = failure(endpoint, ErrorCode::kInvalidArgument, text);
    result.wants_other_limit = message.find("max_completion_tokens") != std::string::npos;
    return result;
  }
  return failure(endpoint, ErrorCode::kUnavailable, text);
}

/// Collects a response's body: an event stream is read as it comes, anything else when it is whole.
class BodyReader {
 public:
  BodyReader(size_t max_bytes, OpenAiAnswer& answer, const OnText& on_text)
      : max_bytes_(max_bytes),
        answer_(answer),
        on_text_(on_text),
        events_([this](std::string_view data) { read_event(data); }) {}

  void push(const HttpResponse& response, std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    begun_ = true;
    if (!ok(response)) {
      whole_ += text.substr(0, kMaxErrorBody - std::min(whole_.size(), kMaxErrorBody));
      return;
    }
    size_ += text.size();
    if (size_ > max_bytes_) throw TooLarge{};
    if (is_event_stream(response)) {
      events_.push(text);
    } else {
      whole_ += text;
    }
  }

  const std::string& whole() const { return whole_; }
  bool begun() const { return begun_; }
  bool ended() const { return ended_; }

 private:
  void read_event(std::string_view data) {
    if (data == "[DONE]") {
      ended_ = true;
    } else if (!ended_) {
      const std::string text = answer_.read_chunk(
          parse_json(data, "a piece of the answer", {.max_bytes = max_bytes_, .max_depth = kMaxDepth}));
      if (!text.empty() && !on_text_(text)) throw EnoughText{};
    }
  }

  size_t max_bytes_;
  OpenAiAnswer& answer_;
  const OnText& on_text_;
  SseParser events_;
  std::string whole_;
  size_t size_ = 0;
  bool begun_ = false;
  bool ended_ = false;
};

/// Reads what came with a success: throws kUnavailable or kCorruptData when it is no complete answer.
void read_answer(const HttpResponse& response, const BodyReader& reader, size_t max_bytes,
                 OpenAiAnswer& answer, const OnText& on_text) {
  if (is_event_stream(response)) {
    if (!answer.finished() && !reader.ended()) {
      fail(ErrorCode::kUnavailable, "the answer was cut off in the middle");
    }
    on_text(answer.finish());
    return;
  }
  const std::string type = header(response, "content-type");
  if (!type.empty() && type.find("json") == std::string::npos) {
    fail(ErrorCode::kUnavailable, "the answer is '{}', not JSON", type.substr(0, 80));
  }
  answer.read_completion(
      parse_json(reader.whole(), "the answer", {.max_bytes = max_bytes, .max_depth = kMaxDepth}));
  answer.finish();
  on_text(answer.text());
}

}  // namespace

std::string openai_base_url(std::string_view typed) {
  while (typed.ends_with('/')) typed.remove_suffix(1);
  constexpr std::string_view kChat = "/chat/completions";
  if (typed.ends_with(kChat)) typed.remove_suffix(kChat.size());
  const size_t scheme = typed.find("://");
  const std::string_view name = typed.substr(0, scheme == std::string_view::npos ? 0 : scheme);
  if ((name != "http" && name != "https") || typed.size() == scheme + 3) {
    fail(ErrorCode::kInvalidArgument, "an endpoint is an address such as http://127.0.0.1:8080/v1, got '{}'",
         typed);
  }
  const bool bare = typed.find('/', scheme + 3) == std::string_view::npos;
  return std::string(typed) + (bare ? "/v1" : "");
}

std::optional<OpenAiFailure> exchange_chat(const OpenAiEndpoint& endpoint, std::string_view body,
                                           const std::function<bool()>& cancelled, OpenAiAnswer& answer,
                                           const OnText& on_text) {
  HttpRequest request = request_to(endpoint, "/chat/completions");
  request.cancelled = cancelled;
  BodyReader reader(endpoint.max_answer_bytes, answer, on_text);
  OpenAiFailure result = failure(endpoint, ErrorCode::kUnavailable, "");
  try {
    const HttpResponse response = weights::http_post(
        request, body,
        [&](const HttpResponse& head, std::span<const std::byte> bytes) { reader.push(head, bytes); });
    if (!ok(response)) return status_failure(endpoint, response, reader.whole());
    // From here on the endpoint is there; what it says may be wrong.
    try {
      read_answer(response, reader, endpoint.max_answer_bytes, answer, on_text);
      return std::nullopt;
    } catch (const Error& error) {
      result = failure(endpoint, ErrorCode::kUnavailable, error.what());
      result.retryable = true;
      return result;
    }
  } catch (const EnoughText&) {
    return std::nullopt;
  } catch (const TooLarge&) {
    return failure(endpoint, ErrorCode::kUnavailable,
                   fmt::format("the answer has more than {} bytes", endpoint.max_answer_bytes));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    result = failure(endpoint, ErrorCode::kUnavailable, error.what());
    result.retryable = true;
    result.endpoint_down = !reader.begun();
    return result;
  }
}

std::optional<OpenAiFailure> fetch_first_model(const OpenAiEndpoint& endpoint, std::string& name) {
  std::string body;
  HttpResponse response;
  try {
    response = weights::http_get(request_to(endpoint, "/models"),
                                 [&](const HttpResponse&, std::span<const std::byte> bytes) {
                                   if (body.size() + bytes.size() > endpoint.max_answer_bytes)
                                     throw TooLarge{};
                                   body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                                 });
    if (!ok(response)) return status_failure(endpoint, response, body);
    const Json json = parse_json(body, "the list of models",
                                 {.max_bytes = endpoint.max_answer_bytes, .max_depth = kMaxDepth});
    const Json* data = json.is_object() && json.contains("data") ? &json.at("data") : nullptr;
    if (data == nullptr || !data->is_array() || data->empty() || !data->front().is_object() ||
        !data->front().contains("id") || !data->front().at("id").is_string()) {
      return failure(endpoint, ErrorCode::kUnavailable, "lists no model; name one");
    }
    name = data->front().at("id").get<std::string>();
    return std::nullopt;
  } catch (const TooLarge&) {
    return failure(endpoint, ErrorCode::kUnavailable, "the list of models is too long; name one");
  } catch (const Error& error) {
    OpenAiFailure result = failure(endpoint, ErrorCode::kUnavailable, error.what());
    result.retryable = result.endpoint_down = true;
    return result;
  }
}

}  // namespace calyrex::lm
