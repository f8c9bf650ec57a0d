/// tile_text.cc: the text form of tile programs.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "tile_program.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

constexpr const char* kRoles[] = {"scratch", "input", "output"};
constexpr const char* kTypes[] = {"f32", "i32", "bool"};

std::string Join(const std::vector<int64_t>& v) {
  std::string s;
  for (int64_t x : v) s += (s.empty() ? "" : ", ") + std::to_string(x);
  return s;
}

class Printer {
 public:
  Printer(const TileProgram& program, const Machine& machine)
      : program_(program), machine_(machine) {}

  std::string Run() {
    out_ = "l2 1\nmachine " + program_.machine + "\n";
    for (const ScratchRange& r : program_.scratch)
      out_ += "scratch " + Range(r.memory, r.base, r.words) + "\n";
    for (const TileValue& v : program_.values) {
      out_ += fmt::format("value {} {} {} {}", v.name, kRoles[int(v.role)], kTypes[int(v.type)],
                          Range(v.memory, v.base, v.words));
      if (v.layout) out_ += " " + PrintLayout(*v.layout);
      out_ += "\n";
    }
    for (const TileOp& op : program_.ops) std::visit([this](const auto& o) { Print(o); }, op);
    return std::move(out_);
  }

 private:
  std::string Range(int memory, int64_t base, int64_t words) const {
    return fmt::format("{}[{}:{}]", machine_.memories[size_t(memory)].name, base, base + words);
  }
  std::string StreamText(const TileStream& s) const {
    const std::string& name = program_.values[size_t(s.value)].name;
    if (s.strides.empty()) return fmt::format("{}[{}]", name, s.offset);
    return fmt::format("{}[{}; {}]", name, s.offset, Join(s.strides));
  }
  static std::string Operand(const BodyOperand& o) {
    if (o.kind == BodyOperand::Kind::kConstant) return fmt::format("0x{:08x}", o.bits);
    return fmt::format("{}{}", o.kind == BodyOperand::Kind::kInput ? '$' : '%', o.index);
  }
  void Tail(const Mask& mask, const std::string& note) {
    for (size_t l = 0; l < mask.levels.size(); ++l) {
      if (mask.levels[l].empty()) continue;
      std::string places;
      const int64_t count = machine_.levels[l].count;
      for (int64_t p = 0; p < count; ++p) {
        if (!mask.Has(int(l), p)) continue;
        int64_t last = p;
        while (last + 1 < count && mask.Has(int(l), last + 1)) ++last;
        places += (places.empty() ? "" : ",") + std::to_string(p);
        if (last > p) places += "-" + std::to_string(last);
        p = last;
      }
      out_ += fmt::format(" on {}={}", machine_.levels[l].name, places);
    }
    if (!note.empty()) out_ += "   # " + note;
    out_ += "\n";
  }
  void Print(const VectorOp& op) {
    out_ += fmt::format("vector ({})", Join(op.counts));
    Tail(op.mask, op.note);
    for (const TileStream& s : op.inputs) out_ += "  in " + StreamText(s) + "\n";
    for (const BodyStep& step : op.steps) {
      std::string operands;
      for (const BodyOperand& o : step.operands)
        operands += (operands.empty() ? "" : ", ") + Operand(o);
      out_ += fmt::format("  {} {}\n", InfoOf(step.op).name, operands);
    }
    for (const VectorOp::Result& r : op.results) {
      out_ += "  out " + StreamText(r.target);
      if (r.combine) out_ += fmt::format(" {}{}", InfoOf(*r.combine).name, r.onto ? " onto" : "");
      out_ += " " + Operand(r.from) + "\n";
    }
  }
  void Print(const MatrixOp& op) {
    out_ += fmt::format("matrix rows ({}) inner ({}) columns ({}) a_word {}{}", Join(op.rows),
                        Join(op.inner), Join(op.columns), op.a_word, op.onto ? " onto" : "");
    Tail(op.mask, op.note);
    out_ += "  a " + StreamText(op.a) + "\n  x " + StreamText(op.x) + "\n  y " + StreamText(op.y) +
            "\n";
  }
  void Print(const TransferOp& op) {
    const Unit& unit = machine_.units[size_t(op.unit)];
    out_ += fmt::format("transfer {}.{} ({}) {} -> {}", unit.name, unit.ops[size_t(op.op)].name,
                        Join(op.counts), StreamText(op.source), StreamText(op.target));
    Tail(op.mask, op.note);
  }
  void Print(const MoveOp& op) {
    out_ += fmt::format("move {} -> {}", program_.values[size_t(op.from)].name,
                        program_.values[size_t(op.to)].name);
    Tail({}, op.note);
  }

