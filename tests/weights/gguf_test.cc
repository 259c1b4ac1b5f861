#include "calyrex/weights/gguf.h"

#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

using test::expect_error;
using test::GgufBuilder;
using test::TempFolder;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;

GgufBuilder::Tensor floats(std::string name, uint64_t count) {
  return {.name = std::move(name), .dimensions = {count}, .type = kF32, .data = std::string(count * 4, '\0')};
}

struct Malformed {
  const char* name;
  std::string bytes;
  ErrorCode code;
  std::string message;
};

/// Bytes of a file to which `change` was applied before writing.
template <typename Change>
std::string built(Change&& change) {
  GgufBuilder file;
  change(file);
  return file.bytes();
}

std::vector<Malformed> malformed_headers() {
  const ErrorCode corrupt = ErrorCode::kCorruptData;
  return {
      {"empty", "", corrupt, "does not begin with \"GGUF\""},
      {"other_magic", "GGMLxxxxxxxxxxxxxxxxxxxxxxxx", corrupt, "does not begin with \"GGUF\""},
      {"only_magic", "GGUF", corrupt, "header: 4 bytes are needed at byte 4, 0 are left"},
      {"version_1", built([](GgufBuilder& file) { file.version = 1; }), ErrorCode::kUnsupported,
       "GGUF version 1;"},
      {"version_4", built([](GgufBuilder& file) { file.version = 4; }), ErrorCode::kUnsupported,
       "GGUF version 4;"},
      {"big_endian", built([](GgufBuilder& file) { file.version = 0x03000000; }), ErrorCode::kUnsupported,
       "(a big-endian file)"},
      {"tensor_count", built([](GgufBuilder& file) { file.tensor_count = INT64_MAX; }), corrupt,
       "header: 9223372036854775807 tensors do not fit"},
      {"entry_count", built([](GgufBuilder& file) { file.entry_count = INT64_MAX; }), corrupt,
       "header: 9223372036854775807 metadata entries do not fit"},
      {"key_length", built([](GgufBuilder& file) { file.add_u32(std::string(70000, 'k'), 1); }), corrupt,
       "metadata: a name of 70000 bytes; at most 65535"},
      {"same_key_twice", built([](GgufBuilder& file) {
         file.add_u32("k", 1);
         file.add_u32("k", 2);
       }),
       corrupt, "metadata key k: appears twice"},
      {"value_type", built([](GgufBuilder& file) { file.add("k", 13, "\0\0\0\0"); }), corrupt,
       "metadata key k: unknown value type 13"},
      {"string_length", built([](GgufBuilder& file) { file.add("k", 8, GgufBuilder::raw(UINT64_MAX)); }),
       corrupt, "metadata key k: 18446744073709551615 bytes are needed"},
      {"array_count", built([](GgufBuilder& file) {
         file.add("k", 9, GgufBuilder::raw(uint32_t{4}) + GgufBuilder::raw(uint64_t{1} << 62));
       }),
       corrupt, "metadata key k: 4611686018427387904 values do not fit"},
      {"array_of_strings_count", built([](GgufBuilder& file) {
         file.add("k", 9,
                  GgufBuilder::raw(uint32_t{8}) + GgufBuilder::raw(uint64_t{40}) + std::string(100, '\0'));
       }),
       corrupt, "metadata key k: 40 strings do not fit"},
      {"array_of_arrays", built([](GgufBuilder& file) {
         file.add("k", 9, GgufBuilder::raw(uint32_t{9}) + GgufBuilder::raw(uint64_t{0}));
       }),
       ErrorCode::kUnsupported, "metadata key k: arrays of arrays"},
      {"boolean", built([](GgufBuilder& file) { file.add_bool("k", 2); }), corrupt,
       "metadata key k: a boolean of value 2"},
      {"alignment_zero", built([](GgufBuilder& file) { file.add_u32("general.alignment", 0); }), corrupt,
       "general.alignment: 0 is not a power of two"},
      {"alignment_odd", built([](GgufBuilder& file) { file.add_u32("general.alignment", 48); }), corrupt,
       "general.alignment: 48 is not a power of two"},
      {"alignment_text", built([](GgufBuilder& file) { file.add_string("general.alignment", "32"); }),
       corrupt, "metadata key general.alignment must be a whole number"},
  };
}

