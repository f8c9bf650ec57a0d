/// fuzz_targets.cc: machines, programs (checked and, if small, executed), layouts, tile programs.
#include "fuzz_targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "../l1/check.h"
#include "../l1/simulator.h"
#include "../l2/tile_program.h"
#include "../layout/layout.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

void Require(bool holds, const char* law) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", law);
  std::abort();
}

void RunMachine(std::string_view input) {
  const std::string once = PrintMachine(ParseMachine(input, "input"));
  Require(PrintMachine(ParseMachine(once, "printed")) == once,
          "print(parse(print(m))) == print(m)");
}
std::vector<std::string> MachineSeeds() {
  std::vector<std::string> seeds;
  for (const std::string& name : BuiltInMachines())
    seeds.push_back(PrintMachine(FindMachine(name)));
  return seeds;
}

void RunProgram(std::string_view input) {
  static const Machine machine = FindMachine("tree64");
  const Program program = ParseProgram(input, machine, "input");
  const std::string once = PrintProgram(program, machine);
  Require(PrintProgram(ParseProgram(once, machine, "printed"), machine) == once,
          "print(parse(print(p))) == print(p)");
  CheckProgram(program, machine);
  int64_t elements = 0;
  for (const Instruction& i : program.instructions)
    elements += std::min<int64_t>(i.elements(), 1 << 20);
  if (elements > 1 << 16) return;
  Execution execution;
  if (!Simulator(machine, program, 1 << 26).TryRun(&execution))
    Require(execution.cycles == PredictCycles(program, machine), "executed == predicted cycles");
}
std::vector<std::string> ProgramSeeds() {
  return {R"(l1 1
machine tree64
input x : DRAM[0:64]
output "y\x01" : DRAM[64:96]
@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (64)  # from 'x'
@72 L2_DOWN.distribute L2BM[0; 4] -> L1BM[0; 1] x (16)
@76 L1_DOWN.distribute L1BM[0] -> R0[0] on MAB=0,2-3 PE=1-3
@77 L1_RING.left R0[0] -> LM1[0] on PE=0-2 MAB=0
@80 ALU.fma R0[0; 0, 1], 0x40000000, 0x3f800000 -> R1[8; -1, 2] x (1, 1) on MAB=0,2-3 PE=1-3
@84 MATL.copy 0x3f800000 -> A[0; 1] x (4)
@88 ALU.copy 0x3f800000 -> R0[1]
@92 MAT.mul A[0], R0[1] -> R1[1]
@96 L1_UP.reduce_sum R1[1] -> L1BM[40]
@97 L2_UP.single L1BM[40; 1] -> L2BM[64; 1] x (4) on L1B=2
@98 STORE.store L2BM[64; 1] -> DRAM[64; 1] x (4)
)"};
}

void RunLayout(std::string_view input) {
  const Layout layout = ParseLayout(input);
  Require(ParseLayout(PrintLayout(layout)) == layout, "parse(print(l)) == l");
}
std::vector<std::string> LayoutSeeds() {
  return {"(12)/((4_PE:1, 3:1))", "(4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))",
          "(256,16)/((8_L2B:1, 4:2, 8_L1B:1), (2:1, 4_PE:1, 2_W:1); B@[GROUP, 2_MAB:8])+3+1_MAB",
          "(5)/((2_Time:1, 3_PE:1); B@[MAB])"};
}

void RunTiles(std::string_view input) {
  static const Machine machine = FindMachine("tree64");
  const std::string once = PrintTiles(ParseTiles(input, machine, "input"), machine);
  const TileProgram program = ParseTiles(once, machine, "printed");
  Require(PrintTiles(program, machine) == once, "print(parse(print(t))) == print(t)");
  VerifyTiles(program, machine);
}
std::vector<std::string> TilesSeeds() {
  return {R"(l2 1
machine tree64
scratch R0[0:512]
value x input f32 LM0[0:16] (16,16)/((4:4, 4_PE:1), (4:1, 4_MAB:1))
value t scratch f32 LM1[0:16] (16,16)/((4:4, 4_PE:1), (4:1, 4_MAB:1))
value v scratch f32 R1[0:64]
vector (4, 4) on PE=0-1   # note
  in x[0; 4, 1]
  fmul $0, 0x3f800000
  out t[0; 4, 0] fadd %0
matrix rows (2) inner (4) columns (8) a_word 1
  a t[0; 8, 1, 0]
  x x[0; 0, 1, 1]
  y v[0; 8, 0, 1]
transfer L1_RING.left (4) x[0; 1] -> t[0; 1]
move x -> t
)"};
}

}  // namespace

const std::vector<FuzzTarget>& FuzzTargets() {
  static const std::vector<FuzzTarget> targets = {{"machine", RunMachine, MachineSeeds},
                                                  {"program", RunProgram, ProgramSeeds},
                                                  {"layout", RunLayout, LayoutSeeds},
                                                  {"tiles", RunTiles, TilesSeeds}};
  return targets;
}

}  // namespace hsimd
