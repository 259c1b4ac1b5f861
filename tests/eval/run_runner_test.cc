#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/folder_lock.h"
#include "calyrex/lm/scripted_model.h"
#include "tests/eval/run_support.h"

namespace calyrex::eval::test {
namespace {

using testing::HasSubstr;

/// A scripted model that counts how often it answers, and options that run it.
struct Scene {
  explicit Scene(lm::ScriptedOptions scripted = {}) {
    auto answer = scripted.answer ? scripted.answer : [](const lm::GenerateRequest& request) {
      std::string text;
      for (const TokenId id : request.prompt.token_ids) {
        if (id < 256) text.push_back(static_cast<char>(id));
      }
      // Between the role "user" and the generation prompt's "assistant".
      return text.substr(4, text.size() - 4 - 9);
    };
    scripted.answer = [this, answer](const lm::GenerateRequest& request) {
      ++answers;
      return answer(request);
    };
    model = std::make_unique<lm::ScriptedModel>(scripted);
    options.output = folder / "out";
    options.model = [this]() -> lm::LanguageModel& {
      ++opened;
      return *model;
    };
  }

  TemporaryFolder folder;
  std::atomic<int> answers = 0;
  std::atomic<int> opened = 0;
  std::unique_ptr<lm::ScriptedModel> model;
  RunOptions options;
};

std::string error_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Runner, GradesEveryAnswerAndWritesBothFiles) {
  Scene scene;
  const ScriptedTask task = questions_task(30);
  const Finished finished = run_one(task, scene.options);
  EXPECT_EQ(scene.answers, 30);
  EXPECT_EQ(finished.folder, scene.folder / "out" / "questions" / "base");
  const Json results = Json::parse(read_text(finished.folder / "results.json"));
  EXPECT_EQ(results, finished.results);
  EXPECT_EQ(results["task"], "questions");
  EXPECT_EQ(results["n"], 30);
  EXPECT_DOUBLE_EQ(results["metrics"]["acc"]["value"].get<double>(), 1.0 / 3);
  EXPECT_LT(results["metrics"]["acc"]["low"].get<double>(), 1.0 / 3);
  EXPECT_EQ(results["model"], "scripted");
  EXPECT_TRUE(results["adapter"].is_null());
  EXPECT_EQ(results["form"], "user");
  EXPECT_EQ(results["seed"], 0);
  EXPECT_EQ(results["ungraded"], 0);
  const std::vector<Json> lines = read_lines(finished.folder / "samples.jsonl");
  ASSERT_EQ(lines.size(), 30u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["id"], std::to_string(i)) << "in the order of the task";
    EXPECT_EQ(lines[i]["response"], lines[i]["prompt"]);
    EXPECT_EQ(lines[i]["scores"]["acc"], i % 3 == 0 ? 1.0 : 0.0);
    EXPECT_EQ(lines[i]["length"], lines[i]["response"].get<std::string>().size());
  }
}

TEST(Runner, AFinishedRunAsksNothingAndGivesTheSame) {
  Scene scene;
  const ScriptedTask task = questions_task(10);
  const Finished first = run_one(task, scene.options);
  const Finished second = run_one(task, scene.options);
  EXPECT_EQ(scene.answers, 10);
  EXPECT_EQ(second.results, first.results);
}

TEST(Runner, TheCacheServesAnotherRunOfTheSameQuestions) {
  Scene scene;
  run_one(questions_task(10), scene.options);
  const int opened = scene.opened;
  scene.options.limit = 10;  // another configuration, whose folder is gone
  fs::remove_all(scene.options.output / "questions");
  run_one(questions_task(10), scene.options);
  EXPECT_EQ(scene.answers, 10);
  EXPECT_EQ(scene.opened, opened) << "no model is needed";
}

TEST(Runner, FunctionSchemasNeedATemplateThatWritesThem) {
  Scene scene;
  const ScriptedTask task = questions_task(2);
  Subject subject = base_subject();
  subject.renders_tools = false;
  run_tasks(load(task), {subject}, scene.options);
  std::vector<LoadedTask> tasks = load(task);
  tasks[0].options.form = Form::kTools;
  try {
    run_tasks(std::move(tasks), {subject}, scene.options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("--form system"));
  }
}

TEST(Runner, AnotherAdapterOrScaleIsAskedAnew) {
  Scene scene;
  fs::create_directories(scene.folder / "adapter");
  scene.model->load_adapter("a", scene.folder / "adapter");
  Subject adapter = base_subject();
  adapter.name = "a";
  adapter.adapter = {.name = "a", .scale = 0.5};
  adapter.identity["scale"] = 0.5;
  const ScriptedTask task = questions_task(5);
  const auto finished = run_tasks(load(task), {base_subject(), adapter}, scene.options);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(scene.answers, 10);
  EXPECT_EQ(finished[1].folder, scene.options.output / "questions" / "a");
}

