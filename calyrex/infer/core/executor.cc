#include "calyrex/infer/core/executor.h"

#include <algorithm>
#include <atomic>

namespace calyrex::infer {
namespace {

std::atomic<uint64_t> next_adapter_number = 1;

}  // namespace

ServedAdapter::ServedAdapter() : number_(next_adapter_number++) {}

bool share_computation(const ScoreItem& a, const ScoreItem& b) {
  const auto length = static_cast<int64_t>(a.token_ids.size());
  return b.token_ids.size() == a.token_ids.size() && a.score_from == length - 1 &&
         b.score_from == length - 1 && a.system_spans == b.system_spans &&
         std::equal(a.token_ids.begin(), a.token_ids.end() - 1, b.token_ids.begin());
}

}  // namespace calyrex::infer
