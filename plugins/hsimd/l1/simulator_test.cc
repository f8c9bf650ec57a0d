/// simulator_test.cc: each hazard with a program that has it and a neighbour that has not; results
/// and cycles of random programs on random machines against the naive interpreter; mutants in time.
#include "simulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "../tests/naive_interpreter.h"
#include "../tests/random_program.h"
#include "check.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

/// "ok", or what is wrong with the program: a hazard as kind @cycle i<instruction>, word and
/// place.
std::string Verdict(const std::string& lines, const char* machine = "tree64") {
  const Machine m = FindMachine(machine);
  const Program p = ParseProgram(fmt::format("l1 1\nmachine {}\n", machine) + lines, m, "f.l1");
  Simulator simulator(m, p);
  Execution execution;
  const std::optional<Hazard> h = simulator.TryRun(&execution);
  if (!h) {
    CHECK(execution.cycles == PredictCycles(p, m));
    return "ok";
  }
  CHECK_THROWS_AS(simulator.Run(), weft::UserError);
  const char* const kinds[] = {"under way", "never written", "reads", "writes", "accesses"};
  return fmt::format("{} @{} i{} {}[{}] in {}", kinds[int(h->kind)], h->cycle, h->instruction,
                     m.memories[size_t(h->memory)].name, h->word, h->place);
}

/// R0[0:8] and R1[0:8] are written; the next instruction may start in cycle 20.
const std::string kReady =
    "@0 ALU.copy 0x3f800000 -> R0[0; 1] x (8)\n@8 ALU.copy 0x40000000 -> R1[0; 1] x (8)\n";

std::map<std::pair<int, int64_t>, uint32_t> Load(Simulator* s, std::mt19937* random) {
  const auto words = RandomWords(s->program(), random);
  for (const auto& [where, word] : words) s->SetWords(where.first, where.second, &word, 1);
  return words;
}

/// The same words as the naive run wrote, and no others.
bool SameWords(const Simulator& s, const NaiveRun& naive) {
  size_t written = 0;
  for (size_t k = 0; k < s.machine().memories.size(); ++k) {
    const Memory& memory = s.machine().memories[k];
    for (int64_t place = 0; place < s.machine().PlacesOf(memory.level); ++place) {
      for (int64_t a = 0; a < memory.words; ++a) {
        const std::optional<uint32_t> word = s.WordAt(int(k), place, a);
        const auto it = naive.words.find({int(k), place, a});
        written += word.has_value();
        if (word.has_value() != (it != naive.words.end()) || (word && *word != it->second))
          return false;
      }
    }
  }
  return written == naive.words.size();
}

const char* NaiveKind(HazardKind kind) {
  const char* const names[] = {"under way", "never written", "read port", "write port", "access"};
  return names[int(kind)];
}

/// The hazard is one that the naive run found, and none was committed by an earlier element.
bool IsFirstOf(const Hazard& h, const NaiveRun& naive) {
  int64_t first = INT64_MAX;
  for (const NaiveHazard& n : naive.hazards) first = std::min(first, n.issue);
  return std::any_of(naive.hazards.begin(), naive.hazards.end(), [&](const NaiveHazard& n) {
    return n.kind == NaiveKind(h.kind) && n.issue == first && n.cycle == h.cycle &&
           n.instruction == h.instruction && n.element == h.element && n.memory == h.memory &&
           n.place == h.place && n.word == h.word;
  });
}

}  // namespace

