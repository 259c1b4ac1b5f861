// The seam between the torch-free program and the shared object with model, train and infer, which is loaded
// when a command first needs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calyrex/lm/language_model.h"
#include "calyrex/lm/local_model.h"

namespace calyrex::cli {

struct TrainRequest {
  std::filesystem::path config_path;
  std::vector<std::string> overrides;  // key=value
  bool restart = false;
};

struct AdapterInitRequest {
  std::string model = "default";
  std::string kind = "cal";
  std::string placement = "late8th";
  std::filesystem::path output;
  uint64_t seed = 0;
  std::vector<std::string> settings;  // --set cal.intermediate_size=128
};

/// See study::AnalysisOptions.
struct AnalyzeRequest {
  lm::LocalModelOptions model;
  std::filesystem::path adapter;  // empty = none
  double scale = 1.0;
  std::filesystem::path data;
  int64_t limit = 240;
  int64_t answers = 48;
  int64_t examples = 6;
  int64_t max_new_tokens = 48;
  uint64_t seed = 0;
};

struct StudyRunRequest {
  std::filesystem::path path;
  std::vector<std::string> overrides;  // key=value
  int64_t shard = 0;                   // 0-based, of num_shards
  int64_t num_shards = 1;
  bool plan_only = false;
  std::function<void(const std::filesystem::path& folder)> on_result;
};

/// Entry points of the torch part. Errors are calyrex::Error.
class TorchPart {
 public:
  virtual ~TorchPart() = default;
  virtual std::unique_ptr<lm::LanguageModel> open_language_model(const lm::LocalModelOptions& options) = 0;
  /// Trains to the end, or until interrupted (kCancelled after a checkpoint).
  virtual void train(const TrainRequest& request) = 0;
  /// Runs this process's share of a study; returns its folder.
  virtual std::filesystem::path run_study(const StudyRunRequest& request) = 0;
  /// Markdown table of every key of a study file.
  virtual std::string document_study_settings() = 0;
  virtual void init_adapter(const AdapterInitRequest& request) = 0;
  /// The report of the activation analysis.
  virtual Json analyze(const AnalyzeRequest& request) = 0;
  /// Markdown table of every training setting.
  virtual std::string document_train_config() = 0;
  /// torch version, threads, CPU capability, device: for --version --verbose and benchmarks.
  virtual Json describe() = 0;
};

/// Loads libcalyrex_torch.so beside the program once (setting a short GOMP_SPINCOUNT before, unless the user
/// chose). kNotFound with a remedy when the program was built without it.
TorchPart& torch_part();

}  // namespace calyrex::cli

/// The symbol torch_part() looks up.
extern "C" calyrex::cli::TorchPart* calyrex_torch_part();
