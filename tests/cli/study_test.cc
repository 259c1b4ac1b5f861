// `calyrex study` as a whole, on the tiny random model: runs, kills, shards, full disks, and what is refused
// before the first run.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kStudy = "tests/cli/tiny_study.yaml";

ProgramResult study(const std::string& arguments) {
  return run_program(CALYREX_PROGRAM, "study " + arguments);
}

std::string output_of(const fs::path& folder) { return " output=" + folder.string(); }

Json results_in(const fs::path& folder) { return Json::parse(read_text(folder / "results.json")); }

/// The whole study once, for all tests to compare with.
const fs::path& whole_study() {
  static const TemporaryFolder folder;
  static const fs::path output = folder.path() / "whole";
  if (!fs::exists(output)) {
    const ProgramResult run = study(std::string("run ") + kStudy + output_of(output));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
  }
  return output;
}

/// The page's charts are drawn without an error and it fits a phone, in headless Chromium where there is one.
void expect_good_page(const fs::path& page) {
  ASSERT_TRUE(fs::exists(page));
  const ProgramResult run = run_program("python3 tools/report_images.py", page.string() + " --width 390");
  if (run.exit_code == 3) GTEST_SKIP() << "pages are not looked at: " << run.errors;
  EXPECT_EQ(run.exit_code, 0) << run.output << run.errors;
}

Json run_named(const Json& results, const std::string& name) {
  for (const Json& run : results["runs"]) {
    if (run["name"] == name) return run;
  }
  return nullptr;
}

TEST(Study, RunsEverythingAndReports) {
  const Json results = results_in(whole_study());
  // The base, two of ParallelMLP, LoRA, and 3 placements x 2 arms x 2 seeds.
  ASSERT_EQ(results["runs"].size(), 16u);
  for (const Json& run : results["runs"]) {
    EXPECT_EQ(run["status"], run["name"].get<std::string>().starts_with("cal-all-equal_params")
                                 ? "not applicable"
                                 : "finished")
        << run["name"];
  }
  EXPECT_THAT(run_named(results, "cal-all-equal_params-s0")["not_applicable"].get<std::string>(),
              HasSubstr("attention alone has"));
  EXPECT_EQ(run_named(results, "cal-2-equal_params-s1")["same_as"], "cal-last-equal_params-s1");
  const auto parameters = [&](const char* name) {
    return run_named(results, name)["parameters"].get<double>();
  };
  EXPECT_NEAR(parameters("parallel_mlp-s0") / parameters("cal-last-equal_params-s0"), 1.0, 0.006);
  EXPECT_NEAR(parameters("lora-s0") / parameters("cal-last-equal_params-s0"), 1.0, 0.006);
  // Later runs read the states that the first one of a layer wrote: an epoch has all rows.
  EXPECT_EQ(run_named(results, "cal-last-s0")["prefix_cache"]["layer"], 2);
  EXPECT_EQ(run_named(results, "cal-last-s1")["prefix_cache"]["misses"], 0);
  EXPECT_FALSE(fs::exists(whole_study() / "prefix_cache")) << "nobody needs it any more";
  EXPECT_FALSE(fs::exists(whole_study() / "runs/cal-last-s0/adapter/checkpoints"));
  const std::string csv = read_text(whole_study() / "results.csv");
  EXPECT_TRUE(
      csv.starts_with("study,run,setting,kind,placement,arm,seed,parameters,learning_rate,evaluation,"))
      << csv;
  EXPECT_THAT(csv, HasSubstr("\nwhole,base,base,base,,,,0,,mmlu,mmlu,acc,,4,"));
  EXPECT_THAT(csv, HasSubstr("\nwhole,parallel_mlp-s1,parallel_mlp,parallel_mlp,[2],equal_params,1,"));
  EXPECT_THAT(read_text(whole_study() / "report.md"), HasSubstr("| cal-last | 0 1 |"));
  const std::string page = read_text(whole_study() / "report.html");
  EXPECT_THAT(page, HasSubstr("\"calyrex-study\""));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
}

TEST(Study, TheReportsPageDrawsItsChartsOnAPhone) { expect_good_page(whole_study() / "report.html"); }

