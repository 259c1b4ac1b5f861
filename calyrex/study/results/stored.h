// The files of a study, read with every field checked that this program takes from them: they may have been
// damaged or edited since.
#pragma once

#include <filesystem>
#include <string_view>

#include "calyrex/base/json.h"

namespace calyrex::study {

/// Each throws kCorruptData naming file, field and remedy, or what reading the file throws.

/// OUTPUT/study.json; kNotFound where `output` holds none.
Json read_stored_plan(const std::filesystem::path& output);

/// result.json of a run.
Json read_stored_result(const std::filesystem::path& file);

/// identity.json of a run.
Json read_stored_identity(const std::filesystem::path& file);

/// failed.json of a candidate: {"format": "calyrex-study-failure", "error"}.
Json read_stored_failure(const std::filesystem::path& file);

/// OUTPUT/select/KIND.json.
Json read_stored_selection(const std::filesystem::path& file);

/// OUTPUT/results.json, as far as `study scale` takes it; kNotFound where `output` holds none.
Json read_stored_study(const std::filesystem::path& output);

}  // namespace calyrex::study
