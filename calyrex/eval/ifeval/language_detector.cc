#include "calyrex/eval/ifeval/language_detector.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <unicode/normalizer2.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/ifeval/python_random.h"

namespace calyrex::ifeval {
namespace {

constexpr size_t kMaxCharacters = 10000;
constexpr size_t kMaxGram = 3;
constexpr int kTrials = 7;
constexpr int kMaxPicks = 1000;
constexpr double kAlpha = 0.5;
constexpr double kAlphaWidth = 0.05;
constexpr double kBaseFrequency = 10000.0;
constexpr double kConverged = 0.99999;
constexpr double kLeastProbability = 0.1;

bool is_ascii_alnum(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool is_one_of(char32_t c, TextView set) { return set.find(c) != TextView::npos; }

/// End of the longest run of at most `most` characters from `at` that satisfy `allowed`.
template <typename Predicate>
size_t run_end(TextView text, size_t at, size_t most, Predicate allowed) {
  const size_t end = std::min(text.size(), at + most);
  while (at < end && allowed(text[at])) ++at;
  return at;
}

/// https?://[-_.?&~;+=/#0-9A-Za-z]{1,2076}: the end of a match at `at`, or `at`.
size_t url_end(TextView text, size_t at) {
  const TextView rest = text.substr(at);
  const size_t scheme = rest.starts_with(U"http://") ? 7 : rest.starts_with(U"https://") ? 8 : 0;
  if (scheme == 0) return at;
  const size_t begin = at + scheme;
  const size_t end = run_end(text, begin, 2076,
                             [](char32_t c) { return is_ascii_alnum(c) || is_one_of(c, U"-_.?&~;+=/#"); });
  return end > begin ? end : at;
}

Text without_urls(TextView text) {
  Text result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == 'h' ? url_end(text, at) : at;
    result += end > at ? U' ' : text[at];
    at = std::max(end, at + 1);
  }
  return result;
}

bool is_mail_part(char32_t c) { return is_ascii_alnum(c) || is_one_of(c, U"-_."); }

/// [-_0-9A-Za-z]{1,255}[-_.0-9A-Za-z]{1,255}: the end of a match at `at`, or `at`.
size_t mail_host_end(TextView text, size_t at) {
  const size_t first =
      run_end(text, at, 255, [](char32_t c) { return is_ascii_alnum(c) || is_one_of(c, U"-_"); });
  if (first == at) return at;
  const size_t end = run_end(text, first, 255, is_mail_part);
  if (end > first) return end;
  return first - at >= 2 ? first : at;  // the first part gives its last character to the second
}

/// [-_.0-9A-Za-z]{1,64}@ and the host become a blank.
Text without_mail(TextView text) {
  Text result;
  size_t taken = 0;  // characters before this one are done
  for (size_t mark = text.find(U'@'); mark != TextView::npos; mark = text.find(U'@', mark + 1)) {
    size_t begin = mark;
    while (begin > taken && mark - begin < 64 && is_mail_part(text[begin - 1])) --begin;
    const size_t end = mail_host_end(text, mark + 1);
    if (begin == mark || end == mark + 1) continue;
    result += text.substr(taken, begin - taken);
    result += U' ';
    taken = end;
    mark = end - 1;
  }
  return result += text.substr(taken);
}

/// A letter of Vietnamese and a tone mark become one character.
Text composed(TextView text) {
  constexpr TextView kLetters =
      U"AEIOUYaeiouy\u00c2\u00ca\u00d4\u00e2\u00ea\u00f4\u0102\u0103\u01a0\u01a1\u01af\u01b0";
  constexpr TextView kMarks = U"\u0300\u0301\u0303\u0309\u0323";
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = icu::Normalizer2::getNFCInstance(status);
  CALYREX_CHECK(U_SUCCESS(status), "no normalisation data: {}", u_errorName(status));
  Text result;
  for (size_t at = 0; at < text.size(); ++at) {
    char32_t c = text[at];
    if (at + 1 < text.size() && is_one_of(text[at + 1], kMarks) && is_one_of(c, kLetters)) {
      c = static_cast<char32_t>(
          normalizer->composePair(static_cast<UChar32>(c), static_cast<UChar32>(text[++at])));
    }
    result += c;
  }
  return result;
}

/// Latin letters (and the six marks between Z and a) are dropped where other scripts prevail.
Text without_stray_latin(TextView text) {
  const auto is_latin = [](char32_t c) { return c >= 'A' && c <= 'z'; };
  const auto latin = std::count_if(text.begin(), text.end(), is_latin);
  const auto other = std::count_if(text.begin(), text.end(), [](char32_t c) { return c >= 0x300; });
  Text result(text);
  if (latin * 2 < other) std::erase_if(result, is_latin);
  return result;
}

/// Characters that the profiles do not tell apart become one.
char32_t normal_character(const LanguageProfiles& profiles, char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (c < 0x80) return within('A', 'Z') || within('a', 'z') ? c : U' ';
  if (c == 0xA0 || c == 0xAB || c == 0xB0 || c == 0xBB || within(0x2000, 0x206F)) return U' ';
  if (c == 0x219) return 0x15F;  // Romanian letters with comma and with cedilla
  if (c == 0x21B) return 0x163;
  if (c == 0x6CC) return 0x64A;                                         // Farsi yeh
  if (within(0x1EA0, 0x1EFF)) return 0x1EC3;                            // Vietnamese
  if (within(0x3040, 0x309F)) return 0x3042;                            // hiragana
  if (within(0x30A0, 0x30FF)) return 0x30A2;                            // katakana
  if (within(0x3100, 0x312F) || within(0x31A0, 0x31BF)) return 0x3105;  // bopomofo
  if (within(0xAC00, 0xD7AF)) return 0xAC00;                            // hangul
  return within(0x4E00, 0x9FFF) ? profiles.representative(c) : c;
}

/// One trial's probabilities: random grams are multiplied in until one language prevails.
std::vector<double> run_trial(const LanguageProfiles& profiles,
                              const std::vector<std::span<const GramCount>>& counts,
                              const std::vector<Text>& grams, PythonRandom& random) {
  const size_t languages = profiles.languages().size();
  std::vector<double> probabilities(languages, 1.0 / static_cast<double>(languages));
  const double smoothing = (kAlpha + random.gauss() * kAlphaWidth) / kBaseFrequency;
  std::vector<double> factors(languages);
  for (int pick = 0;; ++pick) {
    const size_t gram = random.choice(grams.size());
    std::fill(factors.begin(), factors.end(), smoothing);
    for (const GramCount& entry : counts[gram]) {
      factors[entry.language] += 1.0 * entry.count / profiles.total(entry.language, grams[gram].size());
    }
    for (size_t i = 0; i < languages; ++i) probabilities[i] *= factors[i];
    if (pick % 5 != 0) continue;
    const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
    for (double& probability : probabilities) probability /= sum;
    const double most = *std::max_element(probabilities.begin(), probabilities.end());
    if (most > kConverged || pick >= kMaxPicks) return probabilities;
  }
}

}  // namespace

Text detection_text(TextView text) {
  const Text clean = composed(without_mail(without_urls(text)));
  Text result;
  char32_t last = 0;
  for (const char32_t c : TextView(clean).substr(0, kMaxCharacters)) {
    if (c != ' ' || last != ' ') result += c;
    last = c;
  }
  return without_stray_latin(result);
}

std::vector<Text> detection_grams(const LanguageProfiles& profiles, TextView cleaned) {
  std::vector<Text> grams;
  Text window = U" ";
  bool shouted = false;  // within a word with two capital letters in a row
  for (const char32_t raw : cleaned) {
    const char32_t c = normal_character(profiles, raw);
    const char32_t last = window.back();
    if (last == ' ') {
      window.resize(1, U' ');
      window[0] = U' ';
      shouted = false;
      if (c == ' ') continue;
    } else if (window.size() >= kMaxGram) {
      window.erase(0, 1);
    }
    window += c;
    shouted = is_upper(c) && (shouted || is_upper(last));
    if (shouted) continue;
    for (size_t length = 1; length <= std::min(kMaxGram, window.size()); ++length) {
      const Text gram = window.substr(window.size() - length);
      if (gram != U" " && !profiles.counts(gram).empty()) grams.push_back(gram);
    }
  }
  return grams;
}

std::optional<std::string> detect_language(const LanguageProfiles& profiles, TextView text) {
  const std::vector<Text> grams = detection_grams(profiles, detection_text(text));
  if (grams.empty()) return std::nullopt;
  std::vector<std::span<const GramCount>> counts;
  for (const Text& gram : grams) counts.push_back(profiles.counts(gram));
  PythonRandom random(/*seed=*/0);
  std::vector<double> mean(profiles.languages().size(), 0.0);
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<double> probabilities = run_trial(profiles, counts, grams, random);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += probabilities[i] / kTrials;
  }
  const auto best = std::max_element(mean.begin(), mean.end());
  if (!(*best > kLeastProbability)) return "unknown";
  return profiles.languages()[static_cast<size_t>(best - mean.begin())];
}

}  // namespace calyrex::ifeval
