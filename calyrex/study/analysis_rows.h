// Rows of the rule data set as the analysis feeds them to the network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "calyrex/base/token.h"
#include "calyrex/data/rule_rows.h"
#include "calyrex/model/ragged_batch.h"
#include "calyrex/text/chat_encoder.h"

namespace calyrex::study {

/// A row with its tokens: the chat up to the end of its reference answer.
struct AnalysisRow {
  data::RuleRow rule;
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;
  TokenSpan answer;                         // label tokens, which end the sequence
  std::vector<TokenId> without_system_ids;  // the prompt of the same chat without its system message

  int64_t last_prompt_token() const { return answer.begin - 1; }
  std::vector<TokenId> prompt_ids() const { return {token_ids.begin(), token_ids.begin() + answer.begin}; }
};

/// At most `limit` rows that state a rule, drawn by seed evenly over the rules, in file order; those of more
/// than `max_tokens` are left out with a warning. Throws kInvalidArgument when no rows of two rules are left.
std::vector<AnalysisRow> read_analysis_rows(const std::filesystem::path& path,
                                            const text::ChatEncoder& encoder, int64_t limit, uint64_t seed,
                                            int64_t max_tokens);

/// Names of the rows' rules in order of first appearance, and each row's index among them.
struct RuleLabels {
  std::vector<std::string> names;
  std::vector<int64_t> labels;
};
RuleLabels label_rules(std::span<const AnalysisRow> rows);

/// A row of another rule, for each row: one whose rule the row's reference answer breaks, where there is one.
std::vector<size_t> choose_donors(std::span<const AnalysisRow> rows);

}  // namespace calyrex::study
