/// parse_program.cc: a program from text; the grammar stands in program.h.
///
/// One pass over the lines, linear in the text; numbers are bounded here, so that sums of a few of
/// them stay in 64 bits wherever they are used.
#include <cctype>

#include "program.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 40, kMaxCycle = int64_t{1} << 50;
constexpr int64_t kMaxAddress = int64_t{1} << 42;

template <class Named>
std::vector<std::string> NamesOf(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& n : all) names.push_back(n.name);
  return names;
}

class Parser {
 public:
  Parser(std::string_view text, const Machine& machine, const std::string& source)
      : text_(text), m_(machine), source_(source) {}

  Program Parse() {
    ExpectLine("l1 1", "a program starts with the line 'l1 1'");
    NextLine();
    Keyword("machine", "the second line names the machine: 'machine " + m_.name + "'");
    SkipBlanks();
    const size_t at = at_;
    program_.machine = Word("the name of the machine");
    if (program_.machine != m_.name)
      FailAt(at, fmt::format("the program is for machine '{}', not '{}'",
                             program_.machine.substr(0, 64), m_.name));
    End();
    while (NextLine()) {
      if (Peek() == '@')
        ParseInstruction();
      else
        ParseSegment();
    }
    return std::move(program_);
  }

 private:
  [[noreturn]] void FailAt(size_t at, const std::string& what, const std::string& hint = {}) const {
    weft::ThrowError(weft::ErrorCode::kSyntax, what,
                     fmt::format("{}:{}:{}", source_, number_, at - begin_ + 1), hint);
  }
  [[noreturn]] void Fail(const std::string& what, const std::string& hint = {}) const {
    FailAt(at_, what, hint);
  }
  std::string Seen() const {
    if (at_ >= end_) return "the end of the line";
    return weft::Quote(text_.substr(at_, std::min<size_t>(end_ - at_, 16)));
  }

  /// Moves to the next line that is not empty or a comment; false at the end.
  bool NextLine() {
    while (next_ < text_.size()) {
      begin_ = at_ = next_;
      const size_t newline = text_.find('\n', begin_);
      end_ = newline == std::string_view::npos ? text_.size() : newline;
      next_ = newline == std::string_view::npos ? text_.size() : newline + 1;
      ++number_;
      if (end_ > begin_ && text_[end_ - 1] == '\r') --end_;
      SkipBlanks();
      if (at_ < end_ && text_[at_] != '#') return true;
    }
    begin_ = at_ = end_ = text_.size();
    return false;
  }
  void ExpectLine(std::string_view line, const char* what) {
    if (!NextLine() || weft::Trim(text_.substr(at_, end_ - at_)) != line)
      Fail(fmt::format("expected '{}', got {}", line, Seen()), what);
  }

