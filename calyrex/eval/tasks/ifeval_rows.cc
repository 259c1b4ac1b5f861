#include "calyrex/eval/tasks/ifeval_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/statistics.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/ifeval/grade.h"
#include "calyrex/eval/tasks/sample_lists.h"

namespace calyrex::eval {
namespace {

using ifeval::Followed;

/// Fixed: intervals must not change from run to run.
constexpr uint64_t kBootstrapSeed = 0;
constexpr size_t kMaxInstructions = 100;

constexpr std::string_view kOwnRows =
    R"({"key": 1, "prompt": "Describe a walk through a market. Use no commas and at least 40 words.", "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"], "kwargs": [{}, {"num_words": 40, "relation": "at least"}], "messages": [{"role": "system", "content": "Use no commas. Write at least 40 words."}, {"role": "user", "content": "Describe a walk through a market."}]}
{"key": 2, "prompt": "Name three rivers of Europe as a list of exactly three markdown bullet points. End with the words: That is all.", "instruction_id_list": ["detectable_format:number_bullet_lists", "startend:end_checker"], "kwargs": [{"num_bullets": 3}, {"end_phrase": "That is all."}], "messages": [{"role": "system", "content": "Answer with exactly three markdown bullet points and end with the words: That is all."}, {"role": "user", "content": "Name three rivers of Europe."}]}
{"key": 3, "prompt": "Why is the sky blue? Answer in fewer than 4 sentences and use the word light at least twice.", "instruction_id_list": ["length_constraints:number_sentences", "keywords:frequency"], "kwargs": [{"num_sentences": 4, "relation": "less than"}, {"keyword": "light", "frequency": 2, "relation": "at least"}], "messages": [{"role": "system", "content": "Answer in fewer than 4 sentences. Use the word light at least twice."}, {"role": "user", "content": "Why is the sky blue?"}]}
{"key": 4, "prompt": "Write a poem about snow in English, in small letters only. No capital letters are allowed.", "instruction_id_list": ["change_case:english_lowercase"], "kwargs": [{}], "messages": [{"role": "system", "content": "Write in English, in small letters only. No capital letters are allowed."}, {"role": "user", "content": "Write a poem about snow."}]}
{"key": 5, "prompt": "Give the capital of Japan and its population. Your whole answer should be JSON.", "instruction_id_list": ["detectable_format:json_format"], "kwargs": [{}], "messages": [{"role": "system", "content": "Your whole answer should be JSON."}, {"role": "user", "content": "Give the capital of Japan and its population."}]}
{"key": 6, "prompt": "Tell me about bees. Add a title in double angular brackets, such as <<honey>>. Do not use the words hive or sting.", "instruction_id_list": ["detectable_format:title", "keywords:forbidden_words"], "kwargs": [{}, {"forbidden_words": ["hive", "sting"]}], "messages": [{"role": "system", "content": "Add a title in double angular brackets, such as <<honey>>. Do not use the words hive or sting."}, {"role": "user", "content": "Tell me about bees."}]}
{"key": 7, "prompt": "Explain how to boil an egg. Answer in French, and in no other language.", "instruction_id_list": ["language:response_language"], "kwargs": [{"language": "fr"}], "messages": [{"role": "system", "content": "Answer in French, and in no other language."}, {"role": "user", "content": "Explain how to boil an egg."}]}
{"key": 8, "prompt": "Invite a friend to dinner. Put your whole answer in double quotation marks and add a postscript that starts with P.S.", "instruction_id_list": ["startend:quotation", "detectable_content:postscript"], "kwargs": [{}, {"postscript_marker": "P.S."}], "messages": [{"role": "system", "content": "Put your whole answer in double quotation marks and add a postscript that starts with P.S."}, {"role": "user", "content": "Invite a friend to dinner."}]})";

Json verdict_list(const std::vector<Followed>& verdicts) {
  Json list = Json::array();
  for (const Followed verdict : verdicts) list.push_back(verdict == Followed::kYes);
  return list;
}

/// Followed and asked-for instructions by prompt, under one name.
using Clusters = std::map<std::string, std::vector<data::Cluster>>;

data::Estimate share_by_prompt(const std::vector<data::Cluster>& prompts) {
  const bool single = std::all_of(prompts.begin(), prompts.end(),
                                  [](const data::Cluster& prompt) { return prompt.weight == 1; });
  if (!single) return data::bootstrap_ratio(prompts, kBootstrapSeed);
  const auto followed = std::count_if(prompts.begin(), prompts.end(),
                                      [](const data::Cluster& prompt) { return prompt.sum > 0; });
  return data::wilson_share(followed, static_cast<int64_t>(prompts.size()));
}

/// Adds a prompt's instructions to the clusters of their families and ids.
void add_prompt(const Json& detail, std::string_view mode, Clusters& clusters) {
  std::map<std::string, data::Cluster> prompt;
  const Json& verdicts = detail.at(mode);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const std::string id = detail.at("instructions").at(i).get<std::string>();
    for (const std::string& name : {id.substr(0, id.find(':')), id}) {
      data::Cluster& cluster = prompt[fmt::format("{}/{}", mode, name)];
      cluster.sum += verdicts[i].get<bool>();
      cluster.weight += 1;
    }
  }
  for (const auto& [name, cluster] : prompt) clusters[name].push_back(cluster);
}

}  // namespace

