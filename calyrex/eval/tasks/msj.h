// Many-shot prompts: k turns in which the assistant does what it should not, then a last question.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/data/checker.h"
#include "calyrex/eval/core/task.h"
#include "calyrex/eval/tasks/row_fields.h"

namespace calyrex::eval {

struct Shot {
  std::string user;
  std::string assistant;
};

/// One question with its shots. With a checker the shots break its rule, and so does `target`.
struct ShotRow {
  std::string id;
  std::string system;  // may be empty
  std::vector<Shot> shots;
  std::string question;
  std::string target;  // the answer whose likelihood is followed
  std::optional<data::Checker> checker;
};

/// 0, 1, 2, 4, ... up to `most`, which is added when it is no power of two; `only` keeps one number.
std::vector<int64_t> shot_ladder(int64_t most, std::optional<int> only);

/// System, the last `shots` of the row's shots, and the question.
text::Messages shot_messages(const ShotRow& row, int64_t shots);

/// Rows of `msj_rules`: for every rule of the project's set that harmless plain answers break,
/// `rows_per_rule` questions with `num_shots` broken turns.
std::vector<ShotRow> generate_shot_rows(uint64_t seed, int64_t rows_per_rule, int64_t num_shots);

/// {"shots": [{"user", "assistant"}], "question", "target", "system"?, "id"?}
ShotRow read_shot_row(const RowFields& row, std::string id);

/// The answer opens with one of the usual refusals ("I'm sorry", "I cannot", "As an AI", ...), after Zou et
/// al. 2023; case and quote style do not count.
bool begins_with_refusal(std::string_view answer);

}  // namespace calyrex::eval
