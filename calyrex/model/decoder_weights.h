// The weights of a decoder: frozen ones from a model's files, or trained ones (kind: full).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/frozen_matrix.h"
#include "calyrex/model/ops.h"
#include "calyrex/model/parameter_builder.h"
#include "calyrex/model/trained_tensor.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::model {

/// A linear layer's matrix [out, in]: one of the two.
struct LinearWeight {
  FrozenMatrix frozen;
  TrainedTensor trained;

  /// x [rows, in] in the compute dtype -> [rows, out], under autograd where that is on.
  at::Tensor multiply(const at::Tensor& x) const;
  /// The gradient of multiply() by x, of a gradient [rows, out] in the compute dtype: [rows, in].
  at::Tensor multiply_backward(const at::Tensor& grad) const;
  /// Row-major in the compute dtype.
  at::Tensor plain() const { return trained.defined() ? trained.compute : frozen.plain(); }
};

/// One layer: matrices in the compute dtype, products that share an input joined.
struct DecoderLayerWeights {
  at::Tensor input_norm;  // [hidden_size] float32
  LinearWeight qkv;       // [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  LinearWeight o;         // [hidden_size, num_heads * head_dim]
  at::Tensor post_norm;   // [hidden_size] float32
  LinearWeight gate_up;   // [2 * intermediate_size, hidden_size]
  LinearWeight down;      // [hidden_size, intermediate_size]
  HeadsSpec heads;
};

struct DecoderWeights {
  at::Tensor embedding;   // [vocab_size, hidden_size] in the compute dtype; trained: the float32 leaf
  LinearWeight head;      // [vocab_size, hidden_size]
  at::Tensor final_norm;  // [hidden_size] float32
  std::vector<DecoderLayerWeights> layers;
};

DecoderWeights load_frozen_weights(const weights::ModelSource& source, at::ScalarType compute_dtype,
                                   at::Device device);

/// Every weight as a parameter of the builder, whose configuration is of kind full.
DecoderWeights build_trained_weights(const weights::ModelConfig& config, ParameterBuilder& builder);

}  // namespace calyrex::model