  const TileProgram& program_;
  const Machine& machine_;
  std::string out_;
};

/// One line of text with a place in it.
class Line {
 public:
  Line(std::string_view text, int number, const std::string& source)
      : text_(text), number_(number), source_(source) {}

  [[noreturn]] void Fail(const std::string& message) const {
    WEFT_THROW(kSyntax, "{}:{}:{}: {}", source_, number_, at_ + 1, message);
  }
  void Skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool End() {
    Skip();
    return at_ == text_.size();
  }
  bool Accept(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    const size_t end = at_ + token.size();
    if (IsName(token.back()) && end < text_.size() && IsName(text_[end])) return false;
    at_ = end;
    return true;
  }
  bool AcceptPrefix(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool AtLetter() {
    Skip();
    return at_ < text_.size() && std::isalpha(uint8_t(text_[at_]));
  }
  void Expect(std::string_view token) {
    if (!Accept(token)) Fail(fmt::format("expected '{}'", token));
  }
  std::string Name(const char* what) {
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() && IsName(text_[at_])) ++at_;
    if (at_ == begin) Fail(fmt::format("expected {}", what));
    return std::string(text_.substr(begin, at_ - begin));
  }
  int64_t Number() {
    Skip();
    int64_t v = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), v);
    // What is computed from numbers stays far from the ends of 64 bits.
    if (error != std::errc() || v > (int64_t{1} << 40) || v < -(int64_t{1} << 40))
      Fail("expected a number of at most 2^40");
    at_ += size_t(end - begin);
    return v;
  }
  int Index() {
    const int64_t v = Number();
    if (v < 0 || v > std::numeric_limits<int>::max()) Fail("expected the number of an operand");
    return int(v);
  }
  uint32_t Bits() {
    uint32_t v = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), v, 16);
    if (error != std::errc()) Fail("expected a word in hexadecimal");
    at_ += size_t(end - begin);
    return v;
  }
  std::vector<int64_t> Numbers() {
    std::vector<int64_t> v;
    do v.push_back(Number());
    while (Accept(","));
    return v;
  }
  std::vector<int64_t> Counts() {
    Expect("(");
    if (Accept(")")) return {};
    std::vector<int64_t> v = Numbers();
    Expect(")");
    return v;
  }
  std::string Rest() {
    Skip();
    std::string rest(text_.substr(at_));
    at_ = text_.size();
    return rest;
  }

 private:
  static bool IsName(char c) { return std::isalnum(uint8_t(c)) || c == '_' || c == '.'; }
  std::string_view text_;
  size_t at_ = 0;
  int number_;
  const std::string& source_;
};

class Parser {
 public:
  Parser(const Machine& machine, const std::string& source) : machine_(machine), source_(source) {}

