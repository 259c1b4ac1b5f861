#include <algorithm>

#include "calyrex/text/tokenizer.h"

namespace calyrex::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
/// A character has at most four bytes, so a valid text never leaves this many ids without one.
constexpr size_t kMaxPending = 32;

}  // namespace

StreamingDecoder::StreamingDecoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

// New ids are decoded together with those emitted just before them, as an id may read differently at the
// start of a text. Only this window is ever decoded, which keeps the cost linear. U+FFFD at its end may still
// become a character.
std::string StreamingDecoder::push(TokenId id) {
  if (tokenizer_->is_special(id)) return "";
  window_.push_back(id);
  const std::string now = decode_window();
  std::string_view whole = now;
  if (window_.size() - context_ < kMaxPending) {
    while (whole.ends_with(kReplacement)) whole.remove_suffix(kReplacement.size());
  }
  if (whole.size() <= sent_) return "";
  std::string text(whole.substr(sent_));
  sent_ = whole.size();
  if (whole.size() == now.size()) {
    window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(context_));
    context_ = window_.size();
    sent_ = decode_window().size();
  }
  return text;
}

std::string StreamingDecoder::finish() {
  const std::string now = decode_window();
  std::string text = now.substr(std::min(sent_, now.size()));
  window_.clear();
  context_ = sent_ = 0;
  return text;
}

std::string StreamingDecoder::decode_window() const {
  return tokenizer_->decode(window_, Tokenizer::SpecialTokens::kSkip);
}

}  // namespace calyrex::text
