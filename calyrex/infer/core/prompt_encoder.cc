#include "calyrex/infer/core/prompt_encoder.h"

#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/lm/validation.h"

namespace calyrex::infer {

text::ChatOptions chat_options(const weights::ModelSource& model, const lm::LocalModelOptions& options,
                               const weights::AdapterFolder* adapter) {
  text::ChatOptions chat{.chat_template = options.chat_template,
                         .template_name = {},
                         .kwargs = options.chat_kwargs,
                         .date = options.chat_date,
                         .span = {}};
  if (adapter == nullptr) return chat;
  chat.span = adapter->config.span;
  if (!chat.date) chat.date = adapter->config.chat_date;
  if (!adapter->chat_template) return chat;
  if (chat.chat_template) {
    if (*chat.chat_template != *adapter->chat_template) {
      log_warning("{}: the adapter was trained with another chat template than the one given",
                  adapter->path.string());
    }
    return chat;
  }
  chat.chat_template = adapter->chat_template;
  chat.template_name = adapter->path.string();
  if (model.tokenizer().chat_template != adapter->chat_template) {
    log_warning("{}: its chat_template.jinja, which is used, differs from the model's own template",
                adapter->path.string());
  }
  return chat;
}

PromptEncoder::PromptEncoder(std::shared_ptr<const weights::ModelSource> model,
                             std::shared_ptr<const text::Tokenizer> tokenizer,
                             const lm::LocalModelOptions& options, const weights::AdapterFolder* adapter)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      chat_options_(infer::chat_options(*model_, options, adapter)) {}

const text::ChatEncoder& PromptEncoder::chat() const {
  const std::lock_guard lock(mutex_);
  if (chat_ == nullptr) {
    chat_ = std::make_unique<const text::ChatEncoder>(model_->tokenizer(), tokenizer_, chat_options_);
  }
  return *chat_;
}

std::vector<TokenId> PromptEncoder::encode_text(const std::string& text,
                                                std::vector<int64_t>* byte_end) const {
  text::Encoding encoding = tokenizer_->encode(text, text::AddedTokens::kAll);
  if (const std::optional<TokenId> bos = tokenizer_->bos_to_add()) {
    encoding.ids.insert(encoding.ids.begin(), *bos);
    encoding.byte_end.insert(encoding.byte_end.begin(), 0);
  }
  if (byte_end != nullptr) *byte_end = std::move(encoding.byte_end);
  return std::move(encoding.ids);
}

lm::Prompt PromptEncoder::encode(const lm::Prompt& prompt) const {
  lm::Prompt result;
  if (!prompt.messages.empty()) {
    text::EncodedChat encoded = chat().encode(prompt.messages, text::GenerationPrompt::kAdd, prompt.tools);
    result.token_ids = std::move(encoded.token_ids);
    result.system_spans = std::move(encoded.system_spans);
  } else {
    result.token_ids = prompt.text ? encode_text(*prompt.text, nullptr) : prompt.token_ids;
    result.system_spans = prompt.system_spans;
  }
  return result;
}

lm::ScoreRequest PromptEncoder::encode(const lm::ScoreRequest& request) const {
  lm::ScoreRequest result{
      .prompt = {}, .completion = {}, .score_from = request.score_from, .adapter = request.adapter};
  const lm::Prompt& prompt = request.prompt;
  if (!prompt.messages.empty() && !request.completion.empty()) {
    text::EncodedChat encoded = chat().encode_answered(prompt.messages, request.completion, prompt.tools);
    result.prompt.token_ids = std::move(encoded.token_ids);
    result.prompt.system_spans = std::move(encoded.system_spans);
    result.score_from = encoded.assistant_spans.back().begin;
  } else if (!prompt.messages.empty()) {
    if (prompt.messages.back().role != "assistant") {
      fail(ErrorCode::kInvalidArgument,
           "the last message must be the assistant's to be scored, got role '{}'",
           prompt.messages.back().role);
    }
    text::EncodedChat encoded = chat().encode(prompt.messages, text::GenerationPrompt::kNone, prompt.tools);
    CALYREX_CHECK(!encoded.assistant_spans.empty(), "no tokens of the assistant's message");
    const TokenSpan answer = encoded.assistant_spans.back();
    encoded.token_ids.resize(static_cast<size_t>(answer.end));
    std::erase_if(encoded.system_spans, [&](const TokenSpan& span) { return span.begin >= answer.end; });
    result.prompt.token_ids = std::move(encoded.token_ids);
    result.prompt.system_spans = std::move(encoded.system_spans);
    result.score_from = answer.begin;
  } else if (prompt.text) {
    std::vector<int64_t> byte_end;
    result.prompt.token_ids = encode_text(*prompt.text + request.completion, &byte_end);
    result.prompt.system_spans = prompt.system_spans;
    result.score_from = 0;
    const auto prompt_bytes = static_cast<int64_t>(prompt.text->size());
    for (const int64_t end : byte_end) result.score_from += end <= prompt_bytes ? 1 : 0;
    if (request.completion.empty()) fail(ErrorCode::kInvalidArgument, "the completion to score is empty");
  } else {
    result.prompt.token_ids = prompt.token_ids;
    result.prompt.system_spans = prompt.system_spans;
  }
  return result;
}

}  // namespace calyrex::infer
