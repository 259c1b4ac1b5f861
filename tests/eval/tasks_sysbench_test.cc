#include "calyrex/eval/judge/agreement.h"
#include "calyrex/eval/judge/verdict_file.h"
#include "calyrex/eval/tasks/sysbench.h"
#include "calyrex/eval/tasks/sysbench_literal.h"
#include "calyrex/eval/tasks/tasks.h"
#include "tests/eval/ifeval_data.h"
#include "tests/eval/tasks_support.h"

namespace calyrex::eval {
namespace {

using test::error_of;
using test::generate;
using test::play;
using test::sample_options;
using testing::HasSubstr;

std::filesystem::path published(const char* name) { return calyrex::test::eval_data() / "sysbench" / name; }

TEST(Sysbench, PublishedRunsToATenthOfAPoint) {
  CALYREX_NEED_DATA(published("expected_metrics.json"));
  const Json expected = read_json_file(published("expected_metrics.json"));
  for (const std::string run : {"gpt4o", "llama3_8b", "qwen2_7b"}) {
    const Json& wanted = expected.at("output/" + run + "/" + run + "_analysis.xlsx");
    const Metrics metrics =
        metrics_of_verdicts(read_sysbench(find_sysbench_file(published(""))),
                            read_verdicts(published(("verdicts_" + run + ".jsonl").c_str())));
    for (const auto& [ours, theirs] :
         std::vector<std::pair<std::string, std::string>>{{"csr", "CSR"},
                                                          {"isr", "ISR"},
                                                          {"isr_aligned", "ISR_align"},
                                                          {"isr_misaligned", "ISR_misalign"},
                                                          {"ssr", "SSR"}}) {
      EXPECT_NEAR(metrics.at(ours).value, wanted.at(theirs).get<double>(), 0.0005) << run << " " << ours;
      EXPECT_LT(metrics.at(ours).low, metrics.at(ours).value);
      EXPECT_GT(metrics.at(ours).high, metrics.at(ours).value);
    }
  }
}

TEST(Sysbench, PublishedFileHasTheAuthorsTotals) {
  CALYREX_NEED_DATA(published("expected_metrics.json"));
  std::map<std::string, int> types;
  int aligned = 0;
  int related = 0;
  const std::vector<SysbenchDialogue> dialogues = read_sysbench(find_sysbench_file(published("")));
  for (const SysbenchDialogue& dialogue : dialogues) {
    related += dialogue.turns_related;
    EXPECT_EQ(dialogue.turns.size(), 5u);
    for (const SysbenchTurn& turn : dialogue.turns) {
      aligned += turn.aligned;
      for (const SysbenchCriterion& criterion : turn.criteria) ++types[criterion.type];
    }
  }
  EXPECT_EQ(dialogues.size(), 500u);
  EXPECT_EQ(aligned, 1951);
  EXPECT_EQ(related, 356);
  EXPECT_EQ(types, (std::map<std::string, int>{{"content", 2768},
                                               {"action", 1292},
                                               {"style", 853},
                                               {"format", 793},
                                               {"role", 168},
                                               {"background", 78}}));
}

TEST(Sysbench, LiteralChecksAgreeWithThePublishedJudge) {
  CALYREX_NEED_DATA(published("verdicts_llama3_8b.jsonl"));
  const VerdictTable table = read_verdicts(published("verdicts_llama3_8b.jsonl"));
  std::vector<DoubleVerdict> verdicts;
  for (const SysbenchDialogue& dialogue : read_sysbench(find_sysbench_file(published("")))) {
    for (size_t turn = 0; turn < dialogue.turns.size(); ++turn) {
      const TurnVerdict& judged = table.at({dialogue.system_id, static_cast<int64_t>(turn) + 1});
      for (const SysbenchCriterion& entry : dialogue.turns[turn].criteria) {
        const auto check = parse_literal_check(entry.criterion.text);
        if (!check) continue;
        verdicts.push_back({.cluster = std::to_string(dialogue.system_id),
                            .first = passes_literal(*check, judged.response.value_or("")),
                            .second = judged.decisions.at(entry.criterion.id) == Decision::kYes});
      }
    }
  }
  const Agreement agreement = measure_agreement(verdicts, 0);
  RecordProperty("literal_checks", to_json_line(agreement_to_json(agreement)));
  std::cout << "literal checks against GPT-4o: " << to_json_line(agreement_to_json(agreement)) << "\n";
  EXPECT_GE(agreement.n, 300);
  EXPECT_GT(agreement.raw.value, 0.9);
}

SysbenchDialogue dialogue_of(const std::vector<int>& criteria_per_turn, bool related = false) {
  SysbenchDialogue dialogue{.system_id = 1, .turns_related = related, .system = "s"};
  for (const int count : criteria_per_turn) {
    SysbenchTurn turn{.user = "u", .aligned = dialogue.turns.size() % 2 == 0};
    for (int i = 1; i <= count; ++i) {
      turn.criteria.push_back({.criterion = {.id = std::to_string(i), .text = "c"}, .type = "content"});
    }
    dialogue.turns.push_back(turn);
  }
  return dialogue;
}

/// y, n, a (not applicable) for each criterion of a turn.
std::vector<TurnDecisions> decide(const std::vector<std::string>& turns) {
  std::vector<TurnDecisions> decisions;
  for (const std::string& turn : turns) {
    TurnDecisions one;
    for (size_t i = 0; i < turn.size(); ++i) {
      one[std::to_string(i + 1)] = turn[i] == 'y'   ? Decision::kYes
                                   : turn[i] == 'n' ? Decision::kNo
                                                    : Decision::kNotApplicable;
    }
    decisions.push_back(one);
  }
  return decisions;
}

TEST(SysbenchScores, OfVerdictsCountDialoguesThatAreDecidedInFull) {
  const std::vector<SysbenchDialogue> dialogues = {dialogue_of({1, 2})};
  VerdictTable verdicts;
  verdicts[{1, 1}].decisions = {{"1", Decision::kYes}};
  EXPECT_TRUE(metrics_of_verdicts(dialogues, verdicts).empty());
  verdicts[{1, 2}].decisions = {{"1", Decision::kYes}};
  EXPECT_TRUE(metrics_of_verdicts(dialogues, verdicts).empty());
  verdicts[{1, 2}].decisions["2"] = Decision::kNo;
  const Metrics metrics = metrics_of_verdicts(dialogues, verdicts);
  EXPECT_DOUBLE_EQ(metrics.at("csr").value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("isr").value, 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("ssr").value, 0.5);
}

TEST(SysbenchScores, HandComputed) {
  struct Case {
    std::vector<std::string> turns;
    double satisfied;
    double held;
    double session;
  };
  const std::vector<Case> cases = {
      {{"yy", "y", "yyy", "y", "y"}, 8, 5, 1.0}, {{"nn", "n", "nnn", "n", "n"}, 0, 0, 0.0},
      {{"yy", "y", "yny", "y", "y"}, 7, 4, 0.4}, {{"ny", "y", "yyy", "y", "y"}, 7, 4, 0.0},
      {{"ya", "y", "yyy", "y", "y"}, 7, 5, 1.0}, {{"aa", "a", "aaa", "a", "a"}, 0, 5, 1.0},
      {{"an", "y", "yyy", "y", "y"}, 6, 4, 0.0}, {{"yy", "y", "yyy", "y", "n"}, 7, 4, 0.8},
      {{"yy", "y", "yyy", "n", "y"}, 7, 4, 0.6}, {{"yy", "n", "yyy", "n", "y"}, 6, 3, 0.2},
      {{"yy", "y", "aaa", "n", "a"}, 3, 4, 0.6}, {{"yn", "n", "yan", "a", "y"}, 3, 2, 0.0},
  };
  for (const Case& one : cases) {
    const auto scores = sysbench_scores(dialogue_of({2, 1, 3, 1, 1}), decide(one.turns));
    EXPECT_EQ(scores.at("criteria"), 8);
    EXPECT_EQ(scores.at("satisfied"), one.satisfied);
    EXPECT_EQ(scores.at("turns_held"), one.held);
    EXPECT_DOUBLE_EQ(scores.at("session"), one.session);
    EXPECT_DOUBLE_EQ(scores.at("session_parallel"), one.session);
    EXPECT_EQ(scores.at("turns_aligned"), 3);
    EXPECT_EQ(scores.at("turns_misaligned"), 2);
  }
}

TEST(SysbenchLiterals, WhichCriteriaAndWhatTheyAsk) {
  using Kind = LiteralCheck::Kind;
  struct Case {
    const char* criterion;
    std::optional<Kind> kind;
    const char* good;
    const char* bad;
  };
  const std::vector<Case> cases = {
      {"以“尊敬的朋友”开头", Kind::kStarts, "尊敬的朋友，你好", "你好，尊敬的朋友"},
      {"以“🎩”为开头", Kind::kStarts, "🎩 好", "好 🎩"},
      {"每次以“编剧中的战斗机”结束", Kind::kEnds, "我是编剧中的战斗机", "编剧中的战斗机是我"},
      {"每轮回答末尾需要以“🌳”结束", Kind::kEnds, "好🌳", "🌳好"},
      {"回答中包含“多晒太阳”", Kind::kContains, "请多晒太阳。", "请多喝水"},
      {"输出“抱歉，我不能回答”", Kind::kContains, "抱歉，我不能回答。", "抱歉"},
      {"唐僧的回答中没有“阿弥陀佛”", Kind::kLacks, "善哉", "阿弥陀佛"},
      {"回答中不能出现“农药”", Kind::kLacks, "用清水", "用农药"},
      {"直接回答：“这是我的秘密！”", Kind::kContains, "这是我的秘密！", "不告诉你"},
      {"内容包含三个符号“🦾”", std::nullopt, "", ""},
      {"回复中包含“首先”、“最后”", std::nullopt, "", ""},
      {"一级标题格式为：“X、XX：XX”", std::nullopt, "", ""},
      {"回复\"功德+数字\"", std::nullopt, "", ""},
      {"用“🌟”代替标点符号", std::nullopt, "", ""},
      {"拒绝讲“十二生肖”里面的动物相关的笑话", std::nullopt, "", ""},
      {"不要以“好的”开头", std::nullopt, "", ""},
      {"回答问题", std::nullopt, "", ""},
      {"回答“", std::nullopt, "", ""},
      {"", std::nullopt, "", ""},
  };
  for (const Case& one : cases) {
    const std::optional<LiteralCheck> check = parse_literal_check(one.criterion);
    ASSERT_EQ(check.has_value(), one.kind.has_value()) << one.criterion;
    if (!check) continue;
    EXPECT_EQ(check->kind, *one.kind) << one.criterion;
    EXPECT_TRUE(passes_literal(*check, std::string("\n") + one.good + " ")) << one.criterion;
    EXPECT_FALSE(passes_literal(*check, one.bad)) << one.criterion;
    EXPECT_FALSE(passes_literal(*check, "")) << one.criterion;
  }
}

TEST(SysbenchTask, TurnsGoOnWithTheModelsOwnAnswers) {
  const Samples samples = sysbench_task().load(sample_options());
  ASSERT_EQ(samples.size(), 2u);
  const Sample& sample = *samples[0];
  EXPECT_EQ(generate(sample.next({})).messages.size(), 2u);
  const std::vector<Reply> first = test::replies_of({"您好，九点开门。祝您阅读愉快"});
  const auto asks = sample.next(first);
  ASSERT_EQ(generate(asks).messages.size(), 4u);
  EXPECT_EQ(generate(asks).messages[2].content, first[0].text);
  const std::vector<Reply> both = test::replies_of({"您好，九点开门。祝您阅读愉快", "抱歉"});
  EXPECT_TRUE(sample.next(both).empty());
  const Verdict verdict = sample.grade(both);
  EXPECT_EQ(verdict.ungraded, std::nullopt);
  EXPECT_EQ(verdict.scores.at("literal_criteria"), 3);
  EXPECT_EQ(verdict.scores.at("literal_satisfied"), 2);
  EXPECT_FALSE(verdict.scores.contains("criteria")) << "the proxy is not the metric";
  EXPECT_TRUE(sample.grade(first).ungraded.has_value());
}

TEST(SysbenchTask, JudgedTurnByTurn) {
  LoadOptions options = sample_options();
  options.judge = true;
  const Samples samples = sysbench_task().load(options);
  const auto answer = [](const GenerateAsk& ask) -> std::string {
    return ask.recipient == Recipient::kJudge ? R"(好的 {"1": "是", "2": "否"})" : "回答";
  };
  const std::vector<Reply> replies = play(*samples[0], answer);
  ASSERT_EQ(replies.size(), 4u);
  const auto judge_asks = samples[0]->next(test::replies_of({"回答甲", "回答乙"}));
  ASSERT_EQ(judge_asks.size(), 2u);
  EXPECT_THAT(generate(judge_asks, 1).messages[1].content, HasSubstr("回答甲"));
  EXPECT_THAT(generate(judge_asks, 0).messages[1].content, testing::Not(HasSubstr("回答乙")));
  const Metrics metrics = test::metrics_of(sysbench_task(), samples, answer);
  EXPECT_DOUBLE_EQ(metrics.at("csr").value, 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("isr").value, 0.0);
  EXPECT_DOUBLE_EQ(metrics.at("ssr").value, 0.0);
  EXPECT_TRUE(metrics.contains("literal_csr"));
}

TEST(SysbenchTask, AJudgementThatCannotBeReadIsNoZero) {
  LoadOptions options = sample_options();
  options.judge = true;
  const Samples samples = sysbench_task().load(options);
  const Verdict verdict =
      samples[0]->grade(test::replies_of({"a", "b", R"({"1": "是", "2": "是"})", "I would say so"}));
  ASSERT_TRUE(verdict.ungraded.has_value());
  EXPECT_THAT(*verdict.ungraded, HasSubstr("turn 2"));
  EXPECT_TRUE(verdict.scores.empty());
  EXPECT_EQ(verdict.detail.at("judge_answer"), "I would say so");
}

TEST(SysbenchTask, UserFormHasNoSystemMessage) {
  const Samples samples = sysbench_task().load(sample_options(Form::kUser));
  const text::Messages messages = generate(samples[0]->next({})).messages;
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].role, "user");
  EXPECT_THAT(messages[0].content, HasSubstr("图书馆的问答助手"));
  EXPECT_EQ(error_of([] { sysbench_task().load(sample_options(Form::kRaw)); }).code(),
            ErrorCode::kUnsupported);
}

