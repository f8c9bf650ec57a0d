/// json.cc: see json.h.
#include "json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

/// Bytes of the character that `text` begins with in UTF-8; 0 where it begins with none.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t{0}; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf5   ? 0
                        : lead >= 0xf0 ? 4
                        : lead >= 0xe0 ? 3
                        : lead >= 0xc2 ? 2
                                       : 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Longer than they need be, halves of surrogate pairs, beyond U+10FFFF.
  const bool wrong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
                     (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90);
  return wrong ? 0 : length;
}

std::string QuoteJson(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = CharacterLength(text);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (uint8_t(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04x}", uint8_t(c));
    else if (length == 0)
      out += "\uFFFD";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + "\"";
}

}  // namespace

Json::Json(const std::string& text) : text_(QuoteJson(text)) {}

Json::Json(double number) : text_(std::isfinite(number) ? FormatDouble(number) : "null") {
  // With a point, so that a reader which tells integers from other numbers always sees the same.
  if (std::isfinite(number) && text_.find_first_of(".e") == std::string::npos) text_ += ".0";
}

Json::Json(std::initializer_list<std::pair<std::string, Json>> members) : kind_(Kind::kObject) {
  for (const auto& [key, value] : members) (*this)[key] = value;
}

Json Json::array() {
  Json out;
  out.kind_ = Kind::kArray;
  return out;
}

Json Json::object() { return Json(std::initializer_list<std::pair<std::string, Json>>()); }

bool Json::Has(const std::string& key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

Json& Json::operator[](const std::string& key) {
  const auto it = std::find(keys_.begin(), keys_.end(), key);
  if (it != keys_.end()) return values_[size_t(it - keys_.begin())];
  keys_.push_back(key);
  return values_.emplace_back();
}

void Json::AppendTo(std::string* out, std::optional<size_t> indent) const {
  if (kind_ == Kind::kLeaf) {
    *out += text_;
    return;
  }
  const bool object = kind_ == Kind::kObject;
  *out += object ? '{' : '[';
  const std::string margin = indent ? "\n" + std::string(*indent, ' ') : "";
  const char *first = indent ? "  " : "", *next = indent ? "," : ", ";
  for (size_t i = 0; i < values_.size(); ++i) {
    *out += (i == 0 ? "" : next) + margin + first;
    if (object) *out += QuoteJson(keys_[i]) + ": ";
    values_[i].AppendTo(out, indent ? std::optional(*indent + 2) : indent);
  }
  if (!values_.empty()) *out += margin;
  *out += object ? '}' : ']';
}

std::string Json::ToString() const {
  std::string out;
  AppendTo(&out, 0);
  return out;
}

std::string Json::ToLine() const {
  std::string out;
  AppendTo(&out, std::nullopt);
  return out;
}

}  // namespace weft::tool
