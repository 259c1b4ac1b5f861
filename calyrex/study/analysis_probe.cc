#include "calyrex/study/analysis_probe.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include <ATen/ATen.h>

#include "calyrex/base/random.h"

namespace calyrex::study {
namespace {

constexpr int64_t kMaxIterations = 1000;
constexpr size_t kHistory = 10;
/// Strength of the probes' penalty, on standardised features.
constexpr double kProbeL2 = 0.01;

/// The objective over one vector of all parameters: [classes, features + 1], the bias last.
struct Objective {
  at::Tensor features;  // [rows, features + 1], the last one all ones
  at::Tensor one_hot;   // [rows, classes]
  double l2 = 0.0;

  /// Value, and its gradient in `gradient`.
  double evaluate(const at::Tensor& parameters, at::Tensor& gradient) const {
    const auto rows = static_cast<double>(features.size(0));
    const at::Tensor log_shares = at::log_softmax(features.matmul(parameters.t()), 1);
    const at::Tensor error = log_shares.exp() - one_hot;
    const at::Tensor weight = parameters.slice(1, 0, -1);
    gradient = error.t().matmul(features) / rows;
    gradient.slice(1, 0, -1).add_(weight, l2);
    return -(log_shares * one_hot).sum().item<double>() / rows +
           0.5 * l2 * weight.square().sum().item<double>();
  }
};

double sum_of_products(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

/// The quasi-Newton direction: two loops over the last steps and changes of gradient.
class LbfgsMemory {
 public:
  void add(const at::Tensor& step, const at::Tensor& change) {
    const double curvature = sum_of_products(step, change);
    if (curvature <= 1e-12 * sum_of_products(change, change)) return;
    pairs_.push_back({step, change, 1.0 / curvature});
    if (pairs_.size() > kHistory) pairs_.pop_front();
  }

  at::Tensor direction(const at::Tensor& gradient) const {
    at::Tensor result = gradient.clone();
    std::vector<double> alphas(pairs_.size());
    for (size_t i = pairs_.size(); i-- > 0;) {
      alphas[i] = pairs_[i].inverse * sum_of_products(pairs_[i].step, result);
      result.sub_(pairs_[i].change, alphas[i]);
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      result.mul_(1.0 / (last.inverse * sum_of_products(last.change, last.change)));
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const double beta = pairs_[i].inverse * sum_of_products(pairs_[i].change, result);
      result.add_(pairs_[i].step, alphas[i] - beta);
    }
    return result.neg_();
  }

 private:
  struct Pair {
    at::Tensor step, change;
    double inverse = 0.0;
  };
  std::deque<Pair> pairs_;
};

at::Tensor index_tensor(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

}  // namespace

ProbeFit fit_probe(const at::Tensor& features, const at::Tensor& labels, int64_t classes, double l2,
                   double tolerance) {
  const at::Tensor wide = features.to(at::kDouble);
  const Objective objective{
      .features = at::cat({wide, at::ones({wide.size(0), 1}, wide.options())}, 1),
      .one_hot = at::zeros({wide.size(0), classes}, wide.options()).scatter(1, labels.unsqueeze(1), 1.0),
      .l2 = l2};
  at::Tensor parameters = at::zeros({classes, wide.size(1) + 1}, wide.options()), gradient;
  double value = objective.evaluate(parameters, gradient);
  LbfgsMemory memory;
  ProbeFit fit;
  while (fit.iterations < kMaxIterations && gradient.norm().item<double>() > tolerance) {
    ++fit.iterations;
    const at::Tensor direction = memory.direction(gradient);
    const double slope = sum_of_products(gradient, direction);
    // Halving until the value falls enough (Armijo); the first step has no scale of its own.
    double length = fit.iterations == 1 ? 1.0 / std::max(1.0, gradient.norm().item<double>()) : 1.0;
    at::Tensor next, next_gradient;
    double next_value = value;
    for (int halvings = 0; halvings < 40; ++halvings, length *= 0.5) {
      next = parameters + length * direction;
      next_value = objective.evaluate(next, next_gradient);
      if (next_value <= value + 1e-4 * length * slope) break;
    }
    if (!(next_value < value)) break;
    memory.add(next - parameters, next_gradient - gradient);
    parameters = next;
    gradient = next_gradient;
    value = next_value;
  }
  fit.weight = parameters.slice(1, 0, -1);
  fit.bias = parameters.select(1, -1);
  fit.objective = value;
  return fit;
}

at::Tensor probe_classes(const ProbeFit& fit, const at::Tensor& features) {
  return (features.to(at::kDouble).matmul(fit.weight.t()) + fit.bias).argmax(1);
}

ProbeSplit split_for_probe(const std::vector<int64_t>& labels, const std::vector<std::string>& groups,
                           uint64_t seed) {
  std::map<int64_t, std::map<std::string, std::vector<int64_t>>> by_label;
  for (size_t i = 0; i < labels.size(); ++i) {
    by_label[labels[i]][groups[i]].push_back(static_cast<int64_t>(i));
  }
  RandomStream random(seed, "probe split");
  ProbeSplit split;
  for (auto& [label, members] : by_label) {
    std::vector<std::vector<int64_t>> parts;
    if (members.size() == 1) {
      for (const int64_t row : members.begin()->second) parts.push_back({row});
    } else {
      for (auto& [group, rows] : members) parts.push_back(std::move(rows));
    }
    random.shuffle(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      std::vector<int64_t>& side = i % 2 == 0 ? split.train : split.test;
      side.insert(side.end(), parts[i].begin(), parts[i].end());
    }
  }
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.test.begin(), split.test.end());
  return split;
}

int64_t probe_hits(const at::Tensor& states, const std::vector<int64_t>& labels, int64_t classes,
                   const ProbeSplit& split) {
  const at::Tensor all = states.to(at::kDouble), targets = index_tensor(labels);
  const at::Tensor train = all.index_select(0, index_tensor(split.train));
  const at::Tensor mean = train.mean(0);
  // What does not vary tells nothing; its deviation must not divide.
  const at::Tensor deviation = (train - mean).square().mean(0).sqrt().clamp_min(1e-8);
  const ProbeFit fit =
      fit_probe((train - mean) / deviation, targets.index_select(0, index_tensor(split.train)), classes,
                kProbeL2, /*tolerance=*/1e-4);
  const at::Tensor test = index_tensor(split.test);
  const at::Tensor told = probe_classes(fit, (all.index_select(0, test) - mean) / deviation);
  return told.eq(targets.index_select(0, test)).sum().item<int64_t>();
}

}  // namespace calyrex::study
