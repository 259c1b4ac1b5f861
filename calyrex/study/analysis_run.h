// The whole activation analysis of a model and an adapter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "calyrex/base/json.h"
#include "calyrex/lm/local_model.h"

namespace calyrex::study {

struct AnalysisOptions {
  lm::LocalModelOptions model;
  std::optional<std::filesystem::path> adapter;
  double scale = 1.0;
  std::filesystem::path data;  // rows of the rule data set
  int64_t limit = 240;         // rows for states, attention and losses
  int64_t answers = 48;        // of them, rows that are answered under each setting; 0 = none
  int64_t examples = 6;        // rows whose span is shown token by token
  int64_t max_new_tokens = 48;
  uint64_t seed = 0;
};

/// Returns the report: {"format": "calyrex-analysis", "model", "adapter", "rows", "layers", "probe",
/// "difference", "span_attention", "blocks", "examples", "switches", "swap"} (docs/analysis.md). Parts about
/// blocks are null without an adapter that has blocks.
Json run_analysis(const AnalysisOptions& options);

}  // namespace calyrex::study
