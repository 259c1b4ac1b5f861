#include "calyrex/weights/adapter_folder.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

using Layers = std::vector<int64_t>;

TEST(Placement, Late8thOfThePapersSizes) {
  EXPECT_EQ(resolve_placement("late8th", 28), (Layers{23, 24, 25, 26, 27}));
  EXPECT_EQ(resolve_placement("late8th", 30), (Layers{25, 26, 27, 28, 29}));
  EXPECT_EQ(resolve_placement("late8th", 32), (Layers{27, 28, 29, 30, 31}));
  EXPECT_EQ(resolve_placement("late8th", 1), (Layers{0}));
}

TEST(Placement, OtherPresetsOfThirtyLayers) {
  const auto range = [](int64_t first, int64_t last, int64_t step = 1) {
    Layers layers;
    for (int64_t layer = first; layer <= last; layer += step) layers.push_back(layer);
    return layers;
  };
  EXPECT_EQ(resolve_placement("all", 30), range(0, 29));
  EXPECT_EQ(resolve_placement("early-half", 30), range(0, 14));
  EXPECT_EQ(resolve_placement("late-half", 30), range(15, 29));
  EXPECT_EQ(resolve_placement("early-quarter", 30), range(0, 6));
  EXPECT_EQ(resolve_placement("mid-quarter", 30), range(11, 17));
  EXPECT_EQ(resolve_placement("late-quarter", 30), range(22, 29));
  EXPECT_EQ(resolve_placement("last", 30), range(29, 29));
  EXPECT_EQ(resolve_placement("every-2nd", 30), range(1, 29, 2));
  EXPECT_EQ(resolve_placement("every-4th", 30), range(3, 29, 4));
}

TEST(Placement, Lists) {
  EXPECT_EQ(resolve_placement("[27, 25]", 30), (Layers{25, 27}));
  for (const char* bad : {"[]", "[30]", "[-1]", "[1, 1]", "[1.5]", "[\"a\"]", "[1,", "[[1]]"}) {
    test::expect_error(ErrorCode::kInvalidArgument, bad, [&] { resolve_placement(bad, 30); });
  }
}

TEST(Placement, UnknownNameGetsTheNearest) {
  test::expect_error(ErrorCode::kInvalidArgument, "unknown placement 'late8'; did you mean 'late8th'?",
                     [] { resolve_placement("late8", 30); });
  test::expect_error(ErrorCode::kInvalidArgument, "known: late8th, all",
                     [] { resolve_placement("zzzzzzzzz", 30); });
}

TEST(Placement, PresetWithoutALayer) {
  test::expect_error(ErrorCode::kInvalidArgument, "'every-4th' holds no layer of a model with 3",
                     [] { resolve_placement("every-4th", 3); });
}

}  // namespace
}  // namespace calyrex::weights