std::vector<Malformed> malformed_tensors() {
  const ErrorCode corrupt = ErrorCode::kCorruptData;
  const auto one = [](GgufBuilder::Tensor tensor) {
    return built([&](GgufBuilder& file) { file.tensors.push_back(std::move(tensor)); });
  };
  const auto two = [](GgufBuilder::Tensor first, GgufBuilder::Tensor second) {
    return built([&](GgufBuilder& file) { file.tensors = {std::move(first), std::move(second)}; });
  };
  GgufBuilder::Tensor displaced = floats("b", 4);
  displaced.offset = 16;
  GgufBuilder::Tensor overlapping = floats("b", 4);
  overlapping.offset = 0;
  GgufBuilder::Tensor distant = floats("b", 4);
  distant.offset = 96;
  const std::string whole = one(floats("a", 16));
  return {
      {"name_length", one(floats(std::string(300, 'n'), 8)), corrupt, "tensor 1 of 1: a name of 300 bytes"},
      {"no_dimensions", one({.name = "a", .dimensions = {}, .data = std::string(32, '\0')}), corrupt,
       "tensor a: 0 dimensions; 1 to 4"},
      {"five_dimensions", one({.name = "a", .dimensions = {1, 1, 1, 1, 1}, .data = std::string(4, '\0')}),
       corrupt, "tensor a: 5 dimensions; 1 to 4"},
      {"zero_size", one({.name = "a", .dimensions = {0}}), corrupt, "tensor a: dimension 0 of size 0"},
      {"size_overflows", one({.name = "a", .dimensions = {1ull << 40, 1ull << 40}}), corrupt,
       "tensor a: dimension 1 of size 1099511627776 is zero or too large"},
      {"bytes_overflow", one({.name = "a", .dimensions = {(1ull << 62) + (1ull << 61)}}), corrupt,
       "tensor a: shape [6917529027641081856] of F32 overflows"},
      {"unknown_type", one({.name = "a", .dimensions = {4}, .type = 99}), corrupt,
       "tensor a: unknown tensor type 99"},
      {"iq_type", one({.name = "a", .dimensions = {256}, .type = 20}), ErrorCode::kUnsupported,
       "tensor a has type IQ4_NL, which is not supported"},
      {"ternary_type", one({.name = "a", .dimensions = {256}, .type = 35}), ErrorCode::kUnsupported,
       "has type TQ2_0"},
      {"partial_block", one({.name = "a", .dimensions = {48}, .type = kQ8_0, .data = std::string(51, '\0')}),
       corrupt, "tensor a: rows of 48 values; Q8_0 needs a multiple of 32"},
      {"same_name", two(floats("a", 8), floats("a", 8)), corrupt, "tensor a appears twice"},
      {"unaligned_offset", two(floats("a", 4), displaced), corrupt,
       "tensor b: offset 16 is no multiple of the alignment 32"},
      {"overlap", two(floats("a", 4), overlapping), corrupt, "starts at byte 0 of the data, expected 32"},
      {"gap", two(floats("a", 4), distant), corrupt, "tensor b: starts at byte 96 of the data, expected 32"},
      {"truncated_data", whole.substr(0, whole.size() - 1), corrupt,
       "tensor a: 64 bytes at byte 0 of the data, which has 63; the file is truncated or damaged"},
      {"truncated_tensors", whole.substr(0, 40), corrupt, "the file is truncated or damaged"},
  };
}

class MalformedGguf : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedGguf, HasItsOwnError) {
  const TempFolder folder;
  const auto path = folder / "model.gguf";
  test::write_bytes(path, GetParam().bytes);
  expect_error(GetParam().code, GetParam().message, [&] { GgufFile::open(path); });
  expect_error(GetParam().code, path.string(), [&] { GgufFile::open(path); });
}

INSTANTIATE_TEST_SUITE_P(Header, MalformedGguf, testing::ValuesIn(malformed_headers()),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Tensors, MalformedGguf, testing::ValuesIn(malformed_tensors()),
                         [](const auto& info) { return std::string(info.param.name); });

GgufFile open_built(const TempFolder& folder, const GgufBuilder& builder) {
  test::write_bytes(folder / "a.gguf", builder.bytes());
  return GgufFile::open(folder / "a.gguf");
}

