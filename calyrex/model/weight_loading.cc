#include "calyrex/model/weight_loading.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "calyrex/base/error.h"

namespace calyrex::model {
namespace {

/// Rows that one thread widens before they are stored in the compute dtype: small enough to stay in its
/// cache.
constexpr int64_t kChunkValues = 1 << 15;

/// Reads all rows of a view into `target` [rows, columns], in parallel.
void read_rows(const weights::TensorView& view, at::Tensor target) {
  const int64_t rows = target.size(0);
  const int64_t columns = target.size(1);
  const int64_t chunk = std::max<int64_t>(1, kChunkValues / columns);
  at::parallel_for(0, (rows + chunk - 1) / chunk, 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;
    at::Tensor scratch = at::empty({chunk, columns}, at::kFloat);
    for (int64_t n = begin; n < end; ++n) {
      const int64_t first = n * chunk;
      const int64_t last = std::min(rows, first + chunk);
      at::Tensor part = scratch.narrow(0, 0, last - first);
      weights::read_rows_as_float(
          view, first, last, std::span(part.mutable_data_ptr<float>(), static_cast<size_t>(part.numel())));
      target.narrow(0, first, last - first).copy_(part);
    }
  });
}

}  // namespace

const weights::TensorView& WeightLoader::view(const std::string& name) const {
  const weights::TensorView* found = source_.find(name);
  CALYREX_CHECK(found != nullptr, "{} has no tensor {}", source_.name(), name);
  return *found;
}

at::Tensor WeightLoader::matrix(const std::vector<std::string>& names) const {
  int64_t rows = 0;
  for (const std::string& name : names) rows += view(name).shape.at(0);
  at::Tensor joined = at::empty({rows, view(names.front()).shape.at(1)}, compute_dtype_);
  int64_t row = 0;
  for (const std::string& name : names) {
    const int64_t count = view(name).shape.at(0);
    read_rows(view(name), joined.narrow(0, row, count));
    row += count;
  }
  return joined.to(device_);
}

at::Tensor WeightLoader::vector(const std::vector<std::string>& names) const {
  std::vector<at::Tensor> parts;
  for (const std::string& name : names) parts.push_back(read_float(view(name)));
  return at::cat(parts).to(device_);
}

at::Tensor read_float(const weights::TensorView& view) {
  at::Tensor values = at::empty(view.shape, at::kFloat);
  weights::read_rows_as_float(
      view, 0, view.shape.size() > 1 ? view.shape.front() : 1,
      std::span(values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel())));
  return values;
}

}  // namespace calyrex::model
