#include "calyrex/lm/openai_client.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/lm/answer_stream.h"
#include "tests/lm/openai_server.h"

namespace calyrex::lm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::OpenAiServer;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kKeyVariable = "CALYREX_TEST_KEY";

OpenAiOptions options_for(const OpenAiServer& server) {
  OpenAiOptions options{.url = server.url(), .model = "m", .api_key_variable = kKeyVariable};
  options.retry = {.max_attempts = 3, .first_wait = milliseconds(2), .max_wait = milliseconds(10)};
  return options;
}

GenerateRequest chat(const std::string& user) {
  GenerateRequest request;
  request.prompt.messages = {{.role = "system", .content = "Be kind."}, {.role = "user", .content = user}};
  request.max_new_tokens = 20;
  return request;
}

Error error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

Completion ask(OpenAiClient& client, const GenerateRequest& request) {
  return generate_all(client, {request}).at(0);
}

TEST(OpenAiClient, AsksAndReads) {
  OpenAiServer server([](const auto&) { return OpenAiServer::says("Grüße\n"); });
  OpenAiClient client(options_for(server));
  GenerateRequest request = chat("Hi");
  request.stop = {"END"};
  request.sampling.seed = 5;
  const Completion completion = ask(client, request);
  EXPECT_EQ(completion.text, "Grüße\n");
  EXPECT_EQ(completion.reason, FinishReason::kStop);
  EXPECT_EQ(completion.usage.prompt_tokens, 7);
  const OpenAiServer::Request sent = server.requests().at(0);
  EXPECT_EQ(sent.method, "POST");
  EXPECT_EQ(sent.path, "/v1/chat/completions");
  EXPECT_EQ(sent.json(), parse_json(R"({"model": "m", "messages": [{"role": "system", "content": "Be kind."},
      {"role": "user", "content": "Hi"}], "max_tokens": 20, "temperature": 0.0, "seed": 5, "stop": ["END"]})",
                                    "expected"));
  EXPECT_EQ(client.counters().requests_finished, 1);
  EXPECT_EQ(client.counters().completion_tokens, 3);
}

TEST(OpenAiClient, StreamsPieceByPiece) {
  OpenAiServer server([](const auto&) { return OpenAiServer::streams({"One ", "two", " three"}); });
  OpenAiOptions options = options_for(server);
  options.stream = true;
  OpenAiClient client(options);
  std::vector<std::string> pieces;
  std::promise<FinishEvent> end;
  client.submit(chat("Count"), {.on_token = [&](const TokenEvent& event) { pieces.push_back(event.text); },
                                .on_finish = [&](const FinishEvent& event) { end.set_value(event); }});
  const FinishEvent event = end.get_future().get();
  EXPECT_EQ(event.error, nullptr);
  EXPECT_THAT(pieces, testing::ElementsAre("One ", "two", " three"));
  EXPECT_EQ(event.usage.completion_tokens, 3);
  EXPECT_TRUE(server.requests().at(0).json().at("stream").get<bool>());
}

TEST(OpenAiClient, StopStringsEndAnAnswerHoweverMany) {
  OpenAiServer server([](const auto&) { return OpenAiServer::streams({"abc", "d STO", "P no more", "x"}); });
  OpenAiOptions options = options_for(server);
  for (const bool stream : {true, false}) {
    options.stream = stream;
    OpenAiClient client(options);
    GenerateRequest request = chat("x");
    request.stop = {"1", "2", "3", "4", "5", "STOP"};
    const Completion completion = ask(client, request);
    EXPECT_EQ(completion.text, "abcd ") << stream;
    EXPECT_EQ(completion.reason, FinishReason::kStop);
  }
  EXPECT_EQ(server.requests().at(0).json().at("stop").size(), 4u);
}

TEST(OpenAiClient, LengthAndToolCalls) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    if (request.number == 1) return OpenAiServer::says("cut", "length");
    return OpenAiServer::Answer{.pieces = {R"({"choices": [{"message": {"role": "assistant", "content": null,
        "tool_calls": [{"id": "1", "type": "function",
                        "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        "finish_reason": "tool_calls"}]})"}};
  });
  OpenAiClient client(options_for(server));
  EXPECT_EQ(ask(client, chat("x")).reason, FinishReason::kLength);
  EXPECT_EQ(ask(client, chat("x")).text,
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>");
}