TEST(Study, ComparesWithEveryBaseline) {
  std::vector<std::string> pairs;
  const Json results = results_in(whole_study());
  for (const Json& comparison : results["comparisons"]) {
    if (comparison["evaluation"] != "mmlu") continue;
    pairs.push_back(comparison["setting"].get<std::string>() + " " +
                    comparison["baseline"].get<std::string>());
    const bool one_seed = comparison["setting"] == "lora" || comparison["baseline"] == "lora";
    EXPECT_EQ(comparison["word"].get<std::string>().find("one seed") != std::string::npos, one_seed)
        << comparison;
    EXPECT_GE(comparison["p_holm"].get<double>(), comparison["p"].get<double>());
  }
  EXPECT_THAT(pairs,
              testing::UnorderedElementsAre(
                  "parallel_mlp base", "lora base", "cal-last base", "cal-last parallel_mlp", "cal-last lora",
                  "cal-last-equal_params base", "cal-last-equal_params parallel_mlp",
                  "cal-last-equal_params lora", "cal-all base", "cal-all parallel_mlp", "cal-all lora"));
}

TEST(Study, AFinishedStudyIsOnlyRead) {
  const fs::path result = whole_study() / "runs/cal-all-s0/result.json";
  const std::string csv = read_text(whole_study() / "results.csv");
  const auto written = fs::last_write_time(result);
  const ProgramResult again = study(std::string("run ") + kStudy + output_of(whole_study()));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_THAT(again.errors, HasSubstr("0 of them to do"));
  EXPECT_EQ(fs::last_write_time(result), written);
  EXPECT_EQ(read_text(whole_study() / "results.csv"), csv);
  // Another training length is another study.
  const ProgramResult other =
      study(std::string("run ") + kStudy + output_of(whole_study()) + " base.train.max_steps=7");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("train.max_steps: 8 -> 7"));
}

TEST(Study, KilledAnywhereItEndsWithTheSameTable) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "whole";  // the folder's name is the study's
  const std::vector<std::string> arguments = {"study", "run", kStudy, "output=" + output.string()};
  for (const int milliseconds : {900, 1700, 2600, 3400}) {
    const RunningProgram program(CALYREX_PROGRAM, arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    program.signal_and_wait(SIGKILL);
  }
  const ProgramResult run = study(std::string("run ") + kStudy + output_of(output));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(read_text(output / "results.csv"), read_text(whole_study() / "results.csv"));
}

TEST(Study, AnInterruptEndsWith130AndTheStudyGoesOn) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "whole";
  const std::vector<std::string> arguments = {"study", "run", kStudy, "output=" + output.string(),
                                              "base.train.max_steps=100000"};
  const RunningProgram program(CALYREX_PROGRAM, arguments);
  for (int i = 0; i < 600 && !fs::exists(output / "runs/parallel_mlp-s0/adapter/metrics.jsonl"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(program.signal_and_wait(SIGTERM), 130);
  EXPECT_TRUE(fs::exists(output / "runs/base/result.json"));
}

TEST(Study, ShardsMakeTheSameTable) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "whole";
  const std::string command = std::string("run ") + kStudy + output_of(output) + " --shard ";
  ProgramResult first;
  std::thread other([&] { first = study(command + "1/2"); });
  const ProgramResult second = study(command + "2/2");
  other.join();
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  ASSERT_EQ(study("report " + output.string()).exit_code, 0);
  EXPECT_EQ(read_text(output / "results.csv"), read_text(whole_study() / "results.csv"));
}

TEST(Study, AFullDiskStopsOneRunAlone) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "whole";
  // Files that this run writes cannot grow beyond a limit which only the largest adapter exceeds.
  const std::string limited =
      "sh -c 'trap \"\" XFSZ; ulimit -f 200; exec \"$0\" \"$@\"' " + std::string(CALYREX_PROGRAM);
  const std::string arguments = " study run " + std::string(kStudy) + output_of(output);
  const ProgramResult run = run_program(limited, arguments);
  EXPECT_EQ(run.exit_code, 70) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("cal-all-s0 failed and the study goes on"));
  EXPECT_THAT(run.errors, HasSubstr("2 of 16 runs failed (cal-all-s0, cal-all-s1)"));
  EXPECT_TRUE(fs::exists(output / "runs/cal-last-s1/result.json"));
  // With room again the same command completes the table.
  const ProgramResult again = study(std::string("run ") + kStudy + output_of(output));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(read_text(output / "results.csv"), read_text(whole_study() / "results.csv"));
}

