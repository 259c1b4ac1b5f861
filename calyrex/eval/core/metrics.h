// What most tasks compute from their samples' scores. Samples without the score are left out.
#pragma once

#include <string>
#include <string_view>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// Share of samples whose 0/1 score is 1, with Wilson's interval; no sample: 0 in [0, 1].
data::Estimate share_of(std::span<const Graded> graded, std::string_view score);

/// share_of() every score that any sample has, by its name; for tasks whose scores are all 0 or 1.
Metrics all_shares(std::span<const Graded> graded);

/// Mean of a score with the percentile interval of a seeded bootstrap over samples.
data::Estimate mean_of(std::span<const Graded> graded, std::string_view score);

/// Sum of one score over the sum of another (parts within samples: instructions, criteria), samples being
/// resampled whole.
data::Estimate ratio_of(std::span<const Graded> graded, std::string_view part, std::string_view whole);

/// Whether any sample has that score.
bool has_score(std::span<const Graded> graded, std::string_view score);

}  // namespace calyrex::eval
