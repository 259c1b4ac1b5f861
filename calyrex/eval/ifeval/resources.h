// What the checkers need besides their code: files that set-up makes of two Python packages.
#pragma once

#include <filesystem>

#include "calyrex/eval/ifeval/language_profiles.h"
#include "calyrex/eval/ifeval/punkt_model.h"

namespace calyrex::ifeval {

/// Punkt's English model and the language profiles: `.deps/eval`, or the folder that CALYREX_EVAL_RESOURCES
/// names. Loaded when first asked for and kept; safe to call from several threads. kNotFound says what to
/// run, kCorruptData which file is damaged.
const PunktModel& english_punkt();
const LanguageProfiles& language_profiles();

}  // namespace calyrex::ifeval
