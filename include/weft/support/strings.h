/// strings.h: numbers to and from text, independent of the locale, and the few string operations
/// that all rooms need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// The shortest decimal text that reads back to the same bits: "0.1", "1e+20", "-0", "inf", "-inf",
/// "nan". Integral values have no point: "3".
WEFT_API std::string FormatDouble(double v);
WEFT_API std::string FormatFloat(float v);

/// The whole text as a number of 64 bits (decimal, optional sign), else nothing.
WEFT_API std::optional<int64_t> TryParseInt64(std::string_view text);
/// As TryParseInt64, but throws kSyntax naming `what`.
WEFT_API int64_t ParseInt64(std::string_view text, std::string_view what);
/// Reads what FormatDouble writes, and any decimal or exponent form; the whole text, else nothing.
WEFT_API std::optional<double> TryParseDouble(std::string_view text);
WEFT_API std::optional<float> TryParseFloat(std::string_view text);

/// Pieces between separators; "" gives one empty piece.
WEFT_API std::vector<std::string> Split(std::string_view text, char separator);
WEFT_API std::string Join(const std::vector<std::string>& pieces, std::string_view separator);
/// Without blanks, tabs and line ends on both sides.
WEFT_API std::string_view Trim(std::string_view text);
WEFT_API bool StartsWith(std::string_view text, std::string_view prefix);
WEFT_API bool EndsWith(std::string_view text, std::string_view suffix);
/// ASCII only.
WEFT_API std::string ToLower(std::string_view text);

/// In double quotes with \" \\ \n \t \r and \xHH for other control characters: any bytes, one
/// printable line.
WEFT_API std::string Quote(std::string_view text);
/// As text within a page of HTML, also in the value of an attribute; control characters are blanks.
WEFT_API std::string EscapeHtml(std::string_view text);
/// "1.50 KiB", "12 B".
WEFT_API std::string FormatBytes(int64_t bytes);

}  // namespace weft
