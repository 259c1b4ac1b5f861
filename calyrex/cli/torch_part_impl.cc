// The shared object's side of torch_part.h: hands each entry point to the folder that does the work.
#include "calyrex/base/error.h"
#include "calyrex/cli/torch_part.h"

namespace calyrex::cli {
namespace {

class TorchPartImpl final : public TorchPart {
 public:
  std::unique_ptr<lm::LanguageModel> open_language_model(const lm::LocalModelOptions&) override {
    fail(ErrorCode::kUnsupported, "models cannot be opened yet");
  }
  void train(const TrainRequest&) override { fail(ErrorCode::kUnsupported, "training is not there yet"); }
  void init_adapter(const AdapterInitRequest&) override {
    fail(ErrorCode::kUnsupported, "adapters cannot be made yet");
  }
  std::string document_train_config() override { return {}; }
  Json describe() override { return Json::object(); }
};

}  // namespace
}  // namespace calyrex::cli

extern "C" calyrex::cli::TorchPart* calyrex_torch_part() {
  static calyrex::cli::TorchPartImpl part;
  return &part;
}
