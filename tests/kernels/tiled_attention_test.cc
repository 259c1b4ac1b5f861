#include "calyrex/kernels/tiled_attention.h"

#include <numeric>

#include "calyrex/kernels/attention_block.h"
#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

constexpr int64_t kPage = PairedLayout::kPageSize;

class TiledAttentionTest : public KernelTest {};

/// Queries and weights are rounded to bfloat16 where products take such operands.
double attention_tolerance() {
  const bool rounds = cpu_target() == "avx512" && attention_kernels_bf16().attend != nullptr;
  return rounds ? 2.0 * tolerance::kBFloat16Rounding : tolerance::kFloat32Kernel;
}

/// Keys and values of one sequence, in pages that are handed out in a scattered order among pages of NaN.
class Cache {
 public:
  Cache(const PairedLayout& layout, int64_t keys, uint64_t seed) : layout_(layout), keys_(keys) {
    const int64_t num_pages = (keys + kPage - 1) / kPage;
    table_.resize(static_cast<size_t>(num_pages));
    std::iota(table_.begin(), table_.end(), 1);
    std::shuffle(table_.begin(), table_.end(), std::mt19937_64(seed));
    const Doubles nan((num_pages + 2) * layout.page_elements(), NAN);
    k_pages_ = TestArray<BFloat16>(nan, 0);
    v_pages_ = TestArray<BFloat16>(nan, 0);
    const int64_t width = layout.num_kv_heads * layout.head_dim;
    k_ = random_doubles(keys * width, seed + 1);
    v_ = random_doubles(keys * width, seed + 2);
    for (Doubles* rows : {&k_, &v_}) {
      for (double& value : *rows) value = to_float(from_double<BFloat16>(value));
    }
    for (int64_t n = 0; n < keys; ++n) {
      const std::vector<float> k(k_.begin() + n * width, k_.begin() + (n + 1) * width);
      const std::vector<float> v(v_.begin() + n * width, v_.begin() + (n + 1) * width);
      const int64_t slot = table_[static_cast<size_t>(n / kPage)] * kPage + n % kPage;
      store_paired(layout, k.data(), v.data(), slot, k_pages_.data(), v_pages_.data());
    }
    k_pages_.expect_guards_untouched();
    v_pages_.expect_guards_untouched();
  }

  Doubles head_rows(const Doubles& rows, int64_t head) const {
    Doubles out;
    for (int64_t n = 0; n < keys_; ++n) {
      const auto begin = rows.begin() + (n * layout_.num_kv_heads + head) * layout_.head_dim;
      out.insert(out.end(), begin, begin + layout_.head_dim);
    }
    return out;
  }
  Doubles keys_of(int64_t head) const { return head_rows(k_, head); }
  Doubles values_of(int64_t head) const { return head_rows(v_, head); }
  std::span<const int32_t> table() const { return table_; }
  BFloat16* k_pages() { return k_pages_.data(); }
  BFloat16* v_pages() { return v_pages_.data(); }

 private:
  PairedLayout layout_;
  int64_t keys_;
  std::vector<int32_t> table_;
  Doubles k_, v_;  // [keys, num_kv_heads, head_dim]
  TestArray<BFloat16> k_pages_{0, 0}, v_pages_{0, 0};
};

struct Shape {
  PairedLayout layout;
  int64_t num_heads = 1;
};

struct Rows {
  int64_t count = 1;
  int64_t first_visible = 1;
  bool causal = true;

  int64_t visible(int64_t n) const { return first_visible + (causal ? n : 0); }
};

/// Results of rows that are cut into runs of at most `chunk`, in one plan.
Doubles attend(const Shape& shape, Cache& cache, TestArray<float>& queries, const Rows& rows, int64_t chunk) {
  std::vector<AttentionRun> runs;
  for (int64_t first = 0; first < rows.count; first += chunk) {
    runs.push_back({std::min(chunk, rows.count - first), cache.table(), rows.visible(first), rows.causal});
  }
  TiledAttention attention(shape.layout, shape.num_heads, runs);
  EXPECT_EQ(attention.num_rows(), rows.count);
  TestArray<float> out(queries.count(), 3);
  const TiledAttentionArgs args{queries.data(), cache.k_pages(), cache.v_pages(), out.data()};
  for (int64_t n = 0; n < attention.num_tasks(); ++n) attention.attend(args, n);
  for (int64_t n = 0; n < attention.num_rows(); ++n) attention.merge(args, n);
  out.expect_guards_untouched();
  return out.values();
}

