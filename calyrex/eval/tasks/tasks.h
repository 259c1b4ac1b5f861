// The benchmarks, one function each; registry.cc lists them.
#pragma once

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

const Task& ifeval_task();
const Task& sys_ifeval_task();
const Task& ifeval_sep_task();
const Task& long_ifeval_task();
const Task& control_illusion_task();
const Task& mmlu_task();
const Task& gsm8k_task();
const Task& squad_task();
const Task& squad2_task();
const Task& glaive_task();
const Task& bfcl_task();
const Task& tensortrust_task();
const Task& sep_task();
const Task& prompt_leak_task();
const Task& sysbench_task();
const Task& realguardrails_task();
const Task& rules_scenarios_task();
const Task& rules_task();
const Task& rule_axes_task();
const Task& msj_rules_task();
const Task& msj_task();
const Task& injecagent_task();
const Task& ih_challenge_task();
const Task& bipia_task();

}  // namespace calyrex::eval
