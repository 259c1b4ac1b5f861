#include "calyrex/weights/model_config.h"

#include <array>
#include <cmath>
#include <numbers>

#include "calyrex/base/error.h"

namespace calyrex::weights {
namespace {

struct Bound {
  std::string_view what;
  int64_t value;
  int64_t max;
};

}  // namespace

std::string_view model_type(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "llama";
    case ModelFamily::kMistral:
      return "mistral";
    case ModelFamily::kQwen2:
      return "qwen2";
    case ModelFamily::kQwen3:
      return "qwen3";
  }
  return "?";
}

void check_model_config(const ModelConfig& config, std::string_view source) {
  const std::array bounds = {
      Bound{"hidden size", config.hidden_size, 1 << 20},
      Bound{"intermediate size", config.intermediate_size, 1 << 24},
      Bound{"number of layers", config.num_layers, 1 << 12},
      Bound{"number of heads", config.num_heads, 1 << 16},
      Bound{"number of key/value heads", config.num_kv_heads, 1 << 16},
      Bound{"head size", config.head_dim, 1 << 16},
      Bound{"vocabulary size", config.vocab_size, 1 << 24},
      Bound{"number of positions", config.max_positions, int64_t{1} << 31},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.max) {
      fail(ErrorCode::kCorruptData, "{}: {} {} is out of range (1 to {})", source, bound.what, bound.value,
           bound.max);
    }
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    fail(ErrorCode::kCorruptData, "{}: {} heads are no multiple of {} key/value heads", source,
         config.num_heads, config.num_kv_heads);
  }
  if (config.head_dim % 2 != 0) {
    fail(ErrorCode::kCorruptData, "{}: head size {} is odd; rotary embedding needs an even one", source,
         config.head_dim);
  }
  const RopeConfig& rope = config.rope;
  const bool positive = config.rms_norm_eps > 0 && config.rms_norm_eps < 1 && rope.theta > 0 &&
                        std::isfinite(rope.theta) && rope.factor > 0 && std::isfinite(rope.factor);
  if (!positive) {
    fail(ErrorCode::kCorruptData, "{}: norm epsilon {}, rope theta {} or rope factor {} is out of range",
         source, config.rms_norm_eps, rope.theta, rope.factor);
  }
  if (rope.scaling == RopeConfig::Scaling::kLlama3 &&
      !(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor &&
        rope.original_max_positions > 0)) {
    fail(ErrorCode::kCorruptData,
         "{}: llama3 rope scaling with low_freq_factor {}, high_freq_factor {}, {} positions", source,
         rope.low_freq_factor, rope.high_freq_factor, rope.original_max_positions);
  }
}

std::vector<float> inverse_frequencies(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  const auto half = static_cast<size_t>(config.head_dim / 2);
  CALYREX_CHECK(rope.scaling != RopeConfig::Scaling::kFactors || rope.frequency_factors.size() == half);
  std::vector<float> frequencies(half);
  const auto factor = static_cast<float>(rope.factor);
  const auto original = static_cast<double>(rope.original_max_positions);
  const auto low_wavelength = static_cast<float>(original / rope.low_freq_factor);
  const auto high_wavelength = static_cast<float>(original / rope.high_freq_factor);
  for (size_t i = 0; i < half; ++i) {
    // Rounded to float32 step by step, as the reference computes it.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    float frequency = 1.0f / static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    switch (rope.scaling) {
      case RopeConfig::Scaling::kNone:
        break;
      case RopeConfig::Scaling::kLinear:
        frequency /= factor;
        break;
      case RopeConfig::Scaling::kFactors:
        frequency /= rope.frequency_factors[i];
        break;
      case RopeConfig::Scaling::kLlama3: {
        const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
        if (wavelength > low_wavelength) {
          frequency /= factor;
        } else if (wavelength >= high_wavelength) {
          const auto low = static_cast<float>(rope.low_freq_factor);
          const auto range = static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
          const float smooth = (static_cast<float>(original) / wavelength - low) / range;
          frequency = (1 - smooth) * frequency / factor + smooth * frequency;
        }
        break;
      }
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

}  // namespace calyrex::weights