TEST(Gguf, ReadsEveryKindOfValue) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.version = 2;
  builder.add("u8", 0, GgufBuilder::raw(uint8_t{200}));
  builder.add("i8", 1, GgufBuilder::raw(int8_t{-3}));
  builder.add("u16", 2, GgufBuilder::raw(uint16_t{60000}));
  builder.add("i16", 3, GgufBuilder::raw(int16_t{-300}));
  builder.add_u32("u32", 4000000000);
  builder.add("i32", 5, GgufBuilder::raw(int32_t{-70000}));
  builder.add_f32("f32", 1e-5f);
  builder.add_bool("yes", 1);
  builder.add_string("text", "caf\xc3\xa9");
  builder.add("u64", 10, GgufBuilder::raw(UINT64_MAX));
  builder.add("i64", 11, GgufBuilder::raw(INT64_MIN));
  builder.add("f64", 12, GgufBuilder::raw(0.1));
  builder.add_strings("texts", {"a", "", "bc"});
  builder.add("ints", 9,
              GgufBuilder::raw(uint32_t{5}) + GgufBuilder::raw(uint64_t{2}) + GgufBuilder::raw(int32_t{-1}) +
                  GgufBuilder::raw(int32_t{2}));
  builder.add("empty", 9, GgufBuilder::raw(uint32_t{6}) + GgufBuilder::raw(uint64_t{0}));
  const GgufFile file = open_built(folder, builder);
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i8"), -3);
  EXPECT_EQ(file.integer("u16"), 60000);
  EXPECT_EQ(file.integer("i16"), -300);
  EXPECT_EQ(file.integer("u32"), 4000000000);
  EXPECT_EQ(file.integer("i32"), -70000);
  EXPECT_EQ(file.integer("i64"), INT64_MIN);
  EXPECT_EQ(file.number("f32"), 1e-5);  // the decimal that was meant, not the float32 next to it
  EXPECT_EQ(file.number("f64"), 0.1);
  EXPECT_EQ(file.number("i8"), -3.0);
  EXPECT_EQ(file.find_bool("yes"), true);
  EXPECT_EQ(file.string("text"), "caf\xc3\xa9");
  EXPECT_EQ(file.strings("texts"), (std::vector<std::string>{"a", "", "bc"}));
  EXPECT_EQ(file.ints("ints"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(file.ints("u8"), (std::vector<int64_t>{200}));
  EXPECT_TRUE(file.floats("empty").empty());
  EXPECT_EQ(file.find_int("absent"), std::nullopt);
  EXPECT_TRUE(file.strings("absent").empty());
  expect_error(ErrorCode::kCorruptData, "metadata key u64 must be a whole number",
               [&] { file.integer("u64"); });
  expect_error(ErrorCode::kCorruptData, "metadata key text must be a number", [&] { file.number("text"); });
  expect_error(ErrorCode::kCorruptData, "metadata key u8 must be text", [&] { file.string("u8"); });
  expect_error(ErrorCode::kCorruptData, "metadata key u8 must be true or false",
               [&] { file.find_bool("u8"); });
  expect_error(ErrorCode::kCorruptData, "metadata key ints must be a list of texts",
               [&] { file.strings("ints"); });
  expect_error(ErrorCode::kCorruptData, "metadata key texts must be whole numbers",
               [&] { file.ints("texts"); });
  expect_error(ErrorCode::kCorruptData, "metadata key ints must be a list of float32",
               [&] { file.floats("ints"); });
  expect_error(ErrorCode::kCorruptData, "metadata key absent is missing", [&] { file.string("absent"); });
  const Json summary = file.summary();
  EXPECT_EQ(summary["texts"], "[3 strings]");
  EXPECT_EQ(summary["u64"], UINT64_MAX);
  EXPECT_EQ(summary["f32"], 1e-5);
}

TEST(Gguf, ShapesAreReversedAndOrderIsKept) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.tensors = {{.name = "m", .dimensions = {32, 3}, .type = kQ8_0, .data = std::string(102, '\x01')},
                     floats("v", 5)};
  const GgufFile file = open_built(folder, builder);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<int64_t>{3, 32}));
  EXPECT_EQ(file.tensors()[0].data.size(), 102u);
  EXPECT_EQ(file.tensors()[1].name, "v");
}

TEST(Gguf, BytesAfterTheLastTensorAreAllowed) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.tensors = {floats("v", 5)};
  for (const size_t padding : {0, 12, 13, 100}) {
    test::write_bytes(folder / "a.gguf", builder.bytes() + std::string(padding, '\0'));
    EXPECT_EQ(GgufFile::open(folder / "a.gguf").tensors().size(), 1u) << padding;
  }
}

TEST(Gguf, AlignmentKeyIsFollowed) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.alignment = 128;
  builder.add_u32("general.alignment", 128);
  builder.tensors = {floats("a", 1), floats("b", 1)};
  builder.tensors[1].data = GgufBuilder::raw(2.5f);
  const GgufFile file = open_built(folder, builder);
  EXPECT_EQ(read_as_float(file.tensors()[1]), (std::vector<float>{2.5f}));
  EXPECT_EQ(file.tensors()[1].data.data() - file.tensors()[0].data.data(), 128);
}

}  // namespace
}  // namespace calyrex::weights
