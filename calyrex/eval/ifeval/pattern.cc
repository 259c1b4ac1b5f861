#include "calyrex/eval/ifeval/pattern.h"

#include <cstdlib>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "calyrex/base/error.h"

namespace calyrex::ifeval {
namespace {

constexpr size_t kMaxPatternBytes = 10000;
constexpr int64_t kFreeSteps = 10'000'000;
constexpr int64_t kStepsPerByte = 20;
constexpr uint32_t kMaxDepth = 200'000;      // nested backtracking points
constexpr uint32_t kMaxHeapKib = 256 << 10;  // for those points
/// A run that one item swallows passes this many bytes for one step.
constexpr int64_t kBytesPerStep = 16;

template <auto Function>
struct Free {
  template <typename T>
  void operator()(T* value) const {
    Function(value);
  }
};

/// Counts a step for each item that is tried and for the bytes passed since the last. PCRE2's own limit
/// starts anew at each position of the subject, so it alone would not bound a search.
struct Budget {
  int64_t steps_left = 0;
  int64_t last_position = 0;

  static int callout(pcre2_callout_block* block, void* data) {
    auto& budget = *static_cast<Budget*>(data);
    const auto position = static_cast<int64_t>(block->current_position);
    const int64_t passed = std::abs(position - budget.last_position);
    budget.last_position = position;
    budget.steps_left -= 1 + passed / kBytesPerStep;
    return budget.steps_left < 0 ? PCRE2_ERROR_CALLOUT : 0;
  }
};

}  // namespace

/// `first` looks for one match; `every` for all of them one by one, where PCRE2's search for a possible start
/// would look through the rest of the text again after each match.
struct Pattern::Code {
  using Compiled = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
  Compiled first;
  Compiled every;
};

Pattern::Pattern(std::string_view pattern, Case letter_case)
    : text_(pattern), code_(std::make_unique<Code>()) {
  const auto refuse = [&](std::string_view reason) {
    fail(ErrorCode::kInvalidArgument, "regular expression '{}': {}", text_, reason);
  };
  if (pattern.size() > kMaxPatternBytes) {
    fail(ErrorCode::kInvalidArgument, "regular expression of {} bytes; at most {} are read", pattern.size(),
         kMaxPatternBytes);
  }
  TranslatedPattern translated;
  try {
    translated = translate_pattern(decode_utf8(pattern), letter_case);
  } catch (const Error& error) {
    refuse(error.message());
  }
  num_groups_ = translated.num_groups;
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  CALYREX_CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT | PCRE2_ALT_CIRCUMFLEX |
                           (letter_case == Case::kIgnore ? PCRE2_CASELESS : 0);
  const auto compile = [&](uint32_t more_options) {
    int code = 0;
    size_t offset = 0;
    Code::Compiled compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.pattern.data()),
                                          translated.pattern.size(), options | more_options, &code, &offset,
                                          context.get()));
    if (compiled == nullptr) {
      char reason[256];
      pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(reason), sizeof(reason));
      refuse(reason);
    }
    return compiled;
  };
  code_->first = compile(0);
  code_->every = compile(PCRE2_NO_START_OPTIMIZE);
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern& Pattern::operator=(Pattern&& other) noexcept = default;

std::optional<int64_t> Pattern::count(const std::string& subject, int64_t at_most) const {
  const pcre2_code* code = at_most == 1 ? code_->first.get() : code_->every.get();
  const std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> match(
      pcre2_match_data_create_from_pattern(code, nullptr));
  const std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context(
      pcre2_match_context_create(nullptr));
  CALYREX_CHECK(match != nullptr && context != nullptr);
  Budget budget{.steps_left = kFreeSteps + kStepsPerByte * static_cast<int64_t>(subject.size())};
  pcre2_set_callout(context.get(), Budget::callout, &budget);
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(budget.steps_left));
  pcre2_set_depth_limit(context.get(), kMaxDepth);
  pcre2_set_heap_limit(context.get(), kMaxHeapKib);

  int64_t found = 0;
  size_t at = 0;
  // After an empty match Python looks at the same place again, for one that is not empty.
  uint32_t options = PCRE2_NO_UTF_CHECK;
  while (found < at_most) {
    budget.last_position = static_cast<int64_t>(at);
    const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                                   options, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) return std::nullopt;
    const size_t* ends = pcre2_get_ovector_pointer(match.get());
    ++found;
    at = ends[1];
    options = PCRE2_NO_UTF_CHECK | (ends[0] == ends[1] ? PCRE2_NOTEMPTY_ATSTART : 0);
  }
  return found;
}

}  // namespace calyrex::ifeval
