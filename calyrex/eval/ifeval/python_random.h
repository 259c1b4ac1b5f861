// Python's random.Random, as far as language detection draws from it.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

namespace calyrex::ifeval {

/// Gives what `random.Random(seed)` gives: a Mersenne Twister seeded by its key array.
class PythonRandom {
 public:
  explicit PythonRandom(uint32_t seed);

  /// random.random(): uniform in [0, 1), 53 bits.
  double uniform();
  /// random.gauss(0, 1): the two values of a Box-Muller pair, one after the other.
  double gauss();
  /// Index that random.choice() of a sequence of `size` draws; 0 < size < 2^32.
  size_t choice(size_t size);

 private:
  std::mt19937 engine_;
  std::optional<double> next_gauss_;
};

}  // namespace calyrex::ifeval
