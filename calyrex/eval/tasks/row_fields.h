// Fields of a benchmark's row, checked and bounded: errors name file, line (or entry) and field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// A view of one JSON object. Every reader throws kInvalidArgument "file:line: field 'x': expected ...".
class RowFields {
 public:
  static constexpr size_t kMaxText = size_t{1} << 20;
  static constexpr size_t kMaxItems = 10'000;

  /// `source` is file:line. The row must outlive this object. Throws unless it is an object.
  RowFields(const Json& row, std::string source, std::string path = "");

  const std::string& source() const { return source_; }
  bool has(std::string_view name) const;  // present and not null

  std::string text(std::string_view name, size_t max_bytes = kMaxText) const;
  /// Likewise, with something in it besides white space.
  std::string filled_text(std::string_view name, size_t max_bytes = kMaxText) const;
  std::optional<std::string> optional_text(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t low, int64_t high) const;
  bool flag(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name, size_t max_items = kMaxItems) const;
  RowFields object(std::string_view name) const;
  std::vector<RowFields> objects(std::string_view name, size_t max_items = kMaxItems) const;
  /// A chat: one to 2,000 messages, the last of them the user's (or a tool's).
  text::Messages chat(std::string_view name) const;
  const Json& json(std::string_view name) const;

  [[noreturn]] void fail_field(std::string_view name, std::string_view expected) const;

 private:
  std::string path_of(std::string_view name) const;

  const Json* row_;
  std::string source_;
  std::string path_;  // of this object within the row, empty or ending in "."
};

/// The first of `names` that is in the folder `data`, or `data` itself when it is a file. kNotFound tells
/// which files are looked for.
std::filesystem::path find_data_file(const std::filesystem::path& data,
                                     std::initializer_list<std::string_view> names);

/// Calls `row` for each line of a .jsonl file, or for each entry of another file, which holds a JSON list;
/// then the source is "file: entry 3".
void for_each_data_row(const std::filesystem::path& path, const std::function<void(const RowFields&)>& row);
/// Likewise for rows that the program carries, one a line.
void for_each_sample_row(std::string_view lines, std::string_view name,
                         const std::function<void(const RowFields&)>& row);
/// The rows that a task loads: its own (`lines`) with --sample, else those of the first of `files` that
/// options.data holds.
void for_each_row(const LoadOptions& options, std::string_view lines, std::string_view name,
                  std::initializer_list<std::string_view> files,
                  const std::function<void(const RowFields&)>& row);

/// Puts a dialogue into the form of the run: kSystem leaves it as it is; otherwise the text of a system
/// message that a user's follows at once stands before that.
text::Messages dialogue_in_form(const LoadOptions& options, const text::Messages& dialogue);

}  // namespace calyrex::eval
