#include "calyrex/kernels/reference.h"

#include <algorithm>
#include <cmath>

namespace calyrex::kernels::reference {
namespace {

double inverse_rms(const double* x, double eps, int64_t dim) {
  double squares = 0.0;
  for (int64_t c = 0; c < dim; ++c) squares += x[c] * x[c];
  return 1.0 / std::sqrt(squares / static_cast<double>(dim) + eps);
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double log_sum_exp(const Doubles& logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (double logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

/// The heads of one row that one kind of step applies to.
struct HeadRange {
  int64_t first;  // column of the packed row
  int64_t count;
  const float* norm;
  bool rotates;
};

std::vector<HeadRange> head_ranges(const QkvTransform& t) {
  const auto [heads, kv_heads, dim] = t.heads;
  return {{0, heads, t.q_norm, true},
          {heads * dim, kv_heads, t.k_norm, true},
          {(heads + kv_heads) * dim, kv_heads, nullptr, false}};
}

Doubles biased_head(const QkvTransform& t, const Doubles& qkv, int64_t row, int64_t column) {
  Doubles head(t.heads.head_dim);
  for (int64_t c = 0; c < t.heads.head_dim; ++c) {
    head[c] = qkv[row * t.heads.width() + column + c] + (t.bias == nullptr ? 0.0 : t.bias[column + c]);
  }
  return head;
}

/// Rotates by `direction` times the angles of the row.
Doubles rotated(const QkvTransform& t, const Doubles& head, int64_t row, double direction) {
  const int64_t half = t.heads.head_dim / 2;
  Doubles out(head.size());
  for (int64_t c = 0; c < half; ++c) {
    const double cos = t.cos[row * half + c];
    const double sin = t.sin[row * half + c] * direction;
    out[c] = head[c] * cos - head[half + c] * sin;
    out[half + c] = head[half + c] * cos + head[c] * sin;
  }
  return out;
}

}  // namespace

Doubles rms_norm(const Doubles& x, const Doubles& weight, double eps, int64_t rows, int64_t dim) {
  Doubles out(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    const double inverse = inverse_rms(&x[r * dim], eps, dim);
    for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = x[r * dim + c] * inverse * weight[c];
  }
  return out;
}

NormGrads rms_norm_backward(const Doubles& x, const Doubles& weight, double eps, const Doubles& grad_out,
                            int64_t rows, int64_t dim) {
  NormGrads grads{Doubles(x.size()), Doubles(dim)};
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = &x[r * dim];
    const double inverse = inverse_rms(row, eps, dim);
    double dot = 0.0;
    for (int64_t c = 0; c < dim; ++c) dot += grad_out[r * dim + c] * weight[c] * row[c];
    for (int64_t c = 0; c < dim; ++c) {
      const double g = grad_out[r * dim + c];
      grads.x[r * dim + c] =
          g * weight[c] * inverse - row[c] * std::pow(inverse, 3) * dot / static_cast<double>(dim);
      grads.weight[c] += g * row[c] * inverse;
    }
  }
  return grads;
}

Doubles swiglu(const Doubles& gate_up, int64_t rows, int64_t width) {
  Doubles out(rows * width);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const double gate = gate_up[r * 2 * width + c];
      out[r * width + c] = gate * sigmoid(gate) * gate_up[r * 2 * width + width + c];
    }
  }
  return out;
}

Doubles swiglu_backward(const Doubles& gate_up, const Doubles& grad_out, int64_t rows, int64_t width) {
  Doubles grad(gate_up.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t at = r * 2 * width + c;
      const double gate = gate_up[at];
      const double s = sigmoid(gate);
      const double g = grad_out[r * width + c];
      grad[at] = g * gate_up[at + width] * s * (1.0 + gate * (1.0 - s));
      grad[at + width] = g * gate * s;
    }
  }
  return grad;
}

Qkv qkv_rope(const QkvTransform& t, const Doubles& qkv, int64_t rows) {
  Qkv out;
  Doubles* parts[] = {&out.q, &out.k, &out.v};
  const int64_t dim = t.heads.head_dim;
  const std::vector<HeadRange> ranges = head_ranges(t);
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t part = 0; part < ranges.size(); ++part) {
      for (int64_t h = 0; h < ranges[part].count; ++h) {
        Doubles head = biased_head(t, qkv, r, ranges[part].first + h * dim);
        if (const float* norm = ranges[part].norm; norm != nullptr) {
          head = rms_norm(head, Doubles(norm, norm + dim), t.norm_eps, 1, dim);
        }
        if (ranges[part].rotates && t.cos != nullptr) head = rotated(t, head, r, 1.0);
        parts[part]->insert(parts[part]->end(), head.begin(), head.end());
      }
    }
  }
  return out;
}

