// Scalar references of the kernels: plain loops in double precision, the oracle of the tests.
#pragma once

#include <cstdint>
#include <vector>

#include "calyrex/kernels/adamw.h"
#include "calyrex/kernels/paged_attention.h"
#include "calyrex/kernels/qkv_rope.h"
#include "calyrex/kernels/quant_matrix.h"
#include "calyrex/kernels/quant_rows.h"

namespace calyrex::kernels::reference {

using Doubles = std::vector<double>;

/// [rows, dim], see rms_norm().
Doubles rms_norm(const Doubles& x, const Doubles& weight, double eps, int64_t rows, int64_t dim);

struct NormGrads {
  Doubles x;       // [rows, dim]
  Doubles weight;  // [dim]
};
NormGrads rms_norm_backward(const Doubles& x, const Doubles& weight, double eps, const Doubles& grad_out,
                            int64_t rows, int64_t dim);

/// [rows, width] and [rows, 2 * width], see swiglu().
Doubles swiglu(const Doubles& gate_up, int64_t rows, int64_t width);
Doubles swiglu_backward(const Doubles& gate_up, const Doubles& grad_out, int64_t rows, int64_t width);

struct Qkv {
  Doubles q, k, v;
};
/// See qkv_rope().
Qkv qkv_rope(const QkvTransform& transform, const Doubles& qkv, int64_t rows);

struct QkvGrads {
  Doubles qkv, bias, q_norm, k_norm;
};
/// See qkv_rope_backward(); `qkv` is the forward's input.
QkvGrads qkv_rope_backward(const QkvTransform& transform, const Doubles& qkv, const Qkv& grad, int64_t rows);

/// softmax(scale * q k^T) v of one query; keys and values are [count, dim]. No keys: zeros.
Doubles attention(const Doubles& query, const Doubles& keys, const Doubles& values, int64_t count,
                  double scale);

double log_softmax_pick(const Doubles& logits, int64_t target);
/// softmax - onehot
Doubles cross_entropy_grad(const Doubles& logits, int64_t target);

/// One step in place; pointers of `args` are ignored.
void adamw(const AdamWArgs& args, const Doubles& grad, Doubles& param, Doubles& m, Doubles& v);

/// What the codes stand for: [rows, columns].
Doubles dequantize(const QuantMatrix& matrix);
Doubles dequantize(const QuantRows& rows);
/// [rows of x, rows of w], see quant_matmul().
Doubles quant_matmul(const QuantRows& x, const QuantMatrix& w);

}  // namespace calyrex::kernels::reference
