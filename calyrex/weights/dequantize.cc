#include "calyrex/weights/dequantize.h"

#include <bit>
#include <cstring>

#include "calyrex/base/error.h"

namespace calyrex::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

template <typename T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

float half_to_float(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  // Rebiasing the exponent by a product keeps subnormal halves exact.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t infinite = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  return std::bit_cast<float>(finite | infinite | (static_cast<uint32_t>(half & 0x8000) << 16));
}

float load_half(const uint8_t* bytes) { return half_to_float(load<uint16_t>(bytes)); }

void block_q4_0(const uint8_t* block, float* out) {
  const float scale = load_half(block);
  const uint8_t* nibbles = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((nibbles[i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((nibbles[i] >> 4) - 8);
  }
}

void block_q4_1(const uint8_t* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const uint8_t* nibbles = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(nibbles[i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(nibbles[i] >> 4) + minimum;
  }
}

void block_q5_0(const uint8_t* block, float* out) {
  const float scale = load_half(block);
  const uint32_t high = load<uint32_t>(block + 2);
  const uint8_t* nibbles = block + 6;
  for (int i = 0; i < 16; ++i) {
    const int low_half = (nibbles[i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int high_half = (nibbles[i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = scale * static_cast<float>(low_half - 16);
    out[i + 16] = scale * static_cast<float>(high_half - 16);
  }
}

void block_q5_1(const uint8_t* block, float* out) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const uint32_t high = load<uint32_t>(block + 4);
  const uint8_t* nibbles = block + 8;
  for (int i = 0; i < 16; ++i) {
    const int low_half = (nibbles[i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int high_half = (nibbles[i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = scale * static_cast<float>(low_half) + minimum;
    out[i + 16] = scale * static_cast<float>(high_half) + minimum;
  }
}

void block_q8_0(const uint8_t* block, float* out) {
  const float scale = load_half(block);
  const uint8_t* values = block + 2;
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(values[i])) * scale;
}

void block_q2_k(const uint8_t* block, float* out) {
  const uint8_t* scales = block;
  const uint8_t* quants = block + 16;
  const float super_scale = load_half(block + 80);
  const float super_minimum = load_half(block + 82);
  for (int group = 0; group < 16; ++group) {  // 16 values share a scale and a minimum
    const float scale = super_scale * static_cast<float>(scales[group] & 15);
    const float minimum = super_minimum * static_cast<float>(scales[group] >> 4);
    const uint8_t* bytes = quants + (group / 8) * 32 + (group % 2) * 16;
    const int shift = (group % 8) / 2 * 2;
    float* values = out + group * 16;
    for (int i = 0; i < 16; ++i) values[i] = scale * static_cast<float>((bytes[i] >> shift) & 3) - minimum;
  }
}

void block_q3_k(const uint8_t* block, float* out) {
  const uint8_t* high_bits = block;
  const uint8_t* quants = block + 32;
  const uint8_t* scales = block + 96;
  const float super_scale = load_half(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int scale_low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    const int scale_high = (scales[8 + group % 4] >> (group / 4 * 2)) & 3;
    const float scale = super_scale * static_cast<float>((scale_low | scale_high << 4) - 32);
    const int offset = (group % 2) * 16;
    const uint8_t* bytes = quants + (group / 8) * 32 + offset;
    const int shift = (group % 8) / 2 * 2;
    float* values = out + group * 16;
    for (int i = 0; i < 16; ++i) {
      const int high = (high_bits[offset + i] >> (group / 2)) & 1;
      values[i] = scale * static_cast<float>(((bytes[i] >> shift) & 3) - (high ^ 1) * 4);
    }
  }
}

struct ScaleAndMinimum {
  float scale;
  float minimum;
};

/// Six-bit scales and minima of eight groups in twelve bytes, as Q4_K and Q5_K pack them.
ScaleAndMinimum unpack_six_bits(const uint8_t* packed, int group) {
  if (group < 4) {
    return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  }
  return {static_cast<float>((packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4),
          static_cast<float>((packed[group + 4] >> 4) | (packed[group] >> 6) << 4)};
}

void block_q4_k(const uint8_t* block, float* out) {
  const float super_scale = load_half(block);
  const float super_minimum = load_half(block + 2);
  const uint8_t* quants = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum unpacked = unpack_six_bits(block + 4, group);
    const float scale = super_scale * unpacked.scale;
    const float minimum = super_minimum * unpacked.minimum;
    const uint8_t* bytes = quants + group / 2 * 32;
    const int shift = group % 2 * 4;
    float* values = out + group * 32;
    for (int i = 0; i < 32; ++i) values[i] = scale * static_cast<float>((bytes[i] >> shift) & 15) - minimum;
  }
}

void block_q5_k(const uint8_t* block, float* out) {
  const float super_scale = load_half(block);
  const float super_minimum = load_half(block + 2);
  const uint8_t* high_bits = block + 16;
  const uint8_t* quants = block + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum unpacked = unpack_six_bits(block + 4, group);
    const float scale = super_scale * unpacked.scale;
    const float minimum = super_minimum * unpacked.minimum;
    const uint8_t* bytes = quants + group / 2 * 32;
    const int shift = group % 2 * 4;
    float* values = out + group * 32;
    for (int i = 0; i < 32; ++i) {
      const int quant = ((bytes[i] >> shift) & 15) | ((high_bits[i] >> group) & 1) << 4;
      values[i] = scale * static_cast<float>(quant) - minimum;
    }
  }
}

void block_q6_k(const uint8_t* block, float* out) {
  const uint8_t* low_bits = block;
  const uint8_t* high_bits = block + 128;
  const uint8_t* scales = block + 192;
  const float super_scale = load_half(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = super_scale * static_cast<float>(static_cast<int8_t>(scales[group]));
    const int half = group / 8;
    const int quarter = group % 8 / 2;  // which 32 of the half's 128 values
    const int offset = group % 2 * 16;
    const uint8_t* low = low_bits + half * 64 + quarter % 2 * 32 + offset;
    const uint8_t* high = high_bits + half * 32 + offset;
    const int low_shift = quarter / 2 * 4;
    const int high_shift = quarter * 2;
    float* values = out + group * 16;
    for (int i = 0; i < 16; ++i) {
      const int quant = ((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4;
      values[i] = scale * static_cast<float>(quant - 32);
    }
  }
}

template <void (*kBlock)(const uint8_t*, float*)>
void each_block(const uint8_t* bytes, int64_t count, int64_t values, int64_t size, float* out) {
  for (int64_t done = 0; done < count; done += values, bytes += size) kBlock(bytes, out + done);
}

void widen_f64(const uint8_t* bytes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<double>(bytes + i * 8));
}

void widen_f16(const uint8_t* bytes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = load_half(bytes + i * 2);
}

void widen_bf16(const uint8_t* bytes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(bytes + i * 2)) << 16);
  }
}

}  // namespace

bool is_float_or_block(DType dtype) {
  switch (dtype) {
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return false;
    default:
      return true;
  }
}

void dequantize(DType dtype, const std::byte* source, int64_t count, float* out) {
  const int64_t values = block_values(dtype);
  const int64_t size = block_bytes(dtype);
  CALYREX_CHECK(count % values == 0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(source);
  switch (dtype) {
    case DType::kF32:
      if (count > 0) std::memcpy(out, bytes, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::kF64:
      return widen_f64(bytes, count, out);
    case DType::kF16:
      return widen_f16(bytes, count, out);
    case DType::kBF16:
      return widen_bf16(bytes, count, out);
    case DType::kQ4_0:
      return each_block<block_q4_0>(bytes, count, values, size, out);
    case DType::kQ4_1:
      return each_block<block_q4_1>(bytes, count, values, size, out);
    case DType::kQ5_0:
      return each_block<block_q5_0>(bytes, count, values, size, out);
    case DType::kQ5_1:
      return each_block<block_q5_1>(bytes, count, values, size, out);
    case DType::kQ8_0:
      return each_block<block_q8_0>(bytes, count, values, size, out);
    case DType::kQ2_K:
      return each_block<block_q2_k>(bytes, count, values, size, out);
    case DType::kQ3_K:
      return each_block<block_q3_k>(bytes, count, values, size, out);
    case DType::kQ4_K:
      return each_block<block_q4_k>(bytes, count, values, size, out);
    case DType::kQ5_K:
      return each_block<block_q5_k>(bytes, count, values, size, out);
    case DType::kQ6_K:
      return each_block<block_q6_k>(bytes, count, values, size, out);
    default:
      CALYREX_CHECK(is_float_or_block(dtype), "dequantize() of {}", dtype_name(dtype));
  }
}

}  // namespace calyrex::weights
