#include "calyrex/eval/ifeval/grade.h"

#include <algorithm>

namespace calyrex::ifeval {
namespace {

/// The response itself comes first; without duplicates and blank ones.
std::vector<Answer> variants_of(const Text& response) {
  const TextView whole = response;
  const size_t first = whole.find(U'\n');
  const size_t last = whole.rfind(U'\n');
  std::vector<TextView> cuts = {whole};
  if (first != TextView::npos) {
    cuts.push_back(strip(whole.substr(first + 1)));
    cuts.push_back(strip(whole.substr(0, last)));
    if (last > first) cuts.push_back(strip(whole.substr(first + 1, last - first - 1)));
  }
  std::vector<Answer> variants;
  const auto add = [&variants](Text text) {
    const bool known = std::any_of(variants.begin(), variants.end(),
                                   [&](const Answer& variant) { return variant.text() == text; });
    if (!known && !is_blank(text)) variants.emplace_back(std::move(text));
  };
  for (const TextView cut : cuts) {
    add(Text(cut));
    add(without(cut, U'*'));
  }
  return variants;
}

}  // namespace

InstructionVerdicts grade_response(const std::vector<Instruction>& instructions, std::string_view response) {
  const std::vector<Answer> variants = variants_of(decode_utf8(response));
  InstructionVerdicts verdicts;
  for (const Instruction& instruction : instructions) {
    Followed strict = Followed::kNo;
    Followed loose = Followed::kNo;
    for (size_t i = 0; i < variants.size() && loose != Followed::kYes; ++i) {
      const Followed followed = instruction.check(variants[i]);
      if (i == 0) strict = followed;
      if (followed == Followed::kUndecided) loose = followed;
      if (followed == Followed::kYes) loose = followed;
    }
    verdicts.strict.push_back(strict);
    verdicts.loose.push_back(loose);
  }
  return verdicts;
}

}  // namespace calyrex::ifeval
