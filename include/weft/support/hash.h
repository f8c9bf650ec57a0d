/// hash.h: a streaming structural hash whose result is the same in every run, process and machine.
///
/// Words are mixed one at a time into two 64-bit lanes by multiplication with odd constants and
/// rotation; bytes are read as little-endian words. Every `AddBytes` and string starts with its
/// length, so that ("ab", "c") and ("a", "bc") differ. The digest is part of cache keys and file
/// formats: changing the function means raising kHashVersion.
///
/// It finds accidents (damaged files, unequal graphs). It is NOT a defence against an attacker, who
/// can construct collisions; what must resist one has to be protected by file permissions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

inline constexpr uint32_t kHashVersion = 1;

struct Hash128 {
  uint64_t hi = 0, lo = 0;
  friend bool operator==(const Hash128& a, const Hash128& b) {
    return a.hi == b.hi && a.lo == b.lo;
  }
  friend bool operator!=(const Hash128& a, const Hash128& b) { return !(a == b); }
  friend bool operator<(const Hash128& a, const Hash128& b) {
    return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
  }
  /// 32 lower-case hex digits, hi first.
  WEFT_API std::string ToHex() const;
};

/// Bijective finalizer of one word: every input bit changes every output bit with probability near
/// 1/2.
constexpr uint64_t MixBits(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

/// Order-dependent combination of two 64-bit hashes.
constexpr uint64_t CombineHash(uint64_t seed, uint64_t value) {
  return MixBits(((seed << 23) | (seed >> 41)) * 0x9e3779b97f4a7c15u + value);
}

class WEFT_API Hasher {
 public:
  explicit Hasher(uint64_t seed = 0)
      : a_(seed ^ 0x243f6a8885a308d3u), b_(seed ^ 0x13198a2e03707344u) {}

  Hasher& Add(uint64_t word) {
    a_ = Rotate((a_ ^ word) * 0x9e3779b97f4a7c15u, 29) + b_;
    b_ = Rotate((b_ + word) * 0xc2b2ae3d27d4eb4fu, 37) ^ a_;
    ++words_;
    return *this;
  }
  Hasher& Add(int64_t v) { return Add(static_cast<uint64_t>(v)); }
  Hasher& Add(int v) { return Add(static_cast<uint64_t>(static_cast<int64_t>(v))); }
  Hasher& Add(uint32_t v) { return Add(uint64_t{v}); }
  Hasher& Add(bool v) { return Add(uint64_t{v}); }
  /// By bits: 0.0 and -0.0 differ, equal NaNs agree.
  Hasher& Add(double v);
  Hasher& Add(std::string_view s) { return AddBytes(s.data(), s.size()); }
  Hasher& Add(const char* s) { return Add(std::string_view(s)); }
  Hasher& Add(const std::string& s) { return Add(std::string_view(s)); }
  Hasher& Add(const Hash128& h) { return Add(h.hi).Add(h.lo); }
  Hasher& AddBytes(const void* data, size_t size);

  /// The digest of what was added so far; adding may go on.
  Hash128 Finish() const;
  uint64_t Finish64() const { return Finish().hi; }

 private:
  static constexpr uint64_t Rotate(uint64_t x, int n) { return (x << n) | (x >> (64 - n)); }
  uint64_t a_, b_, words_ = 0;
};

/// Hash of one string or block of bytes.
WEFT_API uint64_t HashString(std::string_view s);
WEFT_API Hash128 HashBytes(const void* data, size_t size);

}  // namespace weft

template <>
struct std::hash<weft::Hash128> {
  size_t operator()(const weft::Hash128& h) const { return h.hi; }
};