TestArray<float> make_queries(const Shape& shape, int64_t rows) {
  return {random_doubles(rows * shape.num_heads * shape.layout.head_dim, 3), 1};
}

void check(const Shape& shape, const Rows& rows) {
  SCOPED_TRACE(testing::Message() << "dim " << shape.layout.head_dim << ", " << shape.num_heads
                                  << " heads over " << shape.layout.num_kv_heads << ", " << rows.count
                                  << " rows from " << rows.first_visible << (rows.causal ? " causal" : ""));
  Cache cache(shape.layout, rows.visible(rows.count - 1), 7);
  TestArray<float> queries = make_queries(shape, rows.count);
  const Doubles actual = attend(shape, cache, queries, rows, rows.count);
  const Doubles all_queries = queries.values();
  const int64_t dim = shape.layout.head_dim;
  for (int64_t h = 0; h < shape.num_heads; ++h) {
    const int64_t kv_head = h / (shape.num_heads / shape.layout.num_kv_heads);
    const Doubles keys = cache.keys_of(kv_head), values = cache.values_of(kv_head);
    for (int64_t row = 0; row < rows.count; ++row) {
      const int64_t at = (row * shape.num_heads + h) * dim;
      const Doubles query(all_queries.begin() + at, all_queries.begin() + at + dim);
      const Doubles expected =
          reference::attention(query, keys, values, rows.visible(row), 1.0 / std::sqrt(double(dim)));
      SCOPED_TRACE(testing::Message() << "row " << row << " head " << h);
      expect_close({actual.begin() + at, actual.begin() + at + dim}, expected, attention_tolerance());
    }
  }
}

TEST_P(TiledAttentionTest, EqualsReferenceForEveryHeadDim) {
  for (int64_t dim = 8; dim <= 256; dim += 8) check({{1, dim}, 3}, {5, 61, true});
}

TEST_P(TiledAttentionTest, EqualsReferenceForEveryGroupOfHeads) {
  for (int64_t group = 1; group <= 9; ++group) check({{2, 64}, 2 * group}, {7, 30, true});
}

TEST_P(TiledAttentionTest, EqualsReferenceAroundEveryBoundary) {
  // Pages of 16 keys, blocks of 64, stretches of 256.
  for (const int64_t keys :
       {1, 2, 3, 15, 16, 17, 47, 48, 49, 63, 64, 65, 127, 128, 129, 255, 256, 257, 513}) {
    for (const bool causal : {false, true}) {
      check({{1, 16}, 2}, {1, keys, causal});
      check({{1, 16}, 2}, {40, keys, causal});
    }
  }
}

TEST_P(TiledAttentionTest, EqualsReferenceForPromptsOfManyTiles) {
  check({{3, 64}, 9}, {70, 1, true});
  check({{1, 32}, 3}, {20, 600, true});
  check({{1, 32}, 3}, {20, 600, false});
}

TEST_P(TiledAttentionTest, BitsDoNotDependOnHowRowsAreCut) {
  const Shape shape{{3, 64}, 9};
  const Rows rows{300, 260, true};
  Cache cache(shape.layout, rows.visible(rows.count - 1), 7);
  TestArray<float> queries = make_queries(shape, rows.count);
  const Doubles whole = attend(shape, cache, queries, rows, rows.count);
  for (const int64_t chunk : {1, 2, 7, 16, 17, 100}) {
    EXPECT_EQ(attend(shape, cache, queries, rows, chunk), whole) << "in runs of " << chunk;
  }
}

TEST_P(TiledAttentionTest, LargeScoresDoNotOverflow) {
  const Shape shape{{1, 64}, 1};
  Cache cache(shape.layout, 700, 7);
  TestArray<float> queries = make_queries(shape, 1);
  for (int64_t n = 0; n < queries.count(); ++n) queries.data()[n] *= 1000.0f;
  for (const double value : attend(shape, cache, queries, {1, 700, false}, 1)) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_LE(std::abs(value), 6.0);
  }
}

TEST_P(TiledAttentionTest, NanShows) {
  const Shape shape{{1, 64}, 1};
  Cache cache(shape.layout, 40, 7);
  TestArray<float> queries = make_queries(shape, 1);
  queries.data()[5] = NAN;
  for (const double value : attend(shape, cache, queries, {1, 40, false}, 1)) EXPECT_TRUE(std::isnan(value));
}

CALYREX_INSTANTIATE_KERNEL_TEST(TiledAttentionTest);

}  // namespace
}  // namespace calyrex::kernels
