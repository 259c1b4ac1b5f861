// Weights in blocks of a few bits, repacked so that a vector holds the same columns of sixteen rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace calyrex::kernels {

inline constexpr int64_t kQuantBlock = 32;  // columns that share a scale
inline constexpr int64_t kQuantLanes = 16;  // rows that lie side by side

/// How a weight is coded: w = scale * code + min with a minimum of its own, else w = scale * (code -
/// offset()).
struct QuantFormat {
  int bits = 8;  // 4 or 8
  bool has_min = false;

  int offset() const { return bits == 4 ? 8 : 128; }
  bool operator==(const QuantFormat&) const = default;
};

/// One block of one row. `scale` and `min` are IEEE half-precision bits; `min` is read only with has_min.
struct QuantBlock {
  std::array<uint8_t, kQuantBlock> codes = {};  // below 2^bits
  uint16_t scale = 0;
  uint16_t min = 0;
};

/// Memory that many matrices share, in pieces large enough for huge pages. Freed with the last matrix.
class QuantArena {
 public:
  /// `bytes` of zeros at an address that is a multiple of 64. kOutOfMemory.
  std::byte* allocate(size_t bytes);
  size_t allocated_bytes() const { return allocated_; }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };
  std::vector<std::unique_ptr<std::byte, Unmap>> pieces_;
  size_t left_ = 0;  // bytes not yet given away at the end of the last piece
  size_t allocated_ = 0;
};

/// A matrix [rows, columns]. Sixteen rows form a group: its codes block by block, then its scales, then its
/// minima. Codes of four columns lie together for each of the sixteen rows; with 4 bits, columns c and c + 16
/// of a block share a byte, as in GGUF. Rows and columns beyond the last one are zero. Different rows may be
/// set at the same time.
class QuantMatrix {
 public:
  QuantMatrix() = default;
  /// All zeros at first.
  QuantMatrix(int64_t rows, int64_t columns, QuantFormat format, std::shared_ptr<QuantArena> arena);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t blocks() const { return (columns_ + kQuantBlock - 1) / kQuantBlock; }
  int64_t groups() const { return (rows_ + kQuantLanes - 1) / kQuantLanes; }
  QuantFormat format() const { return format_; }
  bool defined() const { return data_ != nullptr; }

  /// Codes beyond the last column must stand for zero, or meet a scale of zero.
  void set_row(int64_t row, std::span<const QuantBlock> blocks);
  QuantBlock block(int64_t row, int64_t block) const;

  int64_t group_bytes() const { return group_bytes_; }
  const std::byte* codes(int64_t group) const { return data_ + group * group_bytes_; }
  const uint16_t* scales(int64_t group) const;  // [blocks, kQuantLanes]
  const uint16_t* minima(int64_t group) const;  // [blocks, kQuantLanes], null without has_min

 private:
  std::byte* row_codes(int64_t row, int64_t block) const;
  int64_t block_bytes() const { return kQuantLanes * kQuantBlock * format_.bits / 8; }

  int64_t rows_ = 0;
  int64_t columns_ = 0;
  QuantFormat format_;
  int64_t group_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<QuantArena> arena_;
};

/// The value of IEEE half-precision bits, exactly.
float half_to_float(uint16_t half);

/// The block in 8 bits (no minimum) nearest to 32 values; values that are not finite give a scale of
/// infinity.
QuantBlock quantize_block(std::span<const float, kQuantBlock> values);

}  // namespace calyrex::kernels
