// Measurements of a language model's speed, through the interface that commands and servers use.
#pragma once

#include <cstdint>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::cli {

/// Requests that are submitted at once, each with a prompt of its own of random tokens, so that no prefix is
/// shared.
struct GenerationLoad {
  int64_t requests = 1;
  int64_t prompt_tokens = 64;
  int64_t new_tokens = 256;  // about the mean answer of an evaluation
  lm::AdapterChoice adapter;
  uint64_t seed = 0;
};

/// What a load took. Decoding is timed from when every request has its first token to when the first one
/// ends, so that all of them run all the time.
struct GenerationTimes {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  double seconds = 0.0;          // until the last answer ended
  double prefill_seconds = 0.0;  // until the last first token
  int64_t decode_tokens = 0;
  double decode_seconds = 0.0;
};

/// Runs a load to its end. Throws what a request failed with.
GenerationTimes measure_generation(lm::LanguageModel& model, const GenerationLoad& load);

/// {"median", "low", "high", "runs"} of some rates.
Json summarize_rates(std::vector<double> rates);

/// Largest resident size of this process so far, in MiB.
double peak_memory_mib();

}  // namespace calyrex::cli
