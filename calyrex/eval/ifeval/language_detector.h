// Language detection by character n-grams: langdetect 1.0.9 (Nakatani 2010), with its seed set to 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calyrex/eval/ifeval/language_profiles.h"

namespace calyrex::ifeval {

/// The text that detection looks at: no URLs and addresses, composed Vietnamese letters, single blanks, at
/// most 10,000 characters.
Text detection_text(TextView text);

/// Its 1- to 3-grams that any language has, in order.
std::vector<Text> detection_grams(const LanguageProfiles& profiles, TextView cleaned);

/// Code of the likeliest language ("en", "zh-cn"), "unknown" when no language reaches a probability of 0.1;
/// nothing when the text has no gram of any language. The same text always gives the same answer: the one of
/// langdetect with DetectorFactory.seed = 0.
std::optional<std::string> detect_language(const LanguageProfiles& profiles, TextView text);

}  // namespace calyrex::ifeval
