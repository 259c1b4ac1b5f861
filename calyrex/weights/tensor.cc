#include "calyrex/weights/tensor.h"

#include <array>

#include "calyrex/base/error.h"
#include "calyrex/weights/dequantize.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int64_t values;
  int64_t bytes;
};

constexpr std::array kDTypes = {
    DTypeRow{DType::kF64, "F64", 1, 8},       DTypeRow{DType::kF32, "F32", 1, 4},
    DTypeRow{DType::kF16, "F16", 1, 2},       DTypeRow{DType::kBF16, "BF16", 1, 2},
    DTypeRow{DType::kI64, "I64", 1, 8},       DTypeRow{DType::kI32, "I32", 1, 4},
    DTypeRow{DType::kI16, "I16", 1, 2},       DTypeRow{DType::kI8, "I8", 1, 1},
    DTypeRow{DType::kU8, "U8", 1, 1},         DTypeRow{DType::kBool, "BOOL", 1, 1},
    DTypeRow{DType::kQ4_0, "Q4_0", 32, 18},   DTypeRow{DType::kQ4_1, "Q4_1", 32, 20},
    DTypeRow{DType::kQ5_0, "Q5_0", 32, 22},   DTypeRow{DType::kQ5_1, "Q5_1", 32, 24},
    DTypeRow{DType::kQ8_0, "Q8_0", 32, 34},   DTypeRow{DType::kQ2_K, "Q2_K", 256, 84},
    DTypeRow{DType::kQ3_K, "Q3_K", 256, 110}, DTypeRow{DType::kQ4_K, "Q4_K", 256, 144},
    DTypeRow{DType::kQ5_K, "Q5_K", 256, 176}, DTypeRow{DType::kQ6_K, "Q6_K", 256, 210},
};

const DTypeRow& row_of(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row;
  }
  CALYREX_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return kDTypes.front();
}

/// Row of the file that holds row `row` of the Hugging Face order: pairs (i, i + head_dim / 2) lie side by
/// side there.
int64_t interleaved_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim;
  const int64_t within = row % head_dim;
  const int64_t half = head_dim / 2;
  return head * head_dim + within % half * 2 + within / half;
}

}  // namespace

std::string_view dtype_name(DType dtype) { return row_of(dtype).name; }
int64_t block_values(DType dtype) { return row_of(dtype).values; }
int64_t block_bytes(DType dtype) { return row_of(dtype).bytes; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

int64_t TensorView::num_values() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

int64_t TensorView::num_rows() const {
  int64_t count = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  return count;
}

int64_t TensorView::row_length() const { return shape.empty() ? 1 : shape.back(); }

std::span<const std::byte> row_data(const TensorView& tensor, int64_t row) {
  CALYREX_CHECK(0 <= row && row < tensor.num_rows(), "row {} of {}", row, tensor.name);
  if (tensor.row_order == RowOrder::kHeadInterleaved) {
    row = interleaved_row(row, tensor.num_rows() / tensor.num_heads);
  }
  const int64_t row_bytes = tensor.row_length() / block_values(tensor.dtype) * block_bytes(tensor.dtype);
  return tensor.data.subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes));
}

void read_rows_as_float(const TensorView& tensor, int64_t row_begin, int64_t row_end, std::span<float> out) {
  if (!is_float_or_block(tensor.dtype)) {
    fail(ErrorCode::kUnsupported, "tensor {} has integer type {}; a float type is expected",
         printable(tensor.name), dtype_name(tensor.dtype));
  }
  const int64_t length = tensor.row_length();
  CALYREX_CHECK(0 <= row_begin && row_begin <= row_end && row_end <= tensor.num_rows(), "rows {} to {} of {}",
                row_begin, row_end, tensor.name);
  CALYREX_CHECK(static_cast<int64_t>(out.size()) == (row_end - row_begin) * length);
  if (out.empty()) return;
  if (tensor.row_order == RowOrder::kPlain) {
    dequantize(tensor.dtype, row_data(tensor, row_begin).data(), (row_end - row_begin) * length, out.data());
    return;
  }
  for (int64_t row = row_begin; row < row_end; ++row) {
    dequantize(tensor.dtype, row_data(tensor, row).data(), length, out.data() + (row - row_begin) * length);
  }
}

std::vector<float> read_as_float(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_values()));
  if (!values.empty()) read_rows_as_float(tensor, 0, tensor.num_rows(), values);
  return values;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

}  // namespace calyrex::weights
