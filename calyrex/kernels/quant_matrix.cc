#include "calyrex/kernels/quant_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <hwy/highway.h>
#include <sys/mman.h>

#include "calyrex/base/error.h"

namespace calyrex::kernels {
namespace {

constexpr size_t kPieceBytes = size_t{32} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// Nearest IEEE half, ties to even.
uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  // Below the smallest normal half the last place is 2^-24; adding 0.5 rounds to it.
  if (magnitude < 0x38800000u) {
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace

void QuantArena::Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

std::byte* QuantArena::allocate(size_t bytes) {
  bytes = round_up(bytes, kAlignment);
  if (bytes > left_) {
    const size_t size = round_up(std::max(bytes, kPieceBytes), kHugePage);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail(ErrorCode::kOutOfMemory, "no memory for {} bytes of weights", size);
    // Streams of weights stop at page boundaries; large pages make those rare. Only a hint.
    static_cast<void>(::madvise(memory, size, MADV_HUGEPAGE));
    pieces_.emplace_back(static_cast<std::byte*>(memory), Unmap{size});
    left_ = size;
  }
  const auto& piece = pieces_.back();
  std::byte* begin = piece.get() + (piece.get_deleter().bytes - left_);
  left_ -= bytes;
  allocated_ += bytes;
  return begin;
}

QuantMatrix::QuantMatrix(int64_t rows, int64_t columns, QuantFormat format, std::shared_ptr<QuantArena> arena)
    : rows_(rows), columns_(columns), format_(format), arena_(std::move(arena)) {
  CALYREX_CHECK(rows > 0 && columns > 0, "[{}, {}]", rows, columns);
  CALYREX_CHECK(format.bits == 4 || format.bits == 8, "{} bits", format.bits);
  const int64_t halves = kQuantLanes * static_cast<int64_t>(sizeof(uint16_t)) * (format.has_min ? 2 : 1);
  group_bytes_ =
      static_cast<int64_t>(round_up(static_cast<size_t>(blocks() * (block_bytes() + halves)), kAlignment));
  data_ = arena_->allocate(static_cast<size_t>(groups() * group_bytes_));
}

const uint16_t* QuantMatrix::scales(int64_t group) const {
  return reinterpret_cast<const uint16_t*>(codes(group) + blocks() * block_bytes());
}

const uint16_t* QuantMatrix::minima(int64_t group) const {
  return format_.has_min ? scales(group) + blocks() * kQuantLanes : nullptr;
}

std::byte* QuantMatrix::row_codes(int64_t row, int64_t block) const {
  return data_ + row / kQuantLanes * group_bytes_ + block * block_bytes() + row % kQuantLanes * 4;
}

void QuantMatrix::set_row(int64_t row, std::span<const QuantBlock> blocks) {
  CALYREX_CHECK(row >= 0 && row < rows_ && static_cast<int64_t>(blocks.size()) == this->blocks(), "row {}",
                row);
  const int64_t group = row / kQuantLanes;
  const int64_t lane = row % kQuantLanes;
  auto* scale = const_cast<uint16_t*>(scales(group)) + lane;
  auto* minimum = const_cast<uint16_t*>(minima(group)) + lane;
  const int64_t chunks = kQuantBlock * format_.bits / 8 / 4;  // of four bytes a row
  for (int64_t b = 0; b < this->blocks(); ++b) {
    const QuantBlock& block = blocks[static_cast<size_t>(b)];
    std::byte* to = row_codes(row, b);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int64_t n = 0; n < 4; ++n) {
        const auto at = static_cast<size_t>(chunk * 4 + n);
        const int code = format_.bits == 8 ? block.codes[at] : block.codes[at] | block.codes[at + 16] << 4;
        to[chunk * kQuantLanes * 4 + n] = static_cast<std::byte>(code);
      }
    }
    scale[b * kQuantLanes] = block.scale;
    if (format_.has_min) minimum[b * kQuantLanes] = block.min;
  }
}

QuantBlock QuantMatrix::block(int64_t row, int64_t block) const {
  const std::byte* from = row_codes(row, block);
  const int64_t at = block * kQuantLanes + row % kQuantLanes;
  QuantBlock result;
  for (int64_t column = 0; column < kQuantBlock; ++column) {
    const int64_t byte = format_.bits == 8 ? column : column % 16;
    const auto code = std::to_integer<uint8_t>(from[byte / 4 * kQuantLanes * 4 + byte % 4]);
    const int shift = format_.bits == 4 && column >= 16 ? 4 : 0;
    result.codes[static_cast<size_t>(column)] =
        format_.bits == 8 ? code : static_cast<uint8_t>(code >> shift & 15);
  }
  result.scale = scales(row / kQuantLanes)[at];
  if (format_.has_min) result.min = minima(row / kQuantLanes)[at];
  return result;
}

float half_to_float(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  // Rebiasing the exponent by a product keeps subnormal halves exact.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t infinite = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  return std::bit_cast<float>(finite | infinite | (static_cast<uint32_t>(half & 0x8000) << 16));
}

QuantBlock quantize_block(std::span<const float, kQuantBlock> values) {
  float largest = 0.0f;
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    largest = std::max(largest, std::abs(value));
  }
  QuantBlock block;
  block.codes.fill(128);
  block.scale = to_half(finite ? largest / 127.0f : std::numeric_limits<float>::infinity());
  const float scale = half_to_float(block.scale);  // codes fit the scale as it is stored
  if (!std::isfinite(scale) || scale == 0.0f) return block;
  for (int64_t n = 0; n < kQuantBlock; ++n) {
    const auto at = static_cast<size_t>(n);
    block.codes[at] =
        static_cast<uint8_t>(std::clamp(std::nearbyint(values[at] / scale), -127.0f, 127.0f) + 128.0f);
  }
  return block;
}

}  // namespace calyrex::kernels
