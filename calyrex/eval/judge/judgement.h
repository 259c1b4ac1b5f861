// A judge model's answer, read: one word of decision for each criterion.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace calyrex::eval {

enum class Decision { kYes, kNo, kNotApplicable };

/// "yes", "no", "n/a".
std::string_view decision_name(Decision decision);

/// A decision word in English or Chinese (yes, no, true, false, n/a, 是, 否, 不适用), whatever its case and
/// punctuation around; nullopt for anything else.
std::optional<Decision> parse_decision(std::string_view word);

/// The decisions by criterion id from the last JSON object of a judge's answer: {"1": "yes", "2": {"verdict":
/// "no", ...}}. nullopt when there is none, or when it lacks one of `ids` or decides it by another word: then
/// the whole judgement counts for nothing. Any bytes are allowed; linear in them.
std::optional<std::map<std::string, Decision>> read_judgement(std::string_view answer,
                                                              const std::vector<std::string>& ids);

}  // namespace calyrex::eval
