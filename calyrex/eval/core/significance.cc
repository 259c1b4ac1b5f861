#include "calyrex/eval/core/significance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calyrex/base/error.h"

namespace calyrex::eval {

double mcnemar_exact(int64_t only_first, int64_t only_second) {
  CALYREX_CHECK(only_first >= 0 && only_second >= 0);
  const int64_t trials = only_first + only_second;
  if (only_first == only_second) return 1.0;
  const double n = static_cast<double>(trials);
  double tail = 0.0;
  for (int64_t i = 0; i <= std::min(only_first, only_second); ++i) {
    const double k = static_cast<double>(i);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
  }
  return std::min(1.0, 2.0 * tail);
}

std::vector<double> holm_adjust(const std::vector<double>& p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double highest = 0.0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    highest = std::max(highest, std::min(1.0, factor * p_values[order[rank]]));
    adjusted[order[rank]] = highest;
  }
  return adjusted;
}

}  // namespace calyrex::eval