TEST(SysbenchData, FaultsAreNamedByEntryAndField) {
  const std::string good =
      R"({"system_id": 1, "rounds_related": false, "system_prompt": "s", "messages": [{"role": "user", "content": "u"}],)"
      R"( "prompt_infos": {"u": {"alignment": "align", "criteria": {"1": {"criteria_content": "c", "criteria_type": "t"}}}}})";
  EXPECT_NO_THROW(read_sysbench(test::write_file("good.json", "[" + good + "]")));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("system_id": 1)", R"("system_id": "x")"},
      {R"("rounds_related": false)", R"("rounds_related": 0)"},
      {R"("system_prompt": "s")", R"("system_prompt": " ")"},
      {R"("content": "u")", R"("content": "v")"},
      {R"("alignment": "align")", R"("alignment": "so")"},
      {R"({"1": {"criteria_content")", R"({"1": {"other")"},
      {R"("role": "user")", R"("role": 3)"},
  };
  for (const auto& [from, to] : cases) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    const Error error =
        error_of([&] { read_sysbench(test::write_file("bad.json", "[" + good + ", " + bad + "]")); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << to;
    EXPECT_THAT(error.what(), HasSubstr("bad.json: entry 2: field '")) << to;
  }
  EXPECT_THAT(
      error_of([&] { read_sysbench(test::write_file("bad.json", "[" + good + ", " + good + "]")); }).what(),
      HasSubstr("system_id"));
}

}  // namespace
}  // namespace calyrex::eval
