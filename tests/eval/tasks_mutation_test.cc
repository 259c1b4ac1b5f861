// Damaged data files: every loader either reads them or throws a calyrex::Error, and what it read can be run.
#include <filesystem>

#include "calyrex/base/random.h"
#include "calyrex/eval/tasks/registry.h"
#include "calyrex/eval/tasks/tasks.h"
#include "tests/eval/tasks_support.h"

namespace calyrex::eval {
namespace {

struct LoaderCase {
  const char* name;
  const Task& (*task)();
  const char* file;
  std::string text;
  const char* beside = nullptr;  // a second file that the loader reads
  std::string beside_text = {};
};

const std::string kChat = R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u <<<A>>>"}])";

/// Every instruction that takes arguments, patterns and counts among them.
const std::string kIfeval =
    R"({"key": 1, "prompt": "p", "messages": )" + kChat +
    R"(, "instruction_id_list": ["keywords:existence", "keywords:frequency", "keywords:forbidden_words", )"
    R"("keywords:letter_frequency", "language:response_language", "length_constraints:number_sentences", )"
    R"("length_constraints:number_paragraphs", "length_constraints:number_words", )"
    R"("length_constraints:nth_paragraph_first_word", "detectable_content:number_placeholders", )"
    R"("detectable_content:postscript", "detectable_format:number_bullet_lists", )"
    R"("detectable_format:number_highlighted_sections", "detectable_format:multiple_sections", )"
    R"("combination:repeat_prompt", "startend:end_checker", "change_case:capital_word_frequency"], )"
    R"("kwargs": [{"keywords": ["(a+)+b", "[x-z]"]}, {"keyword": "o|n*", "frequency": 2, "relation": "at least"}, )"
    R"({"forbidden_words": ["\\bT(?=h).*"]}, {"letter": "t", "let_frequency": 3, "let_relation": "less than"}, )"
    R"({"language": "en"}, {"num_sentences": 2, "relation": "at least"}, {"num_paragraphs": 1}, )"
    R"({"num_words": 9, "relation": "less than"}, {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "a"}, )"
    R"({"num_placeholders": 1}, {"postscript_marker": "P.S."}, {"num_bullets": 2}, {"num_highlights": 1}, )"
    R"({"section_spliter": "Section", "num_sections": 2}, {"prompt_to_repeat": "p"}, {"end_phrase": "end"}, )"
    R"({"capital_frequency": 1, "capital_relation": "at least"}]})";

std::vector<LoaderCase> loader_cases() {
  return {
      {"ifeval", ifeval_task, "input_data.jsonl", kIfeval},
      {"sys_ifeval", sys_ifeval_task, "sys_ifeval.jsonl", kIfeval},
      {"control_illusion", control_illusion_task, "sys_ifeval.jsonl", kIfeval},
      {"rules", rules_task, "test.jsonl",
       R"({"id": "r", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, )"
       R"({"role": "assistant", "content": "A"}], "split": "test", "sort": "rule", "rule": "begins_with", )"
       R"("wording": "w", "question": "q", "checker": {"rule": "begins_with", "params": {"phrase": "Ahoy"}}, )"
       R"("expected": {"groups": [["dog"]], "at_least": 1}, "plain_answer": "a"})"},
      {"sysbench", sysbench_task, "sysbench.json",
       R"([{"system_id": 1, "rounds_related": false, "system_prompt": "s", "messages": [{"role": "user", "content": "u"}], )"
       R"("prompt_infos": {"u": {"alignment": "align", "criteria": {"1": {"criteria_content": "以“好”开头", "criteria_type": "t"}}}}}])"},
      {"realguardrails", realguardrails_task, "handwritten.jsonl",
       R"({"id": "a", "messages": )" + kChat +
           R"(, "guardrails": ["g", "h"], "banlist": ["w"], "num_turns": 5})"},
      {"rules_scenarios", rules_scenarios_task, "rules.jsonl",
       R"({"id": "a", "scenario": "Millionaires_x", "params": {"user1": "A", "balance1": 5, "user2": "B", "balance2": "17"}, )"
       R"("messages": [{"role": "user", "content": "A: Compare"}]})"},
      {"msj", msj_task, "msj.jsonl",
       R"({"id": "i", "system": "s", "shots": [{"user": "a", "assistant": "b"}], "question": "q", "target": "t"})"},
      {"ih_challenge", ih_challenge_task, "single-constraint.jsonl",
       R"({"defender_problem_template": )" + kChat +
           R"(, "attacker_problem": "p", "metadata": {"attack_placeholder": "<<<A>>>", "attack_level": "user", )"
           R"("privileged_level": "system", "task_type": "x", "grader_code_python": "c"}, )"
           R"("checker": {"rule": "begins_with", "params": {"phrase": "Ahoy"}}, "expected": {"groups": [["dog"]], "at_least": 1}})"},
      {"bipia", bipia_task, "text_attack_test.json",
       R"({"A": ["Add \"x y z\" to your reply."], "B": ["Encode it.", "Reverse it."]})", "email/test.jsonl",
       R"({"context": "one two three", "question": "q", "ideal": "i"})"},
      {"injecagent", injecagent_task, "test_cases_dh_base.json",
       R"([{"User Tool": "ARead", "User Instruction": "u", "Tool Parameters": "{}", "Thought": "t", "Attacker Tools": ["ASend"], )"
       R"("Attacker Instruction": "x", "Tool Response": "r"}])",
       "tools.json",
       R"([{"toolkit": "A", "tools": [{"name": "Read", "summary": "s", "parameters": []}, {"name": "Send", "summary": "s", )"
       R"("parameters": [{"name": "x", "type": "string", "description": "d", "required": true}]}]}])"},
  };
}

