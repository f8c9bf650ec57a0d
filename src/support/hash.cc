/// hash.cc: the byte paths and the finalizer of the structural hash.
#include "weft/support/hash.h"

#include <cstring>

namespace weft {
namespace {

/// Up to eight bytes as a little-endian word, on any machine.
uint64_t LoadLittle(const unsigned char* p, size_t n) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (n == 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    return word;
  }
#endif
  uint64_t word = 0;
  for (size_t i = 0; i < n; ++i) word |= uint64_t{p[i]} << (8 * i);
  return word;
}

}  // namespace

std::string Hash128::ToHex() const {
  static const char kDigits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[15 - i] = kDigits[(hi >> (4 * i)) & 15];
    out[31 - i] = kDigits[(lo >> (4 * i)) & 15];
  }
  return out;
}

Hasher& Hasher::Add(double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return Add(bits);
}

Hasher& Hasher::AddBytes(const void* data, size_t size) {
  Add(static_cast<uint64_t>(size));
  const auto* p = static_cast<const unsigned char*>(data);
  for (; size >= 8; size -= 8, p += 8) Add(LoadLittle(p, 8));
  if (size > 0) Add(LoadLittle(p, size));
  return *this;
}

Hash128 Hasher::Finish() const {
  const uint64_t x = MixBits(a_ + words_ * 0x9e3779b97f4a7c15u);
  const uint64_t y = MixBits(b_ ^ x);
  return {x + Rotate(y, 17), MixBits(y + x)};
}

uint64_t HashString(std::string_view s) { return Hasher().Add(s).Finish64(); }

Hash128 HashBytes(const void* data, size_t size) { return Hasher().AddBytes(data, size).Finish(); }

}  // namespace weft
