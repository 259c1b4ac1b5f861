#include "calyrex/eval/tasks/registry.h"

#include <string>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {

const std::vector<const Task*>& all_tasks() {
  static const std::vector<const Task*> tasks = {
      &ifeval_task(),
      &sys_ifeval_task(),
      &ifeval_sep_task(),
      &long_ifeval_task(),
      &control_illusion_task(),
      &mmlu_task(),
      &gsm8k_task(),
      &squad_task(),
      &squad2_task(),
      &glaive_task(),
      &bfcl_task(),
      &tensortrust_task(),
      &sep_task(),
      &prompt_leak_task(),
      &sysbench_task(),
      &realguardrails_task(),
      &rules_scenarios_task(),
      &rules_task(),
      &rule_axes_task(),
      &msj_rules_task(),
      &msj_task(),
      &injecagent_task(),
      &ih_challenge_task(),
      &bipia_task(),
  };
  return tasks;
}

const Task& find_task(std::string_view name) {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) {
    if (task->info().name == name) return *task;
    names.push_back(task->info().name);
  }
  const std::string nearest = nearest_word(std::string(name), names);
  fail(ErrorCode::kNotFound, "there is no task '{}'{} ('calyrex eval list' shows all)", name,
       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

}  // namespace calyrex::eval