TEST(Study, MistakesAreNamedBeforeTheFirstRun) {
  struct Case {
    std::string override_;
    int exit_code;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {"'grid={kind: [cal], placment: [last]}'", 2, {"'placment'", "did you mean 'placement'?"}},
      {"'grid={kind: [cal], adapter.cal.positon: [rope]}'",
       2,
       {"adapter.cal.positon", "did you mean 'position'?"}},
      {"'grid={kind: [cal], placement: [late9th]}'", 2, {"late9th", "did you mean 'late8th'?"}},
      {"'grid={kind: [cal], placement: [[7]]}'", 2, {"placement '[7]'", "from 0 to 2"}},
      {"'grid={kind: [call]}'", 2, {"adapter.kind", "one of cal, lora"}},
      {"'grid={arm: [equal]}'", 2, {"'arm' must be one of equal_shape, equal_params"}},
      {"'grid={kind: cal}'", 2, {"'grid.kind' must be a list"}},
      {"'grid={model: [default]}'", 2, {"'model' cannot differ"}},
      {"'grid={kind: [cal], seed: [0, 0]}'", 2, {"two runs have the name 'cal-late8th-s0'"}},
      {"'evl=[]'", 2, {"unknown key 'evl'", "did you mean 'eval'?"}},
      {"'eval=[{task: mmlo, sample: true}]'", 3, {"there is no task 'mmlo'; did you mean 'mmlu'?"}},
      {"'eval=[{task: gsm8k, data: nowhere}]'", 3, {"eval 'gsm8k'", "nowhere: no such file or folder"}},
      {"'eval=[{task: mmlu, sample: true, limt: 3}]'", 2, {"eval[0].limt", "did you mean 'limit'?"}},
      {"'eval=[{task: rules, sample: true, axis: plain}]'", 5, {"rules has no axis 'plain'"}},
      {"'eval=[{task: rules, sample: true, only: [cal-lst]}]'", 2, {"did you mean 'cal-last'?"}},
      {"'baselines=[base, cal-lst]'",
       2,
       {"'baselines' names the setting 'cal-lst'", "did you mean 'cal-last'?"}},
      {"'base.data.train=[{path: nowhere.jsonl}]'", 3, {"nowhere.jsonl"}},
      {"'base.train.learning_rat=1'", 2, {"did you mean 'learning_rate'?"}},
      {"'select={learning_rate: [1e-3]}'", 2, {"'select' needs a task"}},
      {"base.output=x", 2, {"'base.output' is chosen by the study"}},
      {"'runs=[{name: q, kind: lora, seed: 0}, {name: q, kind: cal, placement: last, seed: 1}]'",
       2,
       {"'q-s0' and 'q-s1'", "more than the seed"}},
      {"'runs=[{name: base, kind: lora, seeds: [0, 1]}]'", 2, {"'base' is the name of the untouched model"}},
      {"'select={learning_rate: [1e-3], on: {task: rules, sample: true}, metric: jont}'",
       2,
       {"select.metric 'jont' is none of rules's metrics", "did you mean 'joint'?"}},
      {"'select={learning_rate: [1e-3], on: {task: rule_axes, sample: true}, metric: joint}'",
       2,
       {"select.metric 'joint'", "joint/plain"}},
      {"'runs=[{kind: lora, name: " + std::string(300, 'n') + "}]'", 2, {"a folder's has at most 255"}},
      {"'select={learning_rate: [1e38], on: {task: rules, sample: true}, metric: joint}'", 2, {"at most 10"}},
  };
  for (const Case& one : cases) {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "out";
    const ProgramResult run = study(std::string("run ") + kStudy + output_of(output) + " " + one.override_);
    EXPECT_EQ(run.exit_code, one.exit_code) << one.override_ << "\n" << run.errors;
    for (const std::string& word : one.words) EXPECT_THAT(run.errors, HasSubstr(word)) << one.override_;
    EXPECT_FALSE(fs::exists(output)) << one.override_;
  }
}

