#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/answers.h"
#include "calyrex/eval/run/compare.h"
#include "calyrex/eval/run/report.h"
#include "tests/eval/run_support.h"

namespace calyrex::eval::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Results of a task of `count` questions in which the samples of `right` are answered rightly.
Finished write_run(const TemporaryFolder& folder, const std::string& name, int count,
                   const std::set<int>& right, const std::string& task_name = "questions") {
  const ScriptedTask task = questions_task(count, task_name);
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += fmt::format("{{\"id\": \"{}\", \"response\": \"{}\"}}\n", i, right.contains(i) ? "xx" : "y");
  }
  std::vector<LoadedTask> tasks = load(task);
  attach_answers(tasks[0], folder.write("answers.jsonl", lines));
  RunOptions options;
  options.output = folder / name;
  Subject subject = base_subject();
  if (name != "base") subject.description["subject"] = subject.name = name;
  return std::move(run_tasks(std::move(tasks), {subject}, options).at(0));
}

TEST(Compare, CountsFlipsAndTheirProbability) {
  const TemporaryFolder folder;
  const Finished first = write_run(folder, "base", 20, {0, 1, 2});
  const Finished second = write_run(folder, "adapter", 20, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const RunComparison comparison = compare_results(first.folder, second.folder);
  EXPECT_EQ(comparison.task, "questions");
  ASSERT_EQ(comparison.scores.size(), 1u);
  const ScoreDifference& acc = comparison.scores[0];
  EXPECT_EQ(acc.pairs, 20);
  EXPECT_DOUBLE_EQ(acc.first, 0.15);
  EXPECT_DOUBLE_EQ(acc.second, 0.55);
  EXPECT_DOUBLE_EQ(acc.difference.value, 0.4);
  EXPECT_GT(acc.difference.low, 0.0);
  EXPECT_THAT(acc.flips->lost, ElementsAre("0"));
  EXPECT_EQ(acc.flips->gained.size(), 9u);
  EXPECT_NEAR(acc.flips->p_value, 2.0 * 11 / 1024, 1e-12);
  const std::string text = format_comparison(comparison, 3);
  EXPECT_THAT(text, HasSubstr("acc lost: 0\n"));
  EXPECT_THAT(text, HasSubstr("(6 more)"));
}

TEST(Compare, UsesCommonSamplesAndWarnsOfOtherData) {
  const TemporaryFolder folder;
  const Finished first = write_run(folder, "base", 6, {0});
  const Finished second = write_run(folder, "adapter", 9, {0, 1, 8});
  const RunComparison comparison = compare_results(first.folder, second.folder);
  EXPECT_EQ(comparison.only_first, 0);
  EXPECT_EQ(comparison.only_second, 3);
  EXPECT_EQ(comparison.scores.at(0).pairs, 6);
  EXPECT_THAT(comparison.warnings, ElementsAre(HasSubstr("data_sha256 differs")));
}

TEST(Compare, PairsFoldersByRelativePathAndCorrectsTogether) {
  const TemporaryFolder folder;
  write_run(folder, "base", 20, {0}, "one");
  write_run(folder, "base", 20, {}, "two");
  // The same subject under another output.
  fs::rename(folder / "base", folder / "before");
  write_run(folder, "base", 20, {1, 2, 3, 4, 5, 6}, "one");
  write_run(folder, "base", 20, {7}, "two");
  const auto comparisons = compare_runs(folder / "before", folder / "base");
  ASSERT_EQ(comparisons.size(), 2u);
  EXPECT_EQ(comparisons[0].task, "one");
  const auto& strong = *comparisons[0].scores.at(0).flips;
  EXPECT_DOUBLE_EQ(strong.p_holm, std::min(1.0, 2 * strong.p_value));
}

TEST(Compare, RefusesSamplesThatWereCutOrEdited) {
  const TemporaryFolder folder;
  const Finished first = write_run(folder, "base", 12, {0, 1});
  const Finished second = write_run(folder, "adapter", 12, {1, 2, 3});
  const fs::path samples = second.folder / "samples.jsonl";
  const std::string whole = read_text(samples);
  std::string edited = whole;
  edited.replace(edited.find("\"acc\":0.0"), 9, "\"acc\":1.0");
  const auto refused = [&](const std::string& text) {
    folder.write(fs::relative(samples, folder / "").string(), text);
    try {
      compare_results(first.folder, second.folder);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      EXPECT_THAT(error.what(), HasSubstr(samples.string() + ": cut or changed"));
      EXPECT_THAT(error.what(), HasSubstr("the same 'calyrex eval run' works it out again"));
      return true;
    }
    return false;
  };
  const std::string cut = whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1);
  EXPECT_TRUE(refused(edited));
  EXPECT_TRUE(refused(cut));
  // Results of an older program have no digest: the lines are counted.
  Json results = second.results;
  results.erase("samples_sha256");
  std::ofstream(second.folder / "results.json") << results.dump();
  EXPECT_TRUE(refused(cut));
  EXPECT_TRUE(refused(whole.substr(0, whole.size() - 5)));
  EXPECT_EQ(read_text(samples), whole.substr(0, whole.size() - 5)) << "a reader changes nothing";
  EXPECT_FALSE(refused(whole));
}

