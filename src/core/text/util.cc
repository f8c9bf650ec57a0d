/// util.cc: numbers, quoting and names; no streams, no locale.
#include "util.h"

#include <charconv>
#include <cmath>

#include "weft/support/strings.h"

namespace weft {
namespace {

template <class T>
void AppendShortest(std::string* out, T v) {
  if (std::isnan(v)) {
    *out += std::signbit(v) ? "-nan" : "nan";
    return;
  }
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, v);
  const std::string_view text(buffer, size_t(result.ptr - buffer));
  *out += text;
  if (!std::isinf(v) && text.find_first_of(".e") == std::string_view::npos) *out += ".0";
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void AppendInt(std::string* out, int64_t v) {
  char buffer[24];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, v);
  out->append(buffer, size_t(result.ptr - buffer));
}

void AppendDouble(std::string* out, double v) { AppendShortest(out, v); }
void AppendFloat(std::string* out, float v) { AppendShortest(out, v); }

void AppendQuoted(std::string* out, std::string_view s) { *out += Quote(s); }

std::optional<std::string> Unescape(std::string_view body) {
  std::string out;
  out.reserve(body.size());
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    if (++i == body.size()) return std::nullopt;
    static constexpr std::string_view kFrom = "\"\\nrt", kTo = "\"\\\n\r\t";
    if (const size_t simple = kFrom.find(body[i]); simple != std::string_view::npos) {
      out += kTo[simple];
      continue;
    }
    if (body[i] != 'x' || i + 2 >= body.size()) return std::nullopt;
    const int hi = HexValue(body[i + 1]), lo = HexValue(body[i + 2]);
    if (hi < 0 || lo < 0) return std::nullopt;
    out += char(hi * 16 + lo);
    i += 2;
  }
  return out;
}

bool IsPlainName(std::string_view s) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (s.empty() || !letter(s[0])) return false;
  for (const char c : s) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '.' && c != '$' && c != '/' && c != '-')
      return false;
  }
  return true;
}

}  // namespace weft