TEST(OpenAiClient, TheKeyIsSentAndShownNowhere) {
  ::setenv(kKeyVariable, "sk-secret-123", 1);
  OpenAiServer server([](const OpenAiServer::Request& request) {
    return request.number == 1 ? OpenAiServer::says("ok")
                               : OpenAiServer::fails(401, "Incorrect API key provided: sk-secret-123.");
  });
  OpenAiClient client(options_for(server));
  EXPECT_EQ(ask(client, chat("x")).text, "ok");
  EXPECT_EQ(server.requests().at(0).authorization, "Bearer sk-secret-123");
  const Error error = error_of([&] { ask(client, chat("x")); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(exit_code(error.code()), 6);
  EXPECT_THAT(error.what(), HasSubstr(kKeyVariable));
  EXPECT_THAT(error.what(), Not(HasSubstr("sk-secret-123")));
  EXPECT_EQ(server.requests().size(), 2u) << "a refused key is not tried again";
  ::setenv(kKeyVariable, "two\r\nlines", 1);
  const Error bad = error_of([&] { OpenAiClient other(options_for(server)); });
  EXPECT_EQ(bad.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad.what(), Not(HasSubstr("lines")));
  ::unsetenv(kKeyVariable);
}

TEST(OpenAiClient, WithoutAKeyNoneIsSent) {
  ::unsetenv(kKeyVariable);
  OpenAiServer server([](const auto&) { return OpenAiServer::says("ok"); });
  OpenAiClient client(options_for(server));
  ask(client, chat("x"));
  EXPECT_EQ(server.requests().at(0).authorization, "");
}

/// What goes wrong once or twice and then is well.
struct Trouble {
  const char* name;
  OpenAiServer::Answer answer;
};

class PassingTrouble : public testing::TestWithParam<Trouble> {};

TEST_P(PassingTrouble, IsRetried) {
  for (const bool stream : {false, true}) {
    OpenAiServer server([&](const OpenAiServer::Request& request) {
      if (request.number <= 2) return GetParam().answer;
      return stream ? OpenAiServer::streams({"fine"}) : OpenAiServer::says("fine");
    });
    OpenAiOptions options = options_for(server);
    options.stream = stream;
    OpenAiClient client(options);
    EXPECT_EQ(ask(client, chat("x")).text, "fine");
    EXPECT_EQ(server.requests().size(), 3u);
  }
}

TEST_P(PassingTrouble, ThatStaysEndsWithExitCodeSix) {
  OpenAiServer server([&](const auto&) { return GetParam().answer; });
  OpenAiClient client(options_for(server));
  const Error error = error_of([&] { ask(client, chat("x")); });
  EXPECT_EQ(exit_code(error.code()), 6) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("3 attempts"));
  EXPECT_THAT(error.what(), HasSubstr(server.url()));
  EXPECT_EQ(server.requests().size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(
    All, PassingTrouble,
    testing::Values(
        Trouble{"rate_limit", OpenAiServer::fails(429)}, Trouble{"server_error", OpenAiServer::fails(500)},
        Trouble{"bad_gateway",
                {.status = 502, .type = "text/html", .headers = {}, .pieces = {"<html>no</html>"}}},
        Trouble{"overloaded", OpenAiServer::fails(529)},
        Trouble{"hangs_up", {.headers = {}, .pieces = {}, .hang_up = true}},
        Trouble{"cut_off", {.headers = {}, .pieces = {R"({"choices": [{"mess)"}, .whole = false}},
        Trouble{"cut_stream", {.type = "text/event-stream", .headers = {}, .pieces = {": nothing yet\n\n"}}},
        Trouble{"html", {.type = "text/html", .headers = {}, .pieces = {"<html>Sign in</html>"}}},
        Trouble{"no_json", {.headers = {}, .pieces = {"I am fine, thanks"}}},
        Trouble{"empty", {.headers = {}, .pieces = {}}},
        Trouble{"other_json", {.headers = {}, .pieces = {R"({"result": "ok"})"}}},
        Trouble{"list", {.headers = {}, .pieces = {"[1, 2]"}}},
        Trouble{"no_choices", {.headers = {}, .pieces = {R"({"choices": []})"}}},
        Trouble{"choice_is_number", {.headers = {}, .pieces = {R"({"choices": [3]})"}}},
        Trouble{"content_is_number",
                {.headers = {}, .pieces = {R"({"choices": [{"message": {"content": 3}}]})"}}},
        Trouble{"no_content", {.headers = {}, .pieces = {R"({"choices": [{"message": {}}]})"}}},
        Trouble{"bad_utf8",
                {.headers = {}, .pieces = {"{\"choices\": [{\"message\": {\"content\": \"\xff\"}}]}"}}},
        Trouble{"deep", {.headers = {}, .pieces = {std::string(10000, '[') + std::string(10000, ']')}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(OpenAiClient, AStreamCutOffAfterItsFirstTextIsAnError) {
  OpenAiServer::Answer cut = OpenAiServer::streams({"half an"});
  cut.pieces.pop_back();
  OpenAiServer server([&](const auto&) { return cut; });
  OpenAiOptions options = options_for(server);
  options.stream = true;
  OpenAiClient client(options);
  std::string text;
  std::promise<std::exception_ptr> end;
  client.submit(chat("x"), {.on_token = [&](const TokenEvent& event) { text += event.text; },
                            .on_finish = [&](const FinishEvent& event) { end.set_value(event.error); }});
  const Error error = error_of([&] { std::rethrow_exception(end.get_future().get()); });
  EXPECT_THAT(error.what(), HasSubstr("cut off"));
  EXPECT_EQ(text, "half an");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(OpenAiClient, RetryAfterHoldsUpEveryRequest) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    OpenAiServer::Answer limited = OpenAiServer::fails(429);
    limited.headers["Retry-After"] = "1";
    return request.number == 1 ? limited : OpenAiServer::says("ok");
  });
  OpenAiOptions options = options_for(server);
  options.concurrency = 1;
  OpenAiClient client(options);
  const auto begin = steady_clock::now();
  generate_all(client, {chat("a"), chat("b")});
  EXPECT_GE(steady_clock::now() - begin, milliseconds(950));
  EXPECT_LT(steady_clock::now() - begin, milliseconds(5000));
}

TEST(OpenAiClient, ALongRetryAfterIsCut) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    OpenAiServer::Answer limited = OpenAiServer::fails(503);
    limited.headers["Retry-After"] = "86400";
    return request.number == 1 ? limited : OpenAiServer::says("ok");
  });
  OpenAiOptions options = options_for(server);
  options.retry.max_retry_after = milliseconds(50);
  OpenAiClient client(options);
  const auto begin = steady_clock::now();
  EXPECT_EQ(ask(client, chat("a")).text, "ok");
  EXPECT_LT(steady_clock::now() - begin, milliseconds(5000));
}

TEST(OpenAiClient, ConcurrencyIsLimited) {
  OpenAiServer server([](const auto&) {
    OpenAiServer::Answer answer = OpenAiServer::says("ok");
    answer.wait = milliseconds(30);
    return answer;
  });
  OpenAiOptions options = options_for(server);
  options.concurrency = 3;
  OpenAiClient client(options);
  EXPECT_EQ(generate_all(client, std::vector<GenerateRequest>(12, chat("x"))).size(), 12u);
  EXPECT_LE(server.most_at_once(), 3);
  EXPECT_GE(server.most_at_once(), 2);
}

TEST(OpenAiClient, ASlowAnswerTimesOut) {
  OpenAiServer server([](const auto&) {
    OpenAiServer::Answer answer = OpenAiServer::says("late");
    answer.wait = milliseconds(3000);
    return answer;
  });
  OpenAiOptions options = options_for(server);
  options.answer_timeout = milliseconds(100);
  options.retry.max_attempts = 2;
  OpenAiClient client(options);
  const Error error = error_of([&] { ask(client, chat("x")); });
  EXPECT_EQ(exit_code(error.code()), 6);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(OpenAiClient, AHugeAnswerIsRefusedOnce) {
  OpenAiServer server([](const auto&) { return OpenAiServer::says(std::string(1 << 20, 'x')); });
  OpenAiOptions options = options_for(server);
  options.max_answer_bytes = 1 << 16;
  OpenAiClient client(options);
  const Error error = error_of([&] { ask(client, chat("x")); });
  EXPECT_THAT(error.what(), HasSubstr("65536 bytes"));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(OpenAiClient, AnEndpointThatStaysDownEndsAllThatWait) {
  std::string url;
  {
    OpenAiServer gone([](const auto&) { return OpenAiServer::says("x"); });
    url = gone.url();
  }
  OpenAiOptions options{.url = url, .model = "m", .api_key_variable = kKeyVariable, .concurrency = 1};
  options.retry = {.max_attempts = 3, .first_wait = milliseconds(20), .max_wait = milliseconds(20)};
  OpenAiClient client(options);
  std::atomic<int> failed = 0;
  std::promise<void> all;
  for (int i = 0; i < 500; ++i) {
    client.submit(chat("x"), {.on_token = {}, .on_finish = [&](const FinishEvent& event) {
                                if (event.error != nullptr && ++failed == 500) all.set_value();
                              }});
  }
  EXPECT_EQ(all.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST(OpenAiClient, RequestsAtFaultAreNotRepeated) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    return OpenAiServer::fails(request.number == 1 ? 400 : 404, "too many tokens\nsecond line");
  });
  OpenAiClient client(options_for(server));
  const Error bad = error_of([&] { ask(client, chat("x")); });
  EXPECT_EQ(bad.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad.what(), HasSubstr("too many tokens second line"));
  EXPECT_EQ(error_of([&] { ask(client, chat("x")); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(OpenAiClient, TheOtherNameOfTheLimitIsLearned) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    if (request.json().contains("max_tokens")) {
      return OpenAiServer::fails(400, "'max_tokens' is not supported; use 'max_completion_tokens' instead.");
    }
    return OpenAiServer::says("ok");
  });
  OpenAiOptions options = options_for(server);
  options.concurrency = 1;
  OpenAiClient client(options);
  EXPECT_EQ(generate_all(client, {chat("a"), chat("b")}).at(1).text, "ok");
  EXPECT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(server.requests().at(2).json().at("max_completion_tokens"), 20);
}

TEST(OpenAiClient, FindsTheModel) {
  OpenAiServer server([](const OpenAiServer::Request& request) {
    if (request.number == 1) return OpenAiServer::fails(503);
    if (request.path == "/v1/models") {
      return OpenAiServer::Answer{.headers = {},
                                  .pieces = {R"({"data": [{"id": "first"}, {"id": "second"}]})"}};
    }
    return OpenAiServer::says("ok");
  });
  OpenAiOptions options = options_for(server);
  options.model = "";
  OpenAiClient client(options);
  EXPECT_EQ(client.info().name, "first");
  ask(client, chat("x"));
  EXPECT_EQ(server.requests().back().json().at("model"), "first");
}

TEST(OpenAiClient, WhatAnEndpointLacksIsNamed) {
  OpenAiServer server([](const auto&) { return OpenAiServer::says("ok"); });
  OpenAiClient client(options_for(server));
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[&] { client.score({}); }, "scoring"},
      {[&] { client.load_adapter("a", "tests/lm"); }, "adapters"},
      {[&] { client.unload_adapter("a"); }, "adapters"},
      {[&] { client.tokenize(Prompt{}, {}); }, "tokens"},
      {[&] { client.tokenize(ScoreRequest{}); }, "scoring"},
      {[&] {
         GenerateRequest request = chat("x");
         request.adapter.name = "a";
         client.submit(request, {});
       },
       "adapters"},
      {[&] {
         GenerateRequest request;
         request.prompt.text = "x";
         client.submit(request, {});
       },
       "messages"},
      {[&] {
         GenerateRequest request = chat("x");
         request.top_logprobs = 2;
         client.submit(request, {});
       },
       "top_logprobs"},
  };
  for (const auto& [call, word] : cases) {
    const Error error = error_of(call);
    EXPECT_EQ(exit_code(error.code()), 5) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(word));
  }
  EXPECT_EQ(error_of([&] { client.submit({}, {}); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client.adapters().empty());
}

TEST(OpenAiClient, CancelAndEndDoNotWaitForTheAnswer) {
  OpenAiServer server([](const auto&) {
    OpenAiServer::Answer answer = OpenAiServer::says("late");
    answer.wait = std::chrono::seconds(60);
    return answer;
  });
  const auto begin = steady_clock::now();
  std::vector<FinishReason> reasons;
  {
    OpenAiOptions options = options_for(server);
    options.concurrency = 1;
    OpenAiClient client(options);
    client.cancel(12345);
    std::promise<void> cancelled;
    const RequestId first =
        client.submit(chat("x"), {.on_token = {}, .on_finish = [&](const FinishEvent& event) {
                                    reasons.push_back(event.reason);
                                    cancelled.set_value();
                                  }});
    while (server.requests().empty()) std::this_thread::sleep_for(milliseconds(1));
    client.cancel(first);
    cancelled.get_future().get();
    for (int i = 0; i < 5; ++i) {
      client.submit(chat("x"), {.on_token = {}, .on_finish = [&](const FinishEvent& event) {
                                  EXPECT_EQ(event.error, nullptr);
                                  reasons.push_back(event.reason);
                                }});
    }
  }
  EXPECT_EQ(reasons, std::vector<FinishReason>(6, FinishReason::kCancelled));
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace calyrex::lm
