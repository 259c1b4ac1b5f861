// Tensors as they lie in files: a name, a type, a shape and bytes in a map. Nothing is copied here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace calyrex::weights {

/// Element types of safetensors and GGUF files. Block types (kQ4_0 ...) pack several values with their
/// scales.
enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

/// "F32", "BF16", "Q4_1", ...
std::string_view dtype_name(DType dtype);
/// The type of that name, if there is one.
std::optional<DType> parse_dtype(std::string_view name);
/// Values a block holds (1 for plain types).
int64_t block_values(DType dtype);
/// Bytes of one block (of one value for plain types).
int64_t block_bytes(DType dtype);

/// Order of the rows of a projection whose heads are stored for interleaved rotary embedding (GGUF arch
/// `llama` stores q_proj and k_proj so); kHeadInterleaved rows must be permuted back to the Hugging Face
/// order on reading.
enum class RowOrder { kPlain, kHeadInterleaved };

/// A view into a mapped file; lives as long as the file object that gave it. `shape` is in Hugging Face order
/// (rows first); for block types the last dimension is a multiple of block_values().
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  RowOrder row_order = RowOrder::kPlain;
  int64_t num_heads = 0;  // heads along the rows when row_order is kHeadInterleaved

  int64_t num_values() const;
  /// Rows: all dimensions but the last; 1 for a tensor of one dimension.
  int64_t num_rows() const;
  int64_t row_length() const;
};

/// The bytes of one row, given by its number in Hugging Face order.
std::span<const std::byte> row_data(const TensorView& tensor, int64_t row);

/// Dequantises (or widens) rows [row_begin, row_end) of a tensor to float32, in Hugging Face row order. A
/// tensor of one dimension is one row. `out` has (row_end - row_begin) * row length values. Integer types
/// throw kUnsupported.
void read_rows_as_float(const TensorView& tensor, int64_t row_begin, int64_t row_end, std::span<float> out);

/// The whole tensor as float32.
std::vector<float> read_as_float(const TensorView& tensor);

/// "[8960, 1536]", for messages.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace calyrex::weights
