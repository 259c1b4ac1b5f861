// Linear probes: how well a linear function of hidden states tells classes apart (Alain and Bengio, 2017).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace calyrex::study {

/// Multinomial logistic regression: minimises mean cross-entropy + l2 / 2 * ||weight||^2, the bias being
/// free.
struct ProbeFit {
  at::Tensor weight;  // [classes, features] float64
  at::Tensor bias;    // [classes] float64
  double objective = 0.0;
  int64_t iterations = 0;
};

/// `features` [rows, features] and `labels` [rows] int64 below `classes`. L-BFGS (Liu and Nocedal, 1989)
/// until the gradient's norm is below `tolerance`; the minimum is unique but for a common shift of the
/// biases.
ProbeFit fit_probe(const at::Tensor& features, const at::Tensor& labels, int64_t classes, double l2,
                   double tolerance = 1e-6);

/// Class of each row.
at::Tensor probe_classes(const ProbeFit& fit, const at::Tensor& features);

/// Which rows a probe is fitted on and which it is tried on.
struct ProbeSplit {
  std::vector<int64_t> train;
  std::vector<int64_t> test;
};

/// Half of each label's groups (wordings of a rule) go to either side, so that no wording is on both; a label
/// with one group is halved by rows, and one with a single row goes to training. Seeded.
ProbeSplit split_for_probe(const std::vector<int64_t>& labels, const std::vector<std::string>& groups,
                           uint64_t seed);

/// Features are standardised by the training rows; returns how many test rows are told right.
int64_t probe_hits(const at::Tensor& states, const std::vector<int64_t>& labels, int64_t classes,
                   const ProbeSplit& split);

}  // namespace calyrex::study
