// The published responses of five models, the verdicts of the reference over them, and upstream's own cases.
#include <ctime>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/eval/ifeval/grade.h"
#include "tests/eval/ifeval_data.h"

namespace calyrex::ifeval {
namespace {

struct Prompt {
  std::vector<Instruction> instructions;
};

std::map<int64_t, Prompt> read_prompts(const std::filesystem::path& path) {
  std::map<int64_t, Prompt> prompts;
  for_each_json_line(path, [&](int64_t, const Json& row) {
    Prompt& prompt = prompts[row["key"].get<int64_t>()];
    for (size_t i = 0; i < row["instruction_id_list"].size(); ++i) {
      prompt.instructions.emplace_back(row["instruction_id_list"][i].get<std::string>(), row["kwargs"][i]);
    }
  });
  return prompts;
}

std::vector<bool> as_bools(const std::vector<Followed>& verdicts) {
  std::vector<bool> result;
  for (const Followed followed : verdicts) result.push_back(followed == Followed::kYes);
  return result;
}

/// Why a published verdict differs from ours: key/instruction of the model.
using Reasons = std::map<std::string, std::string>;

struct PublishedCase {
  std::string model;
  Reasons known_differences;
};

const std::string kRandomLetter = "published with a random letter in place of the one asked for";
const std::string kUnstableLanguage =
    "published by unseeded language detection over capitals, which give few features";
const std::string kTwoScripts = "published by unseeded language detection over one line in two scripts";
const std::string k1122 = "1122 keywords:letter_frequency";
const std::string k1129 = "1129 keywords:letter_frequency";
const std::string k3112 = "3112 language:response_language";
const std::string k3456 = "3456 change_case:english_capital";
const std::string k3617 = "3617 change_case:english_capital";

void PrintTo(const PublishedCase& published, std::ostream* out) { *out << published.model; }

class IfevalPublished : public testing::TestWithParam<PublishedCase> {};

TEST_P(IfevalPublished, VerdictsCountsAndAccuracies) {
  const std::filesystem::path folder = test::eval_data() / "ifeval";
  CALYREX_NEED_DATA(folder / "golden");
  const std::map<int64_t, Prompt> prompts = read_prompts(folder / "input_data_golden.jsonl");
  std::set<std::string> differences;
  std::map<std::string, int64_t> passed;
  int64_t rows = 0;
  int64_t instructions = 0;
  for_each_json_line(folder / "golden" / (GetParam().model + ".jsonl"), [&](int64_t, const Json& row) {
    const int64_t key = row["key"].get<int64_t>();
    const std::string response = row["response"].get<std::string>();
    const Prompt& prompt = prompts.at(key);
    const InstructionVerdicts verdicts = grade_response(prompt.instructions, response);
    const std::vector<bool> strict = as_bools(verdicts.strict);
    const std::vector<bool> loose = as_bools(verdicts.loose);
    if (row["lang_stable_over_6_seeds"].get<bool>()) {
      EXPECT_EQ(strict, row["strict"].get<std::vector<bool>>()) << key;
      EXPECT_EQ(loose, row["loose"].get<std::vector<bool>>()) << key;
    }
    for (size_t i = 0; i < strict.size(); ++i) {
      if (strict[i] != row["strict_published"][i].get<bool>() ||
          loose[i] != row["loose_published"][i].get<bool>()) {
        differences.insert(std::to_string(key) + " " + prompt.instructions[i].id());
      }
      passed["inst_strict"] += strict[i];
      passed["inst_loose"] += loose[i];
    }
    passed["prompt_strict"] += std::count(strict.begin(), strict.end(), false) == 0;
    passed["prompt_loose"] += std::count(loose.begin(), loose.end(), false) == 0;
    ++rows;
    instructions += static_cast<int64_t>(strict.size());

    const Answer answer(decode_utf8(response));
    EXPECT_EQ(answer.num_words(), row["n_words"].get<int64_t>()) << key;
    EXPECT_EQ(answer.num_sentences(), row["n_sentences"].get<int64_t>()) << key;
    EXPECT_EQ(answer.num_capital_tokens(), row["n_capital_tokens"].get<int64_t>()) << key;
    EXPECT_EQ(answer.language(), row["lang_seed0"].is_null() ? "" : row["lang_seed0"].get<std::string>())
        << key;
  });
  EXPECT_EQ(rows, 541);
  std::set<std::string> known;
  for (const auto& [where, reason] : GetParam().known_differences) known.insert(where);
  EXPECT_EQ(differences, known);
  EXPECT_LE(differences.size(), 4u);

  const Json summary = read_json_file(folder / "golden/summary.json")[GetParam().model];
  for (const auto& [name, count] : passed) {
    const auto total = static_cast<double>(name.starts_with("inst") ? instructions : rows);
    EXPECT_NEAR(static_cast<double>(count) / total, summary[name].get<double>(), 1e-6) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, IfevalPublished,
    testing::Values(PublishedCase{"Meta-Llama-3.1-8B-Instruct", {{k3617, kUnstableLanguage}}},
                    PublishedCase{"Mistral-7B-Instruct-v0.3", {{k1122, kRandomLetter}, {k3112, kTwoScripts}}},
                    PublishedCase{"Qwen2.5-0.5B-Instruct", {{k1122, kRandomLetter}, {k1129, kRandomLetter}}},
                    PublishedCase{"Qwen2.5-1.5B-Instruct", {{k1122, kRandomLetter}, {k1129, kRandomLetter}}},
                    PublishedCase{"Qwen2.5-7B-Instruct",
                                  {{k1122, kRandomLetter},
                                   {k1129, kRandomLetter},
                                   {k3456, kUnstableLanguage},
                                   {k3617, kUnstableLanguage}}}));

TEST(IfevalUnitCases, AllOnRegisteredIds) {
  const std::filesystem::path path = test::eval_data() / "ifeval/unit_cases.jsonl";
  CALYREX_NEED_DATA(path);
  int64_t cases = 0;
  for_each_json_line(path, [&](int64_t number, const Json& row) {
    const std::string id = row["instruction_id"].get<std::string>();
    const std::vector<std::string> known = instruction_ids();
    if (std::find(known.begin(), known.end(), id) == known.end()) return;
    ++cases;
    const Answer answer(decode_utf8(row["response"].get<std::string>()));
    const bool expected = row["expected"].get<bool>();
    EXPECT_EQ(Instruction(id, row["kwargs"]).check(answer), expected ? Followed::kYes : Followed::kNo)
        << "line " << number;
  });
  EXPECT_GT(cases, 50);
}

TEST(IfevalSpeed, AllPromptsUnderTwoSeconds) {
  const std::filesystem::path folder = test::eval_data() / "ifeval";
  CALYREX_NEED_DATA(folder / "golden");
  const std::map<int64_t, Prompt> prompts = read_prompts(folder / "input_data_golden.jsonl");
  std::vector<std::pair<int64_t, std::string>> responses;
  for_each_json_line(folder / "golden/Qwen2.5-7B-Instruct.jsonl", [&](int64_t, const Json& row) {
    responses.emplace_back(row["key"].get<int64_t>(), row["response"].get<std::string>());
  });
  grade_response(prompts.begin()->second.instructions, "the first answer loads the language resources");
  // Processor time: a busy machine must not fail this.
  const std::clock_t start = std::clock();
  for (const auto& [key, response] : responses) grade_response(prompts.at(key).instructions, response);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(seconds, 2.0);
#endif
}

}  // namespace
}  // namespace calyrex::ifeval
