// Seeded random streams: the same seed and name give the same numbers on every machine and compiler.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace calyrex {

/// xoshiro256** (Blackman and Vigna, 2018) seeded through SplitMix64 from a seed and a stream name, so that
/// parts of a program draw independently. Copyable; the state is the four words of `state()`.
class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name);

  uint64_t next();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform in [0, bound); bound > 0. Without bias (rejection).
  uint64_t below(uint64_t bound);
  /// Standard normal (polar Box-Muller; the second value is not kept, so the state is the four words alone).
  double normal();

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[below(left)]);
  }

  const std::array<uint64_t, 4>& state() const { return state_; }
  void set_state(const std::array<uint64_t, 4>& state) { state_ = state; }

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace calyrex