TEST(Compare, RefusesOtherTasksAndEmptyFolders) {
  const TemporaryFolder folder;
  const Finished first = write_run(folder, "base", 5, {0}, "one");
  const Finished second = write_run(folder, "adapter", 5, {0}, "two");
  EXPECT_THROW(compare_runs(first.folder, second.folder), Error);
  fs::create_directories(folder / "empty");
  EXPECT_THROW(compare_runs(first.folder, folder / "empty"), Error);
  EXPECT_THROW(compare_runs(first.folder, folder / "missing"), Error);
  std::ofstream(first.folder / "results.json") << "[]";
  EXPECT_THROW(compare_results(first.folder, second.folder), Error);
}

TEST(Report, HasARowAMetricAndADifferenceForTheAdapter) {
  const TemporaryFolder folder;
  const std::vector<Finished> finished = {write_run(folder, "base", 10, {0, 1}),
                                          write_run(folder, "adapter", 10, {0, 1, 2, 3, 4})};
  const Json report = make_report(finished);
  EXPECT_EQ(report["runs"].size(), 2u);
  ASSERT_EQ(report["comparisons"].size(), 1u);
  EXPECT_EQ(report["comparisons"][0]["scores"]["acc"]["gained"], Json::array({"2", "3", "4"}));
  const std::string text = report_markdown(report);
  EXPECT_THAT(text, HasSubstr("| metric | base | adapter |"));
  EXPECT_THAT(text, HasSubstr("| acc | 20.00 % [5.7, 51.0] | 50.00 % [23.7, 76.3] |"));
  EXPECT_THAT(text, HasSubstr("| questions | adapter | acc | +0.3000"));
}

TEST(Report, SaysWhatIsUnchangedByConstruction) {
  const TemporaryFolder folder;
  const ScriptedTask task = questions_task(4);
  Subject anchored = base_subject();
  anchored.anchored = true;
  std::vector<LoadedTask> tasks = load(task);
  attach_answers(tasks[0], folder.write("a.jsonl", R"({"id": "1", "response": "x"})"));
  RunOptions options;
  options.output = folder / "out";
  const auto finished = run_tasks(std::move(tasks), {anchored}, options);
  EXPECT_EQ(finished.at(0).results["unchanged_by_construction"], true);
  EXPECT_THAT(report_markdown(make_report(finished)), HasSubstr("| acc | unchanged by construction |"));
}

TEST(Report, FormatsSharesAndOtherNumbers) {
  EXPECT_EQ(format_estimate({.value = 0.3697, .low = 0.329, .high = 0.4114}), "36.97 % [32.9, 41.1]");
  EXPECT_EQ(format_estimate({.value = 1.5, .low = 1.0, .high = 2.0}), "1.500 [1.000, 2.000]");
  EXPECT_EQ(format_estimate({.value = std::nan(""), .low = 0, .high = 1}), "-");
}

}  // namespace
}  // namespace calyrex::eval::test