IfevalRow read_ifeval_row(const RowFields& row) {
  IfevalRow parsed{.id = row_id(row, "key"), .prompt = row.filled_text("prompt")};
  const std::vector<std::string> ids = row.texts("instruction_id_list", kMaxInstructions);
  const std::vector<RowFields> arguments = row.objects("kwargs", kMaxInstructions);
  if (ids.empty() || ids.size() != arguments.size()) {
    row.fail_field("kwargs", fmt::format("as many objects as instruction_id_list has ids ({})", ids.size()));
  }
  auto instructions = std::make_shared<std::vector<ifeval::Instruction>>();
  for (size_t i = 0; i < ids.size(); ++i) {
    with_context(fmt::format("{}: kwargs[{}]", row.source(), i),
                 [&] { instructions->emplace_back(ids[i], row.json("kwargs").at(i)); });
    instructions->back().prepare();
  }
  parsed.instructions = std::move(instructions);
  if (row.has("messages")) parsed.messages = row.chat("messages");
  return parsed;
}

const text::Messages& split_messages(const RowFields& row, const IfevalRow& parsed) {
  const text::Messages& messages = parsed.messages;
  if (messages.size() != 2 || messages[0].role != "system" || messages[1].role != "user") {
    row.fail_field("messages", "one system and one user message");
  }
  return messages;
}

Verdict grade_ifeval(const Instructions& instructions, const std::string& answer) {
  const ifeval::InstructionVerdicts verdicts = ifeval::grade_response(*instructions, answer);
  Verdict verdict;
  verdict.scores["instructions"] = static_cast<double>(instructions->size());
  verdict.detail["instructions"] = Json::array();
  for (size_t i = 0; i < instructions->size(); ++i) {
    const std::string& id = (*instructions)[i].id();
    verdict.detail["instructions"].push_back(id);
    if (verdicts.strict[i] == Followed::kUndecided || verdicts.loose[i] == Followed::kUndecided) {
      verdict.ungraded =
          fmt::format("{}: the regular expression backtracks without end over this answer", id);
    }
  }
  for (const auto& [mode, list] : {std::pair("strict", &verdicts.strict), {"loose", &verdicts.loose}}) {
    const auto followed = std::count(list->begin(), list->end(), Followed::kYes);
    verdict.scores[fmt::format("{}_followed", mode)] = static_cast<double>(followed);
    verdict.scores[fmt::format("prompt_level_{}_acc", mode)] =
        followed == static_cast<int64_t>(list->size()) ? 1.0 : 0.0;
    verdict.detail[mode] = verdict_list(*list);
  }
  return verdict;
}

Metrics ifeval_metrics(std::span<const Graded> graded) {
  Metrics metrics;
  for (const std::string_view mode : {"strict", "loose"}) {
    const std::string prompt = fmt::format("prompt_level_{}_acc", mode);
    metrics[prompt] = share_of(graded, prompt);
    metrics[fmt::format("inst_level_{}_acc", mode)] =
        ratio_of(graded, fmt::format("{}_followed", mode), "instructions");
  }
  return metrics;
}

Metrics ifeval_metrics_by_instruction(std::span<const Graded> graded) {
  Clusters clusters;
  for (const Graded& entry : graded) {
    for (const std::string_view mode : {"strict", "loose"}) add_prompt(entry.verdict.detail, mode, clusters);
  }
  Metrics metrics;
  for (const auto& [name, prompts] : clusters) metrics[name] = share_by_prompt(prompts);
  return metrics;
}

std::string_view own_ifeval_rows() { return kOwnRows; }

}  // namespace calyrex::eval
