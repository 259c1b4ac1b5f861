// From prompts and score requests to token ids and spans.
#pragma once

#include <memory>
#include <mutex>

#include "calyrex/lm/language_model.h"
#include "calyrex/lm/local_model.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/text/tokenizer.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::infer {

/// Template, date and span rules as the adapter's folder says (null = none), unless the options replace them.
/// Warns when the adapter's template is not the model's own, and when an option replaces it.
text::ChatOptions chat_options(const weights::ModelSource& model, const lm::LocalModelOptions& options,
                               const weights::AdapterFolder* adapter);

/// Encodes for one model and one adapter (or none): template, date and span as the adapter's folder says,
/// unless the options replace them. The chat template is compiled when a chat first needs it, so that a model
/// without one still takes text and ids. Thread-safe.
class PromptEncoder {
 public:
  /// `adapter` may be null. Warns when the adapter's template is not the model's own, and when an option
  /// replaces it.
  PromptEncoder(std::shared_ptr<const weights::ModelSource> model,
                std::shared_ptr<const text::Tokenizer> tokenizer, const lm::LocalModelOptions& options,
                const weights::AdapterFolder* adapter);

  /// With the generation prompt. Only ids and spans of the result are set.
  lm::Prompt encode(const lm::Prompt& prompt) const;
  /// Ids up to the last token to score.
  lm::ScoreRequest encode(const lm::ScoreRequest& request) const;

 private:
  const text::ChatEncoder& chat() const;
  std::vector<TokenId> encode_text(const std::string& text, std::vector<int64_t>* byte_end) const;

  std::shared_ptr<const weights::ModelSource> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  text::ChatOptions chat_options_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const text::ChatEncoder> chat_;
};

}  // namespace calyrex::infer