  TileProgram Run(std::string_view text) {
    int number = 0;
    bool header = false;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      Line in(line, ++number, source_);
      if (in.End()) continue;
      if (!header) {
        in.Expect("l2");
        if (in.Number() != 1) in.Fail("expected version 1");
        header = true;
      } else {
        Statement(in);
        lines_.resize(program_.ops.size(), number);
      }
      if (!in.End()) in.Fail("expected the end of the line");
    }
    WEFT_CHECK(header, kSyntax, "{}:1:1: expected 'l2 1'", source_);
    for (size_t i = 0; i < program_.ops.size(); ++i)
      if (const auto* m = std::get_if<MatrixOp>(&program_.ops[i]))
        WEFT_CHECK(m->a.value >= 0 && m->x.value >= 0 && m->y.value >= 0, kSyntax,
                   "{}:{}:1: a matrix operation needs the lines a, x and y", source_, lines_[i]);
    return std::move(program_);
  }

 private:
  void Statement(Line& in) {
    if (in.Accept("machine")) {
      program_.machine = in.Name("the name of a machine");
    } else if (in.Accept("scratch")) {
      ScratchRange r;
      Range(in, r.memory, r.base, r.words);
      program_.scratch.push_back(r);
    } else if (in.Accept("value")) {
      Value(in);
    } else if (in.Accept("vector")) {
      VectorOp op;
      op.counts = in.Counts();
      Tail(in, op.mask, op.note);
      program_.ops.emplace_back(std::move(op));
    } else if (in.Accept("matrix")) {
      MatrixOp op;
      in.Expect("rows");
      op.rows = in.Counts();
      in.Expect("inner");
      op.inner = in.Counts();
      in.Expect("columns");
      op.columns = in.Counts();
      in.Expect("a_word");
      op.a_word = in.Number();
      op.onto = in.Accept("onto");
      Tail(in, op.mask, op.note);
      program_.ops.emplace_back(std::move(op));
    } else if (in.Accept("transfer")) {
      Transfer(in);
    } else if (in.Accept("move")) {
      MoveOp op;
      op.from = ValueNamed(in);
      in.Expect("->");
      op.to = ValueNamed(in);
      Mask mask;
      Tail(in, mask, op.note);
      program_.ops.emplace_back(std::move(op));
    } else {
      Part(in);
    }
  }

  /// A line of the body of the last operation.
  void Part(Line& in) {
    if (!program_.ops.empty()) {
      if (auto* vector = std::get_if<VectorOp>(&program_.ops.back())) {
        VectorPart(in, *vector);
        return;
      }
      if (auto* matrix = std::get_if<MatrixOp>(&program_.ops.back())) {
        for (auto [name, stream] : {std::pair<const char*, TileStream*>{"a", &matrix->a},
                                    {"x", &matrix->x},
                                    {"y", &matrix->y}})
          if (in.Accept(name)) {
            *stream = StreamHere(in);
            return;
          }
      }
    }
    in.Fail("expected machine, scratch, value, vector, matrix, transfer or move");
  }

  AluOp Operation(Line& in) {
    const std::string name = in.Name("an operation");
    const auto op = AluOpNamed(name);
    WEFT_CHECK(op, kInvalidModel, "{}: there is no ALU operation '{}'", source_, name);
    return *op;
  }

  BodyOperand Operand(Line& in) {
    if (in.Accept("$")) return BodyOperand::Input(in.Index());
    if (in.Accept("%")) return BodyOperand::Step(in.Index());
    if (!in.AcceptPrefix("0x")) in.Fail("expected $input, %step or 0x..");
    return BodyOperand::Constant(in.Bits());
  }

  void VectorPart(Line& in, VectorOp& op) {
    if (in.Accept("in")) {
      op.inputs.push_back(StreamHere(in));
    } else if (in.Accept("out")) {
      VectorOp::Result r;
      r.target = StreamHere(in);
      if (in.AtLetter()) {
        r.combine = Operation(in);
        r.onto = in.Accept("onto");
      }
      r.from = Operand(in);
      op.results.push_back(std::move(r));
    } else {
      BodyStep step;
      step.op = Operation(in);
      do step.operands.push_back(Operand(in));
      while (in.Accept(","));
      op.steps.push_back(std::move(step));
    }
  }

  void Transfer(Line& in) {
    TransferOp op;
    const std::string name = in.Name("a unit and its mode");
    const size_t dot = name.find('.');
    const std::string unit = name.substr(0, dot);
    op.unit = machine_.UnitNamed(unit);
    WEFT_CHECK(op.unit >= 0 && dot != std::string::npos, kInvalidModel,
               "{}: machine '{}' has no unit '{}'", source_, machine_.name, name);
    const std::vector<UnitOp>& ops = machine_.units[size_t(op.unit)].ops;
    const auto it = std::find_if(ops.begin(), ops.end(),
                                 [&](const UnitOp& o) { return o.name == name.substr(dot + 1); });
    WEFT_CHECK(it != ops.end(), kInvalidModel, "{}: unit '{}' has no mode '{}'", source_, unit,
               name.substr(dot + 1));
    op.op = int(it - ops.begin());
    op.counts = in.Counts();
    op.source = StreamHere(in);
    in.Expect("->");
    op.target = StreamHere(in);
    Tail(in, op.mask, op.note);
    program_.ops.emplace_back(std::move(op));
  }

  void Value(Line& in) {
    TileValue v;
    v.name = in.Name("a name");
    const auto one_of = [&](const char* const* names, int n) {
      for (int i = 0; i < n; ++i)
        if (in.Accept(names[i])) return i;
      in.Fail(fmt::format("expected {}, {} or {}", names[0], names[1], names[2]));
    };
    v.role = TileValue::Role(one_of(kRoles, 3));
    v.type = WordType(one_of(kTypes, 3));
    Range(in, v.memory, v.base, v.words);
    if (!in.End()) v.layout = ParseLayout(in.Rest());
    program_.values.push_back(std::move(v));
  }

  void Range(Line& in, int& memory, int64_t& base, int64_t& words) {
    const std::string name = in.Name("a memory");
    memory = machine_.MemoryNamed(name);
    WEFT_CHECK(memory >= 0, kInvalidModel, "{}: machine '{}' has no memory '{}'", source_,
               machine_.name, name);
    in.Expect("[");
    base = in.Number();
    in.Expect(":");
    words = in.Number() - base;
    in.Expect("]");
  }

  int ValueNamed(Line& in) {
    const std::string name = in.Name("a value");
    for (size_t i = 0; i < program_.values.size(); ++i)
      if (program_.values[i].name == name) return int(i);
    WEFT_THROW(kInvalidModel, "{}: there is no value '{}'", source_, name);
  }

  TileStream StreamHere(Line& in) {
    TileStream s;
    s.value = ValueNamed(in);
    in.Expect("[");
    s.offset = in.Number();
    if (in.Accept(";")) s.strides = in.Numbers();
    in.Expect("]");
    return s;
  }

  void Tail(Line& in, Mask& mask, std::string& note) {
    while (in.Accept("on")) {
      const std::string name = in.Name("a level");
      const int level = machine_.LevelNamed(name);
      WEFT_CHECK(level >= 0, kInvalidModel, "{}: machine '{}' has no level '{}'", source_,
                 machine_.name, name);
      const int64_t count = machine_.levels[size_t(level)].count;
      mask.levels.resize(machine_.levels.size());
      std::vector<uint64_t>& bits = mask.levels[size_t(level)];
      bits.assign(size_t((count + 63) / 64), 0);
      in.Expect("=");
      do {
        const int64_t first = in.Number(), last = in.Accept("-") ? in.Number() : first;
        if (first < 0 || last < first || last >= count)
          in.Fail(fmt::format("places {} to {} of {}", first, last, count));
        for (int64_t p = first; p <= last; ++p) bits[size_t(p / 64)] |= uint64_t{1} << (p % 64);
      } while (in.Accept(","));
    }
    if (in.Accept("#")) note = in.Rest();
  }

  const Machine& machine_;
  const std::string& source_;
  TileProgram program_;
  std::vector<int> lines_;  ///< where each operation begins
};

}  // namespace

std::string PrintTiles(const TileProgram& program, const Machine& machine) {
  return Printer(program, machine).Run();
}

TileProgram ParseTiles(std::string_view text, const Machine& machine, const std::string& source) {
  return Parser(machine, source).Run(text);
}

}  // namespace hsimd
