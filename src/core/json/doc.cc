/// doc.cc: see doc.h.
#include "doc.h"

#include <algorithm>
#include <unordered_set>

#include "weft/support/check.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Kind = JsonDoc::Kind;

/// Objects up to this many keys are compared key by key.
constexpr uint32_t kFewKeys = 12;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Length of the UTF-8 sequence at `p` (overlong forms, surrogates and what lies beyond U+10FFFF
/// are none); 0 where there is none.
size_t Utf8Length(const char* p, const char* end) {
  const auto at = [&](size_t i) { return p + i < end ? uint8_t(p[i]) : uint8_t{0}; };
  const auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const uint8_t a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf && tail(1)) return 2;
  if (a >= 0xe0 && a <= 0xef && tail(1) && tail(2)) {
    const bool overlong = a == 0xe0 && b < 0xa0, surrogate = a == 0xed && b >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (a >= 0xf0 && a <= 0xf4 && tail(1) && tail(2) && tail(3))
    return (a == 0xf0 && b < 0x90) || (a == 0xf4 && b >= 0x90) ? 0 : 4;
  return 0;
}

void AppendUtf8(std::string* out, uint32_t c) {
  if (c < 0x80) {
    *out += char(c);
  } else if (c < 0x800) {
    *out += char(0xc0 | c >> 6);
    *out += char(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *out += char(0xe0 | c >> 12);
    *out += char(0x80 | (c >> 6 & 0x3f));
    *out += char(0x80 | (c & 0x3f));
  } else {
    *out += char(0xf0 | c >> 18);
    *out += char(0x80 | (c >> 12 & 0x3f));
    *out += char(0x80 | (c >> 6 & 0x3f));
    *out += char(0x80 | (c & 0x3f));
  }
}

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Four hexadecimal digits at `at`; -1 where there are none.
int32_t HexQuad(std::string_view s, size_t at) {
  if (at + 4 > s.size()) return -1;
  int32_t v = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int d = HexValue(s[at + i]);
    if (d < 0) return -1;
    v = v * 16 + d;
  }
  return v;
}

}  // namespace

std::optional<std::string> UnescapeJson(std::string_view body) {
  std::string out;
  out.reserve(body.size());
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    if (++i == body.size()) return std::nullopt;
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    const size_t simple = kFrom.find(body[i]);
    if (simple != std::string_view::npos) {
      out += kTo[simple];
      continue;
    }
    if (body[i] != 'u') return std::nullopt;
    int32_t c = HexQuad(body, i + 1);
    if (c < 0) return std::nullopt;
    i += 4;
    if (c >= 0xd800 && c < 0xdc00) {
      const int32_t low = i + 2 < body.size() && body[i + 1] == '\\' && body[i + 2] == 'u'
                              ? HexQuad(body, i + 3)
                              : -1;
      if (low < 0xdc00 || low > 0xdfff) return std::nullopt;
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
      i += 6;
    } else if (c >= 0xdc00 && c <= 0xdfff) {
      if (c < 0xdc80 || c > 0xdcff) return std::nullopt;
      out += char(c - 0xdc00);
      continue;
    }
    AppendUtf8(&out, uint32_t(c));
  }
  return out;
}

void AppendJsonString(std::string* out, std::string_view s) {
  static constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  const char* const end = s.data() + s.size();
  const char* run = s.data();
  for (const char* p = run; p < end;) {
    const auto c = uint8_t(*p);
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      ++p;
      continue;
    }
    const size_t length = c >= 0x80 ? Utf8Length(p, end) : 0;
    if (length > 0) {
      p += length;
      continue;
    }
    out->append(run, size_t(p - run));
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += char(c);
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\t') {
      *out += "\\t";
    } else {
      *out += c >= 0x80 ? "\\udc" : "\\u00";
      *out += kHex[c >> 4];
      *out += kHex[c & 15];
    }
    run = ++p;
  }
  out->append(run, size_t(end - run));
  *out += '"';
}

void AppendBase64(std::string* out, const void* data, size_t bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* p = static_cast<const uint8_t*>(data);
  out->reserve(out->size() + Base64Size(bytes));
  for (size_t i = 0; i < bytes; i += 3) {
    const size_t have = std::min<size_t>(3, bytes - i);
    const uint32_t v = uint32_t{p[i]} << 16 | (have > 1 ? uint32_t{p[i + 1]} << 8 : 0) |
                       (have > 2 ? uint32_t{p[i + 2]} : 0);
    *out += kDigits[v >> 18];
    *out += kDigits[v >> 12 & 63];
    *out += have > 1 ? kDigits[v >> 6 & 63] : '=';
    *out += have > 2 ? kDigits[v & 63] : '=';
  }
}

