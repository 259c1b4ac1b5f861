// The tables that MMLU comes in.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace calyrex::eval {

struct MmluQuestion {
  std::string question;
  std::array<std::string, 4> choices;
  int answer = 0;  // index into choices
};

/// Rows of CSV (RFC 4180: quoted fields may hold commas, line ends and doubled quotes) with the columns
/// question, four choices, answer; the answer is a letter A-D or an index 0-3; a first row "question,..." is
/// a header. Throws kInvalidArgument with `source`:line and the field.
std::vector<MmluQuestion> parse_mmlu_csv(std::string_view text, std::string_view source);
std::vector<MmluQuestion> read_mmlu_csv(const std::filesystem::path& path);

}  // namespace calyrex::eval
