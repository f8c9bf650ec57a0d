/// unicode.h: code points of UTF-8, what kind of character they are, and their composed form, by
/// utf8proc. Private to the room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// White space as regular expressions have it.
bool IsSpace(uint32_t code_point);
/// A letter, mark, number or underscore.
bool IsWord(uint32_t code_point);

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  ///< that it takes
};
/// The one that begins at `at` < text.size(). A byte that is no UTF-8 is U+FFFD of one byte.
CodePoint CodePointAt(std::string_view text, size_t at);
void AppendCodePoint(std::string* out, uint32_t code_point);
/// The canonical composed form (NFC). Throws kBadInput for what is not UTF-8.
std::string ComposedForm(std::string_view text);
/// Every byte is part of a code point.
bool IsUtf8(std::string_view text);

}  // namespace weft
