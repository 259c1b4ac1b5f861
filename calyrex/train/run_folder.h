// The output folder of a run: an adapter folder that also holds checkpoints/, metrics.jsonl and
// training.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/folder_lock.h"
#include "calyrex/base/json.h"
#include "calyrex/model/adapter.h"
#include "calyrex/train/config.h"
#include "calyrex/train/dataset.h"
#include "calyrex/weights/model_folder.h"

namespace calyrex::train {

/// training.json: written when a run starts and again when it ends.
struct RunRecord {
  enum class Status { kRunning, kFinished };

  Status status = Status::kRunning;
  Json config = Json::object();
  std::optional<std::string> chat_date;  // what the template's strftime_now sees
  std::vector<DataFile> train_files;
  std::vector<DataFile> eval_files;
  Json results = Json::object();  // of a finished run: steps, tokens, seconds, loss curve, ...
};

inline constexpr auto enum_names(RunRecord::Status) {
  return std::to_array<EnumName<RunRecord::Status>>(
      {{RunRecord::Status::kRunning, "running"}, {RunRecord::Status::kFinished, "finished"}});
}

Json record_to_json(const RunRecord& record);
RunRecord record_from_json(const Json& json, std::string_view source);

/// Throws kInvalidArgument (exit 2) naming every key, or data file, in which a run that is already there
/// differs.
void check_same_run(const RunRecord& existing, const RunRecord& wanted, const std::filesystem::path& folder);

/// Holds the folder for one process at a time.
class RunFolder {
 public:
  /// Creates the folder where needed. kResourceExhausted when another process trains into it.
  explicit RunFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }

  std::optional<RunRecord> read_record() const;
  void write_record(const RunRecord& record) const;

  /// Removes what an earlier run wrote, and nothing else.
  void restart() const;
  /// The states are of use to this run alone; a finished adapter folder does without them.
  void remove_prefix_cache() const;
  /// Drops temporary files of a process that was killed.
  void clean_up() const;

  /// Writes a model that was trained itself as a Hugging Face folder; training.json, with status finished,
  /// last.
  void write_model(const weights::ModelSource& source, const model::Adapter& weights, weights::DType dtype,
                   const std::optional<weights::TokenizerFiles>& tokenizer, const std::string& chat_template,
                   const RunRecord& record) const;
  /// Writes the finished adapter; training.json, with status finished, last.
  void write_adapter(const weights::AdapterConfig& config, const model::Adapter& adapter,
                     weights::DType dtype, const std::string& chat_template, const RunRecord& record) const;

 private:
  std::filesystem::path path_;
  FolderLock lock_;
};

}  // namespace calyrex::train
