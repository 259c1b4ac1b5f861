#include "calyrex/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's own limit
constexpr size_t kMaxTensors = 8192;
constexpr size_t kMaxDimensions = 8;
constexpr size_t kHeaderAlignment = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

/// Types that the format knows and this program does not compute with.
constexpr std::array<std::string_view, 13> kOtherDTypes = {
    "F4",      "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E5M2FNUZ", "F8_E4M3FNUZ",
    "F8_E8M0", "U16",     "U32",     "U64",     "C64",     "C128"};

bool is_plain(DType dtype) { return block_values(dtype) == 1; }

struct Range {
  uint64_t begin;
  uint64_t end;
};

struct HeaderReader {
  std::string file;                   // for messages
  std::span<const std::byte> buffer;  // the bytes after the header

  template <typename... Args>
  [[noreturn]] void fail_tensor(const std::string& name, fmt::format_string<Args...> format,
                                Args&&... args) const {
    fail(ErrorCode::kCorruptData, "{}: tensor {}: {}", file, printable(name),
         fmt::format(format, std::forward<Args>(args)...));
  }

  DType read_dtype(const std::string& name, const Json& entry) const {
    const auto found = entry.find("dtype");
    if (found == entry.end() || !found->is_string()) fail_tensor(name, "\"dtype\" is missing or not text");
    const std::string text = found->get<std::string>();
    const std::optional<DType> dtype = parse_dtype(text);
    if (dtype && is_plain(*dtype)) return *dtype;
    if (std::find(kOtherDTypes.begin(), kOtherDTypes.end(), text) != kOtherDTypes.end()) {
      fail(ErrorCode::kUnsupported, "{}: tensor {} has type {}; F32, F16, BF16 and F64 weights can be read",
           file, printable(name), text);
    }
    fail_tensor(name, "unknown dtype \"{}\"", printable(text));
  }

  std::vector<int64_t> read_shape(const std::string& name, const Json& entry) const {
    const auto found = entry.find("shape");
    if (found == entry.end() || !found->is_array()) fail_tensor(name, "\"shape\" is missing or not a list");
    if (found->size() > kMaxDimensions) {
      fail_tensor(name, "{} dimensions; at most {} are read", found->size(), kMaxDimensions);
    }
    std::vector<int64_t> shape;
    for (const Json& size : *found) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{INT64_MAX}) {
        fail_tensor(name, "\"shape\" must hold whole numbers, not {}", printable(to_json_line(size)));
      }
      shape.push_back(static_cast<int64_t>(size.get<uint64_t>()));
    }
    return shape;
  }

  Range read_range(const std::string& name, const Json& entry) const {
    const auto found = entry.find("data_offsets");
    const bool valid = found != entry.end() && found->is_array() && found->size() == 2 &&
                       (*found)[0].is_number_unsigned() && (*found)[1].is_number_unsigned();
    if (!valid) fail_tensor(name, "\"data_offsets\" must be two whole numbers");
    const Range range{(*found)[0].get<uint64_t>(), (*found)[1].get<uint64_t>()};
    if (range.begin > range.end || range.end > buffer.size()) {
      fail_tensor(
          name,
          "bytes {} to {} lie outside the {} bytes of data; the file is truncated or damaged; fetch it again",
          range.begin, range.end, buffer.size());
    }
    return range;
  }

  TensorView read_tensor(const std::string& name, const Json& entry) const {
    if (!entry.is_object()) fail_tensor(name, "the header's entry is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        fail_tensor(name, "unknown key \"{}\" in the header", printable(key));
      }
    }
    TensorView view;
    view.name = name;
    view.dtype = read_dtype(name, entry);
    view.shape = read_shape(name, entry);
    const Range range = read_range(name, entry);
    uint64_t bytes = static_cast<uint64_t>(block_bytes(view.dtype));
    for (const int64_t size : view.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
        fail_tensor(name, "shape {} overflows", shape_text(view.shape));
      }
    }
    if (bytes != range.end - range.begin) {
      fail_tensor(name, "shape {} of {} needs {} bytes, the header gives {}", shape_text(view.shape),
                  dtype_name(view.dtype), bytes, range.end - range.begin);
    }
    view.data = buffer.subspan(range.begin, range.end - range.begin);
    return view;
  }

  /// Tensors must tile the data exactly, so that no byte is shared or hidden.
  void check_tiling(const std::vector<TensorView>& tensors) const {
    std::vector<const TensorView*> sorted;
    for (const TensorView& tensor : tensors) sorted.push_back(&tensor);
    const auto key = [](const TensorView* tensor) {
      return std::pair(tensor->data.data(), tensor->data.size());
    };
    std::sort(sorted.begin(), sorted.end(),
              [&](const TensorView* left, const TensorView* right) { return key(left) < key(right); });
    size_t expected = 0;
    for (const TensorView* tensor : sorted) {
      const auto begin = static_cast<size_t>(tensor->data.data() - buffer.data());
      if (begin != expected) {
        fail_tensor(tensor->name, "starts at byte {}, {} at byte {}", begin,
                    begin < expected ? "inside another tensor that ends" : "after a gap that begins",
                    expected);
      }
      expected += tensor->data.size();
    }
    if (expected != buffer.size()) {
      fail(ErrorCode::kCorruptData, "{}: {} bytes after the last tensor belong to none", file,
           buffer.size() - expected);
    }
  }

  std::map<std::string, std::string> read_metadata(const Json& value) const {
    std::map<std::string, std::string> metadata;
    if (!value.is_object()) fail(ErrorCode::kCorruptData, "{}: \"__metadata__\" must be an object", file);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        fail(ErrorCode::kCorruptData, "{}: \"__metadata__\" entry \"{}\" must be text", file, printable(key));
      }
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }
};

