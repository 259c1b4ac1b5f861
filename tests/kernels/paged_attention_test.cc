#include "calyrex/kernels/paged_attention.h"

#include <numeric>

#include <omp.h>

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class PagedAttentionTest : public KernelTest {};

struct Shape {
  PagedLayout layout;
  int64_t num_heads;
  std::vector<int64_t> lengths;
};

/// A cache whose pages are handed out in a scattered order, and a batch of queries over it.
template <typename Query, typename Cache>
struct Batch {
  explicit Batch(const Shape& shape) : shape(shape) {
    const auto batch = static_cast<int64_t>(shape.lengths.size());
    const int64_t page_size = shape.layout.page_size;
    const int64_t longest = *std::max_element(shape.lengths.begin(), shape.lengths.end());
    max_pages = std::max<int64_t>(1, (longest + page_size - 1) / page_size);
    std::vector<int32_t> order(batch * max_pages);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    table.assign(batch * max_pages, -1);  // an entry beyond the length must not be read
    for (int64_t s = 0; s < batch; ++s) {
      for (int64_t p = 0; p * page_size < shape.lengths[s]; ++p)
        table[s * max_pages + p] = order[s * max_pages + p];
    }
    const int64_t elements = batch * max_pages * shape.layout.page_elements();
    keys = TestArray<Cache>(random_doubles(elements, 1), 1);
    values = TestArray<Cache>(random_doubles(elements, 2), 3);
    const int64_t query_count = batch * shape.num_heads * shape.layout.head_dim;
    queries = TestArray<Query>(random_doubles(query_count, 3), 1);
    out = TestArray<Query>(query_count, 3);
  }

  PagedAttentionArgs<Query, Cache> args() {
    return {shape.layout, queries.data(),       keys.data(), values.data(),
            table.data(), shape.lengths.data(), out.data(),  static_cast<int64_t>(shape.lengths.size()),
            max_pages,    shape.num_heads,      0.125f};
  }

  /// The keys or values of one sequence and head, in order.
  Doubles rows(TestArray<Cache>& pages, int64_t sequence, int64_t kv_head) {
    const auto [kv_heads, page_size, dim] = shape.layout;
    Doubles out_rows;
    for (int64_t n = 0; n < shape.lengths[sequence]; ++n) {
      const int64_t page = table[sequence * max_pages + n / page_size];
      const Cache* row = pages.data() + ((page * kv_heads + kv_head) * page_size + n % page_size) * dim;
      for (int64_t c = 0; c < dim; ++c) out_rows.push_back(to_float(row[c]));
    }
    return out_rows;
  }

  void check() {
    paged_attention(args());
    const int64_t dim = shape.layout.head_dim;
    const Doubles all_queries = queries.values();
    const Doubles actual = out.values();
    for (size_t s = 0; s < shape.lengths.size(); ++s) {
      for (int64_t h = 0; h < shape.num_heads; ++h) {
        const int64_t kv_head = h / (shape.num_heads / shape.layout.num_kv_heads);
        const auto at = (static_cast<int64_t>(s) * shape.num_heads + h) * dim;
        const Doubles query(all_queries.begin() + at, all_queries.begin() + at + dim);
        const Doubles expected = reference::attention(query, rows(keys, s, kv_head), rows(values, s, kv_head),
                                                      shape.lengths[s], 0.125);
        const Doubles got(actual.begin() + at, actual.begin() + at + dim);
        SCOPED_TRACE(testing::Message() << "length " << shape.lengths[s] << " head " << h << " dim " << dim);
        expect_close(got, expected, kernel_tolerance<Query>());
      }
    }
    out.expect_guards_untouched();
  }

  Shape shape;
  int64_t max_pages = 0;
  std::vector<int32_t> table;
  TestArray<Cache> keys{0, 0}, values{0, 0};
  TestArray<Query> queries{0, 0}, out{0, 0};
};

void check_types(const Shape& shape) {
  Batch<float, float>(shape).check();
  Batch<float, BFloat16>(shape).check();
  Batch<BFloat16, BFloat16>(shape).check();
}

