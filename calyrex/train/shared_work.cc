#include "calyrex/train/shared_work.h"

#include <algorithm>

namespace calyrex::train {

std::shared_ptr<const EncodedRows> EncodedRowsCache::get(const std::string& key, const Make& make) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.first == key; });
  auto entry = found != entries_.end() ? *found : std::pair(key, make());
  if (found != entries_.end()) entries_.erase(found);
  entries_.push_front(entry);
  if (entries_.size() > kKept) entries_.pop_back();
  return entry.second;
}

}  // namespace calyrex::train
