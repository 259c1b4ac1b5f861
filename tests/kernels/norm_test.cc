#include "calyrex/kernels/norm.h"

#include <omp.h>

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

constexpr float kEps = 1e-5f;
// A float32 constant is not the decimal it was written as.
constexpr double kEpsExact = kEps;

class NormTest : public KernelTest {};

template <typename Out>
void check_norm(int64_t rows, int64_t dim, int64_t offset) {
  TestArray<float> x(random_doubles(rows * dim, dim), offset);
  TestArray<float> weight(random_doubles(dim, dim + 1), offset + 1);
  TestArray<Out> out(rows * dim, offset + 2);
  rms_norm(x.data(), weight.data(), kEps, rows, dim, out.data());
  expect_close(out.values(), reference::rms_norm(x.values(), weight.values(), kEpsExact, rows, dim),
               kernel_tolerance<Out>(), /*floor=*/0.0);
  out.expect_guards_untouched();
}

TEST_P(NormTest, EqualsReferenceAtOddSizesAndMisalignments) {
  for (int64_t dim : odd_counts()) {
    for (int64_t offset : {0, 1, 3}) {
      check_norm<float>(3, dim, offset);
      check_norm<BFloat16>(3, dim, offset);
    }
  }
}

TEST_P(NormTest, RowOfZerosStaysZero) {
  const std::vector<float> x(40), weight(40, 2.0f);
  std::vector<float> out(40, 1.0f);
  rms_norm(x.data(), weight.data(), kEps, 1, 40, out.data());
  for (float value : out) EXPECT_EQ(value, 0.0f);
}

template <typename Delta, typename Out>
void check_add_norm(int64_t rows, int64_t dim) {
  TestArray<float> x(random_doubles(rows * dim, dim), 1);
  TestArray<Delta> delta(random_doubles(rows * dim, dim + 7), 3);
  TestArray<float> weight(random_doubles(dim, dim + 1), 0);
  TestArray<Out> out(rows * dim, 2);
  Doubles sum = x.values();
  const Doubles added = delta.values();
  for (size_t n = 0; n < sum.size(); ++n) sum[n] = static_cast<float>(sum[n]) + static_cast<float>(added[n]);
  add_rms_norm(x.data(), delta.data(), weight.data(), kEps, rows, dim, out.data());
  EXPECT_EQ(x.values(), sum);
  expect_close(out.values(), reference::rms_norm(sum, weight.values(), kEpsExact, rows, dim),
               kernel_tolerance<Out>(), /*floor=*/0.0);
  x.expect_guards_untouched();
  out.expect_guards_untouched();
}

TEST_P(NormTest, AdditionIsExactAndNormFollowsIt) {
  for (int64_t dim : odd_counts()) {
    check_add_norm<float, float>(2, dim);
    check_add_norm<float, BFloat16>(2, dim);
    check_add_norm<BFloat16, float>(2, dim);
    check_add_norm<BFloat16, BFloat16>(2, dim);
  }
}

template <typename Grad>
void check_backward(int64_t rows, int64_t dim) {
  TestArray<float> x(random_doubles(rows * dim, dim), 1);
  TestArray<float> weight(random_doubles(dim, dim + 1), 2);
  TestArray<Grad> grad(random_doubles(rows * dim, dim + 2), 3);
  const Doubles before_x = TestArray<float>(random_doubles(rows * dim, dim + 3), 0).values();
  const Doubles before_weight = TestArray<float>(random_doubles(dim, dim + 4), 0).values();
  TestArray<float> grad_x(before_x, 1), grad_weight(before_weight, 1);
  reference::NormGrads expected =
      reference::rms_norm_backward(x.values(), weight.values(), kEpsExact, grad.values(), rows, dim);
  for (int64_t n = 0; n < rows * dim; ++n) expected.x[n] += before_x[n];
  for (int64_t n = 0; n < dim; ++n) expected.weight[n] += before_weight[n];
  rms_norm_backward(x.data(), weight.data(), kEps, grad.data(), rows, dim, grad_x.data(), grad_weight.data());
  expect_close(grad_x.values(), expected.x, tolerance::kFloat32Kernel);
  expect_close(grad_weight.values(), expected.weight, tolerance::kFloat32Kernel);
  grad_x.expect_guards_untouched();
  grad_weight.expect_guards_untouched();
}

TEST_P(NormTest, BackwardAddsTheGradients) {
  for (int64_t dim : odd_counts()) {
    check_backward<float>(70, dim);
    check_backward<BFloat16>(70, dim);
  }
}

TEST_P(NormTest, BackwardMayLeaveTheWeightOut) {
  const int64_t rows = 5, dim = 33;
  TestArray<float> x(random_doubles(rows * dim, 1), 0), weight(random_doubles(dim, 2), 0);
  TestArray<float> grad(random_doubles(rows * dim, 3), 0);
  TestArray<float> with(Doubles(rows * dim), 0), without(Doubles(rows * dim), 0),
      grad_weight(Doubles(dim), 0);
  rms_norm_backward(x.data(), weight.data(), kEps, grad.data(), rows, dim, with.data(), grad_weight.data());
  rms_norm_backward(x.data(), weight.data(), kEps, grad.data(), rows, dim, without.data(), nullptr);
  EXPECT_EQ(with.values(), without.values());
}

TEST_P(NormTest, SameBitsForAnyNumberOfThreads) {
  const int64_t rows = 517, dim = 193;
  TestArray<float> x(random_doubles(rows * dim, 1), 0), weight(random_doubles(dim, 2), 0);
  TestArray<float> grad(random_doubles(rows * dim, 3), 0);
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    TestArray<float> grad_x(Doubles(rows * dim), 0), grad_weight(Doubles(dim), 0);
    rms_norm_backward(x.data(), weight.data(), kEps, grad.data(), rows, dim, grad_x.data(),
                      grad_weight.data());
    Doubles out = grad_x.values();
    const Doubles by_weight = grad_weight.values();
    out.insert(out.end(), by_weight.begin(), by_weight.end());
    return out;
  };
  const Doubles one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
  omp_set_num_threads(omp_get_num_procs());
}

CALYREX_INSTANTIATE_KERNEL_TEST(NormTest);

}  // namespace
}  // namespace calyrex::kernels
