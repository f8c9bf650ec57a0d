/// regex.cc: a pattern becomes a tree, the tree a list of states, and a text walks through all
/// states it can be in at once. Source: Thompson, Regular Expression Search Algorithm, 1968; the
/// syntax is RE2's (https://github.com/google/re2/wiki/Syntax).
#include "regex.h"

#include <algorithm>
#include <optional>

#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

constexpr uint32_t kLastCodePoint = 0x10ffff, kReplacement = 0xfffd;
constexpr int kMaxRepeat = 1000;  // as RE2
constexpr size_t kMaxStates = 65536;
constexpr int kMaxDepth = 256;  // of groups: parsing recurses over them

/// The code point at `*at`, which moves behind it.
uint32_t NextCodePoint(const std::string& s, size_t* at) {
  const auto byte = [&](size_t i) { return i < s.size() ? uint8_t(s[i]) : uint8_t(0); };
  const uint8_t head = byte((*at)++);
  if (head < 0x80) return head;
  const int more = head >= 0xf0 ? 3 : head >= 0xe0 ? 2 : head >= 0xc2 ? 1 : 0;
  if (more == 0 || head > 0xf4) return kReplacement;
  uint32_t c = head & (0x3f >> more);
  for (int k = 0; k < more; ++k) {
    if ((byte(*at + size_t(k)) & 0xc0) != 0x80) return kReplacement;
    c = c << 6 | (byte(*at + size_t(k)) & 0x3f);
  }
  const uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
  if (c < least || c > kLastCodePoint || (c >= 0xd800 && c < 0xe000)) return kReplacement;
  *at += size_t(more);
  return c;
}

/// Sorted, without overlaps.
CodePoints Normal(CodePoints set) {
  std::sort(set.begin(), set.end());
  CodePoints out;
  for (const auto& [first, last] : set) {
    if (!out.empty() && first <= out.back().second + 1)
      out.back().second = std::max(out.back().second, last);
    else
      out.emplace_back(first, last);
  }
  return out;
}
CodePoints Complement(CodePoints set) {
  CodePoints out;
  uint32_t next = 0;
  for (const auto& [first, last] : Normal(std::move(set))) {
    if (first > next) out.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastCodePoint) out.emplace_back(next, kLastCodePoint);
  return out;
}
/// With the other case of ASCII's letters.
CodePoints Folded(CodePoints set) {
  const CodePoints own = set;
  for (const auto& [first, last] : own) {
    for (uint32_t c = std::max<uint32_t>(first, 'A'); c <= std::min<uint32_t>(last, 'Z'); ++c)
      set.emplace_back(c + 32, c + 32);
    for (uint32_t c = std::max<uint32_t>(first, 'a'); c <= std::min<uint32_t>(last, 'z'); ++c)
      set.emplace_back(c - 32, c - 32);
  }
  return Normal(std::move(set));
}
bool Has(const CodePoints& set, uint32_t c) {
  const auto it = std::upper_bound(set.begin(), set.end(), std::make_pair(c, ~uint32_t{0}));
  return it != set.begin() && std::prev(it)->second >= c;
}

