// The tasks of the IFEval family: rows, forms, metrics; lengths of filler; conflicts of two constraints.
#include <set>

#include <gmock/gmock.h>

#include "calyrex/base/json.h"
#include "calyrex/eval/tasks/ifeval_rows.h"
#include "tests/eval/ifeval_data.h"
#include "tests/eval/task_support.h"

namespace calyrex::eval {
namespace {

using namespace test;

text::Messages asked(const Sample& sample) { return std::get<GenerateAsk>(sample.next({}).at(0)).messages; }

const Sample& by_id(const Samples& samples, std::string_view id) {
  for (const auto& sample : samples) {
    if (sample->id() == id) return *sample;
  }
  throw std::runtime_error("no such sample");
}

TEST(IfevalTasks, OwnRowsInEveryForm) {
  for (const char* name : {"ifeval", "sys_ifeval", "ifeval_sep", "long_ifeval", "control_illusion"}) {
    for (const Form form : find_task(name).info().forms) {
      LoadOptions run = own_rows(form);
      run.form_text = "Be brief.";
      const Samples samples = load(name, run);
      ASSERT_FALSE(samples.empty()) << name;
      for (const auto& sample : samples) {
        const text::Messages messages = asked(*sample);
        EXPECT_EQ(messages.size(), form == Form::kUser ? 1u : 2u) << name;
        EXPECT_EQ(messages.back().role, "user");
        EXPECT_EQ(sample->next(std::vector<Reply>(1)).size(), 0u);
      }
    }
  }
  EXPECT_THAT(load_error("sys_ifeval", own_rows(Form::kNeutral)), testing::HasSubstr("sys_ifeval"));
}

TEST(IfevalTasks, VerdictsOfAnOwnRow) {
  const Samples samples = load("ifeval", own_rows(Form::kUser));
  const Verdict verdict = grade(by_id(samples, "2"), {"Here:\n* Rhine\n* Rhone\n* Elbe\nThat is all."});
  EXPECT_EQ(verdict.detail["instructions"],
            Json({"detectable_format:number_bullet_lists", "startend:end_checker"}));
  EXPECT_EQ(verdict.detail["strict"], Json({true, true}));
  EXPECT_EQ(verdict.detail["loose"], Json({true, true}));
  const Verdict loose = grade(by_id(samples, "1"), {"Sure, here it is:\nA market."});
  EXPECT_EQ(loose.detail["strict"], Json({false, false}));
  EXPECT_EQ(loose.detail["loose"], Json({true, false}));
  EXPECT_EQ(loose.scores.at("prompt_level_loose_acc"), 0.0);
  EXPECT_EQ(loose.scores.at("loose_followed"), 1.0);
  EXPECT_EQ(grade(by_id(samples, "1"), {""}).detail["loose"], Json({false, false}));
}

TEST(IfevalTasks, MetricsByPromptInstructionFamilyAndId) {
  const Samples samples = load("ifeval", own_rows(Form::kUser));
  std::vector<Graded> graded;
  graded.push_back({samples[0].get(), grade(*samples[0], {"a short walk"})});                    // yes, no
  graded.push_back({samples[1].get(), grade(*samples[1], {"* a\n* b\n* c\nThat is all."})});     // yes, yes
  graded.push_back({samples[4].get(), grade(*samples[4], {"{\"capital\": \"Tokyo\"}"})});        // yes
  graded.push_back({samples[5].get(), grade(*samples[5], {"<<Honey>> Bees live in a hive."})});  // yes, no
  const Metrics metrics = find_task("ifeval").metrics(graded);
  EXPECT_DOUBLE_EQ(metrics.at("prompt_level_strict_acc").value, 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("inst_level_strict_acc").value, 5.0 / 7);
  EXPECT_DOUBLE_EQ(metrics.at("inst_level_loose_acc").value, 5.0 / 7);
  EXPECT_DOUBLE_EQ(metrics.at("strict/detectable_format").value, 1.0);
  EXPECT_DOUBLE_EQ(metrics.at("strict/keywords:forbidden_words").value, 0.0);
  EXPECT_DOUBLE_EQ(metrics.at("loose/length_constraints").value, 0.0);
  // One instruction a prompt: Wilson's interval, which does not shrink to a point.
  EXPECT_GT(metrics.at("strict/keywords:forbidden_words").high, 0.5);
  const data::Estimate whole = metrics.at("inst_level_strict_acc");
  EXPECT_LT(whole.low, whole.value);
  EXPECT_GT(whole.high, whole.value);
}

TEST(IfevalTasks, MalformedRowsAreNamedByFileAndLine) {
  const DataFolder folder;
  const auto error_of = [&](const std::string& row) {
    folder.write(
        "input_data.jsonl",
        R"({"key": 1, "prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})"
        "\n" +
            row + "\n");
    return load_error("ifeval", options(folder.path(), Form::kUser));
  };
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(
      error_of(
          R"({"key": 2, "prompt": "p", "instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": ["[a"]}]})"),
      AllOf(HasSubstr("input_data.jsonl:2: kwargs[0]: keywords:existence"), HasSubstr("'[a'")));
  EXPECT_THAT(error_of(R"({"key": 2, "prompt": "p", "instruction_id_list": ["no:such"], "kwargs": [{}]})"),
              HasSubstr("input_data.jsonl:2: kwargs[0]: there is no instruction 'no:such'"));
  EXPECT_THAT(
      error_of(R"({"key": 2, "prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": []})"),
      HasSubstr("input_data.jsonl:2"));
  EXPECT_THAT(
      error_of(
          R"({"key": 2, "prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [1]})"),
      HasSubstr("input_data.jsonl:2"));
  EXPECT_THAT(
      error_of(
          R"({"key": 1, "prompt": "q", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})"),
      HasSubstr("'1'"));
  EXPECT_THAT(error_of("{"), HasSubstr("input_data.jsonl:2"));
}

