// The table behind checker.h: one entry a rule. Internal to data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::data {

enum class ParameterKind { kText, kCount, kTexts, kCheckers };

struct CheckerParameter {
  std::string_view name;
  ParameterKind kind = ParameterKind::kText;
};

struct CheckerEntry {
  std::string_view rule;
  std::vector<CheckerParameter> parameters;
  bool (*keeps)(const Json& params, const std::string& answer) = nullptr;  // the answer is trimmed
};

/// Rules about the form of the whole answer (checkers_form.cc).
std::span<const CheckerEntry> form_checkers();
/// Rules about words, contents and secrets (checkers_words.cc).
std::span<const CheckerEntry> word_checkers();

/// What follows when `answer` starts with the question (case, quotes and spacing aside); nullopt when it does
/// not.
std::optional<std::string> after_question(std::string_view question, std::string_view answer);

/// Throws kInvalidArgument: unknown rule, with the nearest known one or all of them.
[[noreturn]] void fail_unknown_rule(std::string_view prefix, std::string_view name,
                                    const std::vector<std::string>& known);

}  // namespace calyrex::data