bool ReadBase64(std::string_view text, void* data, size_t bytes) {
  if (text.size() != Base64Size(bytes)) return false;
  const auto digit = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  auto* out = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < bytes; i += 3) {
    const size_t have = std::min<size_t>(3, bytes - i);
    const char* p = text.data() + i / 3 * 4;
    uint32_t v = 0;
    for (size_t k = 0; k < 4; ++k) {
      const bool padding = k > have;
      if (padding ? p[k] != '=' : digit(p[k]) < 0) return false;
      v = v << 6 | uint32_t(padding ? 0 : digit(p[k]));
    }
    for (size_t k = 0; k < have; ++k) out[i + k] = uint8_t(v >> (16 - 8 * k));
    if (have < 3 && (v & ((1u << (24 - 8 * have)) - 1)) != 0) return false;
  }
  return true;
}

// ---- parsing ----

class JsonParser {
 public:
  JsonParser(JsonDoc* doc, int64_t max_depth)
      : doc_(*doc), text_(doc->text_), max_depth_(size_t(max_depth)) {}

  void Run() {
    doc_.tokens_.reserve(text_.size() / 8 + 1);
    do {
      Value();
      Close();
    } while (!open_.empty());
    Space();
    if (at_ != text_.size()) Fail("expected the end of the text");
  }

 private:
  [[noreturn]] void Fail(const std::string& what, ErrorCode code = ErrorCode::kSyntax) {
    doc_.cursor_.Fail(code, what, at_);
  }
  char Here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  uint32_t Push(Kind kind, size_t begin, size_t end, bool flag = false) {
    if (doc_.tokens_.size() >= UINT32_MAX) Fail("the text has too many values", ErrorCode::kLimit);
    const auto next = uint32_t(doc_.tokens_.size() + 1);
    if (doc_.tokens_.size() % 16384 == 0) RequestScope::Poll();
    doc_.tokens_.push_back({begin, end, next, 0, kind, flag});
    return next - 1;
  }

  /// Up to and with the next value that is complete, or an array or object that opens.
  void Value() {
    for (;;) {
      Space();
      const size_t begin = at_;
      const char c = Here();
      if (c == '{' || c == '[') {
        if (open_.size() >= max_depth_)
          Fail(fmt::format("values are nested deeper than {}", max_depth_), ErrorCode::kLimit);
        open_.push_back(Push(c == '{' ? Kind::kObject : Kind::kArray, begin, begin + 1));
        ++at_;
        Space();
        if (Here() == (c == '{' ? '}' : ']')) return;  // Close ends it
        if (c == '{') Key();
        continue;
      }
      if (c == '"') return String();
      if (c == '-' || IsDigit(c)) return Number();
      if (Word("null")) return void(Push(Kind::kNull, begin, at_));
      if (Word("true")) return void(Push(Kind::kTrue, begin, at_));
      if (Word("false")) return void(Push(Kind::kFalse, begin, at_));
      Fail(at_ == text_.size() ? "expected a value, the text ends here" : "expected a value");
    }
  }

  /// Ends what a complete value ends; stops where another value has to follow.
  void Close() {
    while (!open_.empty()) {
      JsonDoc::Token& t = doc_.tokens_[open_.back()];
      const bool object = t.kind == Kind::kObject;
      if (doc_.tokens_.size() - 1 > open_.back()) ++t.count;
      Space();
      if (Here() == ',' && t.count > 0) {
        ++at_;
        if (object) Key();
        return;
      }
      if (Here() != (object ? '}' : ']'))
        Fail(object ? "expected ',' or '}' in an object" : "expected ',' or ']' in an array");
      ++at_;
      t.end = at_;
      t.next = uint32_t(doc_.tokens_.size());
      if (object) CheckKeys(open_.back());
      open_.pop_back();
    }
  }

  void Key() {
    Space();
    if (Here() != '"') Fail("expected a key in quotes");
    String();
    Space();
    if (Here() != ':') Fail("expected ':' after a key");
    ++at_;
  }

  bool Word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void String() {
    const size_t open = at_++;
    const size_t begin = at_;
    bool escapes = false;
    const char* const end = text_.data() + text_.size();
    while (at_ < text_.size() && text_[at_] != '"') {
      const auto c = uint8_t(text_[at_]);
      if (c < 0x20) Fail("a control character in a string has to be escaped");
      if (c == '\\') {
        escapes = true;
        at_ += 2;
        continue;
      }
      const size_t length = c < 0x80 ? 1 : Utf8Length(text_.data() + at_, end);
      if (length == 0) Fail("invalid UTF-8 here");
      at_ += length;
    }
    if (at_ >= text_.size()) {
      at_ = open;
      Fail("the string that starts here is not closed");
    }
    const size_t close = at_++;
    if (escapes && !UnescapeJson(text_.substr(begin, close - begin))) {
      at_ = open;
      Fail("unknown escape in a string");
    }
    Push(Kind::kString, begin, close, escapes);
  }

