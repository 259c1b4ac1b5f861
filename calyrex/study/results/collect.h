// The results of a study, gathered from its folder: what results.json holds.
#pragma once

#include <filesystem>

#include "calyrex/base/json.h"

namespace calyrex::study {

/// kSkip leaves out what reads every sample: means over seeds and differences; for reports while runs go on.
enum class Differences { kSkip, kCompute };

/// {"format": "calyrex-study", "name", "model", "backbone", "evaluations": [...],
///  "runs": [one a run: setting, kind, placement, seed, parameters, status, training figures],
///  "rows": [one a run x evaluation x metric x axis, with its interval],
///  "main_scores": [one a setting x evaluation x axis, over seeds and samples],
///  "comparisons": [settings against baselines on the same, with Holm-corrected p-values and a word],
///  "selection": [learning rates tried and chosen]}
/// Throws kNotFound when the folder holds no study, kCorruptData for damaged files.
Json collect_study(const std::filesystem::path& folder, Differences differences);

/// "joint/plain" -> {"joint", "plain"}; without a slash the axis is empty.
std::pair<std::string, std::string> split_metric(const std::string& name);

}  // namespace calyrex::study
