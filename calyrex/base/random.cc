#include "calyrex/base/random.h"

#include <bit>
#include <cmath>

namespace calyrex {
namespace {

uint64_t split_mix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// FNV-1a, 64 bits.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, std::string_view name) {
  uint64_t mixed = seed ^ hash_name(name);
  for (uint64_t& word : state_) word = split_mix(mixed);
}

uint64_t RandomStream::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

uint64_t RandomStream::below(uint64_t bound) {
  const uint64_t threshold = (0 - bound) % bound;
  uint64_t value = next();
  while (value < threshold) value = next();
  return value % bound;
}

double RandomStream::normal() {
  double u = 0.0;
  double s = 0.0;
  do {
    u = 2.0 * uniform() - 1.0;
    const double v = 2.0 * uniform() - 1.0;
    s = u * u + v * v;
  } while (s >= 1.0 || s == 0.0);
  return u * std::sqrt(-2.0 * std::log(s) / s);
}

}  // namespace calyrex