struct ClassName {
  const char* name;
  CodePoints set;
};
const std::vector<ClassName>& NamedClasses() {
  static const std::vector<ClassName> table = {
      {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
      {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
      {"ascii", {{0, 127}}},
      {"blank", {{'\t', '\t'}, {' ', ' '}}},
      {"cntrl", {{0, 31}, {127, 127}}},
      {"digit", {{'0', '9'}}},
      {"graph", {{'!', '~'}}},
      {"lower", {{'a', 'z'}}},
      {"print", {{' ', '~'}}},
      {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
      {"space", {{'\t', '\r'}, {' ', ' '}}},
      {"upper", {{'A', 'Z'}}},
      {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
      {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
  };
  return table;
}
const CodePoints* NamedClass(const std::string& name) {
  for (const ClassName& c : NamedClasses())
    if (name == c.name) return &c.set;
  return nullptr;
}
bool IsWord(uint32_t c) { return Has(*NamedClass("word"), c); }

/// A pattern as a tree.
struct Tree {
  enum Kind { kEmpty, kSet, kHolds, kSequence, kChoice, kRepeat } kind = kEmpty;
  CodePoints set;
  Regex::Assertion assertion = Regex::Assertion::kBegin;
  std::vector<Tree> parts;
  int least = 0, most = 0;  ///< kRepeat; most < 0: no bound
};

/// What a group may switch.
struct Flags {
  bool fold = false, lines = false, dot_all = false;
};

class Parser {
 public:
  explicit Parser(const std::string& pattern) : p_(pattern) {}
  Tree Run() {
    Tree t = Choice({}, 0);
    if (at_ < p_.size()) Fail("an unmatched )");
    return t;
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    WEFT_THROW(kBadAttribute, "pattern '{}': {} at byte {}", p_.substr(0, 100), what, at_);
  }
  bool At(char c) const { return at_ < p_.size() && p_[at_] == c; }
  bool Accept(char c) { return At(c) && (++at_, true); }

  Tree Choice(Flags flags, int depth) {
    if (depth > kMaxDepth) WEFT_THROW(kLimit, "pattern: groups {} deep", depth);
    Tree choice;
    choice.kind = Tree::kChoice;
    Tree sequence;
    sequence.kind = Tree::kSequence;
    while (at_ < p_.size() && !At(')')) {
      if (Accept('|')) {
        choice.parts.push_back(std::exchange(sequence, Tree()));
        sequence.kind = Tree::kSequence;
      } else if (p_.compare(at_, 2, "\\Q") == 0) {
        at_ += 2;
        const size_t end = std::min(p_.find("\\E", at_), p_.size());
        const bool any = at_ < end;
        while (at_ < end) {
          const uint32_t c = NextCodePoint(p_, &at_);
          sequence.parts.push_back(Set({{c, c}}, flags));
        }
        at_ = std::min(end + 2, p_.size());
        if (any) sequence.parts.back() = Repeated(std::move(sequence.parts.back()));
      } else {
        Tree atom = Atom(&flags, depth);
        sequence.parts.push_back(Repeated(std::move(atom)));
      }
    }
    choice.parts.push_back(std::move(sequence));
    return choice;
  }

  /// x*, x+, x?, x{n}, x{n,}, x{n,m}; a ? behind it says which match is preferred: all the same.
  Tree Repeated(Tree x) {
    for (int times = 0;; ++times) {
      int least = 0, most = -1;
      const size_t begin = at_;
      if (Accept('*')) {
      } else if (Accept('+')) {
        least = 1;
      } else if (Accept('?')) {
        most = 1;
      } else if (!At('{') || !Counts(&least, &most)) {
        at_ = begin;
        return x;
      }
      if (times > 0) Fail("a repetition of a repetition");
      Accept('?');
      Tree repeat;
      repeat.kind = Tree::kRepeat;
      repeat.least = least;
      repeat.most = most;
      repeat.parts.push_back(std::move(x));
      x = std::move(repeat);
    }
  }
  std::optional<int> Number() {
    int v = 0;
    const size_t begin = at_;
    while (at_ < p_.size() && p_[at_] >= '0' && p_[at_] <= '9') {
      v = v * 10 + (p_[at_++] - '0');
      if (v > kMaxRepeat) Fail("a repetition of more than 1000");
    }
    return at_ == begin ? std::nullopt : std::optional<int>(v);
  }
  /// False where the brace is none of a count, and stands for itself.
  bool Counts(int* least, int* most) {
    Accept('{');
    const std::optional<int> first = Number();
    if (!first) return false;
    *least = *most = *first;
    if (Accept(',')) *most = Number().value_or(-1);
    if (!Accept('}')) return false;
    if (*most >= 0 && *most < *least) Fail("a repetition of at least more than at most");
    return true;
  }

  Tree Set(CodePoints set, const Flags& flags) const {
    Tree t;
    t.kind = Tree::kSet;
    t.set = flags.fold ? Folded(std::move(set)) : Normal(std::move(set));
    return t;
  }
  static Tree Holds(Regex::Assertion a) {
    Tree t;
    t.kind = Tree::kHolds;
    t.assertion = a;
    return t;
  }

  Tree Atom(Flags* flags, int depth) {
    using A = Regex::Assertion;
    if (At('*') || At('+') || At('?')) Fail("a repetition of nothing");
    if (Accept('^')) return Holds(flags->lines ? A::kLineBegin : A::kBegin);
    if (Accept('$')) return Holds(flags->lines ? A::kLineEnd : A::kEnd);
    if (Accept('.'))
      return Set(flags->dot_all ? CodePoints{{0, kLastCodePoint}} : Complement({{'\n', '\n'}}), {});
    if (Accept('(')) return Group(flags, depth);
    if (Accept('[')) return Class(*flags);
    if (Accept('\\')) {
      if (Accept('A')) return Holds(A::kBegin);
      if (Accept('z')) return Holds(A::kEnd);
      if (Accept('b')) return Holds(A::kWordBoundary);
      if (Accept('B')) return Holds(A::kNoWordBoundary);
      return Set(Escaped(), *flags);
    }
    const uint32_t c = NextCodePoint(p_, &at_);
    return Set({{c, c}}, *flags);
  }

  /// Behind the bracket: (x), (?:x), (?P<name>x), (?<name>x), (?i-s:x), (?i).
  Tree Group(Flags* flags, int depth) {
    Flags inner = *flags;
    if (Accept('?')) {
      if (Accept('P') ? At('<') : At('<')) {
        at_ = p_.find('>', at_);
        if (at_ == std::string::npos) at_ = p_.size(), Fail("a name without end");
        ++at_;
      } else {
        bool on = true;
        while (!At(':') && !At(')')) {
          if (Accept('-'))
            on = false;
          else if (Accept('i'))
            inner.fold = on;
          else if (Accept('m'))
            inner.lines = on;
          else if (Accept('s'))
            inner.dot_all = on;
          else if (!Accept('U'))
            Fail("an unknown flag of a group");
        }
        if (Accept(')')) {
          *flags = inner;
          return {};
        }
        Accept(':');
      }
    }
    Tree t = Choice(inner, depth + 1);
    if (!Accept(')')) Fail("a missing )");
    return t;
  }

  uint32_t Hex() {
    const bool braces = Accept('{');
    uint32_t v = 0;
    for (int digits = 0; braces ? !At('}') : digits < 2; ++digits) {
      const char c = at_ < p_.size() ? p_[at_++] : '\0';
      const int d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
      if (d < 0) Fail("a bad hexadecimal number");
      v = v * 16 + uint32_t(d);
      if (v > kLastCodePoint) Fail("a number beyond the code points");
    }
    if (braces) Accept('}');
    return v;
  }
  /// Behind a backslash: one code point or a class.
  CodePoints Escaped() {
    if (at_ >= p_.size()) Fail("a backslash at the end");
    const auto one = [](uint32_t c) { return CodePoints{{c, c}}; };
    const char c = p_[at_];
    if (c == 'p' || c == 'P' || c == 'C')
      WEFT_THROW(kUnsupported, "pattern '{}': \\{} is not supported", p_.substr(0, 100), c);
    if (c >= '0' && c <= '7') {
      uint32_t v = 0;
      for (int k = 0; k < 3 && at_ < p_.size() && p_[at_] >= '0' && p_[at_] <= '7'; ++k)
        v = v * 8 + uint32_t(p_[at_++] - '0');
      return one(v);
    }
    if (uint8_t(c) >= 0x80) return one(NextCodePoint(p_, &at_));
    ++at_;
    static const CodePoints space{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};  // without \v
    switch (c) {
      case 'd':
        return *NamedClass("digit");
      case 'D':
        return Complement(*NamedClass("digit"));
      case 'w':
        return *NamedClass("word");
      case 'W':
        return Complement(*NamedClass("word"));
      case 's':
        return space;
      case 'S':
        return Complement(space);
      case 'a':
        return one('\a');
      case 'f':
        return one('\f');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'v':
        return one('\v');
      case 'x':
        return one(Hex());
      default:
        break;
    }
    if (Has(*NamedClass("alnum"), uint8_t(c))) Fail("an unknown escape");
    return one(uint8_t(c));
  }

  /// Behind the bracket: [a-z\d[:alpha:]], [^...].
  Tree Class(const Flags& flags) {
    const bool negated = Accept('^');
    CodePoints set;
    for (bool first = true; first || !At(']'); first = false) {
      if (at_ >= p_.size()) Fail("a missing ]");
      CodePoints item = ClassItem();
      const bool single = item.size() == 1 && item[0].first == item[0].second;
      if (single && At('-') && at_ + 1 < p_.size() && p_[at_ + 1] != ']') {
        ++at_;
        const CodePoints end = ClassItem();
        if (end.size() != 1 || end[0].first != end[0].second || end[0].first < item[0].first)
          Fail("a bad range of a class");
        item[0].second = end[0].first;
      }
      set.insert(set.end(), item.begin(), item.end());
    }
    ++at_;
    if (flags.fold) set = Folded(std::move(set));
    return Set(negated ? Complement(std::move(set)) : std::move(set), {});
  }
  CodePoints ClassItem() {
    if (p_.compare(at_, 2, "[:") == 0) {
      const size_t end = p_.find(":]", at_);
      if (end != std::string::npos) {
        const bool negated = p_[at_ + 2] == '^';
        const size_t begin = at_ + (negated ? 3 : 2);
        const CodePoints* named = NamedClass(p_.substr(begin, end - begin));
        if (!named) Fail("an unknown class");
        at_ = end + 2;
        return negated ? Complement(*named) : *named;
      }
    }
    if (Accept('\\')) return Escaped();
    const uint32_t c = NextCodePoint(p_, &at_);
    return {{c, c}};
  }

  const std::string& p_;
  size_t at_ = 0;
};

/// States of a tree, one after another: whoever comes to the end of a part goes on behind it.
class Compiler {
 public:
  Compiler(std::vector<Regex::State>* states, std::vector<CodePoints>* sets)
      : states_(*states), sets_(*sets) {}
  void Add(const Tree& t) {
    switch (t.kind) {
      case Tree::kEmpty:
        return;
      case Tree::kSet:
        sets_.push_back(t.set);
        states_[size_t(New(Regex::Step::kSet))].set = int(sets_.size()) - 1;
        return;
      case Tree::kHolds:
        states_[size_t(New(Regex::Step::kHolds))].assertion = t.assertion;
        return;
      case Tree::kSequence:
        for (const Tree& part : t.parts) Add(part);
        return;
      case Tree::kChoice:
        return AddChoice(t);
      case Tree::kRepeat:
        return AddRepeat(t);
    }
  }
  int New(Regex::Step step) {
    WEFT_CHECK(states_.size() < kMaxStates, kLimit, "pattern: more than {} states", kMaxStates);
    Regex::State s;
    s.step = step;
    s.next = int(states_.size()) + 1;
    states_.push_back(s);
    return int(states_.size()) - 1;
  }

 private:
  int end() const { return int(states_.size()); }
  void AddChoice(const Tree& t) {
    std::vector<int> ends;
    for (size_t k = 0; k < t.parts.size(); ++k) {
      const bool last = k + 1 == t.parts.size();
      const int fork = last ? -1 : New(Regex::Step::kFork);
      Add(t.parts[k]);
      if (last) break;
      ends.push_back(New(Regex::Step::kGo));
      states_[size_t(fork)].other = end();
    }
    for (const int e : ends) states_[size_t(e)].next = end();
  }
  void AddRepeat(const Tree& t) {
    const Tree& x = t.parts[0];
    const int begin = end();
    for (int k = 0; k < t.least; ++k) {
      Add(x);
      if (end() == begin) break;  // of nothing, however often
    }
    if (t.most < 0) {
      const int fork = New(Regex::Step::kFork);
      Add(x);
      states_[size_t(New(Regex::Step::kGo))].next = fork;
      states_[size_t(fork)].other = end();
      return;
    }
    std::vector<int> forks;
    for (int k = t.least; k < t.most; ++k) {
      forks.push_back(New(Regex::Step::kFork));
      Add(x);
    }
    for (const int f : forks) states_[size_t(f)].other = end();
  }

  std::vector<Regex::State>& states_;
  std::vector<CodePoints>& sets_;
};

/// What an assertion may look at: the code points around a place; -1: there is none.
struct Around {
  int64_t before = -1, after = -1;
  bool Meets(Regex::Assertion a) const {
    using A = Regex::Assertion;
    const bool boundary =
        (before >= 0 && IsWord(uint32_t(before))) != (after >= 0 && IsWord(uint32_t(after)));
    switch (a) {
      case A::kBegin:
        return before < 0;
      case A::kEnd:
        return after < 0;
      case A::kLineBegin:
        return before < 0 || before == '\n';
      case A::kLineEnd:
        return after < 0 || after == '\n';
      case A::kWordBoundary:
        return boundary;
      case A::kNoWordBoundary:
        return !boundary;
    }
    return false;
  }
};

/// The states that a text can be in at one place, each once.
class Threads {
 public:
  explicit Threads(const std::vector<Regex::State>& states)
      : states_(&states), seen_(states.size(), 0) {}
  void Clear() {
    for (const int s : all_) seen_[size_t(s)] = 0;
    all_.clear();
  }
  /// State `s` and all that it leads to without a code point.
  void Add(int s, const Around& around) {
    std::vector<int> stack{s};
    while (!stack.empty()) {
      const int at = stack.back();
      stack.pop_back();
      if (seen_[size_t(at)]) continue;
      seen_[size_t(at)] = 1;
      all_.push_back(at);
      const Regex::State& state = (*states_)[size_t(at)];
      if (state.step == Regex::Step::kFork) stack.push_back(state.other);
      if (state.step == Regex::Step::kFork || state.step == Regex::Step::kGo ||
          (state.step == Regex::Step::kHolds && around.Meets(state.assertion)))
        stack.push_back(state.next);
    }
  }
  const std::vector<int>& all() const { return all_; }

 private:
  const std::vector<Regex::State>* states_;
  std::vector<uint8_t> seen_;
  std::vector<int> all_;
};

}  // namespace

Regex::Regex(const std::string& pattern) {
  Compiler compiler(&states_, &sets_);
  compiler.Add(Parser(pattern).Run());
  compiler.New(Step::kMatch);
}

bool Regex::MatchesAll(const std::string& text) const {
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) points.push_back(NextCodePoint(text, &at));
  const auto around = [&](size_t i) {
    return Around{i > 0 ? int64_t(points[i - 1]) : -1, i < points.size() ? int64_t(points[i]) : -1};
  };
  Threads now(states_), next(states_);
  now.Add(0, around(0));
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % 1024 == 0) RequestScope::Poll();
    next.Clear();
    for (const int s : now.all()) {
      const State& state = states_[size_t(s)];
      if (state.step == Step::kSet && Has(sets_[size_t(state.set)], points[i]))
        next.Add(state.next, around(i + 1));
    }
    std::swap(now, next);
  }
  return std::any_of(now.all().begin(), now.all().end(),
                     [&](int s) { return states_[size_t(s)].step == Step::kMatch; });
}

std::vector<std::pair<size_t, size_t>> Regex::FindAll(const std::string& text) const {
  std::vector<uint32_t> points;
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size();) {
    starts.push_back(at);
    points.push_back(NextCodePoint(text, &at));
  }
  starts.push_back(text.size());
  const auto around = [&](size_t i) {
    return Around{i > 0 ? int64_t(points[i - 1]) : -1, i < points.size() ? int64_t(points[i]) : -1};
  };
  const auto matches = [&](int s) { return states_[size_t(s)].step == Step::kMatch; };
  std::vector<std::pair<size_t, size_t>> found;
  Threads now(states_), next(states_);
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    now.Clear();
    now.Add(0, around(begin));
    for (size_t i = begin; i < points.size() && !now.all().empty(); ++i) {
      if (i % 1024 == 0) RequestScope::Poll();
      next.Clear();
      for (const int s : now.all()) {
        const State& state = states_[size_t(s)];
        if (state.step == Step::kSet && Has(sets_[size_t(state.set)], points[i]))
          next.Add(state.next, around(i + 1));
      }
      std::swap(now, next);
      if (std::any_of(now.all().begin(), now.all().end(), matches)) end = i + 1;
    }
    if (end > begin) found.emplace_back(starts[begin], starts[end]);
    begin = std::max(end, begin + 1);
  }
  return found;
}

}  // namespace weft::ops
