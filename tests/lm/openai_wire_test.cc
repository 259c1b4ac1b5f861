#include "calyrex/lm/openai_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"
#include "calyrex/lm/openai_exchange.h"
#include "calyrex/lm/openai_retry.h"

namespace calyrex::lm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::string> events_of(const std::string& text, size_t piece) {
  std::vector<std::string> events;
  SseParser parser([&](std::string_view data) { events.emplace_back(data); });
  for (size_t at = 0; at < text.size(); at += piece) parser.push(std::string_view(text).substr(at, piece));
  return events;
}

TEST(SseParser, ReadsEventsWhereverTheyAreCut) {
  const std::string text =
      ": comment\n\ndata: one\n\nevent: x\ndata:two\r\ndata:  three\r\n\r\nid: 5\n\ndata\rdata: four\r\r"
      "data: not ended";
  const std::vector<std::string> expected = {"one", "two\n three", "four"};
  for (size_t piece = 1; piece < 20; ++piece) EXPECT_EQ(events_of(text, piece), expected) << piece;
}

TEST(SseParser, IsBounded) {
  SseParser parser([](std::string_view) {});
  const std::string block(1 << 20, 'x');
  EXPECT_THROW(
      {
        for (int i = 0; i < 6; ++i) parser.push(block);
      },
      Error);
}

TEST(OpenAiRequest, AsksToGoOnBehindStopTokensOnlyWhenItIsWanted) {
  GenerateRequest request;
  request.prompt.messages = {{.role = "user", .content = "Hello"}};
  EXPECT_FALSE(parse_json(openai_request_body(request, {.model = "m"}), "body").contains("ignore_eos"));
  request.ignore_eos = true;
  EXPECT_EQ(parse_json(openai_request_body(request, {.model = "m"}), "body").at("ignore_eos"), true);
}

TEST(OpenAiAnswer, JoinsToolCallsOfAStream) {
  OpenAiAnswer answer;
  const auto chunk = [&](const char* json) { return answer.read_chunk(parse_json(json, "chunk")); };
  EXPECT_EQ(chunk(R"({"choices": [{"delta": {"role": "assistant", "content": "Let me see."}}]})"),
            "Let me see.");
  chunk(R"({"choices": [{"delta": {"tool_calls": [{"index": 1, "function": {"name": "g"}}]}}]})");
  chunk(
      R"({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{\"a\""}}]}}]})");
  chunk(R"({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 2}"}}]}}]})");
  EXPECT_FALSE(answer.finished());
  chunk(R"({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})");
  EXPECT_TRUE(answer.finished());
  answer.finish();
  EXPECT_EQ(answer.text(),
            "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 2}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>");
}

TEST(OpenAiAnswer, NeverCrashesOnMutatedAnswers) {
  const std::string valid =
      R"({"choices": [{"message": {"content": "abc", "tool_calls": [{"index": 0, "function": {"name": "f",)"
      R"( "arguments": "{}"}}]}, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}})";
  RandomStream random(1, "mutations");
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = valid;
    for (uint64_t n = random.below(4); n > 0; --n)
      text[random.below(text.size())] = static_cast<char>(random.below(128));
    try {
      const Json json = parse_json(text, "mutated");
      OpenAiAnswer().read_completion(json);
      OpenAiAnswer().read_chunk(json);
      ++read;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kCorruptData);
    }
  }
  EXPECT_GT(read, 500);
}

TEST(OpenAiErrorMessage, WhateverTheBody) {
  EXPECT_EQ(openai_error_message(R"({"error": {"message": "bad\nthing", "code": 3}})"), "bad thing");
  EXPECT_EQ(openai_error_message(R"({"error": "plain"})"), "plain");
  EXPECT_EQ(openai_error_message(R"({"detail": "d"})"), "d");
  EXPECT_EQ(openai_error_message("<html>\n<body>"), "<html>");
  EXPECT_EQ(openai_error_message(""), "");
  EXPECT_EQ(openai_error_message(std::string(5000, 'x')).size(), 300u);
}

TEST(OpenAiBaseUrl, Forms) {
  EXPECT_EQ(openai_base_url("http://127.0.0.1:8080"), "http://127.0.0.1:8080/v1");
  EXPECT_EQ(openai_base_url("http://127.0.0.1:8080/"), "http://127.0.0.1:8080/v1");
  EXPECT_EQ(openai_base_url("https://host/v1/"), "https://host/v1");
  EXPECT_EQ(openai_base_url("https://host/api/v3/chat/completions"), "https://host/api/v3");
  for (const char* bad : {"", "host", "ftp://host/v1", "http://", "127.0.0.1:8080", "file:///etc"}) {
    EXPECT_THROW(openai_base_url(bad), Error) << bad;
  }
}

TEST(RetryAfter, SecondsAndDates) {
  // Python: calendar.timegm((2026, 11, 29, 20, 0, 0)) == 1795982400
  const std::time_t now = 1795982400;
  EXPECT_EQ(parse_retry_after("0", now), seconds(0));
  EXPECT_EQ(parse_retry_after(" 120 ", now), seconds(120));
  EXPECT_EQ(parse_retry_after("Sun, 29 Nov 2026 20:00:30 GMT", now), seconds(30));
  EXPECT_EQ(parse_retry_after("Sunday, 29-Nov-26 20:01:00 GMT", now), seconds(60));
  EXPECT_EQ(parse_retry_after("Sun Nov 29 20:00:05 2026", now), seconds(5));
  EXPECT_EQ(parse_retry_after("Sun, 29 Nov 2026 19:00:00 GMT", now), seconds(0));
  EXPECT_GT(parse_retry_after("99999999999999999999999", now), seconds(1 << 20));
  for (const char* bad : {"", "-1", "1.5", "soon", "Sun, 29 Nov 2026", "12 s"}) {
    EXPECT_EQ(parse_retry_after(bad, now), std::nullopt) << bad;
  }
}

TEST(BackoffWait, DoublesWithinItsBounds) {
  RandomStream random(3, "waits");
  const RetryOptions options{.first_wait = milliseconds(100), .max_wait = milliseconds(1000)};
  for (int failed = 1; failed <= 60; ++failed) {
    const int64_t longest = failed <= 4 ? 100LL << (failed - 1) : 1000;
    for (int i = 0; i < 20; ++i) {
      const milliseconds wait = backoff_wait(options, failed, random);
      EXPECT_GE(wait.count(), longest / 2);
      EXPECT_LE(wait.count(), longest);
    }
  }
}

TEST(RetryableStatus, Table) {
  for (const int status : {408, 409, 425, 429, 500, 502, 503, 504, 529})
    EXPECT_TRUE(is_retryable_status(status));
  for (const int status : {200, 301, 400, 401, 403, 404, 413, 422, 501})
    EXPECT_FALSE(is_retryable_status(status));
}

}  // namespace
}  // namespace calyrex::lm
