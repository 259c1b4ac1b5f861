// How far two judges agree, chance allowed for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "calyrex/base/json.h"
#include "calyrex/data/statistics.h"

namespace calyrex::eval {

/// One thing both judges decided; `cluster` names what hangs together (a dialogue).
struct DoubleVerdict {
  std::string cluster;
  bool first = false;
  bool second = false;
};

struct Agreement {
  int64_t n = 0;
  int64_t both_yes = 0;
  int64_t only_first = 0;  // the first judge says yes, the second no
  int64_t only_second = 0;
  int64_t both_no = 0;
  data::Estimate raw;    // share decided alike
  data::Estimate kappa;  // Cohen 1960; 0 when a judge never varies and they differ, 1 when all is alike
};

/// Intervals: 95 % percentile bootstrap that draws whole clusters.
Agreement measure_agreement(std::span<const DoubleVerdict> verdicts, uint64_t seed);

/// Cohen's kappa of a two-by-two table.
double cohens_kappa(int64_t both_yes, int64_t only_first, int64_t only_second, int64_t both_no);

Json agreement_to_json(const Agreement& agreement);

}  // namespace calyrex::eval