TEST_CASE("simulator: words under way") {
  // Latency 4: written in cycle 20, readable from 24 on.
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[1]\n@23 ALU.copy R1[1] -> R0[7]") ==
        "under way @23 i3 R1[1] in 0");
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[1]\n@24 ALU.copy R1[1] -> R0[7]") == "ok");
  // Another write while one is under way.
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[1]\n@22 ALU.copy R0[1] -> R1[1]") ==
        "under way @22 i3 R1[1] in 0");
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[1]\n@24 ALU.copy R0[1] -> R1[1]") == "ok");
  // A word may be read by the element that writes it, not by another of the same cycle.
  CHECK(Verdict(kReady + "@20 ALU.fneg R0[0] -> R0[0]") == "ok");
  CHECK(Verdict(kReady + "@20 ALU.fneg R0[0; 1] -> R0[0; 1] x (4)") == "ok");
  CHECK(Verdict(kReady + "@20 ALU.fneg R0[0] -> R0[0] x (2)") == "under way @21 i2 R0[0] in 0");
  CHECK(Verdict(kReady + "@20 ALU.copy R1[0] -> R0[1]\n@20 L1_UP.collect R0[1] -> L1BM[0]") ==
        "under way @20 i3 R0[1] in 0");
  CHECK(Verdict(kReady + "@20 L1_UP.collect R0[1] -> L1BM[0]\n@20 ALU.copy R1[0] -> R0[1]") ==
        "under way @20 i3 R0[1] in 0");
  CHECK(Verdict(kReady + "@20 L1_UP.collect R0[1] -> L1BM[0]\n@21 ALU.copy R1[0] -> R0[1]") ==
        "ok");
  // Two elements of one cycle over a link: 8 words a cycle.
  const std::string loaded = "input x : DRAM[0:64]\n@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (64)\n";
  CHECK(Verdict(loaded + "@71 L2_DOWN.broadcast L2BM[0; 1] -> L1BM[0; 1] x (16)") == "ok");
  CHECK(Verdict(loaded + "@70 L2_DOWN.broadcast L2BM[48; 1] -> L1BM[0; 1] x (16)") == "ok");
  CHECK(Verdict(loaded + "@69 L2_DOWN.broadcast L2BM[48; 1] -> L1BM[0; 1] x (16)") ==
        "under way @69 i1 L2BM[48] in 0");
  CHECK(Verdict(loaded + "@72 L2_DOWN.broadcast L2BM[0; 1] -> L1BM[0; 0] x (16)") ==
        "under way @72 i1 L1BM[0] in 0");
  // The word of a parent under a distribution: the last of sixteen.
  CHECK(Verdict(kReady +
                "@20 L1_UP.collect R0[0] -> L1BM[0]\n@21 L1_DOWN.distribute L1BM[0] -> R1[3]") ==
        "ok");
  CHECK(Verdict(kReady + "@20 L1_UP.collect R0[0; 1] -> L1BM[0; 1] x (2)") == "ok");
  CHECK(Verdict(
            kReady +
            "@20 L1_UP.collect R0[0] -> L1BM[0]\n@20 L2_UP.single L1BM[15] -> L2BM[0] on L1B=2") ==
        "under way @20 i3 L1BM[15] in 2");
}

