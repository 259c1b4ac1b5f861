// adapter.match_params: choosing an adapter's size so that it has as many parameters as another one.
#pragma once

#include <cstdint>
#include <string>

#include "calyrex/train/config.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::train {

/// The adapter to match, e.g. {kind: cal, placement: late8th}: settings as under `adapter`. kInvalidArgument
/// for anything else, naming the key.
AdapterSettings parse_match_params(const Json& match_params);

struct MatchedSize {
  weights::AdapterConfig config;
  int64_t parameters = 0;
  std::string size;  // what was chosen: "rank 58", "rank 2, 3 in q_proj", "width 1024"

  /// Relative to what was asked for, signed.
  double deviation(int64_t target) const {
    return static_cast<double>(parameters - target) / static_cast<double>(target);
  }
};

/// The width (CAL, ParallelMLP) or rank (LoRA) that comes nearest to `target` parameters. LoRA takes a second
/// rank, one higher, in some modules where one rank alone misses by more than 0.5 %; `scale_follows` keeps
/// alpha equal to the rank there. `config` is resolved.
MatchedSize match_parameters(weights::AdapterConfig config, int64_t target,
                             const weights::ModelConfig& backbone, bool scale_follows);

}  // namespace calyrex::train
