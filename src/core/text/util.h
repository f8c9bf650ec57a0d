/// util.h: the small pieces of text that the text IR and attribute values share, beyond
/// support/strings.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

void AppendInt(std::string* out, int64_t v);
/// Shortest text that reads back as the same double, and never as an integer: "1.0", "1e-05",
/// "inf", "-nan".
void AppendDouble(std::string* out, double v);
/// The same for a float: fewer digits suffice.
void AppendFloat(std::string* out, float v);
/// As Quote of support/strings.h.
void AppendQuoted(std::string* out, std::string_view s);
/// Inverse of Quote for the characters between the quotes; nullopt for an unknown escape.
std::optional<std::string> Unescape(std::string_view body);
/// [A-Za-z_][A-Za-z0-9_.$/-]*, the names that need no quotes.
bool IsPlainName(std::string_view s);

}  // namespace weft