TEST_CASE("simulator: masks keep instructions apart, place by place") {
  const std::string write = "@20 ALU.copy R0[0] -> R1[1] on MAB=1 PE=2\n";
  CHECK(Verdict(kReady + write + "@21 ALU.copy R1[1] -> R0[7] on MAB=0,2-3") == "ok");
  CHECK(Verdict(kReady + write + "@21 ALU.copy R1[1] -> R0[7] on PE=0-1,3") == "ok");
  CHECK(Verdict(kReady + write + "@21 ALU.copy R1[1] -> R0[7] on MAB=1") ==
        "under way @21 i3 R1[1] in 6");
  CHECK(Verdict(kReady + write + "@21 ALU.copy R1[1] -> R0[7] on L1B=3") ==
        "under way @21 i3 R1[1] in 54");
  // Several writes to one address at once, under masks that do not meet; then one that does.
  const std::string writes =
      write + "@21 ALU.copy R0[0] -> R1[1] on MAB=2\n@22 ALU.copy R0[0] -> R1[1] on MAB=3\n";
  CHECK(Verdict(kReady + writes + "@23 ALU.copy R1[1] -> R0[7] on MAB=0") == "ok");
  CHECK(Verdict(kReady + writes + "@23 ALU.copy R1[1] -> R0[7] on MAB=2 PE=3") ==
        "under way @23 i5 R1[1] in 11");
  CHECK(Verdict(kReady + writes + "@24 ALU.copy R1[1] -> R0[7] on MAB=1") == "ok");
  CHECK(Verdict(kReady + writes + "@25 ALU.copy R1[1] -> R0[7] on MAB=1-2") == "ok");
  CHECK(Verdict(kReady + writes + "@25 ALU.copy R1[1] -> R0[7] on MAB=1-3") ==
        "under way @25 i5 R1[1] in 12");
  // Only what was written is written.
  CHECK(Verdict("@0 ALU.copy 0x1 -> R0[0] on PE=1\n@4 ALU.copy R0[0] -> R1[0] on PE=1") == "ok");
  CHECK(Verdict("@0 ALU.copy 0x1 -> R0[0] on PE=1\n@4 ALU.copy R0[0] -> R1[0] on PE=1,3") ==
        "never written @4 i1 R0[0] in 3");
  // A ring reads the neighbours of the places that receive.
  CHECK(Verdict("@0 ALU.copy 0x1 -> R0[0] on PE=1\n@4 L1_RING.left R0[0] -> R1[0] on PE=0") ==
        "ok");
  CHECK(Verdict("@0 ALU.copy 0x1 -> R0[0] on PE=1\n@4 L1_RING.right R0[0] -> R1[0] on PE=0") ==
        "never written @4 i1 R0[0] in 3");
  // Words of a parent beside those of the mask are not touched.
  CHECK(Verdict(kReady + "@20 L1_UP.collect R0[0] -> L1BM[0] on PE=0\n@20 L2_UP.single L1BM[1] -> "
                         "L2BM[0] on L1B=0") == "never written @20 i3 L1BM[1] in 0");
  CHECK(Verdict(kReady + "@20 L1_UP.collect R0[0] -> L1BM[0] on PE=0\n@21 L2_UP.single L1BM[4] -> "
                         "L2BM[0] on L1B=0") == "ok");
}

TEST_CASE("simulator: words that nothing has written") {
  CHECK(Verdict("@3 ALU.copy R0[5] -> R1[0]") == "never written @3 i0 R0[5] in 0");
  CHECK(Verdict("@3 ALU.copy 0x5 -> R1[0]") == "ok");
  CHECK(Verdict("input x : DRAM[0:4]\n@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (4)") == "ok");
  CHECK(Verdict("input x : DRAM[0:4]\n@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (5)") ==
        "never written @0 i0 DRAM[4] in 0");
  CHECK(Verdict("output x : DRAM[0:4]\n@0 LOAD.load DRAM[0; 1] -> L2BM[0; 1] x (4)") ==
        "never written @0 i0 DRAM[0] in 0");
  CHECK(Verdict(kReady + "@20 MAT.mul A[0], R0[0] -> R1[0]") == "never written @20 i2 A[0] in 0");
}

TEST_CASE("simulator: ports") {
  // R0 has one read and one write a cycle, LM0 one access.
  CHECK(Verdict(kReady + "@20 ALU.fadd R0[0], R0[1] -> R1[0]") == "reads @20 i2 R0[1] in 0");
  CHECK(Verdict(kReady + "@20 ALU.fadd R0[0], R1[1] -> R1[0]") == "ok");
  CHECK(Verdict(kReady + "@20 ALU.fmul R0[0], R0[0] -> R1[0]") == "ok");  // equal streams
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[0]\n@20 L1_UP.collect R0[1] -> L1BM[0]") ==
        "reads @20 i3 R0[1] in 0");
  CHECK(
      Verdict(kReady +
              "@20 ALU.copy R0[0] -> R1[0] on PE=0\n@20 L1_UP.collect R0[1] -> L1BM[0] on PE=1") ==
      "ok");
  CHECK(
      Verdict(
          kReady +
          "@20 ALU.copy R0[0] -> R1[0] on PE=0-1\n@20 L1_UP.collect R0[1] -> L1BM[0] on PE=1-2") ==
      "reads @20 i3 R0[1] in 1");
  // The ALU writes at the end of cycle 23, the ring, issued in 23, too.
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[0]\n@23 L1_RING.left R0[1] -> R1[1]") ==
        "writes @23 i3 R1[1] in 0");
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[0]\n@22 L1_RING.left R0[1] -> R1[1]") == "ok");
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> R1[0]\n@24 L1_RING.left R0[1] -> R1[1]") == "ok");
  // Writes at the ends of the cycles 23 to 27: a read in 26 is one access too many, not in 28.
  CHECK(Verdict(kReady + "@20 ALU.copy R0[0] -> LM0[0]\n@24 ALU.copy LM0[0] -> LM0[1]") == "ok");
  CHECK(
      Verdict(kReady + "@20 ALU.copy R0[0; 1] -> LM0[0; 1] x (5)\n@26 ALU.copy LM0[0] -> R1[0]") ==
      "accesses @26 i3 LM0[0] in 0");
  CHECK(Verdict(kReady +
                "@20 ALU.copy R0[0; 1] -> LM0[0; 1] x (5)\n@28 ALU.copy LM0[0] -> R1[0]") == "ok");
}