TEST(Runner, RefusesAFolderOfAnotherConfiguration) {
  Scene scene;
  run_one(questions_task(5), scene.options);
  scene.options.max_new_tokens = 3;
  const std::string message =
      error_of([&] { run_one(questions_task(5), scene.options); }, ErrorCode::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("max_new_tokens: null there, 3 now"));
  EXPECT_THAT(error_of([&] { run_one(questions_task(6), scene.options); }, ErrorCode::kInvalidArgument),
              HasSubstr("data_sha256"));
}

TEST(Runner, RefusesAnOutputThatAnotherProcessWritesInto) {
  Scene scene;
  {
    const auto lock = FolderLock::try_lock(scene.options.output);
    EXPECT_THAT(error_of([&] { run_one(questions_task(5), scene.options); }, ErrorCode::kResourceExhausted),
                HasSubstr("another process is evaluating into"));
  }
  EXPECT_EQ(run_one(questions_task(5), scene.options).results["n"], 5);
}

TEST(Runner, GoesOnBehindAHalfWrittenLine) {
  Scene scene;
  const ScriptedTask task = questions_task(12);
  const Finished whole = run_one(task, scene.options);
  const fs::path folder = whole.folder;
  const std::string samples = read_text(folder / "samples.jsonl");
  const std::string results = read_text(folder / "results.json");
  const std::string cache = read_text(scene.options.output / "responses.jsonl");
  // Stopped in the middle of the eighth line, and of a line of the cache.
  size_t cut = 0;
  for (int line = 0; line < 7; ++line) cut = samples.find('\n', cut) + 1;
  std::ofstream(folder / "samples.jsonl") << samples.substr(0, cut + 20);
  std::ofstream(scene.options.output / "responses.jsonl") << cache.substr(0, cache.find('\n') + 15);
  fs::remove(folder / "results.json");
  scene.answers = 0;
  run_one(task, scene.options);
  EXPECT_GE(scene.answers, 4);
  EXPECT_LE(scene.answers, 5);  // the one in the cache may be among the five
  EXPECT_EQ(read_text(folder / "samples.jsonl"), samples);
  EXPECT_EQ(read_text(folder / "results.json"), results);
}

TEST(Runner, NamesADamagedLine) {
  Scene scene;
  const Finished whole = run_one(questions_task(3), scene.options);
  const std::string samples = read_text(whole.folder / "samples.jsonl");
  std::ofstream(whole.folder / "samples.jsonl") << "{\"id\": 1}\n" << samples;
  EXPECT_THAT(error_of([&] { run_one(questions_task(3), scene.options); }, ErrorCode::kCorruptData),
              HasSubstr("samples.jsonl:1"));
  std::ofstream(whole.folder / "samples.jsonl") << samples << "nonsense\n";
  EXPECT_THAT(error_of([&] { run_one(questions_task(3), scene.options); }, ErrorCode::kCorruptData),
              HasSubstr("samples.jsonl:4"));
}

TEST(Runner, SamplesThatWereEditedAreWorkedOutAgain) {
  Scene scene;
  const ScriptedTask task = questions_task(6);
  const Finished whole = run_one(task, scene.options);
  const std::string samples = read_text(whole.folder / "samples.jsonl");
  std::string edited = samples;
  edited.replace(edited.find("\"acc\":0.0"), 9, "\"acc\":1.0");
  std::ofstream(whole.folder / "samples.jsonl") << edited;
  scene.answers = 0;
  EXPECT_EQ(run_one(task, scene.options).results, whole.results);
  EXPECT_EQ(scene.answers, 0) << "the answers were kept";
  std::ofstream(whole.folder / "results.json") << "{";
  EXPECT_EQ(run_one(task, scene.options).results, whole.results) << "damaged results are written anew";
  EXPECT_EQ(read_text(whole.folder / "samples.jsonl"), samples);
}

TEST(Runner, ResultsGoBeforeSamplesAreAdded) {
  Scene scene;
  const Finished whole = run_one(questions_task(3), scene.options);
  RunFolder folder(whole.folder, read_json_file(whole.folder / "run.json"));
  ASSERT_TRUE(fs::exists(whole.folder / "results.json"));
  folder.append("4", {{"id", "4"}, {"scores", Json::object()}});
  EXPECT_FALSE(fs::exists(whole.folder / "results.json")) << "results of three beside samples of four";
}

