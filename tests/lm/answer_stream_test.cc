#include "calyrex/lm/answer_stream.h"

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/lm/scripted_model.h"

namespace calyrex::lm {
namespace {

GenerateRequest say(const std::string& text) {
  GenerateRequest request;
  request.prompt.messages.push_back({.role = "user", .content = text});
  return request;
}

TEST(AnswerStream, PiecesMakeTheAnswer) {
  ScriptedModel model;
  AnswerStream stream(model, say("Hello there"));
  std::string text;
  while (!stream.done()) text += stream.read(std::chrono::milliseconds(100));
  EXPECT_EQ(text, "Hello there");
  EXPECT_EQ(stream.finish().text, "Hello there");
  EXPECT_EQ(stream.finish().token_ids.size(), 11u);
}

TEST(AnswerStream, CancelEndsIt) {
  ScriptedModel model({.token_delay = std::chrono::milliseconds(2)});
  AnswerStream stream(model, say(std::string(3000, 'x')));
  EXPECT_FALSE(stream.read(std::chrono::seconds(10)).empty());
  stream.cancel();
  EXPECT_EQ(stream.finish().reason, FinishReason::kCancelled);
}

TEST(AnswerStream, LeavingCancels) {
  ScriptedModel model({.token_delay = std::chrono::milliseconds(1)});
  { AnswerStream stream(model, say(std::string(3000, 'x'))); }
  const Completion next = generate_all(model, {say("ok")}).at(0);
  EXPECT_EQ(next.text, "ok");
  EXPECT_LT(model.counters().completion_tokens, 3000);
}

TEST(AnswerStream, ErrorsComeOutOfFinish) {
  ScriptedModel model(
      {.answer = [](const GenerateRequest&) -> std::string { fail(ErrorCode::kIo, "broken"); }});
  AnswerStream stream(model, say("x"));
  EXPECT_THROW(stream.finish(), Error);
}

}  // namespace
}  // namespace calyrex::lm
