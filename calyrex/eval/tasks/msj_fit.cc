#include "calyrex/eval/tasks/msj_fit.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "calyrex/base/random.h"

namespace calyrex::eval {
namespace {

constexpr int kResamples = 1000;

/// Numbers of shots that every series has.
std::set<int64_t> common_shots(const std::vector<ShotSeries>& series) {
  std::set<int64_t> common;
  for (const auto& [shots, nll] : series.front()) {
    const bool everywhere = std::all_of(series.begin(), series.end(),
                                        [&](const ShotSeries& other) { return other.contains(shots); });
    if (everywhere) common.insert(shots);
  }
  return common;
}

std::optional<PowerLaw> fit_mean(const std::vector<const ShotSeries*>& series,
                                 const std::set<int64_t>& shots) {
  std::vector<ShotPoint> points;
  for (const int64_t count : shots) {
    double sum = 0.0;
    for (const ShotSeries* one : series) sum += one->at(count);
    points.push_back({.shots = static_cast<double>(count), .nll = sum / static_cast<double>(series.size())});
  }
  return fit_power_law(points);
}

data::Estimate with_interval(double value, std::vector<double> draws) {
  if (draws.empty()) return {.value = value, .low = value, .high = value};
  std::sort(draws.begin(), draws.end());
  const auto at = [&](double share) {
    return draws[static_cast<size_t>(share * static_cast<double>(draws.size() - 1) + 0.5)];
  };
  return {.value = value, .low = at(0.025), .high = at(0.975)};
}

}  // namespace

std::optional<PowerLaw> fit_power_law(std::span<const ShotPoint> points) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const ShotPoint& point : points) {
    if (!(point.shots > 0.0) || !(point.nll > 0.0) || !std::isfinite(point.nll)) continue;
    xs.push_back(std::log(point.shots));
    ys.push_back(std::log(point.nll));
  }
  const auto n = static_cast<double>(xs.size());
  double mean_x = 0.0;
  double mean_y = 0.0;
  for (size_t i = 0; i < xs.size(); ++i) {
    mean_x += xs[i] / n;
    mean_y += ys[i] / n;
  }
  double xx = 0.0;
  double xy = 0.0;
  double yy = 0.0;
  for (size_t i = 0; i < xs.size(); ++i) {
    xx += (xs[i] - mean_x) * (xs[i] - mean_x);
    xy += (xs[i] - mean_x) * (ys[i] - mean_y);
    yy += (ys[i] - mean_y) * (ys[i] - mean_y);
  }
  if (xs.size() < 2 || xx < 1e-12) return std::nullopt;
  const double slope = xy / xx;
  return PowerLaw{.scale = std::exp(mean_y - slope * mean_x),
                  .exponent = -slope,
                  .r_squared = yy < 1e-24 ? 1.0 : xy * xy / (xx * yy)};
}

std::optional<PowerLawEstimate> fit_series(const std::vector<ShotSeries>& series, uint64_t seed) {
  if (series.empty()) return std::nullopt;
  const std::set<int64_t> shots = common_shots(series);
  std::vector<const ShotSeries*> all;
  for (const ShotSeries& one : series) all.push_back(&one);
  const std::optional<PowerLaw> fit = fit_mean(all, shots);
  if (!fit) return std::nullopt;
  RandomStream random(seed, "power law");
  std::vector<double> scales;
  std::vector<double> exponents;
  for (int i = 0; i < kResamples; ++i) {
    std::vector<const ShotSeries*> drawn;
    for (size_t k = 0; k < series.size(); ++k) drawn.push_back(&series[random.below(series.size())]);
    if (const std::optional<PowerLaw> again = fit_mean(drawn, shots)) {
      scales.push_back(again->scale);
      exponents.push_back(again->exponent);
    }
  }
  return PowerLawEstimate{.scale = with_interval(fit->scale, std::move(scales)),
                          .exponent = with_interval(fit->exponent, std::move(exponents)),
                          .r_squared = fit->r_squared};
}

}  // namespace calyrex::eval