TEST_CASE("simulator: the exchange of the talk takes nine cycles on toy4") {
  const Machine m = FindMachine("toy4");
  // R[0:6] of PE p starts as 2 x 2 blocks of a (4, 6) matrix, and ends as rows.
  std::string text = "l1 1\nmachine toy4\ninput x : DRAM[0:24]\noutput y : DRAM[24:48]\n";
  text +=
      "@0 LOAD.load DRAM[0; 1] -> PM[0; 1] x (24)\n@24 DOWN.distribute PM[0; 4] -> R[0; 1] x (6)\n";
  text +=
      "@30 RING.left R[0; 1] -> R[6; 1] x (3) on PE=0,2\n"
      "@33 RING.right R[3; 1] -> R[0; 1] x (3) on PE=1,3\n"
      "@36 ALU.copy R[6; 1] -> R[3; 1] x (3) on PE=0,2\n";
  text +=
      "@39 UP.collect R[0; 1] -> PM[0; 4] x (6)\n@45 STORE.store PM[0; 1] -> DRAM[24; 1] x (24)\n";
  const Program p = ParseProgram(text, m, "exchange");
  Simulator s(m, p);
  const int dram = m.MemoryNamed("DRAM");
  // Word k of PE p lies in PM[4 k + p].
  const int blocks[4][6] = {
      {0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}, {12, 13, 14, 18, 19, 20}, {15, 16, 17, 21, 22, 23}};
  std::vector<uint32_t> x(24), y(24);
  for (size_t pe = 0; pe < 4; ++pe) {
    for (size_t k = 0; k < 6; ++k) x[4 * k + pe] = uint32_t(blocks[pe][k]);
  }
  s.SetWords(dram, 0, x.data(), 24);
  CHECK(s.Run().cycles == 69);
  s.GetWords(dram, 24, y.data(), 24);
  for (uint32_t pe = 0; pe < 4; ++pe) {
    for (uint32_t k = 0; k < 6; ++k) CHECK(y[4 * k + pe] == 6 * pe + k);
  }
}

TEST_CASE("simulator: a product of matrices on tree64") {
  const Machine m = FindMachine("tree64");
  // One MAB's A[4,4] times x[4], twice into sums; A by columns from LM1.
  std::string text = "l1 1\nmachine tree64\n";
  int64_t at = 0;
  const auto line = [&](const std::string& l, int64_t wait) {
    text += fmt::format("@{} {}\n", at, l);
    at += wait;
  };
  const auto word = [](float f) {
    uint32_t w;
    std::memcpy(&w, &f, 4);
    return w;
  };
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j)
      line(fmt::format("ALU.copy 0x{:08x} -> LM1[{}] on PE={}", word(float(i * 4 + j + 1)), j, i),
           1);
    line(fmt::format("ALU.copy 0x{:08x} -> R0[0] on PE={}", word(float(i + 1)), i), 1);
  }
  at += 4;
  line("MATL.copy LM1[0; 1] -> A[0; 1] x (4)", 4);
  line("MAT.mul A[0], R0[0] -> R1[0]", 4);
  line("MAT.mul A[0], R0[0], R1[0] -> R1[0]", 4);
  const Program p = ParseProgram(text, m, "product");
  Simulator s(m, p);
  s.Run();
  for (int64_t pe = 0; pe < 64; ++pe) {
    float want = 0;
    for (int j = 0; j < 4; ++j) want += 2 * float(pe % 4 * 4 + j + 1) * float(j + 1);
    CHECK(s.WordAt(m.MemoryNamed("R1"), pe, 0) == word(want));
  }
}

