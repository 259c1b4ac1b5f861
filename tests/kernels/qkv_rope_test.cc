#include "calyrex/kernels/qkv_rope.h"

#include <omp.h>

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class QkvRopeTest : public KernelTest {};

struct Options {
  HeadLayout heads;
  bool bias = false;
  bool norms = false;
  bool rotation = true;
  int64_t rows = 5;
};

/// Parameters of a transform, misaligned.
struct Parameters {
  explicit Parameters(const Options& options)
      : bias(random_doubles(options.heads.width(), 1), 1),
        q_norm(random_doubles(options.heads.head_dim, 2), 3),
        k_norm(random_doubles(options.heads.head_dim, 3), 2),
        cos(options.rows * options.heads.head_dim / 2, 1),
        sin(options.rows * options.heads.head_dim / 2, 1) {
    for (int64_t n = 0; n < cos.count(); ++n) {
      cos.data()[n] = std::cos(0.37f * static_cast<float>(n));
      sin.data()[n] = std::sin(0.37f * static_cast<float>(n));
    }
    transform.heads = options.heads;
    transform.norm_eps = 1e-5f;
    if (options.bias) transform.bias = bias.data();
    if (options.norms) transform.q_norm = q_norm.data();
    if (options.norms) transform.k_norm = k_norm.data();
    if (options.rotation) transform.cos = cos.data();
    if (options.rotation) transform.sin = sin.data();
  }
  TestArray<float> bias, q_norm, k_norm, cos, sin;
  QkvTransform transform;
};

std::vector<Options> all_options() {
  std::vector<Options> all;
  for (int64_t dim : {2, 6, 16, 32, 34, 64, 128}) {
    for (int variant = 0; variant < 8; ++variant) {
      all.push_back({{3, 1, dim}, (variant & 1) != 0, (variant & 2) != 0, (variant & 4) != 0});
    }
  }
  all.push_back({{4, 0, 64}, true, true, true});  // queries alone
  all.push_back({{0, 2, 64}, true, true, true});  // keys and values alone
  return all;
}

template <typename In, typename Out>
void check_forward(const Options& options) {
  Parameters parameters(options);
  const HeadLayout& heads = options.heads;
  const int64_t q_count = options.rows * heads.num_heads * heads.head_dim;
  const int64_t kv_count = options.rows * heads.num_kv_heads * heads.head_dim;
  TestArray<In> qkv(random_doubles(options.rows * heads.width(), 4), 1);
  TestArray<Out> q(q_count, 1), k(kv_count, 2), v(kv_count, 3);
  qkv_rope(
      QkvRopeArgs<In, Out>{parameters.transform, options.rows, qkv.data(), q.data(), k.data(), v.data()});
  const reference::Qkv expected = reference::qkv_rope(parameters.transform, qkv.values(), options.rows);
  // A rotation subtracts two numbers, so an element is as exact as its pair is large.
  const double floor = std::is_same_v<Out, float> ? 1.0 : 1e-3;
  expect_close(q.values(), expected.q, kernel_tolerance<Out>(), floor);
  expect_close(k.values(), expected.k, kernel_tolerance<Out>(), floor);
  expect_close(v.values(), expected.v, kernel_tolerance<Out>(), floor);
  q.expect_guards_untouched();
  k.expect_guards_untouched();
  v.expect_guards_untouched();
}

TEST_P(QkvRopeTest, EqualsReferenceWithEveryOption) {
  for (const Options& options : all_options()) {
    check_forward<float, float>(options);
    check_forward<float, BFloat16>(options);
    check_forward<BFloat16, float>(options);
    check_forward<BFloat16, BFloat16>(options);
  }
}

