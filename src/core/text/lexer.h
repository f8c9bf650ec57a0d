/// lexer.h: a cursor over text IR: spaces and comments, words, names, strings, numbers, and
/// errors with their place.
///
/// There is no token stream: what a run of characters means depends on where it stands (dims hold
/// `//`, names hold `/`), so the parser asks for what it expects.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/error.h"

namespace weft {

class TextCursor {
 public:
  TextCursor(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  size_t pos() const { return at_; }
  std::string_view Slice(size_t begin, size_t end) const {
    return text_.substr(begin, end - begin);
  }
  /// Skips spaces, line ends and `//` comments.
  void SkipSpace();
  /// The next character as it stands, '\0' at the end.
  char Here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  /// The next character after spaces.
  char Peek() {
    SkipSpace();
    return Here();
  }
  void Advance(size_t n) { at_ += n; }
  void Seek(size_t pos) { at_ = pos; }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

  /// Punctuation, spaces before it skipped.
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool Accept(std::string_view token);
  void Expect(char c, std::string_view where);
  void Expect(std::string_view token, std::string_view where);
  /// A whole word [A-Za-z_][A-Za-z0-9_]*.
  bool AcceptWord(std::string_view word);
  std::string_view Word(std::string_view what);
  /// [A-Za-z_][A-Za-z0-9_.$/-]* (with ':' too where `colons`) or a quoted string; the text lives as
  /// long as the cursor.
  std::string_view Name(std::string_view what, bool colons = false);
  /// A run of [A-Za-z0-9_.+-], e.g. a number; may be empty.
  std::string_view NumberText();
  int64_t Integer(std::string_view what);
  std::string QuotedString(std::string_view what);
  /// From '[' to the matching ']', both included; round brackets nest too.
  std::string_view Bracketed(std::string_view what);
  /// A run of lower-case hexadecimal digits, taken as it stands.
  std::string_view HexDigits();

  /// "expected <what>, got '...'" here.
  [[noreturn]] void FailExpected(std::string_view what);
  /// `message`, the line and a caret under column `at`.
  [[noreturn]] void Fail(ErrorCode code, const std::string& message, size_t at,
                         std::string hint = {}) const;
  /// "file.weft:3:14".
  std::string Place(size_t at) const;

 private:
  std::string_view text_;
  std::string source_;
  size_t at_ = 0;
  // quoted names, kept so that views of them stay valid
  std::vector<std::unique_ptr<std::string>> unescaped_;
};

}  // namespace weft
