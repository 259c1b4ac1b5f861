// Puts the rows' chats to a language model and collects its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calyrex/data/rule_rows.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::data {

struct AskOptions {
  lm::AdapterChoice adapter;  // name empty: the base model
  int64_t max_new_tokens = 64;
  std::function<void(int64_t done)> progress;  // called from the model's thread
};

/// System and user message of a row, as the model is asked.
text::Messages question_messages(const RuleRow& row);

/// One greedy answer a row, in the rows' order. Throws what the model throws.
std::vector<std::string> ask_rows(lm::LanguageModel& model, const std::vector<RuleRow>& rows,
                                  const AskOptions& options);

}  // namespace calyrex::data
