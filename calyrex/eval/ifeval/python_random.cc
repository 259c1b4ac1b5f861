#include "calyrex/eval/ifeval/python_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "calyrex/base/error.h"

namespace calyrex::ifeval {
namespace {

/// The twister's state after init_by_array (Matsumoto and Nishimura 2002) with a key of one word.
struct KeySeed {
  using result_type = uint32_t;
  static constexpr size_t kWords = std::mt19937::state_size;

  template <typename Iterator>
  void generate(Iterator begin, Iterator end) const {
    std::array<uint32_t, kWords> state;
    state[0] = 19650218u;
    for (uint32_t i = 1; i < kWords; ++i) state[i] = 1812433253u * mixed(state[i - 1]) + i;
    size_t at = 1;
    const auto advance = [&] {
      if (++at < kWords) return;
      state[0] = state[kWords - 1];
      at = 1;
    };
    for (size_t round = 0; round < kWords; ++round, advance()) {
      state[at] = (state[at] ^ (mixed(state[at - 1]) * 1664525u)) + key;
    }
    for (size_t round = 1; round < kWords; ++round, advance()) {
      state[at] = (state[at] ^ (mixed(state[at - 1]) * 1566083941u)) - static_cast<uint32_t>(at);
    }
    state[0] = 0x80000000u;
    CALYREX_CHECK(static_cast<size_t>(end - begin) == kWords);
    std::copy(state.begin(), state.end(), begin);
  }

  static uint32_t mixed(uint32_t word) { return word ^ (word >> 30); }

  uint32_t key = 0;
};

std::mt19937 seeded(uint32_t key) {
  KeySeed seed{.key = key};
  return std::mt19937(seed);
}

}  // namespace

PythonRandom::PythonRandom(uint32_t seed) : engine_(seeded(seed)) {}

double PythonRandom::uniform() {
  const uint32_t high = engine_() >> 5;
  const uint32_t low = engine_() >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

double PythonRandom::gauss() {
  if (next_gauss_) {
    const double value = *next_gauss_;
    next_gauss_.reset();
    return value;
  }
  const double angle = uniform() * 2.0 * std::numbers::pi;
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  next_gauss_ = std::sin(angle) * radius;
  return std::cos(angle) * radius;
}

size_t PythonRandom::choice(size_t size) {
  CALYREX_CHECK(size > 0 && size < (uint64_t{1} << 32));
  const int bits = std::bit_width(size);
  size_t drawn = size;
  while (drawn >= size) drawn = engine_() >> (32 - bits);
  return drawn;
}

}  // namespace calyrex::ifeval
