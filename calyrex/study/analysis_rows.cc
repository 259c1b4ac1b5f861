#include "calyrex/study/analysis_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/base/random.h"
#include "calyrex/data/checker.h"
#include "calyrex/data/rule_files.h"

namespace calyrex::study {
namespace {

/// Round after round one row of each rule.
std::vector<size_t> draw_evenly(const std::vector<data::RuleRow>& rows, int64_t limit, uint64_t seed) {
  std::map<std::string, std::vector<size_t>> by_rule;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool states_rule = rows[i].sort == data::RowSort::kRule || rows[i].sort == data::RowSort::kOverrule;
    if (states_rule && !rows[i].system.empty()) by_rule[rows[i].rule].push_back(i);
  }
  RandomStream random(seed, "analysis rows");
  for (auto& [rule, members] : by_rule) random.shuffle(members);
  std::vector<size_t> chosen;
  for (size_t round = 0; static_cast<int64_t>(chosen.size()) < limit; ++round) {
    const size_t before = chosen.size();
    for (const auto& [rule, members] : by_rule) {
      if (round < members.size() && static_cast<int64_t>(chosen.size()) < limit)
        chosen.push_back(members[round]);
    }
    if (chosen.size() == before) break;
  }
  std::sort(chosen.begin(), chosen.end());
  return by_rule.size() < 2 ? std::vector<size_t>() : chosen;
}

text::Message message(std::string role, std::string content) {
  return {.role = std::move(role), .content = std::move(content)};
}

AnalysisRow encode_row(data::RuleRow rule, const text::ChatEncoder& encoder) {
  AnalysisRow row;
  text::Messages chat = {message("system", rule.system), message("user", rule.user),
                         message("assistant", rule.answer)};
  text::EncodedChat encoded = encoder.encode(chat, text::GenerationPrompt::kNone);
  if (encoded.assistant_spans.empty()) fail(ErrorCode::kInvalidArgument, "the answer has no tokens");
  row.answer = encoded.assistant_spans.back();
  row.token_ids.assign(encoded.token_ids.begin(), encoded.token_ids.begin() + row.answer.end);
  row.system_spans = std::move(encoded.system_spans);
  std::erase_if(row.system_spans, [&](const TokenSpan& span) { return span.end > row.answer.begin; });
  chat.erase(chat.begin());
  chat.pop_back();
  row.without_system_ids = encoder.encode(chat, text::GenerationPrompt::kAdd).token_ids;
  row.rule = std::move(rule);
  return row;
}

}  // namespace

std::vector<AnalysisRow> read_analysis_rows(const std::filesystem::path& path,
                                            const text::ChatEncoder& encoder, int64_t limit, uint64_t seed,
                                            int64_t max_tokens) {
  std::vector<data::RuleRow> rules = data::read_rule_rows(path);
  const std::vector<size_t> chosen = draw_evenly(rules, limit, seed);
  if (chosen.size() < 4) {
    fail(
        ErrorCode::kInvalidArgument,
        "{}: too few rows whose system message states a rule, or all of one rule; `calyrex data build rules` "
        "writes such rows",
        path.string());
  }
  std::vector<AnalysisRow> rows;
  for (const size_t i : chosen) {
    const std::string place = fmt::format("{}: row {}", path.string(), rules[i].id);
    AnalysisRow row = with_context(place, [&] { return encode_row(std::move(rules[i]), encoder); });
    if (static_cast<int64_t>(row.token_ids.size()) <= max_tokens) rows.push_back(std::move(row));
  }
  const size_t too_long = chosen.size() - rows.size();
  if (too_long > 0)
    log_warning("{}: {} rows have more than {} tokens and are left out", path.string(), too_long, max_tokens);
  if (label_rules(rows).names.size() < 2) {
    fail(ErrorCode::kInvalidArgument, "{}: rows of at most {} tokens state fewer than two rules",
         path.string(), max_tokens);
  }
  return rows;
}

RuleLabels label_rules(std::span<const AnalysisRow> rows) {
  RuleLabels result;
  for (const AnalysisRow& row : rows) {
    const auto found = std::find(result.names.begin(), result.names.end(), row.rule.rule);
    result.labels.push_back(found - result.names.begin());
    if (found == result.names.end()) result.names.push_back(row.rule.rule);
  }
  return result;
}

std::vector<size_t> choose_donors(std::span<const AnalysisRow> rows) {
  std::vector<size_t> donors(rows.size()), order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  RandomStream(0, "donors").shuffle(order);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::optional<size_t> other;
    for (size_t step = 0; step < rows.size(); ++step) {
      const size_t candidate = order[(i + step) % rows.size()];
      if (rows[candidate].rule.rule == rows[i].rule.rule) continue;
      if (!other) other = candidate;
      if (!data::keeps_rule(rows[candidate].rule.checker, rows[i].rule.answer)) {
        other = candidate;
        break;
      }
    }
    CALYREX_CHECK(other.has_value(), "all rows state one rule");
    donors[i] = *other;
  }
  return donors;
}

}  // namespace calyrex::study
