// Settings of a study over seeds and samples, and against its baselines.
#pragma once

#include <filesystem>

#include "calyrex/base/json.h"

namespace calyrex::study {

/// Fills in "main_scores" and "comparisons" of a study that is gathered otherwise, from the samples of its
/// finished runs. The main score of an evaluation is the first of its task's headline metrics that samples
/// carry. Samples that tell their "axis" are compared axis by axis; those that tell their "rule" count rule
/// by rule. A table is one evaluation on one axis: every setting against the base, and every CAL setting
/// against every baseline (LoRA, ParallelMLP, full); or, where the study's settings name "baselines", every
/// other setting against those. Holm's correction runs over a table.
void add_differences(const std::filesystem::path& folder, Json& study);

}  // namespace calyrex::study
