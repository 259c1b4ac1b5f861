#include "calyrex/eval/ifeval/instruction.h"

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/eval/ifeval/checkers.h"
#include "calyrex/eval/ifeval/resources.h"

namespace calyrex::ifeval {
namespace {

const CheckerTable& checkers() {
  static const CheckerTable table = [] {
    CheckerTable all;
    add_word_checkers(all);
    add_format_checkers(all);
    add_whole_text_checkers(all);
    return all;
  }();
  return table;
}

}  // namespace

Instruction::Instruction(std::string_view id, const Json& arguments) : id_(id) {
  const auto found = checkers().find(id);
  if (found == checkers().end()) {
    const std::string nearest = nearest_word(id_, instruction_ids());
    fail(ErrorCode::kInvalidArgument, "there is no instruction '{}'{}", id,
         nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
  }
  with_context(id, [&] {
    Arguments reader(arguments);
    check_ = found->second(reader);
    reader.finish();
  });
}

void Instruction::prepare() const {
  if (id_ == "length_constraints:number_sentences" || id_ == "change_case:capital_word_frequency") {
    english_punkt();
  }
  if (id_ == "language:response_language" || id_.starts_with("change_case:english_")) language_profiles();
}

std::vector<std::string> instruction_ids() {
  std::vector<std::string> ids;
  for (const auto& [id, make] : checkers()) ids.push_back(id);
  return ids;
}

}  // namespace calyrex::ifeval
