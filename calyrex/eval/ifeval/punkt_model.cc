#include "calyrex/eval/ifeval/punkt_model.h"

#include <charconv>
#include <vector>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::ifeval {
namespace {

constexpr size_t kMaxLineBytes = 1000;
constexpr int kAllBits = kAnyUpper | kAnyLower;

std::vector<std::string_view> split_at_tabs(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t tab = line.find('\t'); tab != std::string_view::npos; tab = line.find('\t')) {
    fields.push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  fields.push_back(line);
  return fields;
}

}  // namespace

PunktModel PunktModel::read(const std::filesystem::path& path) {
  if (!path_exists(path)) fail(ErrorCode::kNotFound, "{} is not there; ./run build makes it", path.string());
  PunktModel model;
  for_each_line(path, kMaxLineBytes, [&](int64_t number, std::string_view line) {
    with_context(fmt::format("{}:{}", path.string(), number), [&] { model.add_line(line); });
  });
  if (model.seen_.empty()) fail(ErrorCode::kCorruptData, "{}: no words in it", path.string());
  return model;
}

void PunktModel::add_line(std::string_view line) {
  const std::vector<std::string_view> fields = split_at_tabs(line);
  const std::string_view kind = fields.front();
  if (kind == "abbreviation" && fields.size() == 2) {
    abbreviations_.insert(decode_utf8(fields[1]));
  } else if (kind == "starter" && fields.size() == 2) {
    starters_.insert(decode_utf8(fields[1]));
  } else if (kind == "collocation" && fields.size() == 3) {
    collocations_.insert(decode_utf8(fields[1]) + U'\t' + decode_utf8(fields[2]));
  } else {
    int bits = 0;
    const auto parse = [&](std::string_view text) {
      const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), bits);
      return status == std::errc() && end == text.data() + text.size() && (bits & ~kAllBits) == 0;
    };
    if (kind != "seen" || fields.size() != 3 || !parse(fields[1])) {
      fail(ErrorCode::kCorruptData, "expected abbreviation, starter, collocation or seen and their words");
    }
    seen_.emplace(decode_utf8(fields[2]), bits);
  }
}

bool PunktModel::is_collocation(TextView first, TextView second) const {
  Text pair(first);
  pair += U'\t';
  pair += second;
  return collocations_.contains(pair);
}

int PunktModel::seen(TextView word) const {
  const auto found = seen_.find(Text(word));
  return found == seen_.end() ? 0 : found->second;
}

}  // namespace calyrex::ifeval
