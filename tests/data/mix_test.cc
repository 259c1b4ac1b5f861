#include "calyrex/data/mix.h"

#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"
#include "tests/data/folder_test.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;

class Mixture : public FolderTest {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return FolderTest::write(name, text).string();
  }
  /// A file of `count` rows with an instruction and an input, all different.
  std::string write_rows(const std::string& name, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += fmt::format(
          "{{\"instruction\": \"Double it {0}.\", \"input\": \"{0} {1}\", \"output\": \"{2}\"}}\n", name, i,
          2 * i);
    }
    return write(name + ".jsonl", text);
  }
  std::string error_of(const MixConfig& config) {
    try {
      build_mix(config, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST(ShareRows, FollowsTheWeights) {
  EXPECT_EQ(share_rows(10, {1, 1}, {100, 100}), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(share_rows(10, {3, 1}, {100, 100}), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(share_rows(11, {1, 1, 1}, {100, 100, 100}), (std::vector<int64_t>{4, 4, 3}));
}

TEST(ShareRows, WhatASourceLacksGoesToTheOthers) {
  EXPECT_EQ(share_rows(100, {1, 1, 2}, {10, 100, 100}), (std::vector<int64_t>{10, 30, 60}));
  // The second source falls short only once the first has.
  EXPECT_EQ(share_rows(100, {8, 1, 1}, {10, 30, 100}), (std::vector<int64_t>{10, 30, 60}));
  EXPECT_EQ(share_rows(100, {1, 1}, {10, 20}), (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(share_rows(5, {1, 1}, {0, 20}), (std::vector<int64_t>{0, 5}));
}

TEST_F(Mixture, TakesRowsByWeightAndRepeatsItself) {
  MixConfig config{.rows = 40, .seed = 3};
  config.sources = {{.path = write_rows("a", 60), .weight = 3.0},
                    {.path = write_rows("b", 60), .weight = 1.0}};
  const Mix mix = build_mix(config, nullptr);
  ASSERT_EQ(mix.rows.size(), 40u);
  std::map<std::string, int> counts;
  std::set<std::string> ids;
  for (const ChatRow& row : mix.rows) {
    ++counts[row.fields["source"].get<std::string>()];
    ids.insert(row.id);
  }
  EXPECT_EQ(counts["a"], 30);
  EXPECT_EQ(counts["b"], 10);
  EXPECT_EQ(ids.size(), 40u);

  const auto bytes = [&](const MixConfig& options, const char* name) {
    write_mix(options, build_mix(options, nullptr), folder_ / name);
    return read_file(folder_ / name / "train.jsonl", 1 << 20);
  };
  EXPECT_EQ(bytes(config, "one"), bytes(config, "two"));
  MixConfig other = config;
  other.seed = 4;
  EXPECT_NE(bytes(config, "one"), bytes(other, "three"));
}

TEST_F(Mixture, LeavesOutDuplicates) {
  const std::string text =
      "{\"instruction\": \"Say hi.\", \"output\": \"Hi\"}\n{\"instruction\": \"Say hi.\", \"output\": "
      "\"Hi\"}\n"
      "{\"instruction\": \"say  HI\", \"output\": \"Hi!\"}\n{\"instruction\": \"Say hi.\", \"output\": "
      "\"Ho\"}\n";
  for (const auto& [how, left] : std::map<Deduplicate, int64_t>{
           {Deduplicate::kNone, 4}, {Deduplicate::kExact, 3}, {Deduplicate::kNormalised, 2}}) {
    MixConfig config{.rows = 10, .sources = {{.path = write("a.jsonl", text)}}, .deduplicate = how};
    const Mix mix = build_mix(config, nullptr);
    EXPECT_EQ(mix.sources[0].available, left) << to_string(how);
    EXPECT_EQ(mix.sources[0].duplicates, 4 - left);
  }
}

TEST_F(Mixture, KeepsEvaluationTextsOut) {
  const std::string words = "one two three four five six seven eight nine ten eleven twelve thirteen";
  MixConfig config{.rows = 10};
  config.sources = {{.path = write("a.jsonl",
                                   "{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": "
                                   "\"x\", \"output\": \"Well, " +
                                       words + ".\"}\n")}};
  make_directories(folder_ / "eval");
  write("eval/test.jsonl", "{\"q\": \"" + words + "\"}\n");
  config.decontaminate.against = {(folder_ / "eval").string()};
  const Mix mix = build_mix(config, nullptr);
  EXPECT_EQ(mix.rows.size(), 1u);
  EXPECT_EQ(mix.sources[0].contaminated, 1);
  const Json manifest = write_mix(config, mix, folder_ / "out");
  EXPECT_EQ(manifest["decontamination"]["files"][0]["rows_removed"], 1);
  EXPECT_THAT(read_file(folder_ / "out" / "contaminated.jsonl", 1 << 20), HasSubstr("a.jsonl:2"));
  config.decontaminate.ngram = 14;
  EXPECT_EQ(build_mix(config, nullptr).rows.size(), 1u) << "a shorter text counts as a whole";
}

TEST_F(Mixture, ToolsAndSystemMessagesAreLookedThroughToo) {
  const std::string words = "one two three four five six seven eight nine ten eleven twelve thirteen";
  const auto row = [](const std::string& user, const std::string& call, const std::string& tool) {
    return fmt::format(
        R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "b", )"
        R"("tool_calls": [{{"type": "function", "function": {{"name": "f", "arguments": "{}"}}}}]}}], )"
        R"("tools": [{{"type": "function", "function": {{"name": "f", "description": "{}"}}}}]}})"
        "\n",
        user, call, tool);
  };
  MixConfig config{.rows = 10};
  config.sources = {
      {.path = write("a.jsonl", row("1", "x", "y") + row("2", words, "y") + row("3", "x", words))}};
  config.decontaminate.against = {write("test.jsonl", "{\"q\": \"" + words + "\"}\n")};
  config.system.share = 1.0;
  config.system.texts = write("texts.txt", "Obey.\n" + words + "\n");
  const Mix mix = build_mix(config, nullptr);
  EXPECT_EQ(mix.sources[0].contaminated, 2) << "a call, and a tool";
  ASSERT_EQ(mix.rows.size(), 1u);
  EXPECT_EQ(mix.rows[0].messages[0].content, "Obey.");
  write("texts.txt", words + "\n");
  EXPECT_THAT(error_of(config), HasSubstr("texts.txt: evaluation files hold every system message"));
}

TEST_F(Mixture, GivesTheChosenShareASystemMessage) {
  MixConfig config{.rows = 100};
  config.sources = {{.path = write_rows("a", 100)}};
  config.system.share = 0.3;
  const Mix moved = build_mix(config, nullptr);
  EXPECT_EQ(moved.system.moved, 30);
  int with_system = 0;
  for (const ChatRow& row : moved.rows) {
    if (row.messages.front().role != "system") continue;
    ++with_system;
    EXPECT_EQ(row.messages[0].content, "Double it a.");
    EXPECT_EQ(row.messages[1].content.substr(0, 2), "a ");
    EXPECT_EQ(row.messages[2].role, "assistant");
  }
  EXPECT_EQ(with_system, 30);
  config.system.move_instructions = false;
  config.system.texts = write("texts.txt", "Obey.\n\n");
  const Mix added = build_mix(config, nullptr);
  EXPECT_EQ(added.system.added, 30);
  for (const ChatRow& row : added.rows) {
    if (row.messages.front().role != "system") continue;
    EXPECT_EQ(row.messages.front().content, "Obey.");
  }
}

TEST_F(Mixture, RowsThatComeWithASystemMessageKeepIt) {
  MixConfig config{.rows = 10};
  config.system.share = 0.0;
  config.sources = {
      {.path = write("a.jsonl", "{\"system\": \"S\", \"instruction\": \"a\", \"output\": \"b\"}\n")}};
  const Mix mix = build_mix(config, nullptr);
  EXPECT_EQ(mix.system.own, 1);
  EXPECT_EQ(mix.rows[0].messages[0].content, "S");
}

TEST_F(Mixture, LimitsAndUnansweredRows) {
  MixConfig config{.rows = 10};
  config.limits.max_chars = 20;
  config.sources = {
      {.path = write("a.jsonl",
                     "{\"instruction\": \"a\", \"output\": \"123456789012345678901234567890\"}\n"
                     "{\"instruction\": \"a\", \"output\": \" \"}\n"
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"
                     "{\"instruction\": \"a\", \"output\": \"b\"}\n")}};
  const Mix mix = build_mix(config, nullptr);
  EXPECT_EQ(mix.sources[0].read, 4);
  EXPECT_EQ(mix.sources[0].too_long, 1);
  EXPECT_EQ(mix.sources[0].unanswered, 2);
  EXPECT_EQ(mix.rows.size(), 1u);
}

TEST_F(Mixture, ManifestHoldsDigestsOfWhatIsThere) {
  MixConfig config{.rows = 20, .dev_rows = 5};
  config.sources = {{.path = write_rows("a", 60)}};
  const Json manifest = write_mix(config, build_mix(config, nullptr), folder_ / "out");
  EXPECT_EQ(manifest["files"]["train.jsonl"]["rows"], 15);
  EXPECT_EQ(manifest["files"]["dev.jsonl"]["rows"], 5);
  for (const char* name : {"train.jsonl", "dev.jsonl"}) {
    EXPECT_EQ(manifest["files"][name]["sha256"], sha256_hex(read_file(folder_ / "out" / name, 1 << 20)));
    EXPECT_EQ(read_rows(folder_ / "out" / name).size(), manifest["files"][name]["rows"]);
  }
  EXPECT_EQ(manifest["sources"][0]["sha256"], sha256_hex(read_file(folder_ / "a.jsonl", 1 << 20)));
  EXPECT_EQ(read_json_file(folder_ / "out" / "manifest.json"), manifest);
}

TEST(MixConfig, DocumentationListsEveryKey) {
  const std::string text = read_file("docs/data-formats.md", 1 << 20);
  EXPECT_THAT(text, HasSubstr(document_fields<MixConfig>()));
  EXPECT_THAT(text, HasSubstr(document_fields<MixSource>()));
}

TEST_F(Mixture, RefusesWhatCannotBeMeant) {
  const std::string file = write_rows("a", 3);
  EXPECT_THAT(error_of({}), HasSubstr("no sources"));
  EXPECT_THAT(error_of({.sources = {{.path = (folder_ / "none").string()}}}), HasSubstr("no file"));
  EXPECT_THAT(error_of({.sources = {{.path = file, .weight = 0.0}}}), HasSubstr("weight"));
  EXPECT_THAT(error_of({.sources = {{.path = file}, {.path = file}}}), HasSubstr("two are named a"));
  EXPECT_THAT(error_of({.rows = 0, .sources = {{.path = file}}}), HasSubstr("rows"));
  EXPECT_THAT(error_of({.rows = 3, .dev_rows = 3, .sources = {{.path = file}}}), HasSubstr("dev_rows"));
  EXPECT_THAT(error_of({.sources = {{.path = file}}, .system = {.share = 1.5}}), HasSubstr("system.share"));
  EXPECT_THAT(error_of({.sources = {{.path = file}}, .decontaminate = {.against = {"nowhere.jsonl"}}}),
              HasSubstr("decontaminate.against"));
  EXPECT_THAT(error_of({.sources = {{.path = write("bad.jsonl",
                                                   "{\"instruction\": \"a\", \"output\": \"b\"}\n"
                                                   "{\"instruction\": 3}\n")}}}),
              HasSubstr("bad.jsonl:2: "));
}

}  // namespace
}  // namespace calyrex::data
