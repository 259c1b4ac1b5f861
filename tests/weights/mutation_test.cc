// Damaged files: every cut, every flipped bit and seeded random damage of small valid files. Each either
// opens, with every tensor readable, or throws an Error of one line; under AddressSanitizer any read outside
// the file stops the test.
#include <algorithm>
#include <functional>

#include "calyrex/base/json.h"
#include "calyrex/base/random.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/safetensors.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

struct Outcome {
  int64_t opened = 0;
  int64_t rejected = 0;
};

void read_all(const std::vector<TensorView>& tensors) {
  for (const TensorView& tensor : tensors) {
    ASSERT_LE(tensor.num_values(), 1 << 20) << tensor.name;
    try {
      read_as_float(tensor);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    }
  }
}

/// Writes `bytes` to `path` and runs `open`, which opens and reads what it can.
void attempt(const fs::path& path, const std::string& bytes, const std::function<void()>& open,
             Outcome& outcome) {
  fs::remove(path);  // file systems that guard against lost data flush a file that is written over
  test::write_bytes(path, bytes);
  try {
    open();
    ++outcome.opened;
  } catch (const Error& error) {
    ++outcome.rejected;
    const std::string what = error.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_LT(what.size(), 4000u);
    EXPECT_TRUE(error.code() == ErrorCode::kCorruptData || error.code() == ErrorCode::kUnsupported ||
                error.code() == ErrorCode::kNotFound)
        << what;
  }
}

/// What is done to the first `header_bytes` of a valid file.
struct Plan {
  size_t header_bytes;
  size_t flip_every;  // 1: every bit is flipped, 3: every third
  int random_rounds;
};

Outcome damage(const fs::path& path, const std::string& valid, const Plan& plan,
               const std::function<void()>& open) {
  const size_t header_bytes = plan.header_bytes;
  Outcome outcome;
  for (size_t size = 0; size < header_bytes; ++size) attempt(path, valid.substr(0, size), open, outcome);
  for (size_t place = 0; place < header_bytes * 8; place += plan.flip_every) {
    std::string bytes = valid;
    bytes[place / 8] = static_cast<char>(bytes[place / 8] ^ (1 << place % 8));
    attempt(path, bytes, open, outcome);
  }
  RandomStream random(7, path.filename().string());
  constexpr char kInteresting[] = {'\0', '\x01', '\x7f', '\x80', '\xff', '"', '{', '9'};
  for (int round = 0; round < plan.random_rounds; ++round) {
    std::string bytes = valid;
    for (uint64_t change = 0; change <= random.below(4); ++change) {
      const size_t place = random.below(std::min(header_bytes, bytes.size()));
      switch (random.below(4)) {
        case 0:
          bytes[place] = static_cast<char>(random.below(256));
          break;
        case 1:
          bytes[place] = kInteresting[random.below(sizeof(kInteresting))];
          break;
        case 2:
          bytes.erase(place, 1 + random.below(8));
          break;
        default:
          bytes.insert(place, bytes.substr(random.below(bytes.size()), 1 + random.below(8)));
      }
    }
    attempt(path, bytes, open, outcome);
  }
  return outcome;
}

TEST(Mutation, Safetensors) {
  const TempFolder folder;
  const fs::path path = folder / "a.safetensors";
  const std::vector<float> values = {1, 2, 3, 4};
  const std::vector<uint16_t> halves = {1, 2};
  write_safetensors(path,
                    {{"a", DType::kF32, {2, 2}, std::as_bytes(std::span(values))},
                     {"b", DType::kF16, {2}, std::as_bytes(std::span(halves))}},
                    {{"format", "pt"}});
  const std::string valid = test::read_bytes(path);
  const Outcome outcome = damage(path, valid, {valid.size() - 20, 1, 3000},
                                 [&] { read_all(SafetensorsFile::open(path).tensors()); });
  EXPECT_GT(outcome.opened, 50);  // names, metadata, blanks and the like
  EXPECT_GT(outcome.rejected, 2000);
}

TEST(Mutation, Gguf) {
  const TempFolder folder;
  const fs::path path = folder / "a.gguf";
  const std::string valid = test::tiny_gguf().bytes();
  const size_t header = valid.size() - 256;  // the tensors' data, padded
  const Outcome outcome = damage(path, valid, {header, 1, 3000}, [&] {
    const auto model = open_model(path.string());
    read_all(model->tensors());
    inverse_frequencies(model->config());
    to_json_line(model->describe());
  });
  EXPECT_GT(outcome.opened, 100);
  EXPECT_GT(outcome.rejected, 8000);
}

TEST(Mutation, ModelConfiguration) {
  const TempFolder folder;
  fs::copy("tests/golden/models/llama", folder.path(), fs::copy_options::recursive);
  const std::string valid = to_json_line(read_json_file(folder / "config.json"));
  const Outcome outcome = damage(folder / "config.json", valid, {valid.size(), 3, 500}, [&] {
    const auto model = open_model(folder.path().string());
    inverse_frequencies(model->config());
  });
  EXPECT_GT(outcome.opened, 50);
  EXPECT_GT(outcome.rejected, 600);
}

TEST(Mutation, AdapterConfiguration) {
  const TempFolder folder;
  fs::copy("tests/golden/model/llama.rope", folder.path(), fs::copy_options::recursive);
  const std::string valid = to_json_line(read_json_file(folder / "adapter_config.json"));
  const Outcome outcome = damage(folder / "adapter_config.json", valid, {valid.size(), 3, 500},
                                 [&] { open_adapter(folder.path()); });
  EXPECT_GT(outcome.opened, 50);
  EXPECT_GT(outcome.rejected, 600);
}

TEST(Mutation, ShardIndex) {
  const TempFolder folder;
  fs::copy("tests/golden/models/mistral", folder.path(), fs::copy_options::recursive);
  const std::string valid = test::read_bytes(folder / "model.safetensors.index.json");
  const Outcome outcome = damage(folder / "model.safetensors.index.json", valid, {400, 3, 300},
                                 [&] { open_model(folder.path().string()); });
  EXPECT_GT(outcome.rejected, 500);
}

}  // namespace
}  // namespace calyrex::weights