QkvGrads qkv_rope_backward(const QkvTransform& t, const Doubles& qkv, const Qkv& grad, int64_t rows) {
  const int64_t dim = t.heads.head_dim;
  const int64_t width = t.heads.width();
  QkvGrads grads{Doubles(rows * width), Doubles(width), Doubles(dim), Doubles(dim)};
  const Doubles* parts[] = {&grad.q, &grad.k, &grad.v};
  Doubles* norm_grads[] = {&grads.q_norm, &grads.k_norm, nullptr};
  const std::vector<HeadRange> ranges = head_ranges(t);
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t part = 0; part < ranges.size(); ++part) {
      const auto [first, count, norm, rotates] = ranges[part];
      for (int64_t h = 0; h < count; ++h) {
        const double* from = parts[part]->data() + (r * count + h) * dim;
        Doubles head(from, from + dim);
        if (rotates && t.cos != nullptr) head = rotated(t, head, r, -1.0);
        if (norm != nullptr) {
          const Doubles in = biased_head(t, qkv, r, first + h * dim);
          const NormGrads by_norm =
              rms_norm_backward(in, Doubles(norm, norm + dim), t.norm_eps, head, 1, dim);
          head = by_norm.x;
          for (int64_t c = 0; c < dim; ++c) (*norm_grads[part])[c] += by_norm.weight[c];
        }
        for (int64_t c = 0; c < dim; ++c) {
          grads.qkv[r * width + first + h * dim + c] = head[c];
          grads.bias[first + h * dim + c] += head[c];
        }
      }
    }
  }
  return grads;
}

Doubles attention(const Doubles& query, const Doubles& keys, const Doubles& values, int64_t count,
                  double scale) {
  const auto dim = static_cast<int64_t>(query.size());
  Doubles out(dim);
  if (count == 0) return out;
  Doubles weights(count);
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t c = 0; c < dim; ++c) weights[k] += query[c] * keys[k * dim + c] * scale;
  }
  const double top = *std::ranges::max_element(weights);
  double total = 0.0;
  for (double& weight : weights) total += weight = std::exp(weight - top);
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t c = 0; c < dim; ++c) out[c] += weights[k] / total * values[k * dim + c];
  }
  return out;
}

double log_softmax_pick(const Doubles& logits, int64_t target) {
  return logits[target] - log_sum_exp(logits);
}

Doubles cross_entropy_grad(const Doubles& logits, int64_t target) {
  const double normaliser = log_sum_exp(logits);
  Doubles grad(logits.size());
  std::ranges::transform(logits, grad.begin(), [&](double logit) { return std::exp(logit - normaliser); });
  grad[target] -= 1.0;
  return grad;
}

void adamw(const AdamWArgs& args, const Doubles& grad, Doubles& param, Doubles& m, Doubles& v) {
  const auto step = static_cast<double>(args.step);
  for (size_t n = 0; n < param.size(); ++n) {
    const double g = grad[n] * args.grad_scale;
    param[n] -= args.lr * args.weight_decay * param[n];
    m[n] = args.beta1 * m[n] + (1.0 - args.beta1) * g;
    v[n] = args.beta2 * v[n] + (1.0 - args.beta2) * g * g;
    const double mean = m[n] / (1.0 - std::pow(args.beta1, step));
    const double square = v[n] / (1.0 - std::pow(args.beta2, step));
    param[n] -= args.lr * mean / (std::sqrt(square) + args.eps);
  }
}

Doubles dequantize(const QuantMatrix& matrix) {
  Doubles out;
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    for (int64_t b = 0; b < matrix.blocks(); ++b) {
      const QuantBlock block = matrix.block(row, b);
      const double scale = half_to_float(block.scale);
      const QuantFormat format = matrix.format();
      const double offset = format.has_min ? half_to_float(block.min) : -scale * format.offset();
      const int64_t columns = std::min(kQuantBlock, matrix.columns() - b * kQuantBlock);
      for (int64_t c = 0; c < columns; ++c)
        out.push_back(scale * block.codes[static_cast<size_t>(c)] + offset);
    }
  }
  return out;
}

Doubles dequantize(const QuantRows& rows) {
  Doubles out;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const int64_t block = c / kQuantBlock;
      const int64_t in_block = c % kQuantBlock;
      int code = rows.high(row, block)[in_block];
      if (rows.precision() == RowPrecision::kInt16) code = code * 256 + rows.low(row, block)[in_block];
      out.push_back(double{rows.scales(row, block)[in_block / rows.columns_per_scale()]} * code);
    }
  }
  return out;
}

Doubles quant_matmul(const QuantRows& x, const QuantMatrix& w) {
  const Doubles left = dequantize(x);
  const Doubles right = dequantize(w);
  const int64_t inner = w.columns();
  Doubles out;
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t column = 0; column < w.rows(); ++column) {
      double sum = 0.0;
      for (int64_t n = 0; n < inner; ++n) sum += left[row * inner + n] * right[column * inner + n];
      out.push_back(sum);
    }
  }
  return out;
}

}  // namespace calyrex::kernels::reference
