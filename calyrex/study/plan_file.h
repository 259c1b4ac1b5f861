// study.json, and whether an output folder may be this study's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "calyrex/study/config.h"
#include "calyrex/study/plan.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::study {

/// Throws kInvalidArgument when the output is no folder, holds files that are no study's, or finished runs of
/// another study: ones that `runs` lacks, under another name or with no trained run in common.
void refuse_other_output(const StudySettings& settings, const std::vector<PlannedRun>& runs);

/// Writes study.json: the plan that reports are made by.
void write_plan(const StudySettings& settings, const weights::ModelSource& model,
                const std::vector<PlannedRun>& runs);

}  // namespace calyrex::study