TEST(IfevalTasks, EndlessPatternLeavesTheSampleUngraded) {
  const DataFolder folder;
  folder.write(
      "input_data.jsonl",
      R"({"key": 7, "prompt": "p", "instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": ["(a|aa)+$"]}]})"
      "\n");
  const Samples samples = load("ifeval", options(folder.path(), Form::kUser));
  const Verdict verdict = grade(*samples.at(0), {std::string(5000, 'a') + "b"});
  ASSERT_TRUE(verdict.ungraded);
  EXPECT_THAT(*verdict.ungraded, testing::HasSubstr("keywords:existence"));
}

TEST(LongIfeval, FillerGrowsAndIsTheSameEveryTime) {
  const Samples samples = load("long_ifeval", own_rows(Form::kSystem));
  const Samples again = load("long_ifeval", own_rows(Form::kSystem));
  EXPECT_EQ(samples.size(), 5u * 2u);
  const std::pair<const char*, size_t> lengths[] = {
      {"1/4k", 18000}, {"1/8k", 36000}, {"1/16k", 72000}, {"1/32k", 144000}};
  const size_t bare = asked(by_id(samples, "1/0"))[1].content.size();
  for (const auto& [id, characters] : lengths) {
    const text::Messages messages = asked(by_id(samples, id));
    EXPECT_EQ(messages, asked(by_id(again, id)));
    EXPECT_EQ(messages[0].content, asked(by_id(samples, "1/0"))[0].content);
    EXPECT_NEAR(static_cast<double>(messages[1].content.size()), static_cast<double>(characters + bare),
                100.0)
        << id;
    EXPECT_TRUE(messages[1].content.ends_with("Describe a walk through a market."));
    EXPECT_LT(by_id(samples, id).prompt().dump().size(), 1000u);
  }
  LoadOptions other = own_rows(Form::kSystem);
  other.seed = 5;
  EXPECT_NE(asked(by_id(load("long_ifeval", other), "1/4k")), asked(by_id(samples, "1/4k")));
}

TEST(LongIfeval, MetricsByLength) {
  const Samples samples = load("long_ifeval", own_rows(Form::kSystem));
  std::vector<Graded> graded;
  for (const auto& sample : samples) {
    if (sample->id() == "2/0")
      graded.push_back({sample.get(), grade(*sample, {"* a\n* b\n* c\nThat is all."})});
    if (sample->id() == "2/8k") graded.push_back({sample.get(), grade(*sample, {"no"})});
  }
  const Metrics metrics = find_task("long_ifeval").metrics(graded);
  EXPECT_EQ(metrics.at("prompt_level_strict_acc/0").value, 1.0);
  EXPECT_EQ(metrics.at("prompt_level_strict_acc/8k").value, 0.0);
  EXPECT_FALSE(metrics.contains("prompt_level_strict_acc/4k"));
}

