#include "calyrex/weights/safetensors.h"

#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

using test::expect_error;
using test::safetensors_bytes;
using test::TempFolder;

struct Malformed {
  const char* name;
  std::string bytes;
  ErrorCode code;
  std::string message;
};

std::string with_tensor(std::string_view entry, size_t data_bytes) {
  return safetensors_bytes("{\"a\":" + std::string(entry) + "}", data_bytes);
}

std::vector<Malformed> malformed_files() {
  const ErrorCode corrupt = ErrorCode::kCorruptData;
  std::string huge;
  test::append<uint64_t>(huge, UINT64_MAX);
  std::string many = "{";
  for (int i = 0; i < 9000; ++i) {
    many += fmt::format("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                        i == 0 ? "" : ",", i);
  }
  return {
      {"empty", "", corrupt, "0 bytes are too few for a safetensors file"},
      {"seven_bytes", "\x02\0\0\0\0\0\0", corrupt, "bytes are too few"},
      {"header_longer_than_file", safetensors_bytes("{}", 0).substr(0, 9), corrupt,
       "a header of 2 bytes does not fit the file's 9"},
      {"header_length_wraps", huge + "{}", corrupt, "a header of 18446744073709551615 bytes does not fit"},
      {"empty_header", safetensors_bytes("", 0), corrupt, "the header is not a JSON object"},
      {"header_is_a_list", safetensors_bytes("[]", 0), corrupt, "the header is not a JSON object"},
      {"header_is_cut", safetensors_bytes("{\"a\":", 0), corrupt, "header: not valid JSON"},
      {"header_is_not_utf8", safetensors_bytes("{\"\xff\":1}", 0), corrupt, "header: not valid JSON"},
      {"nested_deeply", safetensors_bytes("{\"a\":" + std::string(20, '[') + std::string(20, ']') + "}", 0),
       corrupt, "nested deeper than 8"},
      {"too_many_tensors", safetensors_bytes(many + "}", 0), corrupt, "more than 8192 keys"},
      {"same_name_twice",
       safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                         2),
       corrupt, "key \"a\" appears twice"},
      {"entry_is_a_number", with_tensor("3", 0), corrupt, "tensor a: the header's entry is not an object"},
      {"no_dtype", with_tensor(R"({"shape":[1],"data_offsets":[0,1]})", 1), corrupt, "\"dtype\" is missing"},
      {"unknown_dtype", with_tensor(R"({"dtype":"Z9","shape":[1],"data_offsets":[0,1]})", 1), corrupt,
       "tensor a: unknown dtype \"Z9\""},
      {"block_dtype", with_tensor(R"({"dtype":"Q4_0","shape":[32],"data_offsets":[0,18]})", 18), corrupt,
       "unknown dtype \"Q4_0\""},
      {"float8", with_tensor(R"({"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]})", 1),
       ErrorCode::kUnsupported, "tensor a has type F8_E4M3"},
      {"no_shape", with_tensor(R"({"dtype":"U8","data_offsets":[0,1]})", 1), corrupt, "\"shape\" is missing"},
      {"negative_shape", with_tensor(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", 1), corrupt,
       "whole numbers, not -1"},
      {"fractional_shape", with_tensor(R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})", 1), corrupt,
       "whole numbers, not 1.0"},
      {"nine_dimensions",
       with_tensor(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})", 1), corrupt,
       "9 dimensions; at most 8"},
      {"no_offsets", with_tensor(R"({"dtype":"U8","shape":[1]})", 1), corrupt,
       "\"data_offsets\" must be two"},
      {"one_offset", with_tensor(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})", 1), corrupt,
       "must be two"},
      {"negative_offset", with_tensor(R"({"dtype":"U8","shape":[1],"data_offsets":[-1,0]})", 1), corrupt,
       "must be two whole numbers"},
      {"offset_past_the_end", with_tensor(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 1), corrupt,
       "bytes 0 to 2 lie outside the 1 bytes of data; the file is truncated or damaged"},
      {"offsets_reversed", with_tensor(R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})", 1), corrupt,
       "bytes 1 to 0 lie outside"},
      {"offset_near_wrap",
       with_tensor(R"({"dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,18446744073709551615]})",
                   1),
       corrupt, "lie outside the 1 bytes"},
      {"shape_overflows",
       with_tensor(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0), corrupt,
       "shape [4611686018427387904, 4] overflows"},
      {"shape_does_not_fit", with_tensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8), corrupt,
       "shape [3] of F32 needs 12 bytes, the header gives 8"},
      {"range_too_long", with_tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", 8), corrupt,
       "shape [1] of F32 needs 4 bytes, the header gives 8"},
      {"unknown_key", with_tensor(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1})", 1), corrupt,
       "unknown key \"x\""},
      {"overlap",
       safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                         6),
       corrupt, "tensor b: starts at byte 2, inside another tensor that ends at byte 4"},
      {"gap",
       safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                         R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                         6),
       corrupt, "tensor b: starts at byte 4, after a gap that begins at byte 2"},
      {"trailing_bytes", with_tensor(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 5), corrupt,
       "3 bytes after the last tensor belong to none"},
      {"metadata_is_a_list", safetensors_bytes(R"({"__metadata__":[]})", 0), corrupt,
       "\"__metadata__\" must be an object"},
      {"metadata_is_nested", safetensors_bytes(R"({"__metadata__":{"k":{}}})", 0), corrupt,
       "\"__metadata__\" entry \"k\" must be text"},
  };
}

