/// program_test.cc: the text of programs, and what is refused without executing anything.
#include "program.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "../tests/mutate.h"
#include "../tests/random_program.h"
#include "check.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

bool Equal(const Stream& a, const Stream& b) {
  return std::tie(a.memory, a.base, a.stride, a.immediate) ==
         std::tie(b.memory, b.base, b.stride, b.immediate);
}
bool Equal(const Program& a, const Program& b) {
  if (a.machine != b.machine || a.segments.size() != b.segments.size() ||
      a.instructions.size() != b.instructions.size())
    return false;
  for (size_t k = 0; k < a.segments.size(); ++k) {
    const Segment &x = a.segments[k], &y = b.segments[k];
    if (std::tie(x.name, x.memory, x.base, x.words, x.is_output) !=
        std::tie(y.name, y.memory, y.base, y.words, y.is_output))
      return false;
  }
  for (size_t k = 0; k < a.instructions.size(); ++k) {
    const Instruction &x = a.instructions[k], &y = b.instructions[k];
    if (std::tie(x.unit, x.op, x.start, x.count, x.note) !=
            std::tie(y.unit, y.op, y.start, y.count, y.note) ||
        !(x.mask == y.mask) || !Equal(x.target, y.target) || x.sources.size() != y.sources.size())
      return false;
    for (size_t s = 0; s < x.sources.size(); ++s) {
      if (!Equal(x.sources[s], y.sources[s])) return false;
    }
  }
  return true;
}

const char* const kExchange = R"(l1 1
machine toy4
input x : DRAM[0:24]
output "a name" : DRAM[24:48]
@0 DOWN.distribute PM[0; 1, 4] -> R[8; 1, 4] x (3, 2) on PE=0,2-3  # note # two
@6 ALU.fma R[0; 1], 0x40000000, 0x3f800000 -> R[8; 1] x (3)
@9 RING.left R[3] -> R[4] on CHIP=0 PE=1
)";

std::string SyntaxFault(const std::string& text, const Machine& m) {
  try {
    ParseProgram(text, m, "f.l1");
  } catch (const weft::Error& e) {
    CHECK(e.code() == weft::ErrorCode::kSyntax);
    return e.place() + " | " + e.message() + " | " + e.hint();
  }
  return "accepted";
}
std::string CheckFault(const std::string& lines, const char* machine = "tree64") {
  const Machine m = FindMachine(machine);
  try {
    CheckProgram(ParseProgram(fmt::format("l1 1\nmachine {}\n", machine) + lines, m, "f.l1"), m);
  } catch (const weft::Error& e) {
    CHECK(e.code() == weft::ErrorCode::kInvalidModel);
    return e.place() + " | " + e.message();
  }
  return "accepted";
}
bool Has(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE(text, " lacks ", std::string(part));
  return false;
}

}  // namespace

TEST_CASE("program text: what the text says") {
  const Machine m = FindMachine("toy4");
  const Program p = ParseProgram(kExchange, m, "f.l1");
  REQUIRE(p.segments.size() == 2);
  CHECK(p.segments[1].name == "a name");
  CHECK(p.segments[1].is_output);
  CHECK(p.segments[1].base == 24);
  CHECK(p.segments[1].words == 24);
  REQUIRE(p.instructions.size() == 3);
  const Instruction& i = p.instructions[0];
  CHECK(m.units[size_t(i.unit)].name == "DOWN");
  CHECK(i.count == std::array<int64_t, 3>{1, 3, 2});
  CHECK(i.sources[0].stride == std::array<int64_t, 3>{0, 1, 4});
  CHECK(i.target.base == 8);
  CHECK(i.note == "note # two");
  for (int64_t p4 = 0; p4 < 4; ++p4) CHECK(i.mask.Has(1, p4) == (p4 != 1));
  CHECK(p.instructions[1].sources[1].memory == -1);
  CHECK(p.instructions[1].sources[1].immediate == 0x40000000);
  CHECK(p.instructions[1].mask.levels.empty());
  CHECK(Equal(ParseProgram(PrintProgram(p, m), m, "again"), p));
}

TEST_CASE("program text: random programs print and parse") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Machine m = RandomMachine(&random);
    Program p;
    p.machine = m.name;
    p.segments = {{"x/1:0", 0, 0, 5, false}, {std::string("\n\"\\\x01 y"), 0, 5, 0, true}};
    for (int k = 0; k < 20; ++k) {
      p.instructions.push_back(RandomInstruction(m, &random));
      p.instructions.back().note = k % 3 == 0 ? "node 'conv1' # of " + std::to_string(k) : "";
      if (k % 5 == 0) p.instructions.back().target.stride = {int64_t(k), -1, 1};
    }
    CHECK(Equal(ParseProgram(PrintProgram(p, m), m, "f.l1"), p));
  }
}