/// Killed without warning at several moments, then run to its end: the files are those of a run in one go.
TEST(Runner, KilledRunsEndWithTheSameResults) {
  const ScriptedTask task = questions_task(200);
  Scene whole;
  const std::string expected = read_text(run_one(task, whole.options).folder / "results.json");
  const std::string samples = read_text(whole.options.output / "questions/base/samples.jsonl");

  TemporaryFolder folder;
  const fs::path output = folder / "out";
  for (const int milliseconds : {30, 60, 90}) {
    const pid_t child = ::fork();
    if (child == 0) {
      Scene slow({.answer = {}, .logprob = {}, .token_delay = std::chrono::microseconds(200)});
      slow.options.output = output;
      slow.options.max_generating = 8;
      run_one(task, slow.options);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  const std::string left = read_text(output / "questions/base/samples.jsonl");
  const auto kept = std::count(left.begin(), left.end(), '\n');
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 200);
  Scene last;
  last.options.output = output;
  run_one(task, last.options);
  EXPECT_LE(last.answers, 200 - kept);
  EXPECT_EQ(read_text(output / "questions/base/results.json"), expected);
  EXPECT_EQ(read_text(output / "questions/base/samples.jsonl"), samples);
}

TEST(Runner, AnInterruptKeepsWhatIsDone) {
  Scene scene({.answer = {}, .logprob = {}, .token_delay = std::chrono::microseconds(500)});
  int64_t done = 0;
  scene.options.max_generating = 4;
  scene.options.progress = [&](int64_t now, int64_t, int64_t) { done = now; };
  scene.options.interrupted = [&] { return done >= 5; };
  const ScriptedTask task = questions_task(60);
  error_of([&] { run_one(task, scene.options); }, ErrorCode::kCancelled);
  const size_t kept = read_lines(scene.options.output / "questions/base/samples.jsonl").size();
  EXPECT_GE(kept, 5u);
  EXPECT_LT(kept, 60u);
  scene.answers = 0;
  scene.options.interrupted = {};
  run_one(task, scene.options);
  EXPECT_LE(scene.answers, 60 - static_cast<int>(kept));
}

TEST(Runner, AnEndpointThatIsDownEndsTheRun) {
  Scene scene({.answer = [](const lm::GenerateRequest& request) -> std::string {
                 if (request.prompt.token_ids.size() > 24) fail(ErrorCode::kUnavailable, "nobody answers");
                 return "x";
               },
               .logprob = {}});
  scene.options.max_generating = 2;
  const std::string message =
      error_of([&] { run_one(questions_task(20), scene.options); }, ErrorCode::kUnavailable);
  EXPECT_THAT(message, HasSubstr("nobody answers"));
}

TEST(Runner, ARefusedRequestLeavesItsSampleUngraded) {
  Scene scene({.answer = [](const lm::GenerateRequest& request) -> std::string {
                 if (request.prompt.token_ids.size() < 22) fail(ErrorCode::kInvalidArgument, "not this one");
                 return "x";
               },
               .logprob = {}});
  const Finished finished = run_one(questions_task(14), scene.options);
  const auto ungraded = finished.results["ungraded"].get<int64_t>();
  ASSERT_GT(ungraded, 0);
  EXPECT_EQ(finished.results["n"].get<int64_t>() + ungraded, 14);
  EXPECT_DOUBLE_EQ(finished.results["metrics"]["acc"]["value"].get<double>(), 1.0);
  EXPECT_EQ(finished.results["ungraded_samples"][0]["reason"], "not this one");
  // Asked again by the next run, where the others are not.
  scene.answers = 0;
  run_one(questions_task(14), scene.options);
  EXPECT_EQ(scene.answers, ungraded);
}

TEST(Runner, WhatDoesNotFitIsNotApplicableAndNeverCut) {
  Scene scene({.answer = {}, .logprob = {}, .max_positions = 200});
  const ScriptedTask task("lengths", [] {
    Samples samples;
    samples.push_back(question_sample("short", "x"));
    samples.push_back(question_sample("long", std::string(300, 'x')));
    samples.push_back(question_sample("no room", std::string(100, 'x'), 128));
    return samples;
  });
  const Finished finished = run_one(task, scene.options);
  EXPECT_EQ(finished.results["n"], 1);
  EXPECT_EQ(finished.results["not_applicable"], 2);
  EXPECT_EQ(scene.answers, 1);
  const std::vector<Json> lines = read_lines(finished.folder / "samples.jsonl");
  EXPECT_THAT(lines[1]["not_applicable"].get<std::string>(), HasSubstr("the model's context has 200"));
}

TEST(Runner, SeveralStepsGoOnWithTheReplies) {
  Scene scene;
  const ScriptedTask task("turns", [] {
    Samples samples;
    samples.push_back(std::make_unique<ScriptedSample>(
        "talk", Json("three turns"),
        [](std::span<const Reply> replies) -> std::vector<Ask> {
          if (replies.size() == 3) return {};
          GenerateAsk ask;
          ask.messages = {user("turn" + std::to_string(replies.size()))};
          return {ask};
        },
        [](std::span<const Reply> replies) {
          Verdict verdict;
          verdict.scores["acc"] = replies[2].text == "turn2";
          return verdict;
        }));
    return samples;
  });
  const Finished finished = run_one(task, scene.options);
  EXPECT_DOUBLE_EQ(finished.results["metrics"]["acc"]["value"].get<double>(), 1.0);
  const std::vector<Json> lines = read_lines(finished.folder / "samples.jsonl");
  EXPECT_EQ(lines[0]["response"], Json::array({"turn0", "turn1", "turn2"}));
}

TEST(Runner, ScoresChoicesAndCachesThem) {
  Scene scene({.answer = {}, .logprob = [](const std::vector<TokenId>& ids, int64_t position) {
                 return ids[static_cast<size_t>(position)] == 'B' ? -0.5 : -3.0;
               }});
  const ScriptedTask task("choices", [] {
    Samples samples;
    for (int i = 0; i < 20; ++i) {
      samples.push_back(std::make_unique<ScriptedSample>(
          std::to_string(i), Json("choose"),
          [i](std::span<const Reply> replies) -> std::vector<Ask> {
            if (!replies.empty()) return {};
            std::vector<Ask> asks;
            for (const char* letter : {"A", "B"}) {
              asks.push_back(
                  ScoreAsk{.messages = {}, .prompt = "Q" + std::to_string(i), .completion = letter});
            }
            return asks;
          },
          [](std::span<const Reply> replies) {
            Verdict verdict;
            verdict.scores["acc"] = replies[1].logprobs.at(0) > replies[0].logprobs.at(0);
            return verdict;
          }));
    }
    return samples;
  });
  const Finished finished = run_one(task, scene.options);
  EXPECT_DOUBLE_EQ(finished.results["metrics"]["acc"]["value"].get<double>(), 1.0);
  const std::vector<Json> lines = read_lines(finished.folder / "samples.jsonl");
  EXPECT_TRUE(lines[0]["response"].is_null());
  EXPECT_DOUBLE_EQ(lines[0]["choices"][1]["logprob"].get<double>(), -0.5);
  EXPECT_EQ(read_lines(scene.options.output / "responses.jsonl").size(), 40u);
}

TEST(Runner, JudgeAsksGoToTheJudge) {
  const ScriptedTask task("judged", [] {
    Samples samples;
    samples.push_back(std::make_unique<ScriptedSample>(
        "one", Json("question"),
        [](std::span<const Reply> replies) -> std::vector<Ask> {
          if (replies.size() == 2) return {};
          GenerateAsk ask;
          ask.messages = {user(replies.empty() ? "question" : "judge: " + replies[0].text)};
          if (!replies.empty()) ask.recipient = Recipient::kJudge;
          return {ask};
        },
        [](std::span<const Reply> replies) {
          Verdict verdict;
          verdict.scores["acc"] = replies[1].text == "yes";
          return verdict;
        }));
    return samples;
  });
  Scene scene;
  const Finished without = run_one(task, scene.options);
  EXPECT_EQ(without.results["n"], 0);
  EXPECT_EQ(without.results["ungraded"], 1);

  lm::ScriptedModel judge({.answer = [](const lm::GenerateRequest& request) {
    return request.prompt.messages[0].content == "judge: question" ? "yes" : "no";
  }});
  scene.options.output = scene.folder / "judged";
  scene.options.judge = [&]() -> lm::LanguageModel& { return judge; };
  scene.options.judge_identity = "a judge";
  const Finished judged = run_one(task, scene.options);
  EXPECT_DOUBLE_EQ(judged.results["metrics"]["acc"]["value"].get<double>(), 1.0);
  EXPECT_EQ(read_lines(judged.folder / "samples.jsonl")[0]["judgements"], Json::array({"yes"}));
}

TEST(Runner, TwoRowsOfOneIdAreRefused) {
  const ScriptedTask task("twins", [] {
    Samples samples;
    samples.push_back(question_sample("1", "a"));
    samples.push_back(question_sample("1", "b"));
    return samples;
  });
  EXPECT_THAT(error_of([&] { load_task(task, {}); }, ErrorCode::kInvalidArgument), HasSubstr("'1'"));
}

TEST(Runner, ManySamplesShareTheBatchUpToTheLimit) {
  Scene scene({.answer = {}, .logprob = {}, .token_delay = std::chrono::microseconds(20)});
  scene.options.max_generating = 16;
  int64_t most = 0;
  scene.options.progress = [&](int64_t, int64_t, int64_t) {
    most = std::max(most, scene.model->counters().requests_running);
  };
  run_one(questions_task(100), scene.options);
  EXPECT_GT(most, 10);
  EXPECT_LE(most, 16);
}

}  // namespace
}  // namespace calyrex::eval::test
