// Keys and values in pages: of the backbone's layers for running sequences, or of an adapter's blocks for
// spans.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/infer/core/page_pool.h"

namespace calyrex::infer {

/// For each layer two tensors [num_pages, num_kv_heads, page_size, head_dim]. A slot is page * page_size +
/// offset. Memory is touched when pages are first written. Thread-compatible.
class PagedCache {
 public:
  struct Shape {
    std::vector<int64_t> layers;  // the numbers by which store() and gather() are called
    int64_t num_kv_heads = 0;
    int64_t head_dim = 0;
    int64_t page_size = 16;

    /// Bytes of one page in all layers.
    int64_t page_bytes(at::ScalarType dtype) const;
  };

  PagedCache(Shape shape, int64_t num_pages, at::ScalarType dtype, at::Device device);

  const Shape& shape() const { return shape_; }
  int64_t num_pages() const { return num_pages_; }
  at::ScalarType dtype() const { return dtype_; }
  at::Device device() const { return device_; }

  /// Writes rows [rows, num_kv_heads, head_dim] into slots [rows] int64.
  void store(int64_t layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slots);
  /// The first `length` positions of a sequence, each [1, num_kv_heads, length, head_dim] in `dtype`.
  std::pair<at::Tensor, at::Tensor> gather(int64_t layer, std::span<const PageId> pages, int64_t length,
                                           at::ScalarType dtype) const;
  /// All pages of a layer: keys, values.
  const std::pair<at::Tensor, at::Tensor>& pages(int64_t layer) const;
  /// More pages; what is stored stays.
  void grow(int64_t num_pages);

 private:
  at::Tensor new_pages(int64_t num_pages) const;

  Shape shape_;
  int64_t num_pages_;
  at::ScalarType dtype_;
  at::Device device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> layers_;
};

}  // namespace calyrex::infer