TEST(LongIfeval, TooLittleProseIsNamed) {
  const DataFolder folder;
  folder.write("sys_ifeval.jsonl", "");
  EXPECT_THAT(load_error("long_ifeval", options(folder.path(), Form::kSystem)),
              testing::HasSubstr("haystack: holds 0 bytes"));
  folder.write("haystack/a.txt", "short");
  EXPECT_THAT(load_error("long_ifeval", options(folder.path(), Form::kSystem)),
              testing::HasSubstr("144000 are needed"));
}

TEST(ControlIllusion, WhoWins) {
  const Samples samples = load("control_illusion", own_rows(Form::kSystem));
  EXPECT_EQ(samples.size(), 8u * 12u);
  const auto scores = [&](std::string_view id, const std::string& answer) {
    return grade(by_id(samples, id), {answer}).scores;
  };
  EXPECT_EQ(asked(by_id(samples, "1/words/a"))[0].content, "Write at least 300 words.");
  EXPECT_EQ(asked(by_id(samples, "1/words/a"))[1].content,
            "Describe a walk through a market.\n\nWrite fewer than 50 words.");
  EXPECT_EQ(scores("1/words/a", "few words").at("user_obeyed"), 1.0);
  EXPECT_EQ(scores("1/words/b", "few words").at("system_obeyed"), 1.0);
  std::string hundred;
  for (int i = 0; i < 100; ++i) hundred += "word ";
  EXPECT_EQ(scores("1/words/a", hundred).at("neither_obeyed"), 1.0);
  EXPECT_EQ(scores("1/words/a", "").at("neither_obeyed"), 1.0);
  EXPECT_EQ(scores("2/case/a", "THE RIVERS ARE THE RHINE AND THE ELBE.").at("system_obeyed"), 1.0);
  EXPECT_EQ(scores("2/language/b", "The rivers are long and they flow to the sea.").at("user_obeyed"), 1.0);
  EXPECT_EQ(scores("3/sentences/b", "Light is blue. It scatters.").at("system_obeyed/sentences"), 1.0);
  const std::string rule = asked(by_id(samples, "4/keyword/b"))[0].content;
  EXPECT_THAT(rule, testing::StartsWith("Do not use the word "));
  EXPECT_THAT(rule, testing::Not(testing::HasSubstr("@")));
}

TEST(ControlIllusion, SharesOfWhoWins) {
  const Samples samples = load("control_illusion", own_rows(Form::kSystem));
  std::vector<Graded> graded;
  for (const char* id : {"1/words/a", "1/words/b", "2/words/b"}) {
    const Sample& sample = by_id(samples, id);
    graded.push_back({&sample, grade(sample, {"few words"})});
  }
  const Metrics metrics = find_task("control_illusion").metrics(graded);
  EXPECT_DOUBLE_EQ(metrics.at("system_obeyed").value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("user_obeyed").value, 1.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("priority_adherence").value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("system_obeyed/words").value, 2.0 / 3);
}

TEST(IfevalTasks, PublishedFilesLoad) {
  const std::filesystem::path data = calyrex::test::eval_data();
  CALYREX_NEED_DATA(data / "sys_ifeval/sys_ifeval.jsonl");
  EXPECT_EQ(load("ifeval", options(data / "ifeval", Form::kSystem)).size(), 541u);
  EXPECT_EQ(load("sys_ifeval", options(data / "sys_ifeval", Form::kSystem)).size(), 541u);
  EXPECT_EQ(load("ifeval_sep", options(data / "sys_ifeval", Form::kUser)).size(), 541u);
  EXPECT_EQ(load("long_ifeval", options(data, Form::kSystem)).size(), 5u * 541u);
  EXPECT_EQ(load("control_illusion", options(data / "sys_ifeval", Form::kSystem)).size(), 1200u);
}

}  // namespace
}  // namespace calyrex::eval
