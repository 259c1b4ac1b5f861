#include "calyrex/train/head_loss.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/cross_entropy.h"

namespace calyrex::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Rows of logits that exist at once: enough for an efficient product, few enough to stay in the last-level
/// cache.
constexpr int64_t kChunkBytes = int64_t{24} << 20;
constexpr int64_t kMinChunkRows = 16;

int64_t chunk_rows(int64_t vocab_size) {
  const int64_t rows = kChunkBytes / (vocab_size * static_cast<int64_t>(sizeof(float)));
  return std::max(kMinChunkRows, rows / kMinChunkRows * kMinChunkRows);
}

struct ChunkLoss {
  double sum = 0.0;
  at::Tensor grad_logits;  // [rows, vocab_size] in the compute dtype
};

/// Loss of a chunk, and the gradient by its logits times `factor`.
ChunkLoss chunk_loss(at::Tensor logits, const at::Tensor& targets, double factor, at::ScalarType dtype) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  if (!logits.is_cpu()) {
    const at::Tensor logprobs = at::log_softmax(logits, -1);
    const at::Tensor picked = logprobs.gather(1, targets.unsqueeze(1));
    at::Tensor grad = logprobs.exp();
    grad.scatter_add_(1, targets.unsqueeze(1), at::full_like(picked, -1.0));
    return {.sum = -picked.sum(at::kDouble).item<double>(), .grad_logits = grad.mul_(factor).to(dtype)};
  }
  const at::Tensor narrow = targets.to(at::kInt);
  const at::Tensor losses = at::empty({rows}, at::kFloat);
  const float* in = logits.const_data_ptr<float>();
  const int32_t* ids = narrow.const_data_ptr<int32_t>();
  auto* out_losses = losses.mutable_data_ptr<float>();
  at::Tensor grad = logits;
  if (dtype == at::kBFloat16) {
    grad = at::empty({rows, vocab}, at::kBFloat16);
    kernels::cross_entropy(in, ids, rows, vocab, static_cast<float>(factor), out_losses,
                           reinterpret_cast<kernels::BFloat16*>(grad.mutable_data_ptr()));
  } else {
    kernels::cross_entropy(in, ids, rows, vocab, static_cast<float>(factor), out_losses,
                           grad.mutable_data_ptr<float>());
  }
  return {.sum = losses.sum(at::kDouble).item<double>(), .grad_logits = grad};
}

double forward_only(const model::Decoder& decoder, const at::Tensor& normed, const at::Tensor& targets) {
  double sum = 0.0;
  const int64_t step = chunk_rows(decoder.config().vocab_size);
  for (int64_t begin = 0; begin < normed.size(0); begin += step) {
    const int64_t end = std::min(begin + step, normed.size(0));
    const at::Tensor logits = decoder.logits(normed.slice(0, begin, end));
    const at::Tensor ids = targets.slice(0, begin, end);
    if (logits.is_cpu()) {
      const at::Tensor narrow = ids.to(at::kInt);
      const at::Tensor logprobs = at::empty({end - begin}, at::kFloat);
      kernels::log_softmax_pick(logits.const_data_ptr<float>(), narrow.const_data_ptr<int32_t>(), end - begin,
                                logits.size(1), logprobs.mutable_data_ptr<float>(), nullptr);
      sum -= logprobs.sum(at::kDouble).item<double>();
    } else {
      sum -= at::log_softmax(logits, -1).gather(1, ids.unsqueeze(1)).sum(at::kDouble).item<double>();
    }
  }
  return sum;
}

class HeadLoss : public Function<HeadLoss> {
 public:
  /// `head` is the leaf of a trained head, for its gradient; else absent.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& normed, const at::Tensor& targets,
                            const std::optional<at::Tensor>& head, const model::Decoder* decoder,
                            double factor) {
    double sum = 0.0;
    at::Tensor grad = at::empty_like(normed);
    at::Tensor grad_head;
    if (head) grad_head = at::zeros_like(*head);
    const int64_t step = chunk_rows(decoder->config().vocab_size);
    for (int64_t begin = 0; begin < normed.size(0); begin += step) {
      const int64_t end = std::min(begin + step, normed.size(0));
      const ChunkLoss chunk = chunk_loss(decoder->logits(normed.slice(0, begin, end)),
                                         targets.slice(0, begin, end), factor, normed.scalar_type());
      sum += chunk.sum;
      grad.slice(0, begin, end).copy_(decoder->head().multiply_backward(chunk.grad_logits));
      if (grad_head.defined()) grad_head.add_(at::mm(chunk.grad_logits.t(), normed.slice(0, begin, end)));
    }
    context->save_for_backward({grad, grad_head});
    return at::scalar_tensor(sum * factor, normed.options().dtype(at::kFloat));
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &grad = saved[0], &grad_head = saved[1];
    variable_list result(5);
    result[0] = grad * grad_outputs[0].to(grad.scalar_type());
    if (grad_head.defined()) result[2] = grad_head * grad_outputs[0];
    return result;
  }
};

}  // namespace

at::Tensor head_loss(const model::Decoder& decoder, const at::Tensor& normed, const at::Tensor& targets,
                     double factor) {
  CALYREX_CHECK(normed.size(0) == targets.size(0));
  if (at::GradMode::is_enabled() && normed.requires_grad()) {
    const at::Tensor& leaf = decoder.head().trained.leaf;
    return HeadLoss::apply(normed, targets, leaf.defined() ? std::optional(leaf) : std::nullopt, &decoder,
                           factor);
  }
  const at::NoGradGuard no_grad;
  return at::scalar_tensor(forward_only(decoder, normed, targets) * factor,
                           normed.options().dtype(at::kFloat));
}

}  // namespace calyrex::train