/// A study of one adapter, in seconds.
std::string small_study(const fs::path& output, const std::string& more = "") {
  return std::string("run ") + kStudy + output_of(output) +
         " 'grid={kind: [cal], placement: [last]}' runs=null "
         "'eval=[{task: mmlu, sample: true, shots: 0, form: raw}]' " +
         more;
}

TEST(Study, WhatIsNoFileAndWhatIsMissingIsNamedByThePlan) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& path : {pipe, folder.path()}) {
    const ProgramResult run =
        study(small_study(output, "'base.data.train=[{path: " + path.string() + "}]' --plan"));
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr(path.string() + " is not a regular file"));
  }
  const ProgramResult resources =
      run_program("CALYREX_EVAL_RESOURCES=nowhere " + std::string(CALYREX_PROGRAM),
                  "study " + small_study(output, "'eval=[{task: sys_ifeval, sample: true}]' --plan"));
  EXPECT_EQ(resources.exit_code, 3) << resources.errors;
  EXPECT_THAT(resources.errors, HasSubstr("eval 'sys_ifeval': the folder of language resources nowhere"));
  EXPECT_THAT(resources.errors, Not(HasSubstr("estimate")));
  EXPECT_FALSE(fs::exists(output));
}

TEST(Study, AnotherStudysResultsAreNotTaken) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  ASSERT_EQ(study(small_study(output, "name=first")).exit_code, 0);
  // Other runs under another name, or none in common under the same one.
  for (const std::string name : {"first", "second"}) {
    for (const std::string plan : {"", " --plan"}) {
      const ProgramResult run = study(
          small_study(output, "name=" + name + " 'grid={kind: [lora], adapter.lora.rank: [2]}'" + plan));
      EXPECT_EQ(run.exit_code, 2) << run.errors;
      EXPECT_THAT(run.errors, HasSubstr("finished runs of the study 'first' that '" + name +
                                        "' does not have (cal-last-s0)"));
    }
  }
  // A study may grow, shrink where it keeps its name, and change its name where its runs stay.
  EXPECT_EQ(study(small_study(output, "name=first 'grid={kind: [cal], placement: [last, [1]]}'")).exit_code,
            0);
  EXPECT_EQ(study(small_study(output, "name=first")).exit_code, 0);
  EXPECT_EQ(study(small_study(output, "name=other --plan")).exit_code, 2);
  EXPECT_EQ(
      study(small_study(output, "name=other 'grid={kind: [cal], placement: [last, [1]]}' --plan")).exit_code,
      0);
}

TEST(Study, DamagedFilesEndWith4AndAreMadeAnewWhenRemoved) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  ASSERT_EQ(study(small_study(output)).exit_code, 0);
  const std::string csv = read_text(output / "results.csv");
  const fs::path run = output / "runs/cal-last-s0";
  const auto damaged = [&](const fs::path& file, const std::string& text) {
    const std::string whole = read_text(file);
    std::ofstream(file) << text;
    for (const std::string& command : {small_study(output), "report " + output.string()}) {
      if (file.filename() == "identity.json" && command.starts_with("report")) continue;
      const ProgramResult result = study(command);
      EXPECT_EQ(result.exit_code, 4) << result.errors;
      EXPECT_THAT(result.errors, HasSubstr(file.string()));
      EXPECT_THAT(result.errors, HasSubstr("remove it"));
    }
  };
  damaged(run / "result.json",
          R"({"format": "calyrex-study-run", "eval": [{"name": "mmlu", "results": 3}]})");
  fs::remove(run / "result.json");
  EXPECT_EQ(study(small_study(output)).exit_code, 0);
  damaged(run / "identity.json", R"({"model": "m", "eval": 3})");
  fs::remove(run / "identity.json");
  EXPECT_EQ(study(small_study(output)).exit_code, 4) << "a result without its identity";
  fs::remove(run / "result.json");
  EXPECT_EQ(study(small_study(output)).exit_code, 0);
  damaged(output / "study.json", R"({"format": "calyrex-study-plan", "name": "out", "runs": 1e300})");
  fs::remove(output / "study.json");
  const ProgramResult again = study(small_study(output));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(read_text(output / "results.csv"), csv);
}

