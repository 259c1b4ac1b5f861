#include "calyrex/eval/run/response_cache.h"

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/ask.h"
#include "calyrex/eval/run/lines.h"

namespace calyrex::eval {

ResponseCache::ResponseCache(std::filesystem::path path) : path_(std::move(path)) {
  read_appended_lines(path_, [this](int64_t number, const Json& json) {
    const std::string place = fmt::format("{}:{}", path_.string(), number);
    if (!json.contains("key") || !json["key"].is_string() || !json.contains("reply")) {
      fail(ErrorCode::kCorruptData, "{}: not a line of a response cache", place);
    }
    replies_.insert_or_assign(json["key"].get<std::string>(), reply_from_json(json["reply"], place));
  });
}

std::optional<Reply> ResponseCache::find(const std::string& key) const {
  const auto found = replies_.find(key);
  if (found == replies_.end()) return std::nullopt;
  return found->second;
}

void ResponseCache::add(const std::string& key, const Reply& reply) {
  if (!replies_.emplace(key, reply).second) return;
  if (!writer_) writer_.emplace(path_, LineWriter::Mode::kAppend);
  Json line;
  line["key"] = key;
  line["reply"] = reply_to_json(reply);
  writer_->write_line(to_json_line(line));
}

}  // namespace calyrex::eval
