// SysBench's dialogues (Qin et al. 2024): a system prompt and user turns, each with criteria for its answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/eval/core/task.h"
#include "calyrex/eval/judge/judge_ask.h"

namespace calyrex::eval {

struct SysbenchCriterion {
  Criterion criterion;
  std::string type;  // "content", "action", "style", "format", "role", "background", or "other"
};

struct SysbenchTurn {
  std::string user;
  bool aligned = true;  // the request goes along with the system prompt
  std::vector<SysbenchCriterion> criteria;

  std::vector<Criterion> checklist() const;
};

struct SysbenchDialogue {
  int64_t system_id = 0;
  bool turns_related = false;  // later turns depend on earlier ones
  std::string system;
  std::vector<SysbenchTurn> turns;
};

/// The names a folder's file may have.
std::filesystem::path find_sysbench_file(const std::filesystem::path& data);

/// Reads the published JSON list. Errors name file, entry and field.
std::vector<SysbenchDialogue> read_sysbench(const std::filesystem::path& path);

/// Two dialogues of our own.
std::vector<SysbenchDialogue> sysbench_sample();

}  // namespace calyrex::eval