TEST(Study, LeftoversOfAKilledProcessGo) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  ASSERT_EQ(study(small_study(output)).exit_code, 0);
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  const fs::path run = output / "runs/cal-last-s0";
  const std::string ending = ".tmp-" + std::to_string(ended) + "-3";
  const std::vector<fs::path> leftovers = {output / ("results.json" + ending), run / ("result.json" + ending),
                                           run / ("eval/mmlu/mmlu/adapter/samples.jsonl" + ending)};
  for (const fs::path& path : leftovers) std::ofstream(path) << "half";
  fs::create_directories(run / "adapter/checkpoints/step-00000002");
  ASSERT_EQ(study(small_study(output)).exit_code, 0);
  for (const fs::path& path : leftovers) EXPECT_FALSE(fs::exists(path)) << path;
  EXPECT_FALSE(fs::exists(run / "adapter/checkpoints"));
}

TEST(Study, FilesThatAreNoStudiesEndInOneLine) {
  const TemporaryFolder folder;
  const ProgramResult missing = study("run nowhere.yaml");
  EXPECT_EQ(missing.exit_code, 3) << missing.errors;
  const ProgramResult broken = study("run " + folder.write("broken.yaml", "a: [") + " --plan");
  EXPECT_EQ(broken.exit_code, 2) << broken.errors;
  EXPECT_THAT(broken.errors, HasSubstr("broken.yaml:1"));
}

TEST(Study, AFolderWithOtherFilesIsNotTaken) {
  const TemporaryFolder folder;
  const std::string kept = folder.write("results.csv", "mine");
  const ProgramResult run = study(std::string("run ") + kStudy + output_of(folder.path()));
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("holds files but no study"));
  std::ifstream file(kept);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "mine");
}

TEST(Study, ShardsAreCheckedAndReadFromTheLauncher) {
  const std::string plan = std::string("run ") + kStudy + " output=nowhere --plan";
  EXPECT_THAT(study(plan + " --shard 3/2").errors, HasSubstr("write i/n with i from 1 to n"));
  EXPECT_THAT(study(plan + " --shard 1/4097").errors, HasSubstr("at most 4096"));
  EXPECT_THAT(study(plan + " --shard 2/3").errors, HasSubstr("(3 here)"));
  for (const std::string size : {"0", "4097", "99999999999999999999"}) {
    const ProgramResult wrong = run_program("WORLD_SIZE=" + size + " " + CALYREX_PROGRAM, "study " + plan);
    EXPECT_EQ(wrong.exit_code, 2) << wrong.errors;
    EXPECT_THAT(wrong.errors, HasSubstr("WORLD_SIZE=" + size));
  }
  const ProgramResult rank =
      run_program(std::string("RANK=1 WORLD_SIZE=3 ") + CALYREX_PROGRAM, "study " + plan);
  EXPECT_THAT(rank.errors, HasSubstr("(3 here)"));
  EXPECT_FALSE(fs::exists("nowhere"));
}

TEST(Study, LearningRatesAreChosenForEachKind) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  const ProgramResult run =
      study(std::string("run ") + kStudy + output_of(output) +
            " 'select={learning_rate: [1e-3, 1e-2], metric: acc, on: {task: mmlu, sample: true, shots: 0, "
            "form: raw}}'"
            " 'grid={kind: [cal], placement: [last, [1]]}' 'runs=[{name: fixed, kind: cal, placement: [1], "
            "train.learning_rate: 5e-3}]'");
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const Json results = results_in(output);
  ASSERT_EQ(results["selection"].size(), 1u);
  const Json& cal = results["selection"][0];
  EXPECT_EQ(cal["kind"], "cal");
  ASSERT_EQ(cal["tried"].size(), 2u);
  const bool second = cal["tried"][1]["value"] > cal["tried"][0]["value"];
  EXPECT_EQ(cal["chosen"], second ? 1e-2 : 1e-3) << "a tie takes the first";
  EXPECT_EQ(run_named(results, "cal-last-s0")["learning_rate"], cal["chosen"]);
  EXPECT_EQ(run_named(results, "cal-1-s0")["learning_rate"], cal["chosen"]);
  EXPECT_EQ(run_named(results, "fixed-s0")["learning_rate"], 5e-3);
  // The candidate that was chosen is the kind's first run: it is trained once.
  EXPECT_THAT(run.errors, HasSubstr(second ? "cal-last-s0: trained already as cal-lr0.01"
                                           : "cal-last-s0: trained already as cal-lr0.001"));
  EXPECT_EQ(read_text(output / "runs/cal-last-s0/adapter/adapter_model.safetensors"),
            read_text(output / (second ? "select/cal-lr0.01" : "select/cal-lr0.001") /
                      "adapter/adapter_model.safetensors"));
}

