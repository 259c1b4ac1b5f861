// The golden sequences of the tiny llama as rows of the analysis.
#pragma once

#include <vector>

#include "calyrex/study/analysis_batch.h"
#include "tests/model/tiny_models.h"

namespace calyrex::study {

/// The last tokens of a sequence that are its answer, as in tools/golden/make_analysis_goldens.py.
inline constexpr int64_t kAnswerTokens = 4;

struct TinyStudy {
  model::TinyModel tiny = model::TinyModel::open("llama");
  std::vector<AnalysisRow> rows;
  StudiedModel model;

  explicit TinyStudy(const std::string& adapter_name = "default", double scale = 1.0) {
    for (const model::SequenceInput& sequence : tiny.sequences) {
      if (sequence.system_spans.empty()) continue;
      AnalysisRow row;
      row.token_ids = sequence.token_ids;
      row.system_spans = sequence.system_spans;
      const auto length = static_cast<int64_t>(sequence.token_ids.size());
      row.answer = {.begin = length - kAnswerTokens, .end = length};
      row.without_system_ids.assign(sequence.token_ids.begin() + sequence.system_spans.front().end,
                                    sequence.token_ids.end() - kAnswerTokens);
      rows.push_back(std::move(row));
    }
    model = {.decoder = tiny.decoder,
             .adapter = tiny.adapter(adapter_name, model::AdapterUse::kServe),
             .scale = scale};
  }

  model::SequenceInput prompt(size_t row, int64_t tokens_of_answer = 0) const {
    model::SequenceInput input{.token_ids = rows[row].prompt_ids(), .system_spans = rows[row].system_spans};
    for (int64_t i = 0; i < tokens_of_answer; ++i) {
      input.token_ids.push_back(rows[row].token_ids[static_cast<size_t>(rows[row].answer.begin + i)]);
    }
    return input;
  }
};

}  // namespace calyrex::study