TEST_CASE("program text: faults have line and column") {
  const Machine m = FindMachine("toy4");
  const std::string head = "l1 1\nmachine toy4\n";
  CHECK(Has(SyntaxFault("", m), "expected 'l1 1'"));
  CHECK(Has(SyntaxFault("l1 2\n", m), "f.l1:1:1"));
  CHECK(Has(SyntaxFault("l1 1\nmachine tree64\n", m),
            "f.l1:2:9 | the program is for machine 'tree64'"));
  CHECK(
      Has(SyntaxFault(head + "@0 ALX.copy R[0] -> R[1]", m), "f.l1:3:4 | no unit is named 'ALX'"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.fad R[0] -> R[1]", m), "did you mean 'fadd'"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy RR[0] -> R[1]", m), "no memory is named 'RR'"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] > R[1]", m), "f.l1:3:18 | expected '-'"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0; 1, 2, 3, 4] -> R[1]", m), "three counters"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] x (0)", m), "a count must be from 1"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] x (1048576, 1048576, 1048576)", m),
            "elements"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] on PE=4", m),
            "a place must be from 0 to 3"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] on PE=3-1", m), "from 3 to 3"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] on MAB=0", m), "no level is named 'MAB'"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] on PE=0 PE=1", m), "named twice"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy 0x -> R[1]", m), "immediate"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy 0x123456789 -> R[1]", m), "immediate"));
  CHECK(
      Has(SyntaxFault(head + "@99999999999999999999 ALU.copy R[0] -> R[1]", m), "a cycle must be"));
  CHECK(Has(SyntaxFault(head + "input x : DRAM[5:3]", m), "the end address"));
  CHECK(Has(SyntaxFault(head + "input \"x : DRAM[5:3]", m), "no closing quote"));
  CHECK(Has(SyntaxFault(head + "inputs x : DRAM[0:3]", m), "f.l1:3:1 | expected 'input'"));
  CHECK(Has(SyntaxFault(head + "@0 ALU.copy R[0] -> R[1] R", m), "expected the end of the line"));
  CHECK(SyntaxFault(head + "\n# only\n  @0 ALU.copy R[0] -> R[1]\r\n", m) == "accepted");
}

