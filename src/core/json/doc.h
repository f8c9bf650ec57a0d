/// doc.h: JSON as RFC 8259 has it, read whole into a flat list of tokens before anything looks
/// at it. Private to the JSON reader.
///
/// The parser is strict (no comments, no trailing commas, UTF-8 only, no key twice), keeps no
/// recursion and bounds the nesting. A token is 32 bytes and refers to the text; strings are
/// unescaped when asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/lexer.h"

namespace weft {

class JsonDoc {
 public:
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  using Ref = uint32_t;  ///< a token; 0 is the whole document

  /// Throws kSyntax with line and column, kLimit for deeper nesting. `text`
  /// must outlive the object.
  JsonDoc(std::string_view text, const std::string& source, int64_t max_depth);

  Kind kind(Ref r) const { return tokens_[r].kind; }
  bool is(Ref r, Kind k) const { return tokens_[r].kind == k; }
  /// Members and elements: for (r = First(a); r != End(a); r = Next(r)). In an object a key, a
  /// string, comes before its value.
  static Ref First(Ref r) { return r + 1; }
  Ref End(Ref r) const { return tokens_[r].next; }
  Ref Next(Ref r) const { return tokens_[r].next; }
  uint32_t size(Ref array) const { return tokens_[array].count; }
  /// The value of a key; nothing where the object has none.
  std::optional<Ref> Find(Ref object, std::string_view key) const;

  /// These throw kSyntax saying `what` was expected where the token is another thing.
  int64_t Int(Ref r, const char* what) const;
  std::string String(Ref r, const char* what) const;
  void Expect(Ref r, Kind kind, const char* what) const;
  /// A number with a point or an exponent is a double, one without an integer.
  bool IsInt(Ref r) const { return is(r, Kind::kNumber) && !tokens_[r].flag; }
  double Double(Ref r, const char* what) const;
  bool Equals(Ref string, std::string_view text) const;
  /// The characters of a string without escapes (base64); nothing where there are some.
  std::optional<std::string_view> Plain(Ref r) const;

  [[noreturn]] void Fail(ErrorCode code, const std::string& message, Ref r,
                         std::string hint = {}) const {
    cursor_.Fail(code, message, tokens_[r].begin, std::move(hint));
  }
  const std::string& Source() const { return source_; }
  std::string Place(Ref r) const { return cursor_.Place(tokens_[r].begin); }
  /// "a number", "an object": for messages.
  static const char* Name(Kind kind);

 private:
  struct Token {
    size_t begin, end;  ///< of strings between the quotes
    uint32_t next = 0, count = 0;
    Kind kind;
    bool flag;  ///< strings: has escapes; numbers: no integer
  };
  friend class JsonParser;
  std::string_view Text(const Token& t) const { return text_.substr(t.begin, t.end - t.begin); }
  std::string_view text_;
  std::string source_;
  TextCursor cursor_;
  std::vector<Token> tokens_;
};

/// `s` as a JSON string with its quotes. Bytes that are no UTF-8 become \udc80 .. \udcff.
void AppendJsonString(std::string* out, std::string_view s);
/// The inverse for the characters between the quotes; nothing for a surrogate without its partner
/// (but those stand for bytes).
std::optional<std::string> UnescapeJson(std::string_view body);
void AppendBase64(std::string* out, const void* data, size_t bytes);
/// False where the text is not the base64 of exactly `bytes` bytes.
bool ReadBase64(std::string_view text, void* data, size_t bytes);
/// Characters of the base64 of so many bytes.
constexpr size_t Base64Size(size_t bytes) { return (bytes + 2) / 3 * 4; }

}  // namespace weft
