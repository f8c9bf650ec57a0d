/// split_pattern.cc: see split_pattern.h. PCRE2 is asked at one place after another, so that each
/// attempt has bounds of its own. It keeps what it goes back to on the heap, not on the stack.
#include "split_pattern.h"

#include <algorithm>
#include <cstdint>
#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "unicode.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// Of a pattern: bytes (PCRE2 takes 3 s to fold the classes that so many can write), and groups in
/// groups.
constexpr size_t kMostBytes = 1 << 14;
constexpr uint32_t kMostDepth = 50;
/// Times that PCRE2 goes on or back (its match limit): each attempt has kFewSteps. Those of a
/// tokenizer's pattern need a few; what they need beyond that, as in a long run of spaces, all
/// attempts over a text share.
constexpr uint32_t kFewSteps = 256, kMoreEachTime = 8;
constexpr uint64_t kMostSteps = 100, kStepsAtLeast = 100'000;  // for each byte; for a text
/// What may be gone back to.
constexpr uint32_t kMostKib = 256 << 10;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
template <class T>
std::unique_ptr<T, Free> Owned(T* p) {
  if (!p) throw std::bad_alloc();
  return std::unique_ptr<T, Free>(p);
}

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

/// A pattern as messages show it.
std::string Shown(const std::string& pattern) {
  size_t n = 200;
  if (pattern.size() <= n) return pattern;
  while (n > 0 && (uint8_t(pattern[n]) & 0xc0) == 0x80) --n;
  return pattern.substr(0, n) + "...";
}

std::string Message(int code) {
  PCRE2_UCHAR text[256];
  const int n = pcre2_get_error_message(code, text, sizeof(text));
  return n < 0 ? fmt::format("error {} of PCRE2", code) : std::string(text, text + n);
}

ErrorCode CodeOf(int error) {
  switch (error) {
    case PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY:
    case PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH:
      return ErrorCode::kUnsupported;
    case PCRE2_ERROR_LOOKBEHIND_TOO_COMPLICATED:
    case PCRE2_ERROR_LOOKBEHIND_TOO_LONG:
    case PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP:
    case PCRE2_ERROR_PATTERN_STRING_TOO_LONG:
    case PCRE2_ERROR_PATTERN_TOO_COMPLICATED:
    case PCRE2_ERROR_PATTERN_TOO_LARGE:
    case PCRE2_ERROR_QUANTIFIER_TOO_BIG:
      return ErrorCode::kLimit;
    default:
      return ErrorCode::kInvalidModel;
  }
}

/// A pattern of Oniguruma as PCRE2 reads it.
class Translation {
 public:
  explicit Translation(const std::string& text) : text_(text) {
    bool begins = true;  // a branch
    while (more()) {
      const bool began = begins;
      begins = false;
      switch (text_[at_]) {
        case '\\':
          Escape();
          break;
        case '[':
          Class();
          break;
        case '(':
          Group(began);
          begins = true;
          break;
        case '{':
          Braces();
          break;
        default:
          begins = text_[at_] == '|';
          Copy(1);
      }
    }
  }
  const std::string& out() const { return out_; }
  [[noreturn]] void Fail(int error, size_t out_offset) const {
    Fail(CodeOf(error), Message(error),
         out_offset < places_.size() ? places_[out_offset] : text_.size());
  }

 private:
  [[noreturn]] void Fail(ErrorCode code, const std::string& what, size_t at) const {
    ThrowError(code, fmt::format("in the pattern '{}': {}", Shown(text_), what),
               fmt::format("byte {}", at));
  }
  [[noreturn]] void Unknown(const std::string& what) const {
    Fail(ErrorCode::kUnsupported, what + " is not known", at_);
  }
  bool more() const { return at_ < text_.size(); }
  bool Is(std::string_view s) const { return text_.compare(at_, s.size(), s) == 0; }
  /// `n` bytes of the text are read as `as`.
  void Write(std::string_view as, size_t n) {
    out_ += as;
    places_.resize(out_.size(), at_);
    at_ += n;
  }
  void Copy(size_t n) {
    for (; n > 0 && more(); --n) Write(std::string_view(text_).substr(at_, 1), 1);
  }

