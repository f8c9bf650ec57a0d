/// lexer.cc: the cursor of the text IR.
#include "lexer.h"

#include <algorithm>

#include "util.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void TextCursor::SkipSpace() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool TextCursor::Accept(std::string_view token) {
  SkipSpace();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void TextCursor::Expect(char c, std::string_view where) {
  if (!Accept(c)) FailExpected(fmt::format("'{}' {}", c, where));
}

void TextCursor::Expect(std::string_view token, std::string_view where) {
  if (!Accept(token)) FailExpected(fmt::format("'{}' {}", token, where));
}

bool TextCursor::AcceptWord(std::string_view word) {
  SkipSpace();
  if (text_.substr(at_, word.size()) != word) return false;
  const char next = at_ + word.size() < text_.size() ? text_[at_ + word.size()] : '\0';
  if (IsLetter(next) || IsDigit(next)) return false;
  at_ += word.size();
  return true;
}

std::string_view TextCursor::Word(std::string_view what) {
  SkipSpace();
  const size_t begin = at_;
  if (!IsLetter(Here())) FailExpected(what);
  while (IsLetter(Here()) || IsDigit(Here())) ++at_;
  return Slice(begin, at_);
}

std::string_view TextCursor::Name(std::string_view what, bool colons) {
  SkipSpace();
  if (Here() == '"') {
    unescaped_.push_back(std::make_unique<std::string>(QuotedString(what)));
    return *unescaped_.back();
  }
  const size_t begin = at_;
  if (!IsLetter(Here())) FailExpected(what);
  for (;;) {
    const char c = Here();
    if (!IsLetter(c) && !IsDigit(c) && c != '.' && c != '$' && c != '/' && c != '-' &&
        !(colons && c == ':'))
      break;
    ++at_;
  }
  return Slice(begin, at_);
}

std::string_view TextCursor::NumberText() {
  SkipSpace();
  const size_t begin = at_;
  while (IsLetter(Here()) || IsDigit(Here()) || Here() == '.' || Here() == '+' || Here() == '-')
    ++at_;
  return Slice(begin, at_);
}

int64_t TextCursor::Integer(std::string_view what) {
  SkipSpace();
  const size_t begin = at_;
  while (IsDigit(Here())) ++at_;
  const auto v = TryParseInt64(Slice(begin, at_));
  if (!v) {
    at_ = begin;
    FailExpected(what);
  }
  return *v;
}

std::string TextCursor::QuotedString(std::string_view what) {
  SkipSpace();
  if (Here() != '"') FailExpected(what);
  const size_t open = at_++;
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n')
    at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size() || text_[at_] != '"')
    Fail(ErrorCode::kSyntax, "the string that starts here is not closed", open);
  auto text = Unescape(Slice(begin, at_++));
  if (!text) {
    Fail(ErrorCode::kSyntax, "unknown escape in a string", open,
         "escapes are \\\" \\\\ \\n \\t \\r and \\xHH");
  }
  return *std::move(text);
}

std::string_view TextCursor::Bracketed(std::string_view what) {
  SkipSpace();
  if (Here() != '[') FailExpected(what);
  const size_t begin = at_;
  int depth = 0;
  for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (depth == 0) return Slice(begin, ++at_);
  }
  Fail(ErrorCode::kSyntax, "the bracket that opens here is not closed", begin);
}

std::string_view TextCursor::HexDigits() {
  const size_t begin = at_;
  while (IsDigit(Here()) || (Here() >= 'a' && Here() <= 'f')) ++at_;
  return Slice(begin, at_);
}

void TextCursor::FailExpected(std::string_view what) {
  SkipSpace();
  size_t end = at_;
  while (end < text_.size() && end - at_ < 24 && (IsLetter(text_[end]) || IsDigit(text_[end])))
    ++end;
  if (end == at_ && end < text_.size()) ++end;
  const std::string got = at_ == text_.size() ? "the end of the text" : Quote(Slice(at_, end));
  Fail(ErrorCode::kSyntax, fmt::format("expected {}, got {}", what, got), at_);
}

void TextCursor::Fail(ErrorCode code, const std::string& message, size_t at,
                      std::string hint) const {
  constexpr size_t kWindow = 100;  // of a long line, what stands around the place
  at = std::min(at, text_.size());
  const size_t line_begin = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;  // npos + 1 == 0
  const size_t line_end = std::min(text_.find('\n', at), text_.size());
  const size_t from = at - line_begin > kWindow / 2 ? at - kWindow / 2 : line_begin;
  std::string line(Slice(from, std::min(line_end, from + kWindow)));
  std::string caret;
  for (size_t i = 0; i < at - from; ++i) caret += line[i] == '\t' ? '\t' : ' ';
  ThrowError(code, fmt::format("{}\n  {}\n  {}^", message, line, caret), Place(at),
             std::move(hint));
}

std::string TextCursor::Place(size_t at) const {
  at = std::min(at, text_.size());
  const std::string_view before = text_.substr(0, at);
  const size_t line = size_t(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t last = before.rfind('\n');
  return fmt::format("{}:{}:{}", source_, line,
                     at - (last == std::string_view::npos ? 0 : last + 1) + 1);
}

}  // namespace weft
