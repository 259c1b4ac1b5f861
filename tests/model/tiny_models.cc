#include "tests/model/tiny_models.h"

#include <cstring>
#include <filesystem>

#include "calyrex/base/error.h"

namespace calyrex::model {

at::Tensor GoldenFile::floats(const std::string& name) const {
  const weights::TensorView* view = file_.find(name);
  CALYREX_CHECK(view != nullptr, "{}", name);
  const std::vector<float> values = weights::read_as_float(*view);
  return at::tensor(values).view(view->shape);
}

std::vector<int64_t> GoldenFile::integers(const std::string& name) const {
  const weights::TensorView* view = file_.find(name);
  CALYREX_CHECK(view != nullptr, "{}", name);
  std::vector<int64_t> values;
  const auto width = static_cast<size_t>(weights::block_bytes(view->dtype));
  for (size_t offset = 0; offset < view->data.size(); offset += width) {
    int32_t value = 0;
    std::memcpy(&value, view->data.data() + offset, width);
    values.push_back(value);
  }
  return values;
}

TinyModel TinyModel::open(const std::string& name) {
  TinyModel tiny;
  tiny.name = name;
  tiny.source = weights::open_model("tests/golden/models/" + name);
  tiny.decoder = Decoder::load(*tiny.source, at::kFloat, at::kCPU);
  const GoldenFile golden = tiny.golden();
  const std::vector<int64_t> ids = golden.integers("token_ids");
  size_t row = 0;
  for (const int64_t length : golden.integers("lengths")) {
    SequenceInput sequence;
    for (int64_t n = 0; n < length; ++n) sequence.token_ids.push_back(static_cast<TokenId>(ids[row++]));
    tiny.sequences.push_back(std::move(sequence));
  }
  const std::vector<int64_t> spans = golden.integers("spans");
  for (size_t n = 0; n < spans.size(); n += 3) {
    tiny.sequences[static_cast<size_t>(spans[n])].system_spans.push_back({spans[n + 1], spans[n + 2]});
  }
  tiny.batch = pack(tiny.sequences, tiny.decoder->config().vocab_size, at::kCPU);
  std::vector<int64_t> rows, targets;
  const std::vector<int64_t> is_target = golden.integers("is_target");
  for (size_t n = 0; n < is_target.size(); ++n) {
    if (is_target[n] == 0) continue;
    rows.push_back(static_cast<int64_t>(n) - 1);
    targets.push_back(ids[n]);
  }
  tiny.predicting_rows = at::tensor(rows, at::kLong);
  tiny.targets = at::tensor(targets, at::kLong);
  return tiny;
}

std::shared_ptr<Adapter> TinyModel::adapter(const std::string& adapter_name, AdapterUse use) const {
  const std::string path = "tests/golden/model/" + name + "." + adapter_name;
  return load_adapter(weights::open_adapter(path, *source, weights::BaseMismatch::kReject), decoder->config(),
                      at::kFloat, at::kCPU, use);
}

TinyModel::Result TinyModel::run(const RaggedBatch& ragged, const Adapter* adapter, double scale) const {
  Result result;
  PlannedForward forward(ragged, adapter, scale);
  forward.context().on_layer = [&](int64_t, const at::Tensor& hidden) {
    result.hidden.push_back(hidden.detach().clone());
  };
  const at::Tensor hidden = decoder->run_layers(decoder->embed(ragged.token_ids), 0,
                                                decoder->config().num_layers, forward.context());
  result.logits = decoder->logits(decoder->final_norm(hidden));
  if (predicting_rows.max().item<int64_t>() < result.logits.size(0)) {
    const at::Tensor picked = at::log_softmax(result.logits.index_select(0, predicting_rows), 1);
    result.loss = -picked.gather(1, targets.unsqueeze(1)).mean();
  }
  return result;
}

std::vector<std::string> golden_adapters(const std::string& model) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/model")) {
    const std::string file = entry.path().filename().string();
    if (entry.is_directory() && file.starts_with(model + ".")) names.push_back(file.substr(model.size() + 1));
  }
  CALYREX_CHECK(!names.empty(), "no golden adapters of {}", model);
  return names;
}

}  // namespace calyrex::model