class MalformedSafetensors : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensors, HasItsOwnError) {
  const TempFolder folder;
  const auto path = folder / "model.safetensors";
  test::write_bytes(path, GetParam().bytes);
  expect_error(GetParam().code, GetParam().message, [&] { SafetensorsFile::open(path); });
  expect_error(GetParam().code, path.string(), [&] { SafetensorsFile::open(path); });
}

INSTANTIATE_TEST_SUITE_P(All, MalformedSafetensors, testing::ValuesIn(malformed_files()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Safetensors, MissingFileIsNotFound) {
  const TempFolder folder;
  expect_error(ErrorCode::kNotFound, "none.safetensors",
               [&] { SafetensorsFile::open(folder / "none.safetensors"); });
}

TEST(Safetensors, ReadsUnalignedDataAndEmptyTensors) {
  const TempFolder folder;
  std::string bytes = safetensors_bytes(R"({"byte":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                        R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[1,1]},)"
                                        R"("two":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
                                        1);
  test::append<float>(bytes, 1.5f);
  test::append<float>(bytes, -2.0f);
  test::write_bytes(folder / "a.safetensors", bytes);
  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(read_as_float(*file.find("two")), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(file.find("none")->shape, (std::vector<int64_t>{0, 4}));
  EXPECT_TRUE(read_as_float(*file.find("none")).empty());
  EXPECT_EQ(file.find("tw"), nullptr);
  EXPECT_EQ(file.find("zzz"), nullptr);
}

TEST(Safetensors, RoundTrip) {
  const TempFolder folder;
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> brains = {0x3f80, 0xc000};
  const std::vector<uint8_t> odd = {7, 8, 9};
  const std::vector<TensorToWrite> tensors = {
      {"z", DType::kF32, {2, 3}, std::as_bytes(std::span(floats))},
      {"a.\"quoted\"\n", DType::kU8, {3}, std::as_bytes(std::span(odd))},
      {"b", DType::kBF16, {2}, std::as_bytes(std::span(brains))},
      {"empty", DType::kF32, {0}, {}},
  };
  const auto path = folder / "w.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorToWrite& written : tensors) {
    const TensorView* read = file.find(written.name);
    ASSERT_NE(read, nullptr) << written.name;
    EXPECT_EQ(read->shape, written.shape);
    EXPECT_EQ(read->dtype, written.dtype);
    EXPECT_TRUE(std::equal(read->data.begin(), read->data.end(), written.data.begin(), written.data.end()));
  }
  EXPECT_EQ(read_as_float(*file.find("b")), (std::vector<float>{1, -2}));
  uint64_t header = 0;
  std::memcpy(&header, test::read_bytes(path).data(), sizeof(header));
  EXPECT_EQ(header % 8, 0u);  // the data start aligned
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "a temporary file is left";
}

TEST(Safetensors, WritingWhatTheShapeContradictsIsABug) {
  const TempFolder folder;
  const std::vector<float> floats(4);
  expect_error(ErrorCode::kInternal, "x has 16 bytes, its shape 20", [&] {
    write_safetensors(folder / "w", {{"x", DType::kF32, {5}, std::as_bytes(std::span(floats))}});
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
}

}  // namespace
}  // namespace calyrex::weights
