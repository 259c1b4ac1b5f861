#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/text/chat_template.h"

namespace calyrex::text {
namespace {

using ::testing::HasSubstr;

TemplateChat hello() {
  TemplateChat chat;
  chat.messages = {{{"role", "user"}, {"content", "hello"}}};
  chat.context = {{"tools", nullptr}, {"__now", "2026-11-29T17:05:09"}};
  return chat;
}

std::string render(const ChatTemplate& chat_template) {
  const std::vector<Rendering> renderings = chat_template.render({hello()}, {{0, 1, false}});
  return (renderings[0].ok ? "" : "error: ") + renderings[0].text;
}

std::string render(const std::string& source) {
  try {
    return render(ChatTemplate(source, "test"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}

TEST(TemplateLimits, LongLoopsEnd) {
  EXPECT_THAT(
      render(
          "{% for i in range(100000) %}{% for j in range(100000) %}{% set x = i %}{% endfor %}{% endfor %}"),
      HasSubstr("too many instructions"));
  EXPECT_THAT(render("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}"), HasSubstr("recursion limit"));
}

TEST(TemplateLimits, OutputIsBounded) {
  EXPECT_THAT(render("{% for i in range(100000) %}" + std::string(100, 'x') + "{% endfor %}"),
              HasSubstr("it writes more than"));
  EXPECT_EQ(render("{% for i in range(1000) %}" + std::string(1000, 'x') + "{% endfor %}").size(), 1000000u);
}

TEST(TemplateLimits, MemoryIsBounded) {
  const char* attacks[] = {
      "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[1,2]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ "
      "ns.x|list }}",
      "{{ ('a' * 90000000) ~ ('a' * 90000000) }}",
      "{% set x %}{% for i in range(100000) %}"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxx"
      "{% endfor %}{% endset %}{{ x|length }}",
      "{{ 'aaaaaaaaaa' | replace('a', 'b' * 50000000) | length }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + ['a' * 10000] %}{% "
      "endfor %}",
  };
  for (const char* attack : attacks) {
    EXPECT_THAT(render(attack), ::testing::AnyOf(HasSubstr("too much memory"), HasSubstr("too large"),
                                                 // a slow machine meets the time limit first
                                                 testing::HasSubstr("takes too long")))
        << attack;
  }
}

TEST(TemplateLimits, TimeOutsideOfInstructionsIsBounded) {
  EXPECT_THAT(render("{% if 5 in [[0]] * 1000000000000 %}{% endif %}"), HasSubstr("too long"));
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int count = 0; count < times; ++count) all += text;
  return all;
}

// Each of these overflows an ordinary stack; the process must live on.
TEST(TemplateLimits, NestingIsBounded) {
  const std::string sources[] = {
      "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
      "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}",
      "{{ " + repeated("-", 250000) + "1 }}",
      "{{ " + repeated("not ", 60000) + "1 }}",
      "{{ 1" + repeated(" ~ 1", 60000) + " }}",
      "{{ x" + repeated(".x", 120000) + " }}",
      "{{ x" + repeated("|e", 120000) + " }}",
      "{{ x" + repeated("()", 120000) + " }}",
      "{{ x" + repeated("[0]", 80000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 20000) + " }}",
      "{{ 1" + repeated("**1", 80000) + " }}",
      repeated("{% if 1 %}", 20000) + repeated("{% endif %}", 3000),
      repeated("{% for a in b %}", 10000),
  };
  for (const std::string& source : sources) {
    SCOPED_TRACE(source.substr(0, 20));
    render(source);
  }
}

TEST(TemplateLimits, DeepValuesDoNotOverflow) {
  const std::string deep =
      "{% set ns = namespace(x=[1]) %}{% for j in range(10) %}{% for i in range(100000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}";
  EXPECT_THAT(render(deep + "{{ ns.x }}"), HasSubstr("test"));
  const std::string less =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99999) %}"
      "{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}";
  for (const char* use :
       {"{{ ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x|string }}", "{{ ns.x ~ 1 }}", "{{ ns.x == ns.y }}",
        "{{ [ns.x, ns.y]|unique|list|length }}", "{{ ns.x|pprint }}"}) {
    EXPECT_THAT(render(less + use), ::testing::Not(::testing::IsEmpty())) << use;
  }
}

TEST(TemplateLimits, ATemplateThatWasStoppedIsNotRunAgain) {
  const ChatTemplate bad("{{ (messages[0].content * 10000000) ~ (messages[0].content * 10000000) }}", "test");
  EXPECT_THROW(render(bad), Error);
  try {
    render(bad);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("not run again"));
  }
  EXPECT_EQ(render("{{ messages[0].content }}"), "hello");
}

TEST(TemplateLimits, SourcesAreBoundedAndChecked) {
  EXPECT_THAT(render(std::string(300 << 10, 'x')), HasSubstr("chat template of test: it has 307200 bytes"));
  EXPECT_THAT(render("\xff"), HasSubstr("not UTF-8"));
  EXPECT_THAT(render("{% for x in %}"),
              ::testing::AllOf(HasSubstr("chat template of test"), HasSubstr("syntax error")));
  EXPECT_THAT(render("{{ messages[0].content"), HasSubstr("syntax error"));
  EXPECT_THAT(render("{% include 'x' %}"), HasSubstr("error: "));
  EXPECT_THAT(render("{{ raise_exception('no tools here') }}"), ::testing::StrEq("error: no tools here"));
  EXPECT_THAT(render("a\nb\n{{ none.x.y }}"), HasSubstr("chat template:3"));
}

TEST(TemplateLimits, ThreadsShareOne) {
  const ChatTemplate chat_template("{% for m in messages %}{{ m.content * 100 }}{% endfor %}", "test");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) EXPECT_EQ(render(chat_template).size(), 500u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace calyrex::text
