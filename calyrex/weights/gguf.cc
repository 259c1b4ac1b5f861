// Reading the container: every count, length and offset is checked against the bytes that are left before it
// is used.
#include "calyrex/weights/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "calyrex/base/error.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKeyBytes = 65'535;
constexpr uint64_t kMaxTensorNameBytes = 256;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;           // empty key, type, one byte
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // empty name, one dimension, type, offset
constexpr uint64_t kMinStringBytes = 8;

struct TensorTypeRow {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;
};

/// ggml's tensor types; those without a DType are known by name so that the message can say what a file
/// holds.
constexpr std::array kTensorTypes = {
    TensorTypeRow{0, "F32", DType::kF32},       TensorTypeRow{1, "F16", DType::kF16},
    TensorTypeRow{2, "Q4_0", DType::kQ4_0},     TensorTypeRow{3, "Q4_1", DType::kQ4_1},
    TensorTypeRow{6, "Q5_0", DType::kQ5_0},     TensorTypeRow{7, "Q5_1", DType::kQ5_1},
    TensorTypeRow{8, "Q8_0", DType::kQ8_0},     TensorTypeRow{9, "Q8_1", std::nullopt},
    TensorTypeRow{10, "Q2_K", DType::kQ2_K},    TensorTypeRow{11, "Q3_K", DType::kQ3_K},
    TensorTypeRow{12, "Q4_K", DType::kQ4_K},    TensorTypeRow{13, "Q5_K", DType::kQ5_K},
    TensorTypeRow{14, "Q6_K", DType::kQ6_K},    TensorTypeRow{15, "Q8_K", std::nullopt},
    TensorTypeRow{16, "IQ2_XXS", std::nullopt}, TensorTypeRow{17, "IQ2_XS", std::nullopt},
    TensorTypeRow{18, "IQ3_XXS", std::nullopt}, TensorTypeRow{19, "IQ1_S", std::nullopt},
    TensorTypeRow{20, "IQ4_NL", std::nullopt},  TensorTypeRow{21, "IQ3_S", std::nullopt},
    TensorTypeRow{22, "IQ2_S", std::nullopt},   TensorTypeRow{23, "IQ4_XS", std::nullopt},
    TensorTypeRow{24, "I8", DType::kI8},        TensorTypeRow{25, "I16", DType::kI16},
    TensorTypeRow{26, "I32", DType::kI32},      TensorTypeRow{27, "I64", DType::kI64},
    TensorTypeRow{28, "F64", DType::kF64},      TensorTypeRow{29, "IQ1_M", std::nullopt},
    TensorTypeRow{30, "BF16", DType::kBF16},    TensorTypeRow{34, "TQ1_0", std::nullopt},
    TensorTypeRow{35, "TQ2_0", std::nullopt},   TensorTypeRow{39, "MXFP4", std::nullopt},
    TensorTypeRow{40, "NVFP4", std::nullopt},   TensorTypeRow{41, "Q1_0", std::nullopt},
};

/// Bytes of one value of a fixed size; 0 for strings, arrays and unknown types.
uint64_t fixed_bytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

/// Walks one file from front to back.
class GgufReader {
 public:
  explicit GgufReader(GgufFile& file) : file_(file), bytes_(file.file_.bytes()) {}

  void read() {
    read_header();
    place_ = "metadata";
    for (uint64_t i = 0; i < entry_count_; ++i) read_entry();
    read_alignment();
    for (uint64_t i = 0; i < tensor_count_; ++i) read_tensor(i);
    place_tensors();
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    file_.fail_corrupt(fmt::format("{}: {}", place_, fmt::format(format, std::forward<Args>(args)...)));
  }

