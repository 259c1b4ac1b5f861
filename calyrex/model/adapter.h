// What fills the slots of a layer, after it and in its linears: the interface of adapters, and which rows of
// a batch one of them works on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/attention.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::model {

/// A trained tensor, named as in the adapter file. Several may be row ranges of one leaf tensor (k and v,
/// gate and up are one product each).
struct AdapterParameter {
  enum class Part { kAttention, kMlp };
  std::string name;
  at::Tensor leaf;     // float32 master, requires grad while training
  at::Tensor compute;  // the leaf in the compute dtype, used in products; norms and biases: the leaf itself
  int64_t row_begin = 0;
  int64_t row_end = 0;
  Part part = Part::kAttention;
  int64_t layer = 0;  // the layer its block follows

  at::Tensor value() const { return leaf.detach().slice(0, row_begin, row_end); }
  at::Tensor compute_value() const { return compute.detach().slice(0, row_begin, row_end); }
  /// Undefined before a backward pass has reached the leaf.
  at::Tensor grad() const;
};

/// The linears of a layer, those that share an input joined.
enum class LayerLinear { kQkv, kO, kGateUp, kDown };
inline constexpr size_t kNumLayerLinears = 4;

/// What LoRA adds in one of them (lora.h).
struct LowRankUpdate;

/// Watches what blocks add to the residual stream, and may weaken it or switch it off; for analysis.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  /// Called before a sublayer's result `delta` [n, hidden_size] is added to `rows` (undefined = all) of
  /// `hidden` [num_tokens, hidden_size]. Returns the factor that the group's scale is multiplied with; at 0
  /// nothing is added.
  virtual double on_contribution(int64_t layer, AdapterParameter::Part part, const at::Tensor& hidden,
                                 const at::Tensor& rows, const at::Tensor& delta) = 0;
};

/// One adapter's part of a forward pass. Row tensors are int64 indices of batch rows on the model's device.
struct AdapterGroup;

/// An adapter on its device. Immutable while serving; training writes its parameters between forwards.
class Adapter {
 public:
  virtual ~Adapter() = default;

  const weights::AdapterConfig& config() const { return config_; }
  const std::vector<AdapterParameter>& parameters() const { return parameters_; }
  int64_t num_parameters() const;
  /// First layer with a block after it, or changed inside; all before depends on tokens alone.
  int64_t first_layer() const { return config_.placement.front(); }
  /// Whether layers are changed inside, so that the first one is not computed as in the base.
  virtual bool works_inside_layers() const { return false; }
  /// The update of a linear; null = none.
  virtual const LowRankUpdate* low_rank_update(int64_t layer, LayerLinear linear) const { return nullptr; }

  /// Whether the block after `layer` needs the layer's input.
  virtual bool reads_layer_input(int64_t layer) const { return false; }

  /// The block after `layer` (none there: `hidden` as it is): hidden
  /// [num_tokens, hidden_size] float32 -> the same, changed on the group's rows. Without autograd `hidden` is
  /// changed in place. `layer_input` is what the layer read; undefined unless reads_layer_input().
  virtual at::Tensor after_layer(int64_t layer, const at::Tensor& layer_input, at::Tensor hidden,
                                 const AdapterGroup& group) const {
    return hidden;
  }

 protected:
  explicit Adapter(weights::AdapterConfig config) : config_(std::move(config)) {}
  /// Adds a sublayer's result to rows (undefined = all) at the group's scale, past its observer.
  static at::Tensor add_contribution(int64_t layer, AdapterParameter::Part part, at::Tensor hidden,
                                     const at::Tensor& rows, const at::Tensor& delta,
                                     const AdapterGroup& group);
  weights::AdapterConfig config_;
  std::vector<AdapterParameter> parameters_;
};

struct AdapterGroup {
  const Adapter* adapter = nullptr;
  double scale = 1.0;
  at::Tensor rows;        // the group's rows; undefined = every row of the batch
  at::Tensor query_rows;  // rows that see a span token; undefined = none
  at::Tensor
      key_rows;  // rows of span tokens whose keys and values are computed in this pass; undefined = none
  at::Tensor query_positions;      // [query_rows] positions, for CAL with position: rope
  at::Tensor key_positions;        // [key_rows]
  Attention* attention = nullptr;  // from query_rows to the spans
  BlockObserver* observer = nullptr;

  bool active() const { return adapter != nullptr && scale != 0.0; }
};

enum class AdapterUse { kTrain, kServe };

/// An adapter with the weights of a folder. kTrain keeps float32 masters that require grad; kServe keeps the
/// compute dtype alone. The folder was opened for this backbone.
std::shared_ptr<Adapter> load_adapter(const weights::AdapterFolder& folder,
                                      const weights::ModelConfig& backbone, at::ScalarType compute_dtype,
                                      at::Device device, AdapterUse use);

/// How the weights of a new adapter are drawn; o_proj and down_proj of blocks are zero always. LoRA's A is
/// uniform over +-1/sqrt(in) as in PEFT whatever is chosen here, and its B zero.
enum class InitMethod { kNormal, kCopyBackbone };
struct InitOptions {
  InitMethod method = InitMethod::kNormal;
  double std = 0.02;
  uint64_t seed = 0;
};

/// A new adapter: the base model bit for bit. Each tensor draws from its own stream (seed, tensor name), so
/// placement and order do not matter. kCopyBackbone takes q, k, v, gate, up, norms, biases and q/k norms of
/// the layer each block follows; other shapes than the backbone's are kInvalidArgument.
std::shared_ptr<Adapter> create_adapter(const weights::AdapterConfig& config,
                                        const weights::ModelSource& model, const InitOptions& init,
                                        at::ScalarType compute_dtype, at::Device device, AdapterUse use);

/// Name, shape and values of all parameters in the given plain type (kF32, kBF16, kF16) for
/// weights::write_adapter. The returned bytes are owned by the result.
struct AdapterTensors {
  std::vector<at::Tensor> storage;
  std::vector<weights::TensorToWrite> tensors;
};
AdapterTensors export_tensors(const Adapter& adapter, weights::DType dtype);

}  // namespace calyrex::model
