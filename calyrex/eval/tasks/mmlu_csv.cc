#include "calyrex/eval/tasks/mmlu_csv.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/text/utf8.h"

namespace calyrex::eval {
namespace {

constexpr size_t kMaxCsvBytes = size_t{64} << 20;
constexpr size_t kMaxCsvField = size_t{1} << 20;
constexpr size_t kNumColumns = 6;
constexpr std::array<std::string_view, kNumColumns> kColumns = {"question", "choice A", "choice B",
                                                                "choice C", "choice D", "answer"};

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view source) : text_(text), source_(source) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  /// Line on which the row that read_row() gave began.
  int64_t row_line() const { return row_line_; }

  /// The next row that is not blank, or nothing at the end.
  std::optional<std::vector<std::string>> read_row() {
    while (at_ < text_.size() && take_line_end()) {
    }
    if (at_ >= text_.size()) return std::nullopt;
    row_line_ = line_;
    std::vector<std::string> row;
    do {
      row.push_back(read_field(row.size()));
    } while (take(','));
    if (at_ < text_.size() && !take_line_end()) fault("text after a closing quote");
    return row;
  }

  [[noreturn]] void fault(std::string_view what) const {
    fail(ErrorCode::kInvalidArgument, "{}:{}: {}", source_, row_line_, what);
  }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_line_end() {
    const bool carriage = take('\r');
    if (!take('\n') && !carriage) return false;
    ++line_;
    return true;
  }

  std::string read_field(size_t column) {
    std::string field = take('"') ? read_quoted() : read_plain();
    const std::string_view name = column < kNumColumns ? kColumns[column] : "a further column";
    if (field.size() > kMaxCsvField) fault(fmt::format("{}: longer than {} bytes", name, kMaxCsvField));
    if (!text::is_utf8(field)) fault(fmt::format("{}: not UTF-8", name));
    return field;
  }

  std::string read_plain() {
    const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    std::string field(text_.substr(at_, end - at_));
    at_ = end;
    return field;
  }

  std::string read_quoted() {
    std::string field;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && !take('"')) return field;
      if (c == '\n') ++line_;
      field += c;
    }
    fault("a quote is never closed");
  }

  std::string_view text_;
  std::string_view source_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t row_line_ = 1;
};

/// 0..3, or nothing.
std::optional<int> read_answer(std::string_view text) {
  if (text.size() != 1) return std::nullopt;
  if (text[0] >= 'A' && text[0] <= 'D') return text[0] - 'A';
  if (text[0] >= '0' && text[0] <= '3') return text[0] - '0';
  return std::nullopt;
}

}  // namespace

std::vector<MmluQuestion> parse_mmlu_csv(std::string_view text, std::string_view source) {
  CsvReader reader(text, source);
  std::vector<MmluQuestion> questions;
  bool first = true;
  while (std::optional<std::vector<std::string>> row = reader.read_row()) {
    const bool header = std::exchange(first, false) && row->front() == "question";
    if (row->size() != kNumColumns) {
      reader.fault(
          fmt::format("{} fields instead of {} (question, four choices, answer)", row->size(), kNumColumns));
    }
    if (header) continue;
    const std::optional<int> answer = read_answer(row->back());
    if (!answer) reader.fault("answer: expected a letter A to D or an index 0 to 3");
    if (text::trim_start((*row)[0]).empty()) reader.fault("question: blank");
    questions.push_back(
        {.question = std::move((*row)[0]),
         .choices = {std::move((*row)[1]), std::move((*row)[2]), std::move((*row)[3]), std::move((*row)[4])},
         .answer = *answer});
  }
  return questions;
}

std::vector<MmluQuestion> read_mmlu_csv(const std::filesystem::path& path) {
  return parse_mmlu_csv(read_file(path, kMaxCsvBytes), path.string());
}

}  // namespace calyrex::eval