TEST_CASE("simulator: other data, same cycles; later runs compute the same") {
  std::mt19937 random(5);
  const Machine m = RandomMachine(&random);
  const Program p = RandomProgram(m, 10, &random);
  Simulator s(m, p);
  std::optional<int64_t> cycles;
  for (int run = 0; run < 4; ++run) {
    const auto words = Load(&s, &random);
    const Execution e = s.Run();
    CHECK(e.cycles == cycles.value_or(e.cycles));
    cycles = e.cycles;
    NaiveRun naive = RunNaively(p, m, words);
    // What an earlier run stored off the chip stays there.
    size_t wrong = 0;
    for (const auto& [where, word] : naive.words)
      wrong += s.WordAt(std::get<0>(where), std::get<1>(where), std::get<2>(where)) != word;
    CHECK(wrong == 0);
  }
}

TEST_CASE("simulator: 300 random programs on 50 random machines") {
  std::mt19937 random(1);
  int64_t instructions = 0, cycles = 0;
  for (int machine = 0; machine < 50; ++machine) {
    const Machine m = RandomMachine(&random);
    for (int program = 0; program < 6; ++program) {
      const Program p = RandomProgram(m, 12, &random);
      instructions += int64_t(p.instructions.size());
      Simulator s(m, p);
      const NaiveRun naive = RunNaively(p, m, Load(&s, &random));
      REQUIRE(naive.hazards.empty());
      Execution e;
      const std::optional<Hazard> hazard = s.TryRun(&e);
      if (hazard) {
        MESSAGE(PrintMachine(m), PrintProgram(p, m), Describe(*hazard, p, m));
        FAIL("a hazard that is none");
      }
      CHECK(e.cycles == naive.cycles);
      CHECK(e.cycles == PredictCycles(p, m));
      cycles += e.cycles;
      if (!SameWords(s, naive)) {
        MESSAGE(PrintMachine(m), PrintProgram(p, m));
        FAIL("words differ");
      }
    }
  }
  CHECK(instructions > 5000);
  CHECK(cycles > 10000);
}

