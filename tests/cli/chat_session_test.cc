#include "calyrex/cli/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/lm/scripted_model.h"

namespace calyrex::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Says what it was asked: system message, number of messages, adapter strength.
std::string describe(const lm::GenerateRequest& request) {
  const text::Messages& messages = request.prompt.messages;
  if (messages.back().content == "fail") fail(ErrorCode::kInvalidArgument, "the template refuses");
  const std::string system = messages.front().role == "system" ? messages.front().content : "none";
  return fmt::format("system={} messages={} last={} scale={}", system, messages.size(),
                     messages.back().content, request.adapter.name.empty() ? 0.0 : request.adapter.scale);
}

class ChatSessionTest : public testing::Test {
 protected:
  ChatSession open(ChatSettings settings = {}) {
    return ChatSession(model_, std::move(settings),
                       {.answer = [this](std::string_view text) { answers_ += text; },
                        .note = [this](std::string_view text) { notes_ += std::string(text) + "\n"; },
                        .interrupted = [this] { return interrupted_; }});
  }

  ChatSettings with_adapter() {
    model_.load_adapter("adapter", "tests/cli");
    return {.system = "Be kind.", .adapter = {.name = "adapter", .scale = 1.0}};
  }

  /// What one line wrote.
  std::string answer_to(ChatSession& session, const std::string& line) {
    answers_.clear();
    notes_.clear();
    EXPECT_EQ(session.handle(line), ChatSession::Next::kContinue);
    return answers_;
  }

  lm::ScriptedModel model_{{.answer = describe}};
  std::string answers_;
  std::string notes_;
  bool interrupted_ = false;
};

TEST_F(ChatSessionTest, KeepsHistoryAndResetsIt) {
  ChatSession session = open();
  EXPECT_EQ(answer_to(session, "one"), "system=none messages=1 last=one scale=0\n");
  EXPECT_EQ(answer_to(session, "two"), "system=none messages=3 last=two scale=0\n");
  answer_to(session, "/reset");
  EXPECT_EQ(answer_to(session, "three"), "system=none messages=1 last=three scale=0\n");
}

TEST_F(ChatSessionTest, SystemMessageAndItsSpan) {
  ChatSession session = open();
  answer_to(session, "/system Be brief.");
  EXPECT_THAT(notes_, HasSubstr("span of 9 tokens"));
  EXPECT_EQ(answer_to(session, "hi"), "system=Be brief. messages=2 last=hi scale=0\n");
  EXPECT_THAT(notes_, HasSubstr("[span 9 tokens, context "));
  answer_to(session, "/system");
  EXPECT_EQ(answer_to(session, "again"), "system=none messages=3 last=again scale=0\n");
}

TEST_F(ChatSessionTest, AdapterStrength) {
  ChatSession session = open(with_adapter());
  EXPECT_THAT(answer_to(session, "a"), HasSubstr("scale=1\n"));
  answer_to(session, "/adapter off");
  EXPECT_THAT(answer_to(session, "b"), HasSubstr("scale=0\n"));
  answer_to(session, "/adapter 0.25");
  EXPECT_THAT(answer_to(session, "c"), HasSubstr("scale=0.25\n"));
  answer_to(session, "/adapter off");
  answer_to(session, "/adapter on");
  EXPECT_THAT(notes_, HasSubstr("on, strength 0.25"));
  for (const std::string bad : {"/adapter much", "/adapter nan", "/adapter 1x"}) {
    answer_to(session, bad);
    EXPECT_THAT(notes_, HasSubstr("expected off, on or a number")) << bad;
  }
}

TEST_F(ChatSessionTest, BothAnswersOneGoesOn) {
  ChatSession session = open(with_adapter());
  answer_to(session, "/both");
  EXPECT_EQ(answer_to(session, "a"),
            "system=Be kind. messages=2 last=a scale=0\nsystem=Be kind. messages=2 last=a scale=1\n");
  EXPECT_THAT(notes_, HasSubstr("base:\nadapter (strength 1):\n"));
  answer_to(session, "/both");
  EXPECT_EQ(answer_to(session, "b"), "system=Be kind. messages=4 last=b scale=1\n");
}

TEST_F(ChatSessionTest, WithoutAdapterItsCommandsSayWhatToDo) {
  ChatSession session = open();
  for (const std::string command : {"/both", "/adapter on"}) {
    answer_to(session, command);
    EXPECT_THAT(notes_, HasSubstr("--adapter DIR")) << command;
  }
}

TEST_F(ChatSessionTest, AFailedTurnLeavesTheHistory) {
  ChatSession session = open();
  answer_to(session, "one");
  answer_to(session, "fail");
  EXPECT_THAT(notes_, HasSubstr("error: the template refuses"));
  EXPECT_THAT(answer_to(session, "two"), HasSubstr("messages=3"));
  answer_to(session, std::string(5000, 'x'));
  EXPECT_THAT(notes_, HasSubstr("context of 4096"));
}

TEST_F(ChatSessionTest, SlashesBlanksAndUnknownCommands) {
  ChatSession session = open();
  EXPECT_EQ(answer_to(session, "   "), "");
  EXPECT_THAT(answer_to(session, "//etc"), HasSubstr("last=/etc "));
  answer_to(session, "/nonsense");
  EXPECT_THAT(notes_, HasSubstr("no command /nonsense"));
  answer_to(session, "/help");
  for (const char* name : {"/system", "/adapter", "/both", "/reset", "/quit"})
    EXPECT_THAT(notes_, HasSubstr(name));
  EXPECT_EQ(session.handle("/quit"), ChatSession::Next::kQuit);
}

TEST(ChatSession, AnInterruptStopsTheAnswerAndKeepsWhatWasSaid) {
  lm::ScriptedModel model({.answer =
                               [](const lm::GenerateRequest& request) {
                                 const size_t count = request.prompt.messages.size();
                                 return count == 1 ? std::string(3000, 'x')
                                                   : request.prompt.messages[1].content;
                               },
                           .token_delay = std::chrono::milliseconds(1)});
  std::string answers, notes;
  bool interrupted = false;
  ChatSession session(model, {.max_new_tokens = 3000},
                      {.answer =
                           [&](std::string_view text) {
                             answers += text;
                             interrupted = interrupted || answers.size() > 20;
                           },
                       .note = [&](std::string_view text) { notes += text; },
                       .interrupted = [&] { return interrupted; }});
  session.handle("go");
  EXPECT_LT(answers.size(), 3000u);
  EXPECT_THAT(notes, HasSubstr(", stopped]"));
  const std::string said = answers.substr(0, answers.size() - 1);
  interrupted = false;
  answers.clear();
  session.handle("and then?");
  EXPECT_EQ(answers.substr(0, 20), said.substr(0, 20));
}

}  // namespace
}  // namespace calyrex::cli
