// Negative log-likelihood against the number of shots, as a power law (Anil et al. 2024: many-shot
// jailbreaking).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "calyrex/data/statistics.h"

namespace calyrex::eval {

/// nll = scale * shots^-exponent, by least squares on logarithms.
struct PowerLaw {
  double scale = 0.0;
  double exponent = 0.0;
  double r_squared = 0.0;
};

struct ShotPoint {
  double shots = 0.0;
  double nll = 0.0;
};

/// Points without shots or with nll <= 0 have no logarithm and are left out; fewer than two other numbers of
/// shots: none.
std::optional<PowerLaw> fit_power_law(std::span<const ShotPoint> points);

/// One series' NLL by number of shots.
using ShotSeries = std::map<int64_t, double>;

struct PowerLawEstimate {
  data::Estimate scale;
  data::Estimate exponent;
  double r_squared = 0.0;
};

/// Fit to the mean over series at each number of shots that all have; intervals from a seeded bootstrap that
/// draws series.
std::optional<PowerLawEstimate> fit_series(const std::vector<ShotSeries>& series, uint64_t seed);

}  // namespace calyrex::eval
