// Decode attention: one query token per sequence over a paged key/value cache, and the writes into that
// cache.
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

/// Keys that one task attends to at most; longer contexts are split and merged. Fixed, so that a sequence's
/// result has the same bits whatever its neighbours are and however many threads run.
inline constexpr int64_t kAttentionSplitKeys = 512;

/// Shape of a paged cache. A page holds `page_size` consecutive positions of one sequence; K and V are two
/// arrays of [num_pages, num_kv_heads, page_size, head_dim] each.
struct PagedLayout {
  int64_t num_kv_heads = 0;
  int64_t page_size = 0;
  int64_t head_dim = 0;  // a multiple of 8, at most 256
  int64_t page_elements() const { return num_kv_heads * page_size * head_dim; }
};

/// out[s, h, :] = softmax(scale * q[s, h, :] K^T) V over the first lengths[s] positions of sequence s; query
/// head h uses key/value head h / (num_heads / num_kv_heads). Length 0 gives exactly 0. Online softmax in
/// float32. Query and Cache are float/float, float/BFloat16 or BFloat16/BFloat16.
template <typename Query, typename Cache>
struct PagedAttentionArgs {
  PagedLayout layout;
  const Query* q = nullptr;             // [batch, num_heads, head_dim]
  const Cache* k_pages = nullptr;       // [num_pages, num_kv_heads, page_size, head_dim]
  const Cache* v_pages = nullptr;       // as k_pages
  const int32_t* page_table = nullptr;  // [batch, max_pages]; entries beyond a sequence's length are not read
  const int64_t* lengths = nullptr;     // [batch]
  Query* out = nullptr;                 // [batch, num_heads, head_dim]
  int64_t batch = 0;
  int64_t max_pages = 0;
  int64_t num_heads = 0;  // a multiple of num_kv_heads
  float scale = 1.0f;
};
void paged_attention(const PagedAttentionArgs<float, float>& args);
void paged_attention(const PagedAttentionArgs<float, BFloat16>& args);
void paged_attention(const PagedAttentionArgs<BFloat16, BFloat16>& args);

/// Writes rows of keys or values into cache pages: row r goes to slot slots[r] = page * page_size + offset; a
/// negative slot is skipped. Source is float or BFloat16.
template <typename Source, typename Cache>
struct StorePagesArgs {
  PagedLayout layout;
  const Source* rows_in = nullptr;  // [rows, num_kv_heads, head_dim]
  const int64_t* slots = nullptr;   // [rows]
  int64_t rows = 0;
  Cache* pages = nullptr;  // [num_pages, num_kv_heads, page_size, head_dim]
};
void store_pages(const StorePagesArgs<float, float>& args);
void store_pages(const StorePagesArgs<float, BFloat16>& args);
void store_pages(const StorePagesArgs<BFloat16, BFloat16>& args);

}  // namespace calyrex::kernels
