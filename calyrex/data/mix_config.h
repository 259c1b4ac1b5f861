// The configuration of `data build mix`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/fields.h"
#include "calyrex/data/layout.h"

namespace calyrex::data {

/// Which rows count as the same: equal roles and texts, or equal after folding case, punctuation and spacing.
enum class Deduplicate { kNone, kExact, kNormalised };
inline constexpr auto enum_names(Deduplicate) {
  return std::to_array<EnumName<Deduplicate>>({{Deduplicate::kNone, "none"},
                                               {Deduplicate::kExact, "exact"},
                                               {Deduplicate::kNormalised, "normalised"}});
}

struct MixSource {
  std::string path;
  std::optional<std::string> name;
  Layout layout = Layout::kAuto;
  double weight = 1.0;
  std::optional<int64_t> max_rows;
  std::optional<std::string> instructions;
  std::optional<std::string> language;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("path", path, "file of rows");
    visit("name", name, "`source` of its rows in the mixture; null = the file's name without its ending");
    visit("layout", layout, "layout of its rows; auto = told by their keys");
    visit("weight", weight,
          "its share against the other sources; one with fewer rows gives all, the rest goes to the others");
    visit("max_rows", max_rows, "at most so many of its rows; null = no limit");
    visit("instructions", instructions, "induction: JSON file of {task: [instruction, ...]}");
    visit("language", language, "oasst: only trees in this language, as en");
  }
};

struct MixSystem {
  double share = 0.5;
  bool move_instructions = true;
  std::optional<std::string> texts;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("share", share, "share of rows that have a system message; those that come with one keep it");
    visit("move_instructions", move_instructions,
          "where a row keeps instruction and input apart, the instruction becomes the system message");
    visit("texts", texts, "file of system messages for other rows, one a line; null = built-in ones");
  }
};

struct MixLimits {
  int64_t max_chars = 20000;
  std::optional<int64_t> max_tokens;
  std::string model = "default";
  int64_t min_answer_chars = 1;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("max_chars", max_chars, "longest row in bytes of its messages");
    visit("max_tokens", max_tokens,
          "longest row in tokens, as rendered by the model's template; null = no limit");
    visit("model", model, "model whose tokens are counted");
    visit("min_answer_chars", min_answer_chars, "rows with a shorter answer are left out");
  }
};

struct MixDecontaminate {
  std::vector<std::string> against;
  int64_t ngram = 13;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("against", against, "evaluation files, or folders of .jsonl, .json, .csv, .tsv and .txt files");
    visit("ngram", ngram,
          "rows (contents, calls, tools) and added system messages that share a run of so many words with "
          "one of them are left out");
  }
};

struct MixConfig {
  int64_t rows = 50000;
  int64_t dev_rows = 0;
  int64_t seed = 0;
  std::vector<MixSource> sources;
  Deduplicate deduplicate = Deduplicate::kNormalised;
  ToolForm tools = ToolForm::kText;
  MixSystem system;
  MixLimits limits;
  MixDecontaminate decontaminate;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("rows", rows, "rows of the mixture");
    visit("dev_rows", dev_rows, "so many of them go to dev.jsonl");
    visit("seed", seed, "same files and seed, same bytes");
    visit("sources", sources, "list of sources");
    visit("deduplicate", deduplicate, "which rows count as the same");
    visit("tools", tools, "functions and calls as plain text, or for the template's tools");
    visit("system", system, "system messages");
    visit("limits", limits, "length limits");
    visit("decontaminate", decontaminate, "evaluation files kept out");
  }
};

/// Throws kInvalidArgument naming key and remedy.
void check_mix_config(const MixConfig& config);

}  // namespace calyrex::data