template <typename Grad, typename Out>
void check_backward(const Options& options) {
  Parameters parameters(options);
  const HeadLayout& heads = options.heads;
  const int64_t q_count = options.rows * heads.num_heads * heads.head_dim;
  const int64_t kv_count = options.rows * heads.num_kv_heads * heads.head_dim;
  TestArray<Out> qkv(random_doubles(options.rows * heads.width(), 4), 1);
  TestArray<Grad> q(random_doubles(q_count, 5), 1), k(random_doubles(kv_count, 6), 2),
      v(random_doubles(kv_count, 7), 3);
  TestArray<Out> grad_qkv(qkv.count(), 3);
  TestArray<float> bias(Doubles(heads.width()), 1), q_norm(Doubles(heads.head_dim), 1),
      k_norm(Doubles(heads.head_dim), 1);
  QkvRopeBackwardArgs<Grad, Out> args{parameters.transform, options.rows};
  args.grad_q = q.data();
  args.grad_k = k.data();
  args.grad_v = v.data();
  args.qkv = options.norms ? qkv.data() : nullptr;
  args.grad_qkv = grad_qkv.data();
  if (options.bias) args.grad_bias = bias.data();
  if (options.norms) args.grad_q_norm = q_norm.data();
  if (options.norms) args.grad_k_norm = k_norm.data();
  qkv_rope_backward(args);
  const reference::QkvGrads expected = reference::qkv_rope_backward(
      parameters.transform, qkv.values(), {q.values(), k.values(), v.values()}, options.rows);
  expect_close(grad_qkv.values(), expected.qkv, kernel_tolerance<Out>());
  // Sums over rows cancel, so they are as exact as their terms (about 1) times the root of their number. Bias
  // gradients add what was written, so rounded values when that is bfloat16.
  const double terms = std::sqrt(static_cast<double>(options.rows * (heads.num_heads + heads.num_kv_heads)));
  if (options.bias) expect_within(bias.values(), expected.bias, kernel_tolerance<Out>() * terms);
  if (options.norms) expect_within(q_norm.values(), expected.q_norm, tolerance::kFloat32Kernel * terms);
  if (options.norms) expect_within(k_norm.values(), expected.k_norm, tolerance::kFloat32Kernel * terms);
  grad_qkv.expect_guards_untouched();
}

TEST_P(QkvRopeTest, BackwardEqualsReferenceWithEveryOption) {
  for (Options options : all_options()) {
    options.rows = 67;
    check_backward<float, float>(options);
    check_backward<float, BFloat16>(options);
    check_backward<BFloat16, float>(options);
    check_backward<BFloat16, BFloat16>(options);
  }
}

// The reference gradient itself, against finite differences of the reference forward.
TEST(QkvRopeReferenceTest, GradientEqualsFiniteDifferences) {
  const Options options{{2, 1, 6}, true, true, true, 2};
  Parameters parameters(options);
  const Doubles qkv = random_doubles(options.rows * options.heads.width(), 4);
  const auto forward = [&](const Doubles& in) {
    return reference::qkv_rope(parameters.transform, in, options.rows);
  };
  const reference::Qkv shape = forward(qkv);
  const reference::Qkv grad{random_doubles(static_cast<int64_t>(shape.q.size()), 5),
                            random_doubles(static_cast<int64_t>(shape.k.size()), 6),
                            random_doubles(static_cast<int64_t>(shape.v.size()), 7)};
  const auto loss = [&](const Doubles& in) {
    const reference::Qkv out = forward(in);
    double sum = 0.0;
    for (size_t n = 0; n < out.q.size(); ++n) sum += out.q[n] * grad.q[n];
    for (size_t n = 0; n < out.k.size(); ++n) sum += out.k[n] * grad.k[n];
    for (size_t n = 0; n < out.v.size(); ++n) sum += out.v[n] * grad.v[n];
    return sum;
  };
  const Doubles actual = reference::qkv_rope_backward(parameters.transform, qkv, grad, options.rows).qkv;
  constexpr double kStep = 1e-5;
  for (size_t n = 0; n < qkv.size(); ++n) {
    Doubles above = qkv, below = qkv;
    above[n] += kStep;
    below[n] -= kStep;
    EXPECT_NEAR(actual[n], (loss(above) - loss(below)) / (2.0 * kStep), 1e-7) << "at " << n;
  }
}

TEST_P(QkvRopeTest, ParameterGradientsHaveTheSameBitsForAnyNumberOfThreads) {
  const Options options{{3, 1, 64}, true, true, true, 333};
  Parameters parameters(options);
  const int64_t width = options.heads.width();
  TestArray<float> qkv(random_doubles(options.rows * width, 4), 0);
  TestArray<float> q(random_doubles(options.rows * 192, 5), 0), k(random_doubles(options.rows * 64, 6), 0);
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    TestArray<float> grad_qkv(qkv.count(), 0), bias(Doubles(width), 0), norm(Doubles(64), 0);
    QkvRopeBackwardArgs<float, float> args{
        parameters.transform, options.rows,    q.data(),    k.data(),    k.data(),
        qkv.data(),           grad_qkv.data(), bias.data(), norm.data(), nullptr};
    qkv_rope_backward(args);
    Doubles out = bias.values();
    const Doubles by_norm = norm.values();
    out.insert(out.end(), by_norm.begin(), by_norm.end());
    return out;
  };
  const Doubles one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(7), one);
  omp_set_num_threads(omp_get_num_procs());
}

CALYREX_INSTANTIATE_KERNEL_TEST(QkvRopeTest);

}  // namespace
}  // namespace calyrex::kernels
