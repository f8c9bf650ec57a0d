/// print_program.cc: the text of a program; the grammar stands in program.h.
#include <algorithm>
#include <cctype>

#include "program.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

bool IsPlain(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
           c == '-';
  });
}

class Printer {
 public:
  Printer(const Program& program, const Machine& machine) : p_(program), m_(machine) {}

  std::string Print() {
    out_ = fmt::format("l1 1\nmachine {}\n", p_.machine);
    for (const Segment& s : p_.segments)
      Append("{} {} : {}[{}:{}]\n", s.is_output ? "output" : "input",
             IsPlain(s.name) ? s.name : weft::Quote(s.name), m_.memories[size_t(s.memory)].name,
             s.base, s.base + s.words);
    for (const Instruction& i : p_.instructions) PrintInstruction(i);
    return std::move(out_);
  }

 private:
  template <class... Args>
  void Append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void PrintInstruction(const Instruction& i) {
    const Unit& unit = m_.units[size_t(i.unit)];
    Append("@{} {}.{} ", i.start, unit.name, unit.ops[size_t(i.op)].name);
    for (size_t s = 0; s < i.sources.size(); ++s) {
      if (s > 0) out_ += ", ";
      PrintStream(i.sources[s]);
    }
    out_ += " -> ";
    PrintStream(i.target);
    size_t first = 0;
    while (first < 3 && i.count[first] == 1) ++first;
    if (first < 3) {
      out_ += " x (";
      for (size_t d = first; d < 3; ++d) Append("{}{}", d > first ? ", " : "", i.count[d]);
      out_ += ')';
    }
    PrintMask(i.mask);
    if (!i.note.empty()) {
      std::string note = i.note;
      for (char& c : note) {
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
      }
      Append("  # {}", weft::Trim(note));
    }
    out_ += '\n';
  }

  void PrintStream(const Stream& s) {
    if (s.memory < 0) {
      Append("0x{:08x}", s.immediate);
      return;
    }
    Append("{}[{}", m_.memories[size_t(s.memory)].name, s.base);
    size_t first = 0;
    while (first < 3 && s.stride[first] == 0) ++first;
    for (size_t d = first; d < 3; ++d) Append("{}{}", d > first ? ", " : "; ", s.stride[d]);
    out_ += ']';
  }

  void PrintMask(const Mask& mask) {
    bool any = false;
    for (size_t l = 0; l < mask.levels.size(); ++l) {
      if (mask.levels[l].empty()) continue;
      Append("{} {}=", any ? "" : " on", m_.levels[l].name);
      any = true;
      const int64_t count = m_.levels[l].count;
      bool listed = false;
      for (int64_t p = 0; p < count; ++p) {
        if (!mask.Has(int(l), p)) continue;
        int64_t last = p;
        while (last + 1 < count && mask.Has(int(l), last + 1)) ++last;
        Append("{}{}", listed ? "," : "", p);
        if (last > p) Append("-{}", last);
        listed = true;
        p = last;
      }
      if (!listed) out_ += "none";
    }
  }

  const Program& p_;
  const Machine& m_;
  std::string out_;
};

}  // namespace

std::string PrintProgram(const Program& program, const Machine& machine) {
  return Printer(program, machine).Print();
}

}  // namespace hsimd
