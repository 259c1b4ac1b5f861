#include "calyrex/data/ask.h"

#include <utility>

namespace calyrex::data {

text::Messages question_messages(const RuleRow& row) {
  text::Messages messages = to_chat_row(row).messages;
  messages.pop_back();
  return messages;
}

std::vector<std::string> ask_rows(lm::LanguageModel& model, const std::vector<RuleRow>& rows,
                                  const AskOptions& options) {
  std::vector<lm::GenerateRequest> requests;
  requests.reserve(rows.size());
  for (const RuleRow& row : rows) {
    lm::GenerateRequest request;
    request.prompt.messages = question_messages(row);
    request.adapter = options.adapter;
    request.max_new_tokens = options.max_new_tokens;
    requests.push_back(std::move(request));
  }
  std::vector<std::string> answers;
  answers.reserve(rows.size());
  for (lm::Completion& completion : lm::generate_all(model, std::move(requests), options.progress)) {
    answers.push_back(std::move(completion.text));
  }
  return answers;
}

}  // namespace calyrex::data