  void SkipBlanks() {
    while (at_ < end_ && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char Peek() const { return at_ < end_ ? text_[at_] : '\0'; }
  bool Take(char c) {
    SkipBlanks();
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Fail(fmt::format("expected '{}', got {}", c, Seen()));
  }
  void Keyword(std::string_view word, const std::string& hint) {
    SkipBlanks();
    const std::string_view rest = text_.substr(at_, end_ - at_);
    if (!weft::StartsWith(rest, word) || (rest.size() > word.size() && IsWord(rest[word.size()])))
      Fail(fmt::format("expected '{}', got {}", word, Seen()), hint);
    at_ += word.size();
  }
  void End() {
    SkipBlanks();
    if (at_ < end_ && text_[at_] != '#')
      Fail(fmt::format("expected the end of the line, got {}", Seen()));
  }

  static bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  std::string Word(const char* what) {
    SkipBlanks();
    const size_t from = at_;
    while (at_ < end_ && IsWord(text_[at_])) ++at_;
    if (at_ == from) Fail(fmt::format("expected {}, got {}", what, Seen()));
    return std::string(text_.substr(from, at_ - from));
  }
  template <class Named>
  int NameIn(const char* what, const std::vector<Named>& all) {
    SkipBlanks();
    const size_t from = at_;
    while (at_ < end_ && IsWord(text_[at_])) ++at_;
    const std::string_view name = text_.substr(from, at_ - from);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].name == name) return int(i);
    }
    at_ = from;
    if (name.empty()) Fail(fmt::format("expected the name of {}, got {}", what, Seen()));
    const std::vector<std::string> names = NamesOf(all);
    const std::string near = weft::DidYouMean(name.substr(0, 64), names);
    Fail(fmt::format("no {} is named '{}'", what, name.substr(0, 64)),
         near.empty() ? "known are " + weft::Join(names, ", ") : near);
  }

  int64_t Number(const char* what, int64_t least, int64_t most) {
    SkipBlanks();
    const size_t from = at_;
    if (Peek() == '-') ++at_;
    int64_t value = 0;
    bool digits = false, large = false;
    for (; at_ < end_ && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      digits = true;
      if (value > kMaxCycle)
        large = true;
      else
        value = value * 10 + (text_[at_] - '0');
    }
    if (!digits) {
      at_ = from;
      Fail(fmt::format("expected {}, got {}", what, Seen()));
    }
    if (text_[from] == '-') value = -value;
    if (large || value < least || value > most)
      FailAt(from, fmt::format("{} must be from {} to {}", what, least, most));
    return value;
  }

  void ParseSegment() {
    const bool is_output = Peek() == 'o';
    Keyword(is_output ? "output" : "input",
            "a line is an input, an output or an instruction '@...'");
    Segment s;
    s.is_output = is_output;
    s.name = SegmentName();
    Expect(':');
    s.memory = NameIn("memory", m_.memories);
    Expect('[');
    s.base = Number("an address", 0, kMaxAddress);
    Expect(':');
    s.words = Number("the end address", s.base, kMaxAddress) - s.base;
    Expect(']');
    End();
    program_.segments.push_back(std::move(s));
  }
  std::string SegmentName() {
    SkipBlanks();
    std::string name;
    if (Peek() != '"') {
      while (at_ < end_ &&
             (IsWord(text_[at_]) || text_[at_] == '.' || text_[at_] == '/' || text_[at_] == '-'))
        name += text_[at_++];
      if (name.empty()) Fail(fmt::format("expected a name, got {}", Seen()));
      return name;
    }
    for (++at_; at_ < end_ && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        name += text_[at_];
        continue;
      }
      if (++at_ >= end_) break;
      const char c = text_[at_];
      if (c == 'x') {
        const auto digit = [&](size_t at) {
          const char h =
              at < end_ ? char(std::tolower(static_cast<unsigned char>(text_[at]))) : ' ';
          if (!std::isxdigit(static_cast<unsigned char>(h)))
            FailAt(at, "expected two hexadecimal digits");
          return h <= '9' ? h - '0' : h - 'a' + 10;
        };
        name += char(digit(at_ + 1) * 16 + digit(at_ + 2));
        at_ += 2;
      } else {
        name += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
    }
    if (at_ >= end_) Fail("the name has no closing quote");
    ++at_;
    return name;
  }

  void ParseInstruction() {
    Instruction i;
    Expect('@');
    i.start = Number("a cycle", 0, kMaxCycle);
    i.unit = NameIn("unit", m_.units);
    Expect('.');
    i.op = NameIn("operation", m_.units[size_t(i.unit)].ops);
    do {
      if (i.sources.size() == 3) Fail("an instruction has at most three operands");
      i.sources.push_back(ParseStream());
    } while (Take(','));
    Expect('-');
    if (!Take('>')) Fail(fmt::format("expected '->', got {}", Seen()));
    i.target = ParseStream();
    if (Take('x')) ParseCounts(&i);
    SkipBlanks();
    if (weft::StartsWith(text_.substr(at_, end_ - at_), "on ")) {
      at_ += 2;
      ParseMask(&i.mask);
    }
    End();
    if (Take('#')) i.note = std::string(weft::Trim(text_.substr(at_, end_ - at_)));
    program_.instructions.push_back(std::move(i));
  }

  /// Up to three numbers, the last of them the last counter's.
  void ParseTriple(const char* what, int64_t least, int64_t most, char close,
                   std::array<int64_t, 3>* out) {
    std::array<int64_t, 3> read{};
    size_t n = 0;
    do {
      if (n == 3) Fail("there are three counters");
      read[n++] = Number(what, least, most);
    } while (Take(','));
    Expect(close);
    for (size_t d = 0; d < n; ++d) (*out)[3 - n + d] = read[d];
  }

  Stream ParseStream() {
    Stream s;
    SkipBlanks();
    if (Peek() == '0') {
      const size_t from = at_;
      int digits = 0;
      uint64_t bits = 0;
      if (at_ + 1 < end_ && text_[at_ + 1] == 'x') {
        for (at_ += 2;
             at_ < end_ && digits < 9 && std::isxdigit(static_cast<unsigned char>(text_[at_]));
             ++at_, ++digits) {
          const char h = char(std::tolower(static_cast<unsigned char>(text_[at_])));
          bits = bits * 16 + uint64_t(h <= '9' ? h - '0' : h - 'a' + 10);
        }
      }
      if (digits < 1 || digits > 8)
        FailAt(from, "an immediate is 0x and up to 8 hexadecimal digits");
      s.immediate = uint32_t(bits);
      return s;
    }
    s.memory = NameIn("memory", m_.memories);
    Expect('[');
    s.base = Number("an address", -kMaxAddress, kMaxAddress);
    if (Take(';'))
      ParseTriple("a stride", -kMaxAddress, kMaxAddress, ']', &s.stride);
    else
      Expect(']');
    return s;
  }

  void ParseCounts(Instruction* i) {
    Expect('(');
    const size_t from = at_;
    ParseTriple("a count", 1, kMaxCount, ')', &i->count);
    int64_t elements = 0;
    if (__builtin_mul_overflow(i->count[0], i->count[1], &elements) ||
        __builtin_mul_overflow(elements, i->count[2], &elements) || elements > kMaxCount)
      FailAt(from, fmt::format("more than {} elements", kMaxCount));
  }

  void ParseMask(Mask* mask) {
    mask->levels.resize(m_.levels.size());
    SkipBlanks();
    do {
      const size_t from = at_;
      const int level = NameIn("level", m_.levels);
      std::vector<uint64_t>& bits = mask->levels[size_t(level)];
      if (!bits.empty()) FailAt(from, "the level is named twice");
      const int64_t count = m_.levels[size_t(level)].count;
      bits.assign(size_t((count + 63) / 64), 0);
      Expect('=');
      if (weft::StartsWith(text_.substr(at_, end_ - at_), "none")) {
        at_ += 4;
      } else {
        do {
          const int64_t first = Number("a place", 0, count - 1);
          const int64_t last = Take('-') ? Number("a place", first, count - 1) : first;
          for (int64_t p = first; p <= last; ++p) bits[size_t(p / 64)] |= uint64_t{1} << (p % 64);
        } while (Take(','));
      }
      SkipBlanks();
    } while (at_ < end_ && text_[at_] != '#');
  }

  std::string_view text_;
  const Machine& m_;
  const std::string& source_;
  Program program_;
  size_t begin_ = 0, at_ = 0, end_ = 0, next_ = 0;  // of the line
  int64_t number_ = 0;
};

}  // namespace

Program ParseProgram(std::string_view text, const Machine& machine, const std::string& source) {
  return Parser(text, machine, source).Parse();
}

}  // namespace hsimd