/// One kind with two rates.
std::string select_study(const fs::path& output, const std::string& more = "") {
  return small_study(
      output,
      "'select={learning_rate: [1e-3, 1e-2], metric: acc, on: {task: mmlu, sample: true, shots: "
      "0, form: raw}}' " +
          more);
}

TEST(Study, ATakenOverAdapterIsTheOneThatTrainingGives) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  ASSERT_EQ(study(select_study(output)).exit_code, 0);
  const fs::path run = output / "runs/cal-last-s0";
  const std::string taken = read_text(run / "adapter/adapter_model.safetensors");
  const ProgramResult trained =
      run_program(CALYREX_PROGRAM, "train " + (run / "config.yaml").string() +
                                       " output=" + (folder.path() / "alone").string());
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_EQ(read_text(folder.path() / "alone/adapter_model.safetensors"), taken);
}

TEST(Study, ACandidateThatFailedIsNotTriedAgain) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  const std::string diverges = select_study(output, "base.train.eps=1e-300");
  const ProgramResult first = study(diverges);
  EXPECT_EQ(first.exit_code, 2) << first.errors;
  EXPECT_THAT(first.errors, HasSubstr("cal could be trained with none of the learning rates (0.001: "));
  const fs::path failed = output / "select/cal-lr0.001/failed.json";
  EXPECT_THAT(read_text(failed), HasSubstr("is not finite"));
  const ProgramResult again = study(diverges);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.errors, HasSubstr("kept in " + failed.string() + "; remove that file to try again"));
  EXPECT_THAT(again.errors, Not(HasSubstr("trained parameters"))) << "nothing is trained";
  std::ofstream(failed) << "{}";
  EXPECT_EQ(study(diverges).exit_code, 4);
}

TEST(Study, TheBestOfTheCandidatesThatDidNotFailIsChosen) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  ASSERT_EQ(study(select_study(output)).exit_code, 0);
  const double chosen = results_in(output)["selection"][0]["chosen"];
  const fs::path candidate = output / (chosen == 1e-2 ? "select/cal-lr0.01" : "select/cal-lr0.001");
  fs::remove(candidate / "result.json");
  fs::remove_all(output / "runs/cal-last-s0");
  std::ofstream(candidate / "failed.json") << R"({"format": "calyrex-study-failure", "error": "diverged"})";
  const ProgramResult run = study(select_study(output));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const Json results = results_in(output);
  EXPECT_EQ(results["selection"][0]["chosen"], chosen == 1e-2 ? 1e-3 : 1e-2);
  EXPECT_THAT(read_text(output / "report.md"), HasSubstr("failed"));
}

TEST(Study, ScaleFollowsASettingThroughStudies) {
  const TemporaryFolder folder;
  const std::string both = whole_study().string() + " " + whole_study().string();
  const ProgramResult run =
      study("scale " + both + " --setting cal-last --output " + (folder.path() / "scale").string());
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("| mmlu |  | lora | whole |"));
  const Json scale = Json::parse(read_text(folder.path() / "scale/scale.json"));
  EXPECT_EQ(scale["studies"].size(), 2u);
  EXPECT_EQ(scale["points"].size() % 6, 0u) << "three baselines in both";
  const ProgramResult wrong = study("scale " + both);
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.errors, HasSubstr("in all studies: cal-all, cal-last, cal-last-equal_params"));
  expect_good_page(folder.path() / "scale/scale.html");
}

}  // namespace
}  // namespace calyrex::test
