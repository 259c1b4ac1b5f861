// The bfloat16 storage type of the kernels: the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>

namespace calyrex::kernels {

using BFloat16 = uint16_t;

inline float to_float(float value) { return value; }
inline float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

/// Nearest bfloat16, ties to even; NaN stays NaN.
inline BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<BFloat16>((bits >> 16) | 0x40u);
  return static_cast<BFloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Stores a float32 in either type.
inline void round_to(float value, float& to) { to = value; }
inline void round_to(float value, BFloat16& to) { to = to_bfloat16(value); }

}  // namespace calyrex::kernels
