// The tiny random models of tests/golden with the batch that PyTorch ran.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "calyrex/model/adapter.h"
#include "calyrex/model/decoder.h"
#include "calyrex/model/ragged_batch.h"
#include "calyrex/weights/safetensors.h"

namespace calyrex::model {

/// Tensors of a golden file by name, float32 or int64.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path) : file_(weights::SafetensorsFile::open(path)) {}
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor floats(const std::string& name) const;
  /// I32 or U8 values.
  std::vector<int64_t> integers(const std::string& name) const;

 private:
  weights::SafetensorsFile file_;
};

struct TinyModel {
  std::string name;
  std::shared_ptr<const weights::ModelSource> source;
  std::shared_ptr<const Decoder> decoder;
  RaggedBatch batch;
  std::vector<SequenceInput> sequences;
  at::Tensor predicting_rows;  // int64: rows whose next token counts in the loss
  at::Tensor targets;          // int64: those next tokens

  /// Opens tests/golden/models/<name> in float32 with the golden batch.
  static TinyModel open(const std::string& name);
  GoldenFile golden() const { return GoldenFile("tests/golden/model/" + name + ".safetensors"); }
  std::shared_ptr<Adapter> adapter(const std::string& adapter_name, AdapterUse use) const;

  /// States after every layer, and the loss, of one forward of the golden batch.
  struct Result {
    std::vector<at::Tensor> hidden;
    at::Tensor loss;
    at::Tensor logits;
  };
  Result run(const Adapter* adapter, double scale = 1.0) const { return run(batch, adapter, scale); }
  Result run(const RaggedBatch& batch, const Adapter* adapter, double scale) const;
};

/// Names of all adapters made for a tiny model.
std::vector<std::string> golden_adapters(const std::string& model);

}  // namespace calyrex::model
