/// unicode.cc: see unicode.h.
#include "unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "weft/support/check.h"

namespace weft {
namespace {

const utf8proc_uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

}  // namespace

bool IsSpace(uint32_t c) {
  if ((c >= '\t' && c <= '\r') || c == 0x85) return true;
  const utf8proc_category_t k = utf8proc_category(utf8proc_int32_t(c));
  return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool IsWord(uint32_t c) {
  const char k = utf8proc_category_string(utf8proc_int32_t(c))[0];
  return k == 'L' || k == 'M' || k == 'N' || c == '_';
}

CodePoint CodePointAt(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  utf8proc_int32_t value = 0;
  const auto n = utf8proc_iterate(Bytes(rest), utf8proc_ssize_t(rest.size()), &value);
  if (n <= 0) return {0xfffd, 1};
  return {uint32_t(value), size_t(n)};
}

void AppendCodePoint(std::string* out, uint32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(utf8proc_int32_t(c), bytes);
  out->append(bytes, bytes + n);
}

std::string ComposedForm(std::string_view text) {
  utf8proc_uint8_t* bytes = nullptr;
  const auto n = utf8proc_map(Bytes(text), utf8proc_ssize_t(text.size()), &bytes,
                              utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(bytes, std::free);
  if (n == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  WEFT_CHECK(n >= 0, kBadInput, "a text has no composed form: {}", utf8proc_errmsg(n));
  return std::string(bytes, bytes + n);
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
