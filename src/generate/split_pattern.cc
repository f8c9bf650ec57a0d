/// split_pattern.cc: see split_pattern.h. A pattern is a list of nodes; a match walks them with an
/// explicit list of what may be tried instead, so that no text makes it recurse.
#include "split_pattern.h"

#include <algorithm>
#include <cstdint>

#include "unicode.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Steps of one match attempt, for each byte; the patterns of tokenizers need a few.
constexpr int64_t kMostSteps = 100, kStepsAtLeast = 100000;
constexpr int kMostRepeats = 1000, kMostDepth = 50;

/// Characters of a class.
struct Item {
  enum Kind : uint8_t { kRange, kCategory, kSpace } kind = kRange;
  bool negated = false;
  uint32_t first = 0, last = 0;  ///< kRange
  char category = 0;
};
struct Set {
  std::vector<Item> items;
  bool negated = false, fold = false;  ///< fold: of letters of ASCII the case does not matter

  bool HasExactly(uint32_t c) const {
    return std::any_of(items.begin(), items.end(), [c](const Item& i) {
      const bool in = i.kind == Item::kRange      ? i.first <= c && c <= i.last
                      : i.kind == Item::kCategory ? CategoryOf(c) == i.category
                                                  : IsSpace(c);
      return in != i.negated;
    });
  }
  bool Has(uint32_t c) const {
    bool in = HasExactly(c);
    if (!in && fold && c < 0x80 && CategoryOf(c) == 'L') in = HasExactly(c ^ 0x20);
    return in != negated;
  }
};

enum class Do : uint8_t {
  kSet,     ///< a character of sets[a]
  kSplit,   ///< a, and where that fails b
  kGo,      ///< a
  kAhead,   ///< goes on at b where what is at a matches here (or not: `flag`)
  kAtomic,  ///< goes on at b behind the first match of what is at a
  kBegin,
  kEnd,
  kMatch,
};
struct Step {
  Do what;
  int a = 0, b = 0;
  bool flag = false;
};

}  // namespace

struct SplitPattern::Impl {
  std::vector<Step> steps;
  std::vector<Set> sets;

  /// The end of a match of what begins at step `start`; npos: none.
  size_t Match(std::string_view text, size_t at, int start, int64_t* left) const {
    std::vector<std::pair<int, size_t>> other{{start, at}};
    while (!other.empty()) {
      auto [pc, pos] = other.back();
      other.pop_back();
      for (bool alive = true; alive;) {
        WEFT_CHECK(--*left > 0, kLimit,
                   "the tokenizer's pattern goes back too often over this text");
        const Step& s = steps[size_t(pc)];
        switch (s.what) {
          case Do::kMatch:
            return pos;
          case Do::kSet: {
            const CodePoint c = pos < text.size() ? CodePointAt(text, pos) : CodePoint();
            alive = c.bytes > 0 && sets[size_t(s.a)].Has(c.value);
            pos += c.bytes;
            ++pc;
            break;
          }
          case Do::kSplit:
            other.emplace_back(s.b, pos);
            pc = s.a;
            break;
          case Do::kGo:
            pc = s.a;
            break;
          case Do::kAhead:
            alive = (Match(text, pos, s.a, left) != std::string_view::npos) != s.flag;
            pc = s.b;
            break;
          case Do::kAtomic:
            pos = Match(text, pos, s.a, left);
            alive = pos != std::string_view::npos;
            pc = s.b;
            break;
          case Do::kBegin:
          case Do::kEnd:
            alive = pos == (s.what == Do::kBegin ? 0 : text.size());
            ++pc;
            break;
        }
      }
    }
    return std::string_view::npos;
  }
};

namespace {

class PatternParser {
 public:
  PatternParser(const std::string& text, std::vector<Step>* steps, std::vector<Set>* sets)
      : text_(text), steps_(*steps), sets_(*sets) {}
  void Parse() {
    Alternatives(false, 0);
    if (at_ < text_.size()) Fail("a ')' without its '('");
    Emit({Do::kMatch});
  }

