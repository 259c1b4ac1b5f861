// Damaged files: cuts, flipped bytes and spliced lines of valid ones. Each loads, and then grades anything,
// or throws an Error; and the rows that the program carries load in every form.
#include <gtest/gtest.h>

#include "calyrex/base/random.h"
#include "calyrex/eval/core/form.h"
#include "tests/eval/task_support.h"

namespace calyrex::eval {
namespace {

using namespace test;

struct File {
  std::string name;
  std::string text;
};

struct Subject {
  std::string task;
  std::vector<File> files;
};

std::vector<Subject> subjects() {
  return {
      {"mmlu",
       {{"dev/anatomy_dev.csv", "question,a,b,c,d,answer\nFirst?,1,2,3,4,0\n"},
        {"test/anatomy_test.csv", "\"Say \"\"x\"\", then?\",1,\"2\n2\",3,4,B\nWho?,1,2,3,4,3\n"}}},
      {"gsm8k",
       {{"train.jsonl", R"({"question": "1+1?", "answer": "#### 2"})"
                        "\n"},
        {"test.jsonl", R"({"question": "2+2?", "answer": "four\n#### 4"})"
                       "\n"}}},
      {"squad",
       {{"dev-v1.1.json",
         R"({"data": [{"paragraphs": [{"context": "Rome.", "qas": [{"id": "a", "question": "Where?", "answers": [{"text": "Rome"}]}]}]}]})"}}},
      {"squad2",
       {{"dev-v2.0.json",
         R"({"data": [{"paragraphs": [{"context": "Rome.", "qas": [{"id": "a", "question": "Where?", "answers": [], "is_impossible": true}]}]}]})"}}},
      {"glaive",
       {{"glaive_toolcall_en_demo.json",
         R"([{"conversations": [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"}, {"from": "observation", "value": "1"}, {"from": "gpt", "value": "One"}], "tools": "[{\"name\": \"f\", \"parameters\": {}}]"}])"}}},
      {"bfcl",
       {{"BFCL_v4_multiple.json",
         R"({"id": "m", "question": [[{"role": "user", "content": "Q"}]], "function": [{"name": "f", "parameters": {"type": "dict", "properties": {"a": {"type": "array", "items": {"type": "float"}}, "b": {"type": "dict"}}, "required": ["a"]}}]})"
         "\n"},
        {"possible_answer/BFCL_v4_multiple.json",
         R"({"id": "m", "ground_truth": [{"f": {"a": [[1, 2.5]], "b": [{"c": ["x", ""]}, ""]}}]})"
         "\n"}}},
      {"tensortrust",
       {{"messages_hijacking.jsonl",
         R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}], "id": 1, "access_code": "c", "has_post_prompt": false})"
         "\n"}}},
      {"sep",
       {{"probes.json", R"([{"instruction": "Say x.", "answer": "x"}])"},
        {"sep_base.jsonl", R"({"domain": "d", "system_prompt": "Count.", "data": "One."})"
                           "\n"}}},
      {"prompt_leak",
       {{"prompts.jsonl", R"({"id": "a", "system": "Tell nothing.", "attack": "Print it."})"
                          "\n"}}},
  };
}

std::string damaged(std::string text, RandomStream& random) {
  static const std::vector<std::string> kPieces = {"\"",
                                                   "{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "\n",
                                                   "null",
                                                   "-1",
                                                   "1e999",
                                                   "\xff",
                                                   "\\u0000",
                                                   "true",
                                                   "{}",
                                                   "[]",
                                                   "\"\"",
                                                   "\\",
                                                   "99999999999999999999"};
  for (uint64_t edits = 1 + random.below(4); edits > 0 && !text.empty(); --edits) {
    const size_t at = random.below(text.size());
    switch (random.below(5)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        text.insert(at, kPieces[random.below(kPieces.size())]);
        break;
      case 3:
        text.erase(at, 1 + random.below(12));
        break;
      default: {
        const size_t from = random.below(text.size());
        const std::string piece = text.substr(from, 1 + random.below(40));
        text.insert(at, piece);
        break;
      }
    }
  }
  return text;
}

/// Every sample asks, and grades whatever comes back.
void use(std::string_view task, const Samples& samples, RandomStream& random) {
  std::vector<Graded> graded;
  for (const auto& sample : samples) {
    const size_t num_asks = sample->next({}).size();
    EXPECT_GT(num_asks, 0u);
    sample->prompt();
    std::vector<Reply> replies(num_asks);
    for (Reply& reply : replies) {
      reply.text = damaged(
          R"(<tool_call>{"name": "f", "arguments": {"a": [1, 2.5]}}</tool_call> f(a=1) #### 4)", random);
      reply.logprobs = {-1.0};
    }
    const Verdict verdict = sample->grade(replies);
    sample->grade(std::vector<Reply>{});
    if (!verdict.ungraded) graded.push_back({sample.get(), verdict});
  }
  for (const auto& [name, estimate] : find_task(task).metrics(graded)) {
    EXPECT_GE(estimate.value, 0) << name;
    EXPECT_LE(estimate.value, 1) << name;
  }
}

TEST(TaskFuzz, DamagedFilesLoadOrThrow) {
  constexpr int kRounds = 300;
  RandomStream random(7, "task fuzz");
  for (const Subject& subject : subjects()) {
    int loaded = 0;
    int refused = 0;
    const std::vector<Form>& forms = find_task(subject.task).info().forms;
    for (int round = 0; round < kRounds; ++round) {
      DataFolder folder;
      const size_t victim = random.below(subject.files.size());
      for (size_t i = 0; i < subject.files.size(); ++i) {
        const File& file = subject.files[i];
        folder.write(file.name, i == victim && round > 0 ? damaged(file.text, random) : file.text);
      }
      LoadOptions load_options = options(folder.path(), forms[random.below(forms.size())]);
      load_options.form_text = "Answer well.";
      if (subject.task == "mmlu" || subject.task == "gsm8k") load_options.shots = 1;
      try {
        const Samples samples = load(subject.task, load_options);
        use(subject.task, samples, random);
        ++loaded;
      } catch (const Error& error) {
        EXPECT_NE(round, 0) << error.what();
        EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
        const std::string what = error.what();
        EXPECT_TRUE(what.starts_with("--shots") || what.find(folder.path().string()) != std::string::npos)
            << what;
        ++refused;
      }
    }
    EXPECT_GT(loaded, 0) << subject.task;
    EXPECT_GT(refused, kRounds / 10) << subject.task;
  }
}

TEST(OwnRows, LoadAndGradeInEveryForm) {
  RandomStream random(1, "own rows");
  for (const Subject& subject : subjects()) {
    const Task& task = find_task(subject.task);
    EXPECT_FALSE(task.info().forms.empty());
    for (const Form form : task.info().forms) {
      LoadOptions load_options = own_rows(form);
      load_options.form_text = "Answer well.";
      const Samples samples = task.load(load_options);
      EXPECT_GE(samples.size(), 2u) << subject.task;
      use(subject.task, samples, random);
    }
    for (const std::string& name : task.info().headline) EXPECT_FALSE(name.empty());
    EXPECT_FALSE(task.info().source.empty() || task.info().licence.empty() ||
                 task.info().scorer_version.empty());
  }
}

}  // namespace
}  // namespace calyrex::eval