TEST_CASE("simulator: 2,000 mutants in time are refused as the naive interpreter does, or equal") {
  std::mt19937 random(2);
  int refused = 0, equal = 0, by_kind[5] = {0, 0, 0, 0, 0};
  for (int round = 0; round < 100; ++round) {
    Machine m = RandomMachine(&random);
    const Program valid = RandomProgram(m, 10, &random);
    for (int mutant = 0; mutant < 20; ++mutant) {
      Program p = valid;
      Machine other = m;
      const size_t at = random() % p.instructions.size();
      const Instruction& chosen = p.instructions[at];
      switch (random() % 4) {
        case 0:  // a cycle early, or several
          for (size_t k = at; k < p.instructions.size(); ++k)
            p.instructions[k].start -=
                std::min<int64_t>(p.instructions[k].start, 1 + int64_t(random() % 3));
          break;
        case 1:  // alone a cycle early
          if (chosen.start > 0) --p.instructions[at].start;
          break;
        case 2:  // a latency that was forgotten: the machine's is longer
          other.units[size_t(chosen.unit)].ops[size_t(chosen.op)].latency +=
              1 + int64_t(random() % 4);
          break;
        default:  // a port used twice: the memory has one less
          for (Memory& memory : other.memories) {
            if (&memory - other.memories.data() != chosen.target.memory) continue;
            if (memory.reads > 1) --memory.reads;
            if (memory.writes > 1) --memory.writes;
            if (memory.accesses > 1) --memory.accesses;
          }
      }
      std::stable_sort(
          p.instructions.begin(), p.instructions.end(),
          [](const Instruction& a, const Instruction& b) { return a.start < b.start; });
      try {
        CheckProgram(p, other);
      } catch (const weft::UserError&) {
        ++refused;  // a slot
        continue;
      }
      Simulator s(other, p);
      const auto words = Load(&s, &random);
      const NaiveRun naive = RunNaively(p, other, words);
      const std::optional<Hazard> hazard = s.TryRun();
      if (hazard.has_value() == naive.hazards.empty()) {
        MESSAGE(PrintMachine(other), PrintProgram(p, other), naive.hazards.size());
        FAIL("hazards differ");
      }
      if (!hazard) {
        ++equal;
        CHECK(SameWords(s, naive));
        // Equal to the program that it was made of as well.
        Simulator original(m, valid);
        for (const auto& [where, word] : words)
          original.SetWords(where.first, where.second, &word, 1);
        original.Run();
        CHECK(SameWords(original, naive));
        continue;
      }
      ++refused;
      ++by_kind[int(hazard->kind)];
      if (!IsFirstOf(*hazard, naive)) {
        MESSAGE(PrintMachine(other), PrintProgram(p, other), Describe(*hazard, p, other));
        FAIL("not the first hazard");
      }
    }
  }
  CHECK(refused + equal == 2000);
  CHECK(refused > 600);
  CHECK(by_kind[0] > 100);
  CHECK(by_kind[2] > 0);
  CHECK(by_kind[3] > 0);
  CHECK(by_kind[4] > 0);
}

TEST_CASE("simulator: random programs with hazards are told the first one") {
  std::mt19937 random(9);
  int hazards = 0;
  for (int round = 0; round < 400; ++round) {
    const Machine m = RandomMachine(&random);
    Program p = RandomProgram(m, 0, &random);
    int64_t start = PredictCycles(p, m);
    for (int k = 0; k < 8; ++k) {
      Instruction i = RandomInstruction(m, &random);
      for (bool fits = false; !fits;) {
        i.start = start += int64_t(random() % 5);
        p.instructions.push_back(i);
        try {
          CheckProgram(p, m);
          fits = true;
        } catch (const weft::UserError&) {
          p.instructions.pop_back();  // the slot is held
        }
      }
    }
    Simulator s(m, p);
    const NaiveRun naive = RunNaively(p, m, {});
    const std::optional<Hazard> hazard = s.TryRun();
    REQUIRE(hazard.has_value() == !naive.hazards.empty());
    if (!hazard) continue;
    ++hazards;
    if (!IsFirstOf(*hazard, naive)) {
      MESSAGE(PrintMachine(m), PrintProgram(p, m), Describe(*hazard, p, m));
      FAIL("not the first hazard");
    }
  }
  CHECK(hazards > 30);
}

TEST_CASE("simulator: what it needs and what it is asked") {
  const Machine m = FindMachine("tree64");
  Program p = ParseProgram("l1 1\nmachine tree64\ninput x : DRAM[0:16777216]\n", m, "f");
  CHECK_THROWS_AS(Simulator(m, p, 1 << 20), weft::UserError);
  p.segments[0].words = 4;
  Simulator s(m, p);
  CHECK(s.Run().cycles == 0);
  uint32_t words[4] = {1, 2, 3, 4}, back[4] = {};
  s.SetWords(0, 100, words, 4);
  s.GetWords(0, 100, back, 4);
  CHECK(back[3] == 4);
  s.GetWords(0, 16777212, back, 4);
  CHECK(back[3] == 0);
  CHECK_THROWS_AS(s.SetWords(1, 0, words, 1), weft::UserError);
  CHECK_THROWS_AS(s.SetWords(0, 16777213, words, 4), weft::UserError);
  CHECK_THROWS_AS(s.GetWords(0, -1, back, 1), weft::UserError);
}

}  // namespace hsimd
