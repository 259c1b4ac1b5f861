// Several finished studies beside each other: the gap to each baseline against the size of the backbone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::study {

/// {"format": "calyrex-scale", "setting", "studies": [{"name", "model", "parameters"}],
///  "points": [{"study", "parameters", "evaluation", "score", "axis", "baseline_kind", "difference",
///  "p_holm", "word", "seeds", "baseline_seeds"}]}, in order of size. `setting` names the CAL setting that is
///  followed in every study. Throws kNotFound for a folder without results.json or a study without that
///  setting (naming
/// those that all have), kCorruptData for other files.
Json collect_scale(const std::vector<std::filesystem::path>& folders, const std::string& setting);

std::string scale_markdown(const Json& scale);

}  // namespace calyrex::study
