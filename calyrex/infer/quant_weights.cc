#include "calyrex/infer/quant_weights.h"

#include <cstring>
#include <optional>

#include "calyrex/base/error.h"
#include "calyrex/kernels/team.h"
#include "calyrex/weights/dequantize.h"

namespace calyrex::infer {
namespace {

using kernels::kQuantBlock;
using kernels::QuantBlock;
using kernels::QuantFormat;
using weights::DType;
using weights::TensorView;

/// The format that holds a file's blocks unchanged, if there is one.
std::optional<QuantFormat> exact_format(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return QuantFormat{.bits = 4};
    case DType::kQ4_1:
      return QuantFormat{.bits = 4, .has_min = true};
    case DType::kQ5_0:
    case DType::kQ8_0:
      return QuantFormat{.bits = 8};
    case DType::kQ5_1:
      return QuantFormat{.bits = 8, .has_min = true};
    default:
      return std::nullopt;
  }
}

uint16_t load_half(const uint8_t* bytes) {
  uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  return half;
}

void unpack_nibbles(const uint8_t* nibbles, QuantBlock& block) {
  for (size_t i = 0; i < 16; ++i) {
    block.codes[i] = nibbles[i] & 15;
    block.codes[i + 16] = nibbles[i] >> 4;
  }
}

/// The fifth bit of each code, and `offset` on top.
void add_fifth_bits(const uint8_t* bytes, uint8_t offset, QuantBlock& block) {
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  for (size_t i = 0; i < 32; ++i) {
    block.codes[i] = static_cast<uint8_t>((block.codes[i] | (bits >> i & 1) << 4) + offset);
  }
}

/// One block as GGUF lays it out (docs/gguf.md of ggml): scale, minimum, fifth bits, codes.
QuantBlock unpack_block(DType dtype, const uint8_t* bytes) {
  QuantBlock block;
  block.scale = load_half(bytes);
  switch (dtype) {
    case DType::kQ4_0:
      unpack_nibbles(bytes + 2, block);
      break;
    case DType::kQ4_1:
      block.min = load_half(bytes + 2);
      unpack_nibbles(bytes + 4, block);
      break;
    case DType::kQ5_0:  // codes count from 16 in the file and from 128 here
      unpack_nibbles(bytes + 6, block);
      add_fifth_bits(bytes + 2, 128 - 16, block);
      break;
    case DType::kQ5_1:
      block.min = load_half(bytes + 2);
      unpack_nibbles(bytes + 8, block);
      add_fifth_bits(bytes + 4, 0, block);
      break;
    default:
      CALYREX_CHECK(dtype == DType::kQ8_0, "{}", weights::dtype_name(dtype));
      for (size_t i = 0; i < 32; ++i) block.codes[i] = bytes[2 + i] ^ 0x80;
  }
  return block;
}

/// one row of a file as blocks; `values` receives values when the type has no exact format.
void read_row(const TensorView& tensor, int64_t row, bool exact, std::vector<float>& values,
              std::span<QuantBlock> blocks) {
  if (exact) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(weights::row_data(tensor, row).data());
    for (size_t b = 0; b < blocks.size(); ++b) {
      blocks[b] =
          unpack_block(tensor.dtype, bytes + b * static_cast<size_t>(weights::block_bytes(tensor.dtype)));
    }
    return;
  }
  weights::read_rows_as_float(tensor, row, row + 1,
                              std::span(values).first(static_cast<size_t>(tensor.row_length())));
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b] = kernels::quantize_block(
        std::span(values).subspan(b * kQuantBlock).first<static_cast<size_t>(kQuantBlock)>());
  }
}

}  // namespace

kernels::QuantMatrix pack_matrix(const std::vector<const TensorView*>& parts,
                                 const std::shared_ptr<kernels::QuantArena>& arena) {
  std::optional<QuantFormat> format = exact_format(parts.front()->dtype);
  int64_t rows = 0;
  for (const TensorView* part : parts) {
    CALYREX_CHECK(
        weights::is_float_or_block(part->dtype) && part->row_length() == parts.front()->row_length(), "{}",
        part->name);
    if (part->dtype != parts.front()->dtype) format.reset();
    rows += part->num_rows();
  }
  kernels::QuantMatrix matrix(rows, parts.front()->row_length(), format.value_or(QuantFormat{.bits = 8}),
                              arena);
  kernels::run_team([&](kernels::TeamMember& member) {
    std::vector<float> values(static_cast<size_t>(matrix.blocks() * kQuantBlock));  // zeros at the end
    std::vector<QuantBlock> blocks(static_cast<size_t>(matrix.blocks()));
    int64_t first = 0;
    for (const TensorView* part : parts) {
      member.phase(part->num_rows(), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          read_row(*part, row, format.has_value(), values, blocks);
          matrix.set_row(first + row, blocks);
        }
      });
      first += part->num_rows();
    }
  });
  return matrix;
}

std::vector<float> read_vector(const std::vector<const TensorView*>& parts) {
  std::vector<float> values;
  for (const TensorView* part : parts) {
    const std::vector<float> more = weights::read_as_float(*part);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

}  // namespace calyrex::infer
