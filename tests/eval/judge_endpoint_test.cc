// A judged task against an endpoint that misbehaves: what is unreadable is listed, what is done is kept.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/eval/tasks/tasks.h"
#include "calyrex/lm/openai_client.h"
#include "calyrex/lm/scripted_model.h"
#include "tests/eval/run_support.h"
#include "tests/lm/openai_server.h"

namespace calyrex::eval {
namespace {

using calyrex::test::OpenAiServer;
using test::TemporaryFolder;

lm::OpenAiOptions options_for(const OpenAiServer& server) {
  lm::OpenAiOptions options{
      .url = server.url(), .model = "judge", .api_key_variable = "CALYREX_NO_KEY", .concurrency = 2};
  options.retry = {.max_attempts = 2,
                   .first_wait = std::chrono::milliseconds(2),
                   .max_wait = std::chrono::milliseconds(5)};
  return options;
}

/// RealGuardrails' sample rows, answered by an echo, judged by `judge`.
Finished run_judged(const TemporaryFolder& folder, lm::LanguageModel& model, lm::LanguageModel& judge,
                    bool counts_tokens = true) {
  LoadOptions load;
  load.sample = true;
  load.form = Form::kSystem;
  load.judge = true;
  std::vector<LoadedTask> tasks;
  tasks.push_back(load_task(realguardrails_task(), load));
  RunOptions options;
  options.output = folder / "run";
  options.model = [&]() -> lm::LanguageModel& { return model; };
  options.judge = [&]() -> lm::LanguageModel& { return judge; };
  options.judge_identity = "judge";
  options.counts_tokens = counts_tokens;
  return std::move(run_tasks(std::move(tasks), {test::base_subject()}, options).at(0));
}

TEST(JudgeEndpoint, WhatCannotBeReadIsListed) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    const bool haiku = request.body.find("haiku") != std::string::npos;
    return OpenAiServer::says(haiku ? "It was lovely." : R"(Fine. {"1": "yes", "2": "no"})");
  });
  TemporaryFolder folder;
  lm::ScriptedModel model;
  lm::OpenAiClient judge(options_for(server));
  const Finished finished = run_judged(folder, model, judge);
  EXPECT_EQ(finished.results["ungraded"], 1);
  EXPECT_EQ(finished.results["n"], 2);
  EXPECT_EQ(finished.results["ungraded_samples"][0]["id"], "sample:2");
  EXPECT_DOUBLE_EQ(finished.results["metrics"]["guardrails_kept"]["value"].get<double>(), 0.5);
}

TEST(JudgeEndpoint, OneThatStaysDownEndsTheRunAndTheRunGoesOn) {
  std::atomic<bool> down = true;
  OpenAiServer server([&](const OpenAiServer::Request&) {
    return down ? OpenAiServer::fails(503) : OpenAiServer::says(R"({"1": "yes", "2": "yes"})");
  });
  TemporaryFolder folder;
  std::atomic<int> answers = 0;
  lm::ScriptedModel model({.answer = [&](const lm::GenerateRequest&) {
    ++answers;
    return std::string("an answer");
  }});
  lm::OpenAiClient judge(options_for(server));
  try {
    run_judged(folder, model, judge);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 6);
    EXPECT_THAT(error.what(), testing::HasSubstr("503"));
  }
  down = false;
  const Finished finished = run_judged(folder, model, judge);
  EXPECT_EQ(finished.results["n"], 3);
  EXPECT_LT(answers, 6) << "answers that came are not asked for again";
}

TEST(JudgeEndpoint, TheModelMayBeAnEndpointToo) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    const bool judged = request.body.find("GUARDRAILS") != std::string::npos;
    OpenAiServer::Answer answer = OpenAiServer::says(judged ? R"({"1": "yes", "2": "yes"})" : "an answer");
    if (request.number % 3 == 1) return OpenAiServer::fails(429);
    return answer;
  });
  TemporaryFolder folder;
  lm::OpenAiOptions options = options_for(server);
  options.retry.max_attempts = 6;
  lm::OpenAiClient model(options);
  const Finished finished = run_judged(folder, model, model, /*counts_tokens=*/false);
  EXPECT_EQ(finished.results["n"], 3);
  EXPECT_EQ(finished.results["ungraded"], 0);
}

}  // namespace
}  // namespace calyrex::eval
