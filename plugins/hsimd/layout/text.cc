/// text.cc: layouts to and from text.
#include <cctype>

#include "layout.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Layout Parse() {
    Layout l;
    Expect('(');
    while (!Take(')')) {
      if (!l.shape.empty()) Expect(',');
      l.shape.push_back(Number("a size"));
    }
    Expect('/');
    Expect('(');
    while (!At(')') && !At(';')) {
      if (!l.axes.empty()) Expect(',');
      l.axes.push_back(Axis());
    }
    if (Take(';')) Copies(l);
    Expect(')');
    while (Take('+')) {
      const int64_t value = Number("an offset");
      std::string level = Take('_') ? Name() : kAddress;
      if (!l.offset.emplace(std::move(level), value).second) Fail("one offset of each level");
      if (value == 0) Fail("an offset that is not 0");
    }
    Blanks();
    if (at_ != text_.size()) Fail("the end of the layout");
    return l;
  }

 private:
  std::vector<Digit> Axis() {
    std::vector<Digit> digits;
    Expect('(');
    while (!Take(')')) {
      if (!digits.empty()) Expect(',');
      digits.push_back(OneDigit());
    }
    return digits;
  }

  Digit OneDigit() {
    Digit d;
    d.size = Number("a digit such as 4_PE:1");
    d.level = Take('_') ? Name() : kAddress;
    Expect(':');
    d.stride = Number("a stride");
    return d;
  }

  void Copies(Layout& l) {
    Expect('B');
    Expect('@');
    Expect('[');
    bool first = true;
    while (!Take(']')) {
      if (!first) Expect(',');
      first = false;
      Blanks();
      if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        l.copies.push_back(OneDigit());
      } else {
        l.broadcast.push_back(Name());
      }
    }
  }

  int64_t Number(const char* what) {
    Blanks();
    const size_t start = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    const auto v = weft::TryParseInt64(text_.substr(start, at_ - start));
    if (!v) {
      at_ = start;
      Fail(what);
    }
    return *v;
  }

  std::string Name() {
    Blanks();
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    if (start == at_ || std::isdigit(static_cast<unsigned char>(text_[start]))) {
      at_ = start;
      Fail("the name of a level");
    }
    return std::string(text_.substr(start, at_ - start));
  }

  void Blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool At(char c) {
    Blanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    if (!At(c)) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Fail(std::string("'") + c + "'");
  }
  [[noreturn]] void Fail(const std::string& expected) {
    Blanks();
    int line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    const std::string seen =
        at_ < text_.size() ? weft::Quote(text_.substr(at_, 1)) : std::string("the end");
    weft::ThrowError(weft::ErrorCode::kSyntax,
                     fmt::format("layout: expected {}, got {}", expected, seen),
                     fmt::format("line {}, column {}", line, column),
                     "a layout looks like (4,6)/((4_PE:1), (6:1))");
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string DigitText(const Digit& d) {
  return d.level.empty() ? fmt::format("{}:{}", d.size, d.stride)
                         : fmt::format("{}_{}:{}", d.size, d.level, d.stride);
}

}  // namespace

Layout ParseLayout(std::string_view text) {
  Layout l = Parser(text).Parse();
  CheckLayout(l);
  return l;
}

std::string PrintLayout(const Layout& l) {
  std::vector<std::string> sizes, axes, copies;
  for (const int64_t s : l.shape) sizes.push_back(std::to_string(s));
  for (const auto& axis : l.axes) {
    std::vector<std::string> digits;
    for (const Digit& d : axis) digits.push_back(DigitText(d));
    axes.push_back("(" + weft::Join(digits, ", ") + ")");
  }
  copies = l.broadcast;
  for (const Digit& d : l.copies) copies.push_back(DigitText(d));
  std::string text = "(" + weft::Join(sizes, ",") + ")/(" + weft::Join(axes, ", ");
  if (!copies.empty()) {
    text += "; B@[" + weft::Join(copies, ", ") + "]";
  }
  text += ")";
  for (const auto& [level, value] : l.offset) {
    text += level.empty() ? fmt::format("+{}", value) : fmt::format("+{}_{}", value, level);
  }
  return text;
}

}  // namespace hsimd
