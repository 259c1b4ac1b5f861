#include "calyrex/eval/run/lines.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::eval {
namespace {

void drop_half_line(const std::filesystem::path& path) {
  size_t whole = 0;
  size_t size = 0;
  {
    const MappedFile file = MappedFile::open(path);
    const auto bytes = file.bytes();
    size = bytes.size();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
    const size_t end = text.rfind('\n');
    whole = end == std::string_view::npos ? 0 : end + 1;
  }
  if (whole == size) return;
  std::error_code error;
  std::filesystem::resize_file(path, whole, error);
  if (error) fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
}

}  // namespace

void read_appended_lines(const std::filesystem::path& path, const std::function<void(int64_t, Json)>& line) {
  constexpr size_t kMaxLineBytes = size_t{256} << 20;
  if (!path_exists(path)) return;
  drop_half_line(path);
  for_each_line(path, kMaxLineBytes, [&](int64_t number, std::string_view text) {
    const std::string place = fmt::format("{}:{}", path.string(), number);
    Json json;
    try {
      json = parse_json(text, place, {.max_bytes = kMaxLineBytes});
    } catch (const Error&) {
      json = nullptr;
    }
    if (!json.is_object()) {
      fail(ErrorCode::kCorruptData, "{}: damaged line; delete the line (its sample is then asked again)",
           place);
    }
    line(number, std::move(json));
  });
}

}  // namespace calyrex::eval
