#include "calyrex/data/rule_files.h"

#include <gtest/gtest.h>

#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"

namespace calyrex::data {
namespace {

class RuleFiles : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Json write(RowFormat format) {
    RuleDataOptions options;
    options.train_rows = 200;
    return write_rule_data(options, format, folder_);
  }
  std::string text(const std::string& name) { return read_file(folder_ / name, size_t{1} << 24); }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "rule_files_test";
};

TEST_F(RuleFiles, ManifestTellsRowsAndDigests) {
  const Json manifest = write(RowFormat::kMessages);
  EXPECT_EQ(read_json_file(folder_ / "manifest.json"), manifest);
  for (const char* name : {"train.jsonl", "dev.jsonl", "test.jsonl"}) {
    EXPECT_EQ(manifest["files"][name]["sha256"], sha256_hex(text(name)));
    EXPECT_EQ(manifest["files"][name]["rows"].get<size_t>(), read_rule_rows(folder_ / name).size());
  }
  EXPECT_EQ(manifest["files"]["train.jsonl"]["rows"], 200);
}

TEST_F(RuleFiles, EveryFormatHoldsTheSameRows) {
  write(RowFormat::kMessages);
  const auto rows = read_rule_rows(folder_ / "test.jsonl");
  for (const RowFormat format : {RowFormat::kShareGpt, RowFormat::kAlpaca}) {
    write(format);
    const auto copies = read_rule_rows(folder_ / "test.jsonl");
    ASSERT_EQ(copies.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(to_chat_row(copies[i]).messages, to_chat_row(rows[i]).messages);
      EXPECT_EQ(copies[i].checker, rows[i].checker);
    }
  }
}

TEST_F(RuleFiles, SameBytesEveryTime) {
  write(RowFormat::kMessages);
  const std::string first =
      text("train.jsonl") + text("dev.jsonl") + text("test.jsonl") + text("manifest.json");
  write(RowFormat::kMessages);
  EXPECT_EQ(text("train.jsonl") + text("dev.jsonl") + text("test.jsonl") + text("manifest.json"), first);
}

TEST_F(RuleFiles, OtherFilesOfTheFolderStay) {
  make_directories(folder_);
  write_file_atomically(folder_ / "notes.txt", "mine");
  write(RowFormat::kMessages);
  const Json manifest = write(RowFormat::kAlpaca);
  EXPECT_EQ(text("notes.txt"), "mine");
  EXPECT_EQ(read_json_file(folder_ / "manifest.json"), manifest);
  EXPECT_EQ(manifest["files"]["dev.jsonl"]["sha256"], sha256_hex(text("dev.jsonl")));
}

}  // namespace
}  // namespace calyrex::data
