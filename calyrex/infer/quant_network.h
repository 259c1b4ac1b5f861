// The backbone with packed weights: what QuantRunner computes with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calyrex/base/token.h"
#include "calyrex/kernels/quant_matrix.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::infer {

/// RMSNorm + SwiGLU + down projection, of a layer and of a block alike.
struct QuantMlp {
  std::vector<float> norm;  // [hidden_size]
  float norm_eps = 1e-5f;
  kernels::QuantMatrix gate_up;  // [2 * intermediate_size, hidden_size], gate first
  kernels::QuantMatrix down;     // [hidden_size, intermediate_size]
};

/// Vectors that a family lacks are empty.
struct QuantLayer {
  std::vector<float> norm;      // [hidden_size]
  kernels::QuantMatrix qkv;     // [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  std::vector<float> qkv_bias;  // [(num_heads + 2 * num_kv_heads) * head_dim]
  std::vector<float> q_norm;    // [head_dim]
  std::vector<float> k_norm;    // [head_dim]
  kernels::QuantMatrix o;       // [hidden_size, num_heads * head_dim]
  QuantMlp mlp;
};

/// The same network as model::Decoder, from the same tensors. Immutable.
class QuantNetwork {
 public:
  /// Whether most of a file's matrices are quantised already, and the kernels take its heads.
  static bool supports(const weights::ModelSource& source);
  static std::shared_ptr<const QuantNetwork> load(std::shared_ptr<const weights::ModelSource> source);

  const weights::ModelConfig& config() const { return source_->config(); }
  const std::vector<QuantLayer>& layers() const { return layers_; }
  const kernels::QuantMatrix& head() const { return head_; }
  const std::vector<float>& final_norm() const { return final_norm_; }
  const std::vector<float>& inverse_frequencies() const { return inverse_frequencies_; }
  /// The type that most weights have in the file: "Q4_1".
  const std::string& weight_type() const { return weight_type_; }

  /// A row of the embedding, read from the mapped file.
  void embed(TokenId id, std::span<float> out) const;

 private:
  explicit QuantNetwork(std::shared_ptr<const weights::ModelSource> source);
  QuantLayer load_layer(int64_t layer) const;

  std::shared_ptr<const weights::ModelSource> source_;
  std::shared_ptr<kernels::QuantArena> arena_;
  const weights::TensorView* embedding_;
  kernels::QuantMatrix head_;  // [vocab_size, hidden_size]
  std::vector<float> final_norm_;
  std::vector<float> inverse_frequencies_;
  std::vector<QuantLayer> layers_;
  std::string weight_type_;
};

}  // namespace calyrex::infer
