#include "calyrex/weights/tensor.h"

#include <numeric>

#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

TensorView view_of(const std::vector<float>& values, std::vector<int64_t> shape) {
  return {
      .name = "t", .dtype = DType::kF32, .shape = std::move(shape), .data = std::as_bytes(std::span(values))};
}

TEST(Tensor, NamesAndSizesOfTypes) {
  for (const char* name : {"F64",  "F32",  "F16",  "BF16", "I64",  "I32",  "I16",  "I8",   "U8",   "BOOL",
                           "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}) {
    const std::optional<DType> dtype = parse_dtype(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
    EXPECT_GT(block_bytes(*dtype), 0);
  }
  EXPECT_FALSE(parse_dtype("Q9_9"));
  EXPECT_FALSE(parse_dtype(""));
}

TEST(Tensor, RowsOfMatricesVectorsAndScalars) {
  const std::vector<float> values(6);
  EXPECT_EQ(view_of(values, {2, 3}).num_rows(), 2);
  EXPECT_EQ(view_of(values, {2, 3}).row_length(), 3);
  EXPECT_EQ(view_of(values, {6}).num_rows(), 1);
  EXPECT_EQ(view_of(values, {}).num_values(), 1);
  EXPECT_EQ(view_of(values, {}).num_rows(), 1);
  EXPECT_EQ(view_of(values, {0}).num_rows(), 1);
  EXPECT_TRUE(read_as_float(view_of(values, {0})).empty());
  EXPECT_TRUE(read_as_float(view_of(values, {0, 3})).empty());
}

TEST(Tensor, ReadsARangeOfRows) {
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<float> out(6);
  read_rows_as_float(view_of(values, {4, 3}), 1, 3, out);
  EXPECT_EQ(out, (std::vector<float>{3, 4, 5, 6, 7, 8}));
}

// Two heads of four rows: the file holds the rows of a head as (0, 2, 1, 3) of the Hugging Face order.
TEST(Tensor, UndoesInterleavedHeads) {
  const std::vector<float> file = {0, 2, 1, 3, 10, 12, 11, 13};
  TensorView tensor = view_of(file, {8, 1});
  tensor.row_order = RowOrder::kHeadInterleaved;
  tensor.num_heads = 2;
  EXPECT_EQ(read_as_float(tensor), (std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13}));
  std::vector<float> part(3);
  read_rows_as_float(tensor, 3, 6, part);
  EXPECT_EQ(part, (std::vector<float>{3, 10, 11}));
}

TEST(Tensor, IntegersAreNoWeights) {
  const std::vector<float> values(4);
  TensorView tensor = view_of(values, {4});
  tensor.name = "blocks.0\n";
  tensor.dtype = DType::kI32;
  test::expect_error(ErrorCode::kUnsupported, "tensor blocks.0? has integer type I32",
                     [&] { read_as_float(tensor); });
}

TEST(Tensor, RowsOutsideAreABug) {
  const std::vector<float> values(4);
  std::vector<float> out(2);
  test::expect_error(ErrorCode::kInternal, "rows 2 to 3", [&] {
    read_rows_as_float(view_of(values, {2, 2}), 2, 3, out);
  });
}

}  // namespace
}  // namespace calyrex::weights
