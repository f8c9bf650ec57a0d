/// random.h: numbers that depend on what they are for alone: seed, epoch, place. So a run that goes
/// on from a checkpoint sees what the uninterrupted one sees, and other programs can draw the same.
#pragma once

#include <cstdint>

namespace tf {

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
inline uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
inline uint64_t Mix(uint64_t a, uint64_t b) { return Mix(Mix(a) ^ b); }
inline uint64_t Mix(uint64_t a, uint64_t b, uint64_t c) { return Mix(Mix(a, b) ^ c); }
/// In [0, n), from the upper bits of a mixed number.
inline uint64_t Below(uint64_t mixed, uint64_t n) {
  return uint64_t((static_cast<unsigned __int128>(mixed) * n) >> 64);
}
/// Normally distributed (Box and Muller 1958).
double Normal(uint64_t seed, uint64_t i);

}  // namespace tf
