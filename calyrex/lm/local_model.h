// How a local model is opened; the engine behind it lives in the torch part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "calyrex/base/json.h"

namespace calyrex::lm {

/// kAuto: a quantised file on the CPU generates with its own weights and 8-bit products (and scores with
/// bfloat16 ones); else bfloat16 where the processor has it, else float32.
enum class Precision { kAuto, kFloat32, kBFloat16 };
/// Of adapters beside a quantised model: an 8-bit copy made when the adapter is loaded, or the precision that
/// the model itself has without quantised products (which then are not used). kAuto: kInt8 where it can be.
enum class AdapterPrecision { kAuto, kInt8, kModel };

struct LocalModelOptions {
  std::string model = "default";
  Precision dtype = Precision::kAuto;
  AdapterPrecision adapter_dtype = AdapterPrecision::kAuto;
  std::string device = "auto";  // "cpu", "cuda", "cuda:1"; auto = cuda when this build and machine have it
  std::optional<std::string> chat_template;  // text, replaces the model's own
  Json chat_kwargs = Json::object();
  std::optional<std::string> chat_date;
  int64_t max_batch_sequences = 64;
  int64_t prefill_chunk_tokens = 1024;
  double cache_gib = 1.0;      // keys and values of running sequences, and of earlier ones for reuse
  bool reuse_prefixes = true;  // begin behind what an earlier request with the same first tokens computed
  bool allow_base_mismatch = false;
  uint64_t seed = 0;  // of requests that bring none
};

}  // namespace calyrex::lm
