/// unicode.cc: see unicode.h.
#include "unicode.h"

namespace weft {

bool IsSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x85 || (c == ' ' || (c >= 0x80 && CategoryOf(c) == 'Z'));
}

CodePoint CodePointAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(text[i])); };
  const uint32_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const size_t n = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (n == 0 || first >= 0xf5 || at + n > text.size()) return {0xfffd, 1};
  uint32_t value = first & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {0xfffd, 1};
    value = value << 6 | (byte(at + i) & 0x3f);
  }
  const bool overlong = (n == 3 && value < 0x800) || (n == 4 && value < 0x10000);
  if (overlong || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff) return {0xfffd, 1};
  return {value, n};
}

void AppendCodePoint(std::string* out, uint32_t c) {
  const auto put = [out](uint32_t byte) { out->push_back(char(uint8_t(byte))); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f));
  put(0x80 | (c & 0x3f));
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (c.value == 0xfffd && c.bytes == 1) return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace weft