TEST_P(PagedAttentionTest, EqualsReferenceForEveryHeadDim) {
  for (int64_t dim = 8; dim <= 256; dim += 8) check_types({{1, 4, dim}, 3, {1, 6, 0, 70}});
}

TEST_P(PagedAttentionTest, EqualsReferenceForEveryGroupOfHeads) {
  for (int64_t group = 1; group <= 9; ++group) check_types({{2, 16, 64}, 2 * group, {5, 130}});
}

TEST_P(PagedAttentionTest, EqualsReferenceForEveryPageSize) {
  for (int64_t page_size : {1, 3, 16, 32, 100}) check_types({{3, page_size, 64}, 9, {1, 63, 64, 65, 99}});
}

TEST_P(PagedAttentionTest, LongContextsAreSplitAndMerged) {
  check_types(
      {{1, 32, 64}, 3, {kAttentionSplitKeys - 1, kAttentionSplitKeys, kAttentionSplitKeys + 1, 1700, 0}});
}

TEST_P(PagedAttentionTest, LargeScoresDoNotOverflow) {
  Batch<float, float> batch({{1, 16, 64}, 1, {700}});
  for (int64_t n = 0; n < batch.queries.count(); ++n) batch.queries.data()[n] *= 100.0f;
  batch.check();
}

TEST_P(PagedAttentionTest, NanShows) {
  Batch<float, float> batch({{1, 16, 64}, 1, {40}});
  for (int64_t n = 0; n < batch.keys.count(); n += 64) batch.keys.data()[n] = NAN;
  paged_attention(batch.args());
  EXPECT_TRUE(std::isnan(batch.out.data()[0]));
}

TEST_P(PagedAttentionTest, ResultDependsNeitherOnNeighboursNorOnThreads) {
  Batch<float, BFloat16> batch({{3, 16, 64}, 9, {1300, 5, 77, 513}});
  omp_set_num_threads(2);
  paged_attention(batch.args());
  const Doubles together = batch.out.values();
  omp_set_num_threads(1);
  const int64_t row = 9 * 64;
  for (int64_t s = 0; s < 4; ++s) {
    auto args = batch.args();
    args.q += s * row;
    args.out += s * row;
    args.page_table += s * batch.max_pages;
    args.lengths += s;
    args.batch = 1;
    paged_attention(args);
  }
  EXPECT_EQ(batch.out.values(), together);
  omp_set_num_threads(omp_get_num_procs());
}

template <typename Source, typename Cache>
void check_store(int64_t dim) {
  const PagedLayout layout{2, 3, dim};
  const std::vector<int64_t> slots = {4, -1, 0, 11};
  TestArray<Source> rows(random_doubles(4 * 2 * dim, 1), 1);
  TestArray<Cache> pages(Doubles(4 * layout.page_elements()), 1);
  store_pages(StorePagesArgs<Source, Cache>{layout, rows.data(), slots.data(), 4, pages.data()});
  Doubles expected(pages.count());
  for (int64_t r = 0; r < 4; ++r) {
    if (slots[r] < 0) continue;
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t c = 0; c < dim; ++c) {
        const double value = to_float(rows.data()[(r * 2 + head) * dim + c]);
        expected[((slots[r] / 3 * 2 + head) * 3 + slots[r] % 3) * dim + c] =
            to_float(from_double<Cache>(value));
      }
    }
  }
  EXPECT_EQ(pages.values(), expected);
  pages.expect_guards_untouched();
}

TEST_P(PagedAttentionTest, StoreWritesEachRowToItsSlot) {
  for (int64_t dim : {8, 24, 64, 128}) {
    check_store<float, float>(dim);
    check_store<float, BFloat16>(dim);
    check_store<BFloat16, BFloat16>(dim);
  }
}

CALYREX_INSTANTIATE_KERNEL_TEST(PagedAttentionTest);

}  // namespace
}  // namespace calyrex::kernels
