/// extents.cc: see extents.h. Bounds of an expression come from bounds of its parts, so they may be
/// wider than they need to be; its usual value is that at the usual values of its symbols.
#include "extents.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "host.h"

namespace weft_tensorrt {
namespace {

/// Beyond it TensorRT's own arithmetic on sizes ends.
constexpr int64_t kMost = int64_t{1} << 31;

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// Reads the grammar of src/sym/print.cc.
class Evaluator {
 public:
  Evaluator(const std::string& text, const std::map<std::string, Extent>& named,
            const Extent* other)
      : text_(text), named_(named), other_(other) {}

  Extent All() {
    const Extent e = Sum();
    if (at_ != text_.size()) Fail("cannot be read at column " + std::to_string(at_ + 1));
    if (e.min < 0 || e.max > kMost) Fail("is between " + e.ToString());
    return e;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Failure{WEFT_E_UNSUPPORTED, "the extent " + text_ + " " + what};
  }
  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(const char* token) {
    SkipSpace();
    const std::string t = token;
    if (text_.compare(at_, t.size(), t) != 0) return false;
    at_ += t.size();
    return true;
  }
  Extent Checked(const Extent& e) const {
    if (e.min < -kMost || e.max > kMost) Fail("may be beyond 2^31");
    return e;
  }

  Extent Sum() {
    if (++depth_ > kMostDepth) Fail("is nested too deeply");
    Extent a = Product();
    for (;;) {
      const bool plus = Take("+");
      if (!plus && !Take("-")) break;
      const Extent b = Product();
      a = Checked(plus ? Extent{a.min + b.min, a.opt + b.opt, a.max + b.max}
                       : Extent{a.min - b.max, a.opt - b.opt, a.max - b.min});
    }
    --depth_;
    return a;
  }

  Extent Product() {
    Extent a = Unary();
    for (;;) {
      if (Take("//")) {
        const Extent b = Unary();
        if (b.min <= 0) Fail("divides by what may be 0");
        const auto [lo, hi] = std::minmax({FloorDiv(a.min, b.min), FloorDiv(a.min, b.max),
                                           FloorDiv(a.max, b.min), FloorDiv(a.max, b.max)});
        a = {lo, FloorDiv(a.opt, b.opt), hi};
      } else if (Take("*")) {
        const Extent b = Unary();
        const auto [lo, hi] =
            std::minmax({a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max});
        a = Checked({lo, a.opt * b.opt, hi});
      } else if (Take("%")) {
        const Extent b = Unary();
        if (b.min <= 0) Fail("divides by what may be 0");
        const int64_t opt = a.opt - FloorDiv(a.opt, b.opt) * b.opt;
        a = a.is_fixed() && b.is_fixed() ? Extent{opt, opt, opt} : Extent{0, opt, b.max - 1};
      } else {
        return a;
      }
    }
  }

  Extent Unary() {
    if (Take("-")) {
      const Extent a = Unary();
      return {-a.max, -a.opt, -a.min};
    }
    if (Take("(")) {
      const Extent a = Sum();
      if (!Take(")")) Fail("lacks a parenthesis");
      return a;
    }
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || std::strchr("_.", text_[at_])))
      ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty()) Fail("cannot be read at column " + std::to_string(at_ + 1));
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      const int64_t n = std::strtoll(word.c_str(), nullptr, 10);
      return Checked({n, n, n});
    }
    if (Take("(")) return Call(word);
    if (const auto it = named_.find(word); it != named_.end()) return it->second;
    if (other_) return *other_;
    throw Failure{WEFT_E_UNSUPPORTED, "the extent '" + word +
                                          "' has no range: the option extents gives it one, as "
                                          "in extents=" +
                                          word + "=1..8..32"};
  }

  Extent Call(const std::string& name) {
    const bool least = name == "min";
    if (!least && name != "max" && name != "bcast") Fail("has a function " + name);
    Extent a = Sum();
    while (Take(",")) {
      const Extent b = Sum();
      // Of two extents that broadcast to each other, the result is the one that is not 1.
      a = least ? Extent{std::min(a.min, b.min), std::min(a.opt, b.opt), std::min(a.max, b.max)}
                : Extent{std::max(a.min, b.min), std::max(a.opt, b.opt), std::max(a.max, b.max)};
    }
    if (!Take(")")) Fail("lacks a parenthesis");
    return a;
  }

  static constexpr int kMostDepth = 100;
  const std::string& text_;
  const std::map<std::string, Extent>& named_;
  const Extent* other_;
  size_t at_ = 0;
  int depth_ = 0;
};

Extent ParseRange(const std::string& text) {
  Extent e;
  int64_t* const values[] = {&e.min, &e.opt, &e.max};
  const char* at = text.c_str();
  for (size_t i = 0; i < 3; ++i) {
    char* end = nullptr;
    *values[i] = std::strtoll(at, &end, 10);
    const char* const behind = i < 2 ? ".." : "";
    const size_t length = i < 2 ? 2 : 1;
    if (end == at || std::strncmp(end, behind, length) != 0 || *at == ' ') {
      e.min = -1;
      break;
    }
    at = end + 2;
  }
  if (e.min < 0 || e.opt < e.min || e.max < e.opt || e.max > kMost)
    throw Failure{
        WEFT_E_USAGE,
        "option extents: expected MIN..OPT..MAX with 0 <= MIN <= OPT <= MAX, got '" + text + "'"};
  return e;
}

}  // namespace

std::string Extent::ToString() const {
  return is_fixed() ? std::to_string(min) : std::to_string(min) + ".." + std::to_string(max);
}

ExtentRanges::ExtentRanges(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      other_ = ParseRange(part);
      has_other_ = true;
    } else {
      named_[part.substr(0, equals)] = ParseRange(part.substr(equals + 1));
    }
    begin = end + 1;
  }
}

Extent ExtentRanges::Of(const std::string& expression) const {
  return Evaluator(expression, named_, has_other_ ? &other_ : nullptr).All();
}

}  // namespace weft_tensorrt