  void Escape() {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == 's') return Write("\\p{White_Space}", 2);
    if (c == 'S') return Write("\\P{White_Space}", 2);
    if (c == 'p' || c == 'P') return Property();
    if (plain && std::string_view("ADRZdfnrtz").find(c) == std::string_view::npos && !Is("\\x{"))
      Unknown(std::string("\\") + c);
    Copy(2);
  }
  /// Names longer than those of categories are scripts.
  void Property() {
    Copy(2);
    if (!Is("{")) return;
    Copy(Is("{^") ? 2 : 1);
    const size_t end = text_.find('}', at_);
    if (end == std::string::npos) return;
    if (end - at_ > 2) Write("sc:", 0);
    Copy(end + 1 - at_);
  }
  void Class() {
    Copy(Is("[^") ? 2 : 1);
    if (Is("]")) Copy(1);
    while (more() && !Is("]")) {
      if (Is("[") || Is("&&")) Unknown(text_.substr(at_, 2) + " in a class");
      if (Is("\\"))
        Escape();
      else
        Copy(1);
    }
    Copy(1);
  }
  void Group(bool branch_begins) {
    // Behind the beginning, PCRE2 ends the branch before an option and Oniguruma does not.
    for (const std::string_view option : {"(?i)", "(?-i)"})
      if (branch_begins && Is(option)) return Copy(option.size());
    for (const std::string_view head : {"(?:", "(?=", "(?!", "(?>", "(?<", "(?i:", "(?-i:"})
      if (Is(head)) return Copy(head.size());
    if (Is("(?") || Is("(*")) Unknown("a group " + text_.substr(at_, 3));
    Copy(1);
  }
  void Braces() {
    const size_t digits = text_.find_first_not_of("0123456789", at_ + 2);
    if (Is("{,") && digits != std::string::npos && digits > at_ + 2 && text_[digits] == '}')
      return Write("{0", 1);
    Copy(1);
  }

  const std::string& text_;
  size_t at_ = 0;
  std::string out_;
  std::vector<size_t> places_;  ///< in `text_`, of each byte of `out_`
};

}  // namespace

struct SplitPattern::Impl {
  std::string text;
  std::unique_ptr<pcre2_code, Free> code;
};

SplitPattern::SplitPattern(const std::string& pattern) : impl_(std::make_unique<Impl>()) {
  WEFT_CHECK(pattern.size() <= kMostBytes, kLimit, "a pattern of {} bytes is too long, {} may be",
             pattern.size(), kMostBytes);
  const Translation translation(pattern);
  const auto context = Owned(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMostDepth);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Start optimizations look through the text behind, which each attempt would do again.
  impl_->code.reset(pcre2_compile(Units(translation.out()), translation.out().size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_ANCHORED |
                                      PCRE2_NO_AUTO_CAPTURE | PCRE2_NO_START_OPTIMIZE,
                                  &error, &offset, context.get()));
  if (error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  if (!impl_->code) translation.Fail(error, offset);
  impl_->text = pattern;
}
SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

std::vector<std::pair<size_t, size_t>> SplitPattern::FindAll(std::string_view text) const {
  std::string whole;
  if (!IsUtf8(text)) {
    // Decoders see bytes of characters that are not whole: each is a character of no kind.
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = CodePointAt(text, at);
      if (c.value == 0xfffd && c.bytes == 1)
        whole += '\x1a';
      else
        whole += text.substr(at, c.bytes);
      at += c.bytes;
    }
    text = whole;
  }
  const auto data = Owned(pcre2_match_data_create(1, nullptr));
  const auto context = Owned(pcre2_match_context_create(nullptr));
  pcre2_set_heap_limit(context.get(), kMostKib);
  uint64_t left = kStepsAtLeast + kMostSteps * text.size();
  const auto match = [&](size_t at, uint32_t steps) {
    pcre2_set_match_limit(context.get(), steps);
    return pcre2_match(impl_->code.get(), Units(text), text.size(), at, PCRE2_NO_UTF_CHECK,
                       data.get(), context.get());
  };
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t at = 0; at < text.size();) {
    RequestScope::Poll();
    uint64_t steps = kFewSteps;
    int result = match(at, kFewSteps);
    while (result == PCRE2_ERROR_MATCHLIMIT && left > steps) {
      steps = std::min(std::min(left, steps * kMoreEachTime), uint64_t{UINT32_MAX});
      left -= steps;
      result = match(at, uint32_t(steps));
    }
    if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_HEAPLIMIT)
      ThrowError(
          ErrorCode::kLimit,
          fmt::format(
              "the tokenizer's pattern '{}' {} over a text of {} bytes", Shown(impl_->text),
              result == PCRE2_ERROR_MATCHLIMIT ? "goes back too often" : "takes too much memory",
              text.size()),
          fmt::format("byte {}", at));
    WEFT_ICHECK(result >= 0 || result == PCRE2_ERROR_NOMATCH, "the pattern '{}': {}",
                Shown(impl_->text), Message(result));
    const size_t end = result < 0 ? at : pcre2_get_ovector_pointer(data.get())[1];
    if (end == at) {
      at += CodePointAt(text, at).bytes;
      continue;
    }
    found.emplace_back(at, end);
    at = end;
  }
  return found;
}

}  // namespace weft
