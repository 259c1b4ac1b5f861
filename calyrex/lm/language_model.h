// The one interface between models and those who use them: evaluation, serving, chat. Implemented by the
// engine (infer), by a scripted fake for tests, and by a client of any OpenAI-compatible endpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/base/token.h"
#include "calyrex/text/message.h"

namespace calyrex::lm {

/// How the next token is chosen. temperature 0 is greedy (ties go to the lower id).
struct Sampling {
  double temperature = 0.0;
  int64_t top_k = 0;  // 0 = off
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  std::optional<uint64_t> seed;  // absent: drawn by the engine
  std::map<TokenId, double> logit_bias;
};

/// A prompt as messages (rendered with the model's template), as plain text (added tokens are recognised, BOS
/// as the tokenizer's configuration says), or as token ids: the first of these that is there. Spans belong to
/// text and ids.
struct Prompt {
  text::Messages messages;
  Json tools = nullptr;
  std::optional<std::string> text;
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;  // token positions
};

/// Which adapter, how strongly. An empty name is the base model; scale 0 is the base bit for bit.
struct AdapterChoice {
  std::string name;
  double scale = 1.0;
};

struct GenerateRequest {
  Prompt prompt;
  AdapterChoice adapter;
  Sampling sampling;
  int64_t max_new_tokens = 256;
  std::vector<std::string> stop;  // the answer ends before the first of these
  bool ignore_eos = false;        // the model's own stop tokens do not end the answer
  int64_t top_logprobs = 0;       // alternatives reported with each token, at most 20
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled"

struct TokenLogprob {
  TokenId id = 0;
  double logprob = 0.0;
};

/// One generated token. `text` is what became final with it (may be empty inside a character or a stop
/// string). The token that ends an answer comes too, without text.
struct TokenEvent {
  TokenId id = 0;
  std::string text;
  double logprob = 0.0;
  std::vector<TokenLogprob> top;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t span_tokens = 0;
  int64_t completion_tokens = 0;
};

/// The last event of a request: why it ended, or the error that ended it.
struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string text;  // text that was held back
  Usage usage;
  std::exception_ptr error;
};

/// Called from the engine's thread, in order, for one request; must not block. Exactly one on_finish a
/// request.
struct EventHandler {
  std::function<void(const TokenEvent&)> on_token;
  std::function<void(const FinishEvent&)> on_finish;
};

/// Log-probabilities of given tokens. With messages: the last assistant message (which must be the last
/// message) and its end-of-turn token; or, with a completion, the tokens that hold any of it behind the
/// generation prompt, the two being tokenised as one text. With text: the tokens that hold any of
/// `completion`, the two being tokenised as one text. With token ids: those from `score_from` on.
struct ScoreRequest {
  Prompt prompt;
  std::string completion;
  int64_t score_from = 0;  // at least 1
  AdapterChoice adapter;
};

struct ScoreResult {
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;
  int64_t score_from = 0;
  std::vector<double> logprobs;  // logprobs[n] belongs to token_ids[score_from + n]
  std::vector<bool> greedy;      // whether that token was the likeliest
};

struct AdapterInfo {
  std::string name;
  std::filesystem::path path;
  std::string kind;
  std::string content_sha256;
  int64_t num_parameters = 0;
};

struct ModelInfo {
  std::string name;
  int64_t max_positions = 0;
  int64_t vocab_size = 0;
  int64_t num_parameters = 0;
  std::string dtype;
  std::string device;
};

struct Counters {
  int64_t requests_running = 0;
  int64_t requests_waiting = 0;
  int64_t requests_finished = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompts' tokens, those taken over from earlier requests
  int64_t completion_tokens = 0;
  int64_t cache_pages_used = 0;  // by running requests
  int64_t cache_pages_total = 0;
};

using RequestId = uint64_t;

/// Thread-safe. Requests are validated in submit()/score(): kInvalidArgument (longer than the context, empty
/// prompt, bad sampling values), kNotFound (adapter), kResourceExhausted (queue full).
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual RequestId submit(GenerateRequest request, EventHandler handler) = 0;
  /// Ends a request; its on_finish tells kCancelled. Unknown or finished ids are ignored.
  virtual void cancel(RequestId id) = 0;
  virtual std::future<ScoreResult> score(ScoreRequest request) = 0;

  /// Loads an adapter folder under a name; the same content is held once. kCorruptData when it does not fit.
  virtual AdapterInfo load_adapter(const std::string& name, const std::filesystem::path& path) = 0;
  virtual void unload_adapter(const std::string& name) = 0;
  virtual std::vector<AdapterInfo> adapters() const = 0;

  /// Token ids and spans of a prompt with the generation prompt, as submit() would use them.
  virtual Prompt tokenize(const Prompt& prompt, const AdapterChoice& adapter) const = 0;
  /// The same request by token ids, validated as score() would.
  virtual ScoreRequest tokenize(const ScoreRequest& request) const = 0;
  virtual ModelInfo info() const = 0;
  virtual Counters counters() const = 0;
};

/// A whole answer.
struct Completion {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<double> logprobs;
  FinishReason reason = FinishReason::kStop;
  Usage usage;
};

/// Submits all requests and waits for all answers, in order of the requests. The first error is thrown after
/// the rest has ended. `progress(done)` is called from the engine's thread after each.
std::vector<Completion> generate_all(LanguageModel& model, std::vector<GenerateRequest> requests,
                                     const std::function<void(int64_t done)>& progress = {});

}  // namespace calyrex::lm