TEST_CASE("program: each rule that needs no run has a breach and a neighbour") {
  const auto ok = [](const std::string& lines, const char* machine = "tree64") {
    CHECK(CheckFault(lines, machine) == "accepted");
  };
  // Ranges.
  CHECK(Has(CheckFault("@0 ALU.copy R0[500; 1] -> R1[0; 1] x (13)"),
            "touches R0[512] in its operands"));
  ok("@0 ALU.copy R0[500; 1] -> R1[0; 1] x (12)");
  CHECK(Has(CheckFault("@0 ALU.copy R0[0; 1] -> R1[3; -1] x (5)"), "R1[-1] in its target"));
  ok("@0 ALU.copy R0[0; 1] -> R1[4; -1] x (5)");
  CHECK(Has(CheckFault("@0 L1_DOWN.distribute L1BM[8177] -> R0[0]"), "L1BM[8192]"));
  ok("@0 L1_DOWN.distribute L1BM[8176] -> R0[0]");
  ok("@0 L1_DOWN.distribute L1BM[8177] -> R0[0] on MAB=0-2");
  CHECK(Has(CheckFault("@0 L1_UP.collect R0[0] -> L1BM[-4] on MAB=0,2"), "L1BM[-4]"));
  ok("@0 L1_UP.collect R0[0] -> L1BM[-4] on MAB=1,2");
  CHECK(Has(CheckFault("@0 MAT.mul A[5], R0[0] -> R1[0]"), "A[8]"));
  ok("@0 MAT.mul A[4], R0[0] -> R1[0]");
  // Memories and operands.
  CHECK(Has(CheckFault("@0 ALU.copy L1BM[0] -> R0[0]"), "ALU cannot read L1BM"));
  CHECK(Has(CheckFault("@0 ALU.copy R0[0] -> A[0]"), "ALU cannot write A"));
  ok("@0 MATL.copy LM1[0] -> A[0]");
  CHECK(Has(CheckFault("@0 ALU.fadd R0[0] -> R1[0]"), "fadd takes 2 operands, got 1"));
  CHECK(Has(CheckFault("@0 L1_UP.collect R0[0], R1[0] -> L1BM[0]"), "a link takes one operand"));
  CHECK(Has(CheckFault("@0 L1_RING.left 0x0 -> R1[0]"), "an immediate"));
  CHECK(Has(CheckFault("@0 MAT.mul A[0] -> R1[0]"), "a matrix takes A"));
  // Places.
  CHECK(Has(CheckFault("@0 MAT.mul A[0], R0[0] -> R1[0] on PE=0-2"), "all places of level PE"));
  ok("@0 MAT.mul A[0], R0[0] -> R1[0] on MAB=0-2 PE=0-3");
  CHECK(Has(CheckFault("@0 L1_UP.single R0[0] -> L1BM[0] on MAB=1"),
            "4 places of level PE write one word"));
  ok("@0 L1_UP.single R0[0] -> L1BM[0] on MAB=1 PE=2");
  CHECK(Has(CheckFault("@0 L1_UP.per_pe R0[0] -> L1BM[0] on MAB=1,2"), "2 places of level MAB"));
  ok("@0 L1_UP.per_pe R0[0] -> L1BM[0] on MAB=1");
  ok("@0 L1_UP.reduce_sum R0[0] -> L1BM[0]");
  CHECK(Has(CheckFault("@0 ALU.copy R0[0] -> R1[0] on MAB=none"), "chooses no place of level MAB"));
  // Order and slots.
  CHECK(Has(CheckFault("@1 ALU.copy R0[0] -> R1[0]\n@0 MAT.mul A[0], R0[0] -> R1[0]"),
            "starts before"));
  CHECK(Has(CheckFault("@0 ALU.copy R0[0; 1] -> R1[0; 1] x (5)\n@4 ALU.copy R0[0] -> R1[9]"),
            "instruction 1 (@4 ALU.copy) | slot ALU is held until cycle 5 by instruction 0"));
  ok("@0 ALU.copy R0[0; 1] -> R1[0; 1] x (5)\n@5 ALU.copy R0[0] -> R1[9]");
  ok("@0 ALU.copy R0[0; 1] -> R1[0; 1] x (5)\n@4 MATL.copy LM1[0] -> A[0]");
  CHECK(Has(CheckFault("@0 L1_UP.collect R0[0] -> L1BM[0]\n@0 L1_RING.left R0[0] -> R0[1]"),
            "slot L1"));
  CHECK(Has(
      CheckFault("@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (9)\n@1 STORE.store L2BM[0] -> DRAM[99]"),
      "slot DMA is held until cycle 2"));
  ok("@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (8)\n@1 STORE.store L2BM[0] -> DRAM[99]");
  // Segments.
  CHECK(Has(CheckFault("input x : L2BM[0:4]"), "L2BM is not off the chip"));
  CHECK(Has(CheckFault("input x : DRAM[0:16777217]"), "ends beyond"));
  CHECK(Has(CheckFault("input x : DRAM[0:4]\ninput y : DRAM[3:5]"),
            "segment 'y' | overlaps input 'x'"));
  ok("input x : DRAM[0:4]\noutput y : DRAM[3:5]\ninput z : DRAM[4:16777216]");
}

TEST_CASE("program: predicted cycles") {
  const auto cycles = [](const std::string& lines) {
    const Machine m = FindMachine("tree64");
    return PredictCycles(ParseProgram("l1 1\nmachine tree64\n" + lines, m, "f"), m);
  };
  CHECK(cycles("") == 0);
  CHECK(cycles("@5 ALU.copy R0[0] -> R1[0]") == 9);
  CHECK(cycles("@5 ALU.copy R0[0; 1] -> R1[0; 1] x (10)") == 5 + 9 + 4);
  CHECK(cycles("@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (16)\n@1 ALU.copy R0[0] -> R1[0]") ==
        1 + 64);
  CHECK(cycles("@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (17)") == 2 + 64);
}

TEST_CASE("program text: damaged text is refused or read, never more") {
  std::mt19937 random(11);
  const Machine m = FindMachine("tree64");
  std::string seed =
      "l1 1\nmachine tree64\ninput x : DRAM[0:24]\noutput \"a\\x01b\" : DRAM[24:48]\n";
  for (int k = 0; k < 12; ++k) {
    Program one{m.name, {}, {RandomInstruction(FindMachine("tree64"), &random)}};
    const std::string text = PrintProgram(one, m);
    seed += text.substr(text.find('@'));
  }
  int accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string text = Mutate(seed, {seed}, {3, 9, 40, "0123456789@[];,.x->()=#\n"}, &random);
    try {
      const Program p = ParseProgram(text, m, "f.l1");
      CHECK(Equal(ParseProgram(PrintProgram(p, m), m, "again"), p));
      ++accepted;
      CheckProgram(p, m);
      CHECK(PredictCycles(p, m) >= 0);
    } catch (const weft::UserError&) {
    }
  }
  CHECK(accepted > 100);
  // Bytes that are no program at all: a million of them.
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = round % 2 ? "" : "l1 1\nmachine tree64\n@";
    for (int k = 0; k < 1000; ++k) bytes += char(random());
    CHECK_THROWS_AS(ParseProgram(bytes, m, "f.l1"), weft::UserError);
  }
}

}  // namespace hsimd
