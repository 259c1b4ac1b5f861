// Tests of differences between two runs over the same samples.
#pragma once

#include <cstdint>
#include <vector>

namespace calyrex::eval {

/// Two-sided exact McNemar test (McNemar 1947, by the binomial distribution): probability of a split of the
/// discordant samples at least as uneven as this one when neither run is better. No discordant sample: 1.
double mcnemar_exact(int64_t only_first, int64_t only_second);

/// Holm's step-down correction (Holm 1979) of p-values that are looked at together; in their order.
std::vector<double> holm_adjust(const std::vector<double>& p_values);

}  // namespace calyrex::eval