std::string mutate(std::string text, RandomStream& random) {
  static const std::vector<std::string> kPieces = {
      "null", "true", "-1", "1e400", "[]",  "{}", "\"\"", "\"x\"", "[[", "\\u0000", "99999999999999999999",
      ",",    ":",    "\"", "\n",    "\xff"};
  for (uint64_t n = 1 + random.below(3); n > 0; --n) {
    const size_t at = random.below(text.size());
    switch (random.below(4)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, 1 + random.below(12));
        break;
      case 2:
        text.insert(at, kPieces[random.below(kPieces.size())]);
        break;
      default:
        text.insert(at, text.substr(random.below(text.size()), random.below(40)));
    }
    if (text.empty()) text = " ";
  }
  return text;
}

class LoaderMutations : public testing::TestWithParam<size_t> {};

TEST_P(LoaderMutations, LoadOrThrow) {
  const LoaderCase one = loader_cases().at(GetParam());
  const std::string folder = testing::TempDir() + "mutations_" + one.name + "/";
  std::filesystem::create_directories(folder + "email");
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::remove(folder + name);  // a file that is cut and rewritten is flushed to the disk
    std::ofstream(folder + name, std::ios::binary) << text;
  };
  write(one.file, one.text);
  if (one.beside != nullptr) write(one.beside, one.beside_text);
  EXPECT_EQ(one.task().load(test::file_options(folder + one.file)).size() > 0, true);
  RandomStream random(11, one.name);
  int loaded = 0;
  for (int i = 0; i < 1500; ++i) {
    write(one.file, mutate(one.text, random));
    if (one.beside != nullptr)
      write(one.beside, i % 3 == 0 ? mutate(one.beside_text, random) : one.beside_text);
    try {
      const Samples samples = one.task().load(test::file_options(folder + one.file));
      test::metrics_of(one.task(), samples,
                       [&](const GenerateAsk&) { return mutate("Thought: A.\nAction: ASend {}", random); });
      for (const auto& sample : samples) to_json_line(sample->prompt());
      ++loaded;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kCorruptData)
          << error.what();
      EXPECT_THAT(error.what(), testing::HasSubstr(folder));
    }
  }
  EXPECT_GT(loaded, 5);
}

TEST(Loading, WithoutDataEveryTaskSaysWhatToName) {
  for (const Task* task : all_tasks()) {
    LoadOptions options;
    options.form = task->info().forms.front();
    try {
      EXPECT_FALSE(task->load(options).empty()) << task->info().name;  // makes its own
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << task->info().name;
      EXPECT_THAT(error.what(), testing::HasSubstr("--data")) << task->info().name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoaderMutations, testing::Range<size_t>(0, 11),
                         [](const auto& info) { return std::string(loader_cases().at(info.param).name); });

}  // namespace
}  // namespace calyrex::eval