  void Number() {
    const size_t begin = at_;
    bool real = false;
    if (Here() == '-') ++at_;
    if (!IsDigit(Here())) Fail("expected a digit");
    if (Here() == '0' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]))
      Fail("a number does not start with 0");
    while (IsDigit(Here())) ++at_;
    if (Here() == '.') {
      real = true;
      ++at_;
      if (!IsDigit(Here())) Fail("expected a digit after the point");
      while (IsDigit(Here())) ++at_;
    }
    if (Here() == 'e' || Here() == 'E') {
      real = true;
      ++at_;
      if (Here() == '+' || Here() == '-') ++at_;
      if (!IsDigit(Here())) Fail("expected a digit in the exponent");
      while (IsDigit(Here())) ++at_;
    }
    Push(Kind::kNumber, begin, at_, real);
  }

  void CheckKeys(uint32_t object) {
    const uint32_t end = doc_.tokens_[object].next;
    const auto twice = [&](uint32_t key) {
      at_ = doc_.tokens_[key].begin - 1;
      Fail(fmt::format("the object has this key twice"));
    };
    if (doc_.tokens_[object].count <= kFewKeys) {
      for (uint32_t a = object + 1; a < end; a = doc_.tokens_[a + 1].next) {
        for (uint32_t b = object + 1; b < a; b = doc_.tokens_[b + 1].next) {
          if (Same(a, b)) twice(a);
        }
      }
      return;
    }
    std::unordered_set<std::string> seen;
    for (uint32_t a = object + 1; a < end; a = doc_.tokens_[a + 1].next) {
      if (!seen.insert(doc_.String(a, "a key")).second) twice(a);
    }
  }
  bool Same(uint32_t a, uint32_t b) const {
    const auto &x = doc_.tokens_[a], &y = doc_.tokens_[b];
    if (!x.flag && !y.flag) return doc_.Text(x) == doc_.Text(y);
    return doc_.String(a, "a key") == doc_.String(b, "a key");
  }

  JsonDoc& doc_;
  std::string_view text_;
  size_t max_depth_, at_ = 0;
  std::vector<uint32_t> open_;
};

JsonDoc::JsonDoc(std::string_view text, const std::string& source, int64_t max_depth)
    : text_(text), source_(source), cursor_(text, source) {
  JsonParser(this, max_depth).Run();
}

// ---- looking ----

const char* JsonDoc::Name(Kind kind) {
  static constexpr const char* kNames[] = {"null",     "false",    "true",     "a number",
                                           "a string", "an array", "an object"};
  return kNames[int(kind)];
}

void JsonDoc::Expect(Ref r, Kind kind, const char* what) const {
  if (tokens_[r].kind == kind) return;
  Fail(ErrorCode::kSyntax, fmt::format("expected {}, got {}", what, Name(tokens_[r].kind)), r);
}

std::optional<JsonDoc::Ref> JsonDoc::Find(Ref object, std::string_view key) const {
  if (!is(object, Kind::kObject)) return std::nullopt;
  for (Ref k = First(object); k != End(object); k = Next(k + 1)) {
    if (Equals(k, key)) return k + 1;
  }
  return std::nullopt;
}

int64_t JsonDoc::Int(Ref r, const char* what) const {
  Expect(r, Kind::kNumber, what);
  const auto v = TryParseInt64(Text(tokens_[r]));
  if (v) return *v;
  Fail(ErrorCode::kSyntax,
       fmt::format(
           "expected {}, got {}", what,
           tokens_[r].flag ? "a number that is not an integer" : "an integer beyond 64 bits"),
       r);
}

double JsonDoc::Double(Ref r, const char* what) const {
  Expect(r, Kind::kNumber, what);
  if (const auto v = TryParseDouble(Text(tokens_[r]))) return *v;
  Fail(ErrorCode::kSyntax, fmt::format("expected {}, got a number beyond a double", what), r);
}

std::string JsonDoc::String(Ref r, const char* what) const {
  Expect(r, Kind::kString, what);
  const Token& t = tokens_[r];
  return t.flag ? *UnescapeJson(Text(t)) : std::string(Text(t));
}

bool JsonDoc::Equals(Ref r, std::string_view text) const {
  const Token& t = tokens_[r];
  if (t.kind != Kind::kString) return false;
  return t.flag ? *UnescapeJson(Text(t)) == text : Text(t) == text;
}

std::optional<std::string_view> JsonDoc::Plain(Ref r) const {
  const Token& t = tokens_[r];
  if (t.kind != Kind::kString || t.flag) return std::nullopt;
  return Text(t);
}

}  // namespace weft
