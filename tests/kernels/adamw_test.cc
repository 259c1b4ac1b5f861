#include "calyrex/kernels/adamw.h"

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class AdamWTest : public KernelTest {};

TEST_P(AdamWTest, ThreeStepsEqualReference) {
  for (int64_t count : {1, 7, 16, 33, 4097, 70'001}) {
    TestArray<float> param(random_doubles(count, 1), 1), m(Doubles(count), 2), v(Doubles(count), 3);
    TestArray<BFloat16> copy(count, 1);
    Doubles expected = param.values(), expected_m(count), expected_v(count);
    for (int64_t step = 1; step <= 3; ++step) {
      TestArray<float> grad(random_doubles(count, 10 + step), 1);
      AdamWArgs args{param.data(), grad.data(), m.data(), v.data(), copy.data(), count, step};
      args.lr = 2e-3;
      args.weight_decay = 0.1;
      args.grad_scale = 0.5;
      adamw(args);
      reference::adamw(args, grad.values(), expected, expected_m, expected_v);
    }
    expect_close(param.values(), expected, tolerance::kFloat32Kernel);
    expect_close(m.values(), expected_m, tolerance::kFloat32Kernel);
    expect_close(v.values(), expected_v, tolerance::kFloat32Kernel);
    for (int64_t n = 0; n < count; ++n) ASSERT_EQ(copy.data()[n], to_bfloat16(param.data()[n])) << "at " << n;
    for (auto* array : {&param, &m, &v}) array->expect_guards_untouched();
    copy.expect_guards_untouched();
  }
}

TEST_P(AdamWTest, ZeroGradientMovesNothingWithoutDecay) {
  std::vector<float> param(20, 0.3f), grad(20), m(20), v(20);
  AdamWArgs args{param.data(), grad.data(), m.data(), v.data(), nullptr, 20, 1};
  args.lr = 1.0;
  adamw(args);
  EXPECT_EQ(param, std::vector<float>(20, 0.3f));
}

CALYREX_INSTANTIATE_KERNEL_TEST(AdamWTest);

}  // namespace
}  // namespace calyrex::kernels
