// What each block is worth: loss and rule adherence with the block, its attention or its MLP switched off;
// and which rule an answer follows when the blocks read another row's system message.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calyrex/data/statistics.h"
#include "calyrex/study/analysis_attention.h"
#include "calyrex/study/analysis_batch.h"
#include "calyrex/text/chat_encoder.h"

namespace calyrex::study {

/// A way to run the model with parts of its blocks switched off.
struct SwitchSetting {
  std::string name;  // "all on", "all off", "block 25", "attention of block 25", "mlp of block 25"
  std::optional<int64_t> layer;  // of the block; absent for all
  std::string part;              // "none", "block", "attention", "mlp"
  std::set<std::pair<int64_t, BlockSwitch::Part>> off;
};
/// All on, all off, then for each block the whole of it and each sublayer that it has.
std::vector<SwitchSetting> switch_settings(const StudiedModel& model);

/// Summed negative log-likelihood of each row's reference answer.
struct RowLosses {
  std::vector<double> sums;
  std::vector<double> tokens;
};

/// Losses under one setting after the other; what no block has changed yet is computed once.
class LossMeter {
 public:
  LossMeter(const StudiedModel& model, std::span<const AnalysisBatch> batches);
  RowLosses measure(model::BlockObserver* observer) const;

 private:
  struct Prefix;
  const StudiedModel& model_;
  std::vector<std::shared_ptr<const Prefix>> prefixes_;
};

/// Prompts of rows, and the answers' verdicts.
struct AnswerOptions {
  int64_t max_new_tokens = 48;
  int64_t batch_rows = 32;
  std::function<void(const std::string&)> progress;
};

/// Answers of the rows, as text; with donors, the blocks read the spans of rows[donors[i]] after the prompt's
/// own.
std::vector<std::string> answer_rows(const StudiedModel& model, const text::ChatEncoder& encoder,
                                     std::span<const AnalysisRow> rows, const AnswerOptions& options,
                                     model::BlockObserver* observer,
                                     const std::vector<size_t>* donors = nullptr);

/// One setting's figures, and their differences from "all on", paired by row.
struct SwitchResult {
  SwitchSetting setting;
  data::Estimate loss;              // mean over answer tokens, interval over rows
  data::Estimate loss_change;       // this setting minus all on
  data::Estimate adherence;         // share of answers that keep the rule
  data::Estimate adherence_change;  // mean of paired differences
  data::Estimate joint;             // rule kept and content right
};
/// The `answered` rows are answered; losses are over all.
std::vector<SwitchResult> measure_switches(const StudiedModel& model, const text::ChatEncoder& encoder,
                                           std::span<const AnalysisBatch> batches,
                                           std::span<const AnalysisRow> answered,
                                           const AnswerOptions& options);

/// Shares of answers that keep the row's own rule, and the rule of the row whose span was put in.
struct SwapResult {
  int64_t rows = 0;
  data::Estimate own_before, donor_before;  // with the row's own span
  data::Estimate own_after, donor_after;    // with the other row's
  int64_t turned_to_donor = 0;  // kept own but not the other's before, the other's but not own after
  Json examples;  // [{"id", "system", "user", "donor_system", "before", "after", "own", "donor"}]
};
SwapResult measure_swap(const StudiedModel& model, const text::ChatEncoder& encoder,
                        std::span<const AnalysisRow> answered, const AnswerOptions& options);

}  // namespace calyrex::study