 private:
  [[noreturn]] void Fail(const std::string& what, ErrorCode code = ErrorCode::kInvalidModel) const {
    ThrowError(code, fmt::format("in the pattern '{}': {}", text_, what),
               fmt::format("character {}", at_));
  }
  [[noreturn]] void Unknown(const std::string& what) const {
    Fail(what + " is not known", ErrorCode::kUnsupported);
  }
  bool Take(std::string_view s) {
    if (text_.compare(at_, s.size(), s) != 0) return false;
    at_ += s.size();
    return true;
  }
  bool more() const { return at_ < text_.size(); }
  int here() const { return int(steps_.size()); }
  int Emit(Step s) {
    WEFT_CHECK(steps_.size() < 100'000, kLimit, "the pattern '{}' is too large", text_);
    steps_.push_back(s);
    return here() - 1;
  }

  void Alternatives(bool fold, int depth) {
    if (depth > kMostDepth) Fail("groups are nested too deep", ErrorCode::kLimit);
    std::vector<int> ends;
    for (;;) {
      const int split = Emit({Do::kSplit});
      Sequence(fold, depth);
      if (!Take("|")) {
        steps_[size_t(split)] = {Do::kGo, split + 1};
        break;
      }
      ends.push_back(Emit({Do::kGo}));
      steps_[size_t(split)] = {Do::kSplit, split + 1, here()};
    }
    for (int e : ends) steps_[size_t(e)].a = here();
  }
  void Sequence(bool fold, int depth) {
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      const size_t from = at_;
      const int begin = here();
      Atom(&fold, depth);
      Repeat(begin, from, fold, depth);
    }
  }
  void Atom(bool* fold, int depth) {
    if (Take("(")) {
      if (Take("?i)")) {
        *fold = true;
        return;
      }
      if (Take("?=")) return Ahead(false, *fold, depth);
      if (Take("?!")) return Ahead(true, *fold, depth);
      bool inner = *fold;
      if (Take("?i:"))
        inner = true;
      else if (!Take("?:") && more() && text_[at_] == '?')
        Unknown("a group (?" + text_.substr(at_ + 1, 1));
      Alternatives(inner, depth + 1);
      if (!Take(")")) Fail("a '(' without its ')'");
      return;
    }
    if (Take("^")) return void(Emit({Do::kBegin}));
    if (Take("$")) return void(Emit({Do::kEnd}));
    if (Take("\\A")) return void(Emit({Do::kBegin}));
    if (Take("\\z")) return void(Emit({Do::kEnd}));
    if (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?')
      Fail("there is nothing to repeat");
    Set set;
    set.fold = *fold;
    if (Take("[")) {
      Class(&set);
    } else if (Take(".")) {
      set.negated = true;
      set.items.push_back({Item::kRange, false, '\n', '\n', 0});
    } else {
      set.items.push_back(One());
    }
    sets_.push_back(std::move(set));
    Emit({Do::kSet, int(sets_.size()) - 1});
  }
  void Ahead(bool negated, bool fold, int depth) {
    const int ahead = Emit({Do::kAhead, here() + 1, 0, negated});
    Alternatives(fold, depth + 1);
    if (!Take(")")) Fail("a '(' without its ')'");
    Emit({Do::kMatch});
    steps_[size_t(ahead)].b = here();
  }
  uint32_t Character() {
    if (!more()) Fail("it ends too early");
    const CodePoint c = CodePointAt(text_, at_);
    at_ += c.bytes;
    return c.value;
  }
  /// A character, or an escape.
  Item One() {
    if (!Take("\\")) {
      const uint32_t c = Character();
      return {Item::kRange, false, c, c, 0};
    }
    const uint32_t c = Character();
    const auto one = [](uint32_t x) { return Item{Item::kRange, false, x, x, 0}; };
    switch (c) {
      case 's':
      case 'S':
        return {Item::kSpace, c == 'S', 0, 0, 0};
      case 'd':
      case 'D':
        return {Item::kCategory, c == 'D', 0, 0, 'N'};
      case 'r':
        return one('\r');
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      case 'p':
      case 'P': {
        const bool braces = Take("{"), negated = braces && Take("^");
        const std::string name =
            braces ? text_.substr(at_, text_.find('}', at_) - at_) : text_.substr(at_, 1);
        if (name.size() != 1 || std::string_view("LMNPSZ").find(name[0]) == std::string_view::npos)
          Unknown("\\p{" + name + "}");
        at_ += 1;
        if (braces && !Take("}")) Fail("a '{' without its '}'");
        return {Item::kCategory, (c == 'P') != negated, 0, 0, name[0]};
      }
      default:
        if (c < 0x80 && (CategoryOf(c) == 'L' || CategoryOf(c) == 'N'))
          Unknown(std::string("\\") + char(c));
        return one(c);
    }
  }
  void Class(Set* set) {
    set->negated = Take("^");
    for (bool first = true; first || !Take("]"); first = false) {
      if (!more()) Fail("a '[' without its ']'");
      if (text_.compare(at_, 2, "[:") == 0 || text_.compare(at_, 2, "&&") == 0)
        Unknown(text_.substr(at_, 2) + " in a class");
      Item item = One();
      const bool range = item.kind == Item::kRange && at_ + 1 < text_.size() && text_[at_] == '-' &&
                         text_[at_ + 1] != ']';
      if (range) {
        ++at_;
        const Item last = One();
        if (last.kind != Item::kRange || last.first < item.first) Fail("a range that is none");
        item.last = last.first;
      }
      set->items.push_back(item);
    }
  }

  /// What stands behind an atom, whose steps begin at `begin` and whose text at `from`.
  void Repeat(int begin, size_t from, bool fold, int depth) {
    if (!more()) return;
    int least = 0, most = -1;
    const size_t atom_end = at_;
    if (Take("*")) {
    } else if (Take("+")) {
      least = 1;
    } else if (Take("?")) {
      most = 1;
    } else if (text_[at_] == '{') {
      if (!Braces(&least, &most)) return;
    } else {
      return;
    }
    const bool lazy = Take("?"), possessive = !lazy && Take("+");
    const size_t behind = at_;
    steps_.resize(size_t(begin));
    // Its steps again for each time that it stands there.
    const auto again = [&] {
      at_ = from;
      bool own = fold;
      Atom(&own, depth);
      WEFT_ICHECK(at_ == atom_end, "a part of a pattern is read in two ways");
    };
    const auto fork = [&](int into, int past) {
      return lazy ? Step{Do::kSplit, past, into} : Step{Do::kSplit, into, past};
    };
    const int atomic = possessive ? Emit({Do::kAtomic, here() + 1}) : -1;
    for (int k = 0; k < least; ++k) again();
    if (most < 0) {
      const int split = Emit({Do::kSplit});
      again();
      WEFT_CHECK(here() > split + 1, kUnsupported, "in the pattern '{}': a repeated nothing",
                 text_);
      Emit({Do::kGo, split});
      steps_[size_t(split)] = fork(split + 1, here());
    } else {
      std::vector<int> splits;
      for (int k = least; k < most; ++k) {
        splits.push_back(Emit({Do::kSplit}));
        again();
      }
      for (int s : splits) steps_[size_t(s)] = fork(s + 1, here());
    }
    if (possessive) {
      Emit({Do::kMatch});
      steps_[size_t(atomic)].b = here();
    }
    at_ = behind;
  }
  /// {n}, {n,}, {n,m}; what is none of these is text.
  bool Braces(int* least, int* most) {
    size_t at = at_ + 1;
    const auto number = [&](int* n) {
      const size_t begin = at;
      int64_t v = 0;
      while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9' && v <= kMostRepeats)
        v = v * 10 + (text_[at++] - '0');
      if (v > kMostRepeats) Fail("more repetitions than are allowed", ErrorCode::kLimit);
      *n = int(v);
      return at > begin;
    };
    if (!number(least)) return false;
    *most = *least;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      if (!number(most)) *most = -1;
    }
    if (at >= text_.size() || text_[at] != '}') return false;
    if (*most >= 0 && *most < *least) Fail("a repetition of less than its least");
    at_ = at + 1;
    return true;
  }

  const std::string& text_;
  std::vector<Step>& steps_;
  std::vector<Set>& sets_;
  size_t at_ = 0;
};

}  // namespace

SplitPattern::SplitPattern(const std::string& pattern) : impl_(std::make_unique<Impl>()) {
  PatternParser(pattern, &impl_->steps, &impl_->sets).Parse();
}
SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

std::vector<std::pair<size_t, size_t>> SplitPattern::FindAll(std::string_view text) const {
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t at = 0; at < text.size();) {
    int64_t left = kStepsAtLeast + kMostSteps * int64_t(text.size() - at);
    const size_t end = impl_->Match(text, at, 0, &left);
    if (end == std::string_view::npos || end == at) {
      at += CodePointAt(text, at).bytes;
      continue;
    }
    found.emplace_back(at, end);
    at = end;
  }
  return found;
}

}  // namespace weft
