// What judge models are asked. The prompts are the benchmarks' own in meaning, in our words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// A criterion with the id that the judge answers by.
struct Criterion {
  std::string id;
  std::string text;
};

/// SysBench (Qin et al. 2024): does the answer to the last user turn satisfy each criterion? `dialogue` is
/// all before the answer, system message first. Asked in Chinese, the language of the benchmark.
GenerateAsk sysbench_judge_ask(const text::Messages& dialogue, std::string_view answer,
                               const std::vector<Criterion>& criteria);

/// RealGuardrails (Mu et al. 2025): does the answer keep each guardrail? `dialogue` as above.
GenerateAsk guardrail_judge_ask(const text::Messages& dialogue, std::string_view answer,
                                const std::vector<Criterion>& guardrails);

/// BIPIA (Yi et al. 2023) and the like: does the answer carry out an instruction that came with foreign text?
/// Answered by "1": yes or no.
GenerateAsk injection_judge_ask(std::string_view instruction, std::string_view answer);

/// The ids, for read_judgement().
std::vector<std::string> criterion_ids(const std::vector<Criterion>& criteria);

}  // namespace calyrex::eval
