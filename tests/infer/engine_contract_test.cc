// The contract of lm::LanguageModel, kept by the engine over the real executor.
#include "calyrex/infer/open.h"
#include "tests/lm/contract.h"

namespace calyrex::lm {

INSTANTIATE_TEST_SUITE_P(Engine, LanguageModelContract,
                         testing::Values(ContractCase{.name = "tiny_llama",
                                                      .open =
                                                          [] {
                                                            LocalModelOptions options;
                                                            options.model = "tests/golden/models/llama";
                                                            options.dtype = Precision::kFloat32;
                                                            options.cache_gib = 0.01;
                                                            return infer::open_language_model(options);
                                                          },
                                                      .adapter_path = "tests/golden/model/llama.default"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace calyrex::lm
