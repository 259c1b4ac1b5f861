// SysBench: scores of one dialogue, for the task and for verdicts that exist already.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calyrex/eval/core/task.h"
#include "calyrex/eval/judge/judgement.h"
#include "calyrex/eval/judge/verdict_file.h"
#include "calyrex/eval/tasks/sysbench_data.h"

namespace calyrex::eval {

/// A judge's decisions of one turn, by criterion id.
using TurnDecisions = std::map<std::string, Decision>;

/// The scores of a dialogue from the decisions of all its turns. CSR: only "yes" satisfies a criterion. ISR
/// and SSR: a turn fails when a criterion is decided "no"; "n/a" passes it (as published).
std::map<std::string, double> sysbench_scores(const SysbenchDialogue& dialogue,
                                              const std::vector<TurnDecisions>& decisions);

/// csr (and by type), isr (and by alignment), ssr (and by dependence), literal_csr; each where it has
/// samples.
Metrics sysbench_metrics(std::span<const Graded> graded);

/// Those metrics of a run whose verdicts exist already, over the dialogues that `verdicts` decides in full;
/// none when there is no such dialogue.
Metrics metrics_of_verdicts(const std::vector<SysbenchDialogue>& dialogues, const VerdictTable& verdicts);

}  // namespace calyrex::eval