std::string header_text(const std::vector<TensorToWrite>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::set<std::string_view> names;
  size_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    CALYREX_CHECK(is_plain(tensor.dtype), "{}", tensor.name);
    CALYREX_CHECK(tensor.name != kMetadataKey && names.insert(tensor.name).second, "tensor name {}",
                  tensor.name);
    int64_t values = 1;
    for (const int64_t size : tensor.shape) values *= size;
    const auto bytes = static_cast<size_t>(values * block_bytes(tensor.dtype));
    CALYREX_CHECK(bytes == tensor.data.size(), "{} has {} bytes, its shape {}", tensor.name,
                  tensor.data.size(), bytes);
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = to_json_line(header);
  // Blanks are the format's own padding: they keep the data aligned for readers that map it.
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(MappedFile::open(path));
  const std::span<const std::byte> bytes = file.file_.bytes();
  const std::string name = path.string();
  if (bytes.size() < kLengthBytes) {
    fail(ErrorCode::kCorruptData,
         "{}: {} bytes are too few for a safetensors file; it is truncated or damaged; fetch it again", name,
         bytes.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    fail(ErrorCode::kCorruptData,
         "{}: a header of {} bytes does not fit the file's {}; it is truncated or damaged; fetch it again",
         name, length, bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{') {
    fail(ErrorCode::kCorruptData,
         "{}: the header is not a JSON object; the file is damaged or not safetensors", name);
  }
  const Json header = parse_json(text, name + ": header",
                                 {.max_bytes = kMaxHeaderBytes, .max_depth = 8, .max_keys = kMaxTensors});
  const HeaderReader reader{.file = name, .buffer = bytes.subspan(kLengthBytes + length)};
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadataKey) {
      file.metadata_ = reader.read_metadata(value);
    } else {
      file.tensors_.push_back(reader.read_tensor(key, value));
    }
  }
  reader.check_tiling(file.tensors_);
  std::sort(file.tensors_.begin(), file.tensors_.end(),
            [](const TensorView& left, const TensorView& right) { return left.name < right.name; });
  return file;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorView& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const TensorToWrite& tensor : tensors) file.write(tensor.data);
  file.commit();
}

}  // namespace calyrex::weights