  uint64_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t count) {
    if (count > left()) {
      fail_here(
          "{} bytes are needed at byte {}, {} are left; the file is truncated or damaged; fetch it again",
          count, position_, left());
    }
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <typename T>
  T take_number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string take_string(uint64_t max_bytes) {
    const auto length = take_number<uint64_t>();
    if (length > max_bytes) fail_here("a name of {} bytes; at most {} are read", length, max_bytes);
    const auto text = take(length);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  void check_count(uint64_t count, uint64_t min_bytes, std::string_view what) const {
    if (count > left() / min_bytes)
      fail_here(
          "{} {} do not fit the {} bytes that are left; the file is truncated or damaged; fetch it again",
          count, what, left());
  }

  void read_header() {
    place_ = "header";
    if (bytes_.size() < 4 || take_number<uint32_t>() != kMagic) {
      file_.fail_corrupt("does not begin with \"GGUF\"; it is damaged or no GGUF file");
    }
    file_.version_ = take_number<uint32_t>();
    if (file_.version_ != 2 && file_.version_ != 3) {
      const bool swapped = (file_.version_ & 0xffff) == 0 && file_.version_ != 0;
      fail(ErrorCode::kUnsupported, "{}: GGUF version {}{}; versions 2 and 3, little-endian, can be read",
           file_.path().string(), file_.version_, swapped ? " (a big-endian file)" : "");
    }
    tensor_count_ = take_number<uint64_t>();
    entry_count_ = take_number<uint64_t>();
    check_count(tensor_count_, kMinTensorBytes, "tensors");
    check_count(entry_count_, kMinEntryBytes, "metadata entries");
  }

  void read_entry() {
    place_ = "metadata";
    const std::string key = take_string(kMaxKeyBytes);
    place_ = fmt::format("metadata key {}", printable(key));
    GgufValue value;
    value.type = take_type();
    if (value.type == GgufType::kArray) {
      read_array(value);
    } else {
      value.bytes = take_values(value.type, 1);
    }
    if (!file_.values_.emplace(key, value).second) fail_here("appears twice");
  }

  GgufType take_type() {
    const auto type = take_number<uint32_t>();
    if (type > static_cast<uint32_t>(GgufType::kFloat64)) fail_here("unknown value type {}", type);
    return static_cast<GgufType>(type);
  }

  void read_array(GgufValue& value) {
    value.element_type = take_type();
    if (value.element_type == GgufType::kArray) {
      fail(ErrorCode::kUnsupported, "{}: {}: arrays of arrays are not read", file_.path().string(), place_);
    }
    value.count = take_number<uint64_t>();
    check_count(value.count, std::max(fixed_bytes(value.element_type), uint64_t{1}), "values");
    value.bytes = take_values(value.element_type, value.count);
  }

  std::span<const std::byte> take_values(GgufType type, uint64_t count) {
    if (type != GgufType::kString) {
      const auto values = take(count * fixed_bytes(type));
      if (type == GgufType::kBool) check_bools(values);
      return values;
    }
    check_count(count, kMinStringBytes, "strings");
    const uint64_t begin = position_;
    for (uint64_t i = 0; i < count; ++i) take(take_number<uint64_t>());
    return bytes_.subspan(begin, position_ - begin);
  }

  void check_bools(std::span<const std::byte> values) const {
    for (const std::byte value : values) {
      if (value > std::byte{1}) fail_here("a boolean of value {}", static_cast<int>(value));
    }
  }

  void read_alignment() {
    const std::string key = "general.alignment";
    const int64_t alignment = file_.find_int(key).value_or(kDefaultAlignment);
    if (alignment < 1 || alignment > static_cast<int64_t>(kMaxAlignment) ||
        !std::has_single_bit(static_cast<uint64_t>(alignment))) {
      file_.fail_corrupt(
          fmt::format("metadata key {}: {} is not a power of two up to {}", key, alignment, kMaxAlignment));
    }
    alignment_ = static_cast<uint64_t>(alignment);
  }

  void read_tensor(uint64_t index) {
    place_ = fmt::format("tensor {} of {}", index + 1, tensor_count_);
    TensorView tensor;
    tensor.name = take_string(kMaxTensorNameBytes);
    place_ = fmt::format("tensor {}", printable(tensor.name));
    const auto dimensions = take_number<uint32_t>();
    if (dimensions < 1 || dimensions > kMaxDimensions) {
      fail_here("{} dimensions; 1 to {} are read", dimensions, kMaxDimensions);
    }
    uint64_t values = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
      const auto size = take_number<uint64_t>();
      if (size == 0 || __builtin_mul_overflow(values, size, &values) || values > uint64_t{INT64_MAX}) {
        fail_here("dimension {} of size {} is zero or too large", i, size);
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    tensor.dtype = read_dtype(take_number<uint32_t>());
    const auto offset = take_number<uint64_t>();
    if (offset % alignment_ != 0)
      fail_here("offset {} is no multiple of the alignment {}", offset, alignment_);
    if (tensor.shape.back() % block_values(tensor.dtype) != 0) {
      fail_here("rows of {} values; {} needs a multiple of {}", tensor.shape.back(), dtype_name(tensor.dtype),
                block_values(tensor.dtype));
    }
    file_.tensors_.push_back(std::move(tensor));
    offsets_.push_back(offset);
  }

  DType read_dtype(uint32_t id) const {
    for (const TensorTypeRow& row : kTensorTypes) {
      if (row.id != id) continue;
      if (row.dtype) return *row.dtype;
      fail(ErrorCode::kUnsupported,
           "{}: {} has type {}, which is not supported; use a file with F32, F16, BF16, Q4_0, Q4_1, Q5_0, "
           "Q5_1, Q8_0 "
           "or Q2_K to Q6_K",
           file_.path().string(), place_, row.name);
    }
    fail_here("unknown tensor type {}", id);
  }

  uint64_t align(uint64_t position) const { return (position + alignment_ - 1) / alignment_ * alignment_; }

  /// Tensors follow each other, each padded to the alignment; only the last one's padding may be missing.
  void place_tensors() {
    const uint64_t data_begin = align(position_);
    std::vector<size_t> order(offsets_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t left, size_t right) { return offsets_[left] < offsets_[right]; });
    uint64_t expected = 0;
    for (const size_t index : order) {
      TensorView& tensor = file_.tensors_[index];
      place_ = fmt::format("tensor {}", printable(tensor.name));
      if (offsets_[index] != expected) {
        fail_here("starts at byte {} of the data, expected {}; tensors overlap or leave a gap",
                  offsets_[index], expected);
      }
      uint64_t bytes = static_cast<uint64_t>(tensor.num_values() / block_values(tensor.dtype));
      const bool overflow =
          __builtin_mul_overflow(bytes, static_cast<uint64_t>(block_bytes(tensor.dtype)), &bytes);
      const uint64_t available = bytes_.size() - std::min<uint64_t>(bytes_.size(), data_begin);
      if (overflow) fail_here("shape {} of {} overflows", shape_text(tensor.shape), dtype_name(tensor.dtype));
      if (expected > available || bytes > available - expected) {
        fail_here(
            "{} bytes at byte {} of the data, which has {}; the file is truncated or damaged; fetch it again",
            bytes, expected, available);
      }
      tensor.data = bytes_.subspan(data_begin + expected, bytes);
      expected = align(expected + bytes);
    }
    check_names();
  }

  void check_names() const {
    std::vector<std::string_view> names;
    for (const TensorView& tensor : file_.tensors_) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) file_.fail_corrupt(fmt::format("tensor {} appears twice", printable(*twice)));
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<uint64_t> offsets_;
  std::string place_;
};

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile file(MappedFile::open(path));
  GgufReader(file).read();
  return file;
}

void GgufFile::fail_corrupt(const std::string& message) const {
  fail(ErrorCode::kCorruptData, "{}: {}", file_.path().string(), message);
}

}  // namespace calyrex::weights
