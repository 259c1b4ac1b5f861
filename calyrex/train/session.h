// Everything a run works with, made ready: network, adapter, tokenised data, order of steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "calyrex/model/decoder.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/train/checkpoint.h"
#include "calyrex/train/config.h"
#include "calyrex/train/dataset.h"
#include "calyrex/train/prefix_cache.h"
#include "calyrex/train/run_folder.h"
#include "calyrex/train/shared_work.h"
#include "calyrex/train/trainer.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::train {

/// Where the weights and the chat template of a run begin.
struct StartingPoint {
  weights::AdapterConfig config;
  std::optional<weights::AdapterFolder> folder;  // a checkpoint or init_from; absent = new blocks
};

/// The adapter a run starts with: the checkpoint's, init_from's, or a new one. Throws kInvalidArgument where
/// the configuration file contradicts init_from.
StartingPoint find_starting_point(const LoadedConfig& loaded, const weights::ModelSource& model,
                                  const std::optional<Checkpoint>& checkpoint);

/// The encoder of a run: the configuration's template, else the starting adapter's, else the model's own.
/// Fills in `point.config.chat_date` where the template asks for a date.
std::shared_ptr<const text::ChatEncoder> make_encoder(const LoadedConfig& loaded,
                                                      const weights::ModelSource& model,
                                                      const std::optional<Checkpoint>& checkpoint,
                                                      const std::string& date, StartingPoint& point);

/// data.max_tokens, or the model's context where that is shorter and the configuration leaves it open
/// (kInvalidArgument where it does not).
int64_t resolve_max_tokens(const LoadedConfig& loaded, const weights::ModelConfig& model);

/// Today as "2026-11-29".
std::string today();

/// The part of a seeded run that can be continued: data in order, trainer, totals.
class Session {
 public:
  /// Reads and tokenises the data (waiting for all of it when the number of steps depends on it), loads the
  /// network.
  Session(const LoadedConfig& loaded, std::shared_ptr<const weights::ModelSource> model,
          ChatFiles train_files, ChatFiles eval_files, std::shared_ptr<const text::ChatEncoder> encoder,
          const StartingPoint& point, const SharedWork& shared = {});

  Trainer& trainer() { return *trainer_; }
  StepPlanner& planner() { return *planner_; }
  int64_t total_steps() const { return total_steps_; }
  RowPointers rows(const std::vector<int64_t>& indices) const;
  /// Every evaluation row that is kept; empty without data.eval.
  RowPointers eval_rows() const;
  std::string dtype() const;
  const model::Decoder& decoder() const { return *decoder_; }
  /// Null without train.prefix_cache_gib.
  const PrefixCache* prefix_cache() const { return prefix_cache_.get(); }

 private:
  void open_prefix_cache(const TrainConfig& config, const weights::ModelSource& model,
                         const std::optional<PrefixStates>& shared);
  using Encode = std::function<std::shared_ptr<const EncodedRows>(ChatFiles, const EncodedRows::Options&,
                                                                  std::string what)>;
  void prepare_data(const LoadedConfig& loaded, ChatFiles train_files, ChatFiles eval_files,
                    int64_t max_tokens, const Encode& encode_files);

  std::shared_ptr<const EncodedRows> train_rows_;
  std::shared_ptr<const EncodedRows> eval_rows_;
  std::unique_ptr<StepPlanner> planner_;
  std::shared_ptr<const model::Decoder> decoder_;
  std::unique_ptr<PrefixCache> prefix_cache_;
  std::unique_ptr<Trainer> trainer_;
  int64_t total_steps_ = 0;
};

}  // namespace calyrex::train
