// The shared object's side of torch_part.h: hands each entry point to the folder that does the work.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include "calyrex/base/error.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/infer/open.h"
#include "calyrex/model/cpu_allocator.h"
#include "calyrex/model/device.h"
#include "calyrex/study/analysis_run.h"
#include "calyrex/study/config.h"
#include "calyrex/study/run.h"
#include "calyrex/train/config.h"
#include "calyrex/train/run.h"

namespace calyrex::cli {
namespace {

class TorchPartImpl final : public TorchPart {
 public:
  TorchPartImpl() { model::install_caching_cpu_allocator(); }

  std::unique_ptr<lm::LanguageModel> open_language_model(const lm::LocalModelOptions& options) override {
    return infer::open_language_model(options);
  }
  void train(const TrainRequest& request) override {
    train::run_training(
        {.config_path = request.config_path,
         .overrides = request.overrides,
         .existing = request.restart ? train::Existing::kRestart : train::Existing::kContinue});
  }
  std::filesystem::path run_study(const StudyRunRequest& request) override {
    return study::run_study({.path = request.path,
                             .overrides = request.overrides,
                             .shard = request.shard,
                             .num_shards = request.num_shards,
                             .plan_only = request.plan_only,
                             .on_result = request.on_result});
  }
  std::string document_study_settings() override { return study::document_study_settings(); }
  void init_adapter(const AdapterInitRequest& request) override {
    train::write_new_adapter({.model = request.model,
                              .kind = request.kind,
                              .placement = request.placement,
                              .output = request.output,
                              .seed = request.seed,
                              .settings = request.settings});
  }
  Json analyze(const AnalyzeRequest& request) override {
    study::AnalysisOptions options{.model = request.model,
                                   .adapter = {},
                                   .scale = request.scale,
                                   .data = request.data,
                                   .limit = request.limit,
                                   .answers = request.answers,
                                   .examples = request.examples,
                                   .max_new_tokens = request.max_new_tokens,
                                   .seed = request.seed};
    if (!request.adapter.empty()) options.adapter = request.adapter;
    return study::run_analysis(options);
  }
  std::string document_train_config() override { return train::document_train_config(); }
  Json describe() override {
    const at::Device device = model::resolve_device("auto");
    Json json;
    json["torch"] = TORCH_VERSION;
    json["threads"] = at::get_num_threads();
    json["cpu_capability"] = at::get_cpu_capability();
    json["device"] = device.str();
    json["dtype"] = model::dtype_text(model::resolve_dtype(lm::Precision::kAuto, device));
    return json;
  }
};

}  // namespace
}  // namespace calyrex::cli

extern "C" calyrex::cli::TorchPart* calyrex_torch_part() {
  static calyrex::cli::TorchPartImpl part;
  return &part;
}
