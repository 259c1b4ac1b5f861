#include "calyrex/data/row_stats.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/sha256.h"
#include "calyrex/data/mix.h"

namespace calyrex::data {
namespace {

/// Nearest rank: the smallest value that at least `share` of the values do not exceed.
int64_t quantile(const std::vector<int64_t>& sorted, int64_t percent) {
  const auto rank = (static_cast<int64_t>(sorted.size()) * percent + 99) / 100;
  return sorted[static_cast<size_t>(std::max<int64_t>(rank, 1) - 1)];
}

Json describe_lengths(std::vector<int64_t> values) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  const auto total = std::accumulate(values.begin(), values.end(), int64_t{0});
  return {{"mean", static_cast<double>(total) / static_cast<double>(values.size())},
          {"p50", quantile(values, 50)},
          {"p95", quantile(values, 95)},
          {"max", values.back()},
          {"total", total}};
}

int64_t total_length(const TokenSpans& spans) {
  int64_t total = 0;
  for (const TokenSpan& span : spans) total += span.length();
  return total;
}

}  // namespace

void RowStatistics::add(const ChatRow& row) {
  ++rows_;
  int64_t bytes = 0, answer = 0, turns = 0;
  bool system = false;
  for (const text::Message& message : row.messages) {
    ++roles_[message.role];
    const auto size = static_cast<int64_t>(message.content.size());
    bytes += size;
    if (message.role == "assistant") {
      answer += size;
      ++turns;
    }
    system = system || message.role == "system" || message.role == "developer";
  }
  with_system_ += system ? 1 : 0;
  with_tools_ += row.tools.is_array() && !row.tools.empty() ? 1 : 0;
  turns_.push_back(turns);
  bytes_.push_back(bytes);
  answer_bytes_.push_back(answer);
  if (!exact_.insert(sha256_hex(row_key(row, Deduplicate::kExact))).second) ++exact_duplicates_;
  if (!normalised_.insert(sha256_hex(row_key(row, Deduplicate::kNormalised))).second)
    ++normalised_duplicates_;
  if (encoder_ != nullptr) add_tokens(row);
}

void RowStatistics::add_tokens(const ChatRow& row) {
  try {
    const text::EncodedChat chat = encoder_->encode(row.messages, text::GenerationPrompt::kNone, row.tools);
    tokens_.push_back(static_cast<int64_t>(chat.token_ids.size()));
    label_tokens_.push_back(total_length(chat.assistant_spans));
    span_tokens_.push_back(total_length(chat.system_spans));
    without_span_ += chat.system_spans.empty() ? 1 : 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    ++refused_;
  }
}

Json RowStatistics::to_json() const {
  Json json = {{"rows", rows_}, {"with_system", with_system_}, {"with_tools", with_tools_}};
  json["roles"] = Json::object();
  for (const auto& [role, count] : roles_) json["roles"][role] = count;
  json["duplicates"] = {{"exact", exact_duplicates_}, {"normalised", normalised_duplicates_}};
  json["turns"] = describe_lengths(turns_);
  json["bytes"] = describe_lengths(bytes_);
  json["answer_bytes"] = describe_lengths(answer_bytes_);
  if (encoder_ == nullptr) return json;
  json["tokens"] = describe_lengths(tokens_);
  json["label_tokens"] = describe_lengths(label_tokens_);
  json["span_tokens"] = describe_lengths(span_tokens_);
  json["without_span"] = without_span_;
  json["refused"] = refused_;
  return json;
}

std::string format_row_statistics(std::string_view name, const Json& statistics) {
  const auto rows = statistics["rows"].get<int64_t>();
  const auto share = [&](const Json& count) {
    const auto n = count.get<int64_t>();
    return fmt::format("{} ({:.1f} %)", n,
                       rows == 0 ? 0.0 : 100.0 * static_cast<double>(n) / static_cast<double>(rows));
  };
  std::string text = fmt::format("{}\n  {:<18}{}\n", name, "rows", rows);
  text += fmt::format("  {:<18}{}\n", "system message", share(statistics["with_system"]));
  if (statistics["with_tools"] != 0)
    text += fmt::format("  {:<18}{}\n", "tools", share(statistics["with_tools"]));
  std::string roles;
  for (const auto& [role, count] : statistics["roles"].items()) {
    roles += fmt::format("{}{} {}", roles.empty() ? "" : ", ", role, count.get<int64_t>());
  }
  text += fmt::format("  {:<18}{}\n", "messages", roles);
  text += fmt::format("  {:<18}{} exact, {} normalised\n", "duplicates",
                      statistics["duplicates"]["exact"].get<int64_t>(),
                      statistics["duplicates"]["normalised"].get<int64_t>());
  static constexpr std::array<std::pair<const char*, const char*>, 6> kLengths = {
      {{"turns", "answers a row"},
       {"bytes", "bytes"},
       {"answer_bytes", "bytes of answers"},
       {"tokens", "tokens"},
       {"label_tokens", "label tokens"},
       {"span_tokens", "span tokens"}}};
  for (const auto& [key, title] : kLengths) {
    if (!statistics.contains(key) || statistics[key].is_null()) continue;
    const Json& lengths = statistics[key];
    text += fmt::format("  {:<18}mean {:.1f}, median {}, 95 % {}, longest {}, sum {}\n", title,
                        lengths["mean"].get<double>(), lengths["p50"].get<int64_t>(),
                        lengths["p95"].get<int64_t>(), lengths["max"].get<int64_t>(),
                        lengths["total"].get<int64_t>());
  }
  if (statistics.contains("without_span")) {
    text += fmt::format("  {:<18}{}\n", "without a span", share(statistics["without_span"]));
  }
  if (statistics.contains("refused") && statistics["refused"] != 0) {
    text += fmt::format("  {:<18}{}: the template does not render them\n", "refused",
                        share(statistics["refused"]));
  }
  return text;
}

}  // namespace calyrex::data
