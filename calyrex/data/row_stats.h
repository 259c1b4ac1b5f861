// What a file of chats holds, in numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/row.h"
#include "calyrex/text/chat_encoder.h"

namespace calyrex::data {

/// Counts rows one by one. With an encoder, tokens as the model's template renders them; a chat that the
/// template refuses is counted and not measured.
class RowStatistics {
 public:
  explicit RowStatistics(const text::ChatEncoder* encoder) : encoder_(encoder) {}

  void add(const ChatRow& row);
  int64_t rows() const { return rows_; }

  /// {"rows", "roles": {role: n}, "with_system", "with_tools", "duplicates": {"exact", "normalised"},
  /// "turns", "bytes", "answer_bytes", and with an encoder "tokens", "label_tokens", "span_tokens",
  /// "without_span", "refused"}; lengths are {"mean", "p50", "p95", "max", "total"}.
  Json to_json() const;

 private:
  void add_tokens(const ChatRow& row);

  const text::ChatEncoder* encoder_;
  int64_t rows_ = 0;
  int64_t with_system_ = 0;
  int64_t with_tools_ = 0;
  int64_t without_span_ = 0;
  int64_t refused_ = 0;
  int64_t exact_duplicates_ = 0;
  int64_t normalised_duplicates_ = 0;
  std::map<std::string, int64_t> roles_;
  std::vector<int64_t> turns_, bytes_, answer_bytes_, tokens_, label_tokens_, span_tokens_;
  std::unordered_set<std::string> exact_, normalised_;
};

/// The JSON as lines for people.
std::string format_row_statistics(std::string_view name, const Json& statistics);

}  // namespace calyrex::data
