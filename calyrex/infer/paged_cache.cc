#include "calyrex/infer/paged_cache.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/paged_attention.h"
#include "calyrex/model/kernel_args.h"

namespace calyrex::infer {
namespace {

template <typename Source, typename Cache>
void store_rows(const kernels::PagedLayout& layout, const at::Tensor& rows, const at::Tensor& slots,
                const at::Tensor& pages) {
  kernels::StorePagesArgs<Source, Cache> args;
  args.layout = layout;
  args.rows_in = model::const_values<Source>(rows);
  args.slots = slots.const_data_ptr<int64_t>();
  args.rows = rows.size(0);
  args.pages = model::mutable_values<Cache>(pages);
  kernels::store_pages(args);
}

}  // namespace

int64_t PagedCache::Shape::page_bytes(at::ScalarType dtype) const {
  return static_cast<int64_t>(layers.size()) * 2 * num_kv_heads * page_size * head_dim *
         static_cast<int64_t>(at::elementSize(dtype));
}

PagedCache::PagedCache(Shape shape, int64_t num_pages, at::ScalarType dtype, at::Device device)
    : shape_(std::move(shape)), num_pages_(num_pages), dtype_(dtype), device_(device) {
  for (size_t i = 0; i < shape_.layers.size(); ++i)
    layers_.emplace_back(new_pages(num_pages), new_pages(num_pages));
}

at::Tensor PagedCache::new_pages(int64_t num_pages) const {
  return at::empty({num_pages, shape_.num_kv_heads, shape_.page_size, shape_.head_dim},
                   at::TensorOptions(device_).dtype(dtype_));
}

const std::pair<at::Tensor, at::Tensor>& PagedCache::pages(int64_t layer) const {
  const auto found = std::find(shape_.layers.begin(), shape_.layers.end(), layer);
  CALYREX_CHECK(found != shape_.layers.end(), "no keys of layer {}", layer);
  return layers_[static_cast<size_t>(found - shape_.layers.begin())];
}

void PagedCache::store(int64_t layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slots) {
  const auto& [k_pages, v_pages] = pages(layer);
  if (device_.is_cpu() && shape_.head_dim % 8 == 0) {
    const kernels::PagedLayout layout{shape_.num_kv_heads, shape_.page_size, shape_.head_dim};
    const bool narrow = dtype_ == at::kBFloat16;
    const auto store = !narrow                         ? &store_rows<float, float>
                       : k.scalar_type() == at::kFloat ? &store_rows<float, kernels::BFloat16>
                                                       : &store_rows<kernels::BFloat16, kernels::BFloat16>;
    store(layout, k.contiguous(), slots, k_pages);
    store(layout, v.contiguous(), slots, v_pages);
    return;
  }
  const at::Tensor page = slots.div(shape_.page_size, "floor");
  const at::Tensor offset = slots.remainder(shape_.page_size);
  const c10::List<std::optional<at::Tensor>> where({page, std::nullopt, offset});
  k_pages.index_put_(where, k.to(dtype_));
  v_pages.index_put_(where, v.to(dtype_));
}

std::pair<at::Tensor, at::Tensor> PagedCache::gather(int64_t layer, std::span<const PageId> table,
                                                     int64_t length, at::ScalarType dtype) const {
  const int64_t count = (length + shape_.page_size - 1) / shape_.page_size;
  std::vector<int64_t> ids(table.begin(), table.begin() + count);
  const at::Tensor index = at::tensor(ids, at::kLong).to(device_);
  const auto collect = [&](const at::Tensor& all) {
    return all.index_select(0, index)
        .transpose(0, 1)
        .reshape({1, shape_.num_kv_heads, count * shape_.page_size, shape_.head_dim})
        .narrow(2, 0, length)
        .to(dtype);
  };
  const auto& [k_pages, v_pages] = pages(layer);
  return {collect(k_pages), collect(v_pages)};
}

void PagedCache::grow(int64_t num_pages) {
  CALYREX_CHECK(num_pages >= num_pages_, "{} pages, {} asked for", num_pages_, num_pages);
  for (auto& [k_pages, v_pages] : layers_) {
    for (at::Tensor* old : {&k_pages, &v_pages}) {
      at::Tensor grown = new_pages(num_pages);
      grown.narrow(0, 0, num_pages_).copy_(*old);
      *old = grown;
    }
  }
  num_pages_ = num_pages;
}

}  // namespace calyrex::infer
