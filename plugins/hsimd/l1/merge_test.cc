/// merge_test.cc: merged programs against exhaustive search, element by element checks of hazards,
/// and execution of the blocks one after another.
#include "merge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "../tests/direct_run.h"
#include "../tests/random_program.h"
#include "simulator.h"

namespace hsimd {
namespace {

using Rng = std::mt19937_64;

int64_t Draw(Rng& rng, int64_t low, int64_t high) {
  return low + int64_t(rng() % uint64_t(high - low + 1));
}

/// Two levels; slots for DMA, links and the ALU; rates above and below one.
Machine SmallMachine() {
  return ParseMachine(R"({"name": "small", "levels": {"CHIP": 1, "MAB": 2, "PE": 2},
    "memories": {
      "D": {"level": "CHIP", "words": 64, "off_chip": true},
      "M": {"level": "CHIP", "words": 32},
      "R": {"level": "PE", "words": 16, "reads": 1, "writes": 1},
      "S": {"level": "PE", "words": 16, "accesses": 1},
      "Q": {"level": "PE", "words": 8, "reads": 2, "writes": 1}},
    "units": {
      "LOAD": {"kind": "down", "slot": "DMA", "parent": "CHIP", "child": "CHIP", "latency": 5,
               "sources": ["D"], "targets": ["M"], "ops": {"load": {"rate": 2}}},
      "STORE": {"kind": "up", "slot": "DMA", "parent": "CHIP", "child": "CHIP", "latency": 5,
                "sources": ["M"], "targets": ["D"], "ops": {"store": {"rate": 2}}},
      "DOWN": {"kind": "down", "slot": "LINK", "parent": "CHIP", "child": "PE", "latency": 2,
               "sources": ["M"], "ops": {"distribute": {"indexed": ["MAB", "PE"], "rate": "1/2"},
               "per_pe": {"indexed": ["PE"]}, "broadcast": {}}},
      "UP": {"kind": "up", "slot": "LINK", "parent": "CHIP", "child": "PE", "latency": 2,
             "targets": ["M"], "ops": {"collect": {"indexed": ["MAB", "PE"], "rate": "1/2"}}},
      "RING": {"kind": "ring", "slot": "LINK", "child": "PE", "latency": 1,
               "ops": {"left": {"shift": 1}}},
      "COPY": {"kind": "alu", "slot": "COPY", "latency": 1, "ops": ["copy"]},
      "ALU": {"kind": "alu", "slot": "ALU", "latency": 3, "ops": ["copy", "iadd"]}}})",
                      "small");
}

/// One access to one word in one place, written from the definitions of program.h.
struct Access {
  int memory;
  int64_t place, word, time;  ///< issue, from the instruction's start
  bool write;
  bool operator<(const Access& o) const {
    return std::tie(memory, place, word, time, write) <
           std::tie(o.memory, o.place, o.word, o.time, o.write);
  }
};

struct Touched {
  std::vector<Access> words;  ///< by element
  std::vector<int64_t> element;
  /// (memory, place, cycle from the start, write) -> accesses to ports
  std::map<std::tuple<int, int64_t, int64_t, bool>, int> ports;
  int64_t latency = 0, held = 0, finished = 0;
};

bool InMask(const Machine& machine, const Mask& mask, int level, int64_t place) {
  for (int l = level; l > 0; place /= machine.levels[size_t(l)].count, --l) {
    const int64_t p = place % machine.levels[size_t(l)].count;
    if (size_t(l) < mask.levels.size() && !mask.levels[size_t(l)].empty() &&
        !(mask.levels[size_t(l)][0] >> p & 1))
      return false;
  }
  return true;
}

Touched TouchedBy(const Machine& machine, const Instruction& in) {
  const Unit& unit = machine.units[size_t(in.unit)];
  const UnitOp& op = unit.ops[size_t(in.op)];
  Touched out;
  out.latency = op.latency;
  const int64_t n = in.elements();
  out.held = (n * op.rate.cycles + op.rate.elements - 1) / op.rate.elements;
  out.finished = op.rate.StartOf(n - 1) + op.latency;
  std::set<std::tuple<int64_t, int, int64_t, bool>> counted;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t digit[3] = {k / in.count[2] / in.count[1], k / in.count[2] % in.count[1],
                              k % in.count[2]};
    const int64_t time = op.rate.StartOf(k);
    const auto touch = [&](const Stream& s, size_t operand, int64_t place, int64_t offset,
                           bool write) {
      int64_t word = s.base + offset;
      for (int d = 0; d < 3; ++d) word += digit[d] * s.stride[size_t(d)];
      out.words.push_back({s.memory, place, word, time, write});
      out.element.push_back(k);
      for (size_t e = 0; e < operand; ++e)
        if (!write && in.sources[e].memory == s.memory && in.sources[e].base == s.base &&
            in.sources[e].stride == s.stride)
          return;
      // In a parent's memory an element is one access however many words it takes.
      if (!counted.insert({k * 4 + int64_t(operand), s.memory, place, write}).second) return;
      ++out.ports[{s.memory, place, write ? time + op.latency - 1 : time, write}];
    };
    const bool link = unit.kind == UnitKind::kDown || unit.kind == UnitKind::kUp;
    const int level = link || unit.kind == UnitKind::kRing ? unit.child : machine.pe();
    for (int64_t p = 0; p < machine.PlacesOf(level); ++p) {
      if (!InMask(machine, in.mask, level, p)) continue;
      int64_t offset = 0, scale = 1, rest = p;
      if (link)
        for (int l = unit.child; l > unit.parent; rest /= machine.levels[size_t(l)].count, --l)
          if (std::count(op.indexed.begin(), op.indexed.end(), l)) {
            offset += rest % machine.levels[size_t(l)].count * scale;
            scale *= machine.levels[size_t(l)].count;
          }
      const int64_t parent =
          link ? p / (machine.PlacesOf(level) / machine.PlacesOf(unit.parent)) : 0;
      for (size_t s = 0; s < in.sources.size(); ++s) {
        if (in.sources[s].memory < 0) continue;
        if (unit.kind == UnitKind::kDown)
          touch(in.sources[s], s, parent, offset, false);
        else if (unit.kind == UnitKind::kRing)
          touch(in.sources[s], s,
                p / machine.levels[size_t(level)].count * machine.levels[size_t(level)].count +
                    (p + op.shift) % machine.levels[size_t(level)].count,
                0, false);
        else
          touch(in.sources[s], s, p, 0, false);
      }
      if (unit.kind == UnitKind::kUp)
        touch(in.target, 3, parent, offset, true);
      else
        touch(in.target, 3, p, 0, true);
    }
  }
  return out;
}

/// Whether the instructions, with their starts, have no hazard.
bool Legal(const Machine& machine, const std::vector<Instruction>& program) {
  std::map<std::tuple<int, int64_t, int64_t>,
           std::vector<std::tuple<int64_t, int64_t, bool, int64_t>>>
      words;  // (time, end, write, element of all)
  std::map<std::tuple<int, int64_t, int64_t>, std::pair<int, int>> ports;
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> slots;
  int64_t elements = 0;
  for (const Instruction& in : program) {
    const Touched touched = TouchedBy(machine, in);
    for (size_t k = 0; k < touched.words.size(); ++k) {
      const Access& a = touched.words[k];
      const int64_t t = in.start + a.time;
      words[{a.memory, a.place, a.word}].emplace_back(t, a.write ? t + touched.latency : t + 1,
                                                      a.write, elements + touched.element[k]);
    }
    elements += in.elements();
    for (const auto& [key, count] : touched.ports) {
      auto& [reads, writes] =
          ports[{std::get<0>(key), std::get<1>(key), in.start + std::get<2>(key)}];
      (std::get<3>(key) ? writes : reads) += count;
    }
    slots[machine.units[size_t(in.unit)].slot].emplace_back(in.start, in.start + touched.held);
  }
  for (const auto& [word, accesses] : words)
    for (const auto& w : accesses)
      if (std::get<2>(w))
        for (const auto& o : accesses)
          if (std::get<3>(o) != std::get<3>(w) && std::get<0>(o) < std::get<1>(w) &&
              std::get<0>(o) >= std::get<0>(w))
            return false;
  for (const auto& [key, count] : ports) {
    const Memory& m = machine.memories[size_t(std::get<0>(key))];
    if ((m.reads && count.first > m.reads) || (m.writes && count.second > m.writes) ||
        (m.accesses && count.first + count.second > m.accesses))
      return false;
  }
  for (auto& [slot, held] : slots) {
    std::sort(held.begin(), held.end());
    for (size_t k = 1; k < held.size(); ++k)
      if (held[k].first < held[k - 1].second) return false;
  }
  return true;
}

std::optional<Instruction> RandomInstruction(Rng& rng, const Machine& machine) {
  Instruction in;
  in.unit = int(Draw(rng, 0, int64_t(machine.units.size()) - 1));
  const Unit& unit = machine.units[size_t(in.unit)];
  in.op = int(Draw(rng, 0, int64_t(unit.ops.size()) - 1));
  in.count = {1, Draw(rng, 1, 2), Draw(rng, 1, 3)};
  const bool link = unit.kind == UnitKind::kDown || unit.kind == UnitKind::kUp;
  const auto stream = [&](int level, const std::vector<int>& allowed) {
    std::vector<int> fit;
    for (size_t m = 0; m < machine.memories.size(); ++m)
      if (machine.memories[m].level == level &&
          (allowed.empty() || std::count(allowed.begin(), allowed.end(), int(m))))
        fit.push_back(int(m));
    Stream s;
    s.memory = fit[size_t(Draw(rng, 0, int64_t(fit.size()) - 1))];
    s.base = Draw(rng, 0, 3);
    s.stride = {0, Draw(rng, 0, 2), Draw(rng, 0, 1)};
    return s;
  };
  const int pe = machine.pe();
  const int from = unit.kind == UnitKind::kDown ? unit.parent : link ? unit.child : pe;
  const int to = unit.kind == UnitKind::kUp ? unit.parent : link ? unit.child : pe;
  in.target = stream(to, unit.targets);
  const size_t operands = unit.ops[size_t(in.op)].name == "iadd" ? 2 : 1;
  for (size_t s = 0; s < operands; ++s) in.sources.push_back(stream(from, unit.sources));
  if (std::max(from, to) == pe && Draw(rng, 0, 2) == 0) {
    in.mask.levels.resize(size_t(pe) + 1);
    in.mask.levels[size_t(Draw(rng, 1, pe))] = {uint64_t(Draw(rng, 1, 3))};
  }
  if (!Legal(machine, {in})) return std::nullopt;
  return in;
}

std::vector<Block> RandomBlocks(Rng& rng, const Machine& machine, int most) {
  std::vector<Block> blocks;
  for (int left = int(Draw(rng, 2, most)); left > 0;) {
    Block block{"b", {}};
    for (int64_t k = Draw(rng, 1, 3); k > 0 && left > 0;) {
      std::optional<Instruction> in = RandomInstruction(rng, machine);
      if (!in) continue;
      // Anywhere in the block where it is legal: it may be in front of what is there already.
      in->start = Draw(rng, 0, 6);
      block.instructions.push_back(*in);
      while (!Legal(machine, block.instructions)) ++block.instructions.back().start;
      --k, --left;
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

/// All words after a run from random contents.
std::vector<uint32_t> WordsAfter(const Machine& machine, const std::vector<Instruction>& program) {
  Rng rng(5);
  DirectRun run(machine);
  std::vector<uint32_t> words;
  const auto each = [&](auto visit) {
    for (size_t m = 0; m < machine.memories.size(); ++m)
      for (int64_t p = 0; p < machine.PlacesOf(machine.memories[m].level); ++p)
        for (int64_t w = 0; w < std::min<int64_t>(machine.memories[m].words, 64); ++w)
          visit(run.At(int(m), p, w));
  };
  each([&](uint32_t& word) { word = uint32_t(rng() & 0xffff); });
  run.Run(program);
  each([&](uint32_t& word) { words.push_back(word); });
  return words;
}

/// The least cycles by trying all starts: distances from the sequence, word by word; slots and
/// ports cycle by cycle. Nothing where it takes too long.
class Exhaustive {
 public:
  Exhaustive(const Machine& machine, const std::vector<Instruction>& sequence)
      : machine_(machine), program_(sequence) {
    const size_t n = sequence.size();
    distance_.assign(n, std::vector<int64_t>(n, kNone));
    for (const Instruction& in : sequence) touched_.push_back(TouchedBy(machine, in));
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        for (const Access& x : touched_[a].words)
          for (const Access& y : touched_[b].words) {
            if (a == b || x.memory != y.memory || x.place != y.place || x.word != y.word) continue;
            if ((!x.write && !y.write) || sequence[a].start + x.time > sequence[b].start + y.time)
              continue;
            const int64_t after = x.write ? touched_[a].latency : 1;
            distance_[a][b] = std::max(distance_[a][b], x.time + after - y.time);
          }
  }

  std::optional<bool> Possible(int64_t cycles) {
    const size_t n = program_.size();
    std::vector<std::pair<int64_t, int64_t>> windows;
    for (size_t i = 0; i < n; ++i) windows.emplace_back(0, cycles - touched_[i].finished);
    looks_ = 0;
    placed_.assign(n, 0);
    return Search(windows, 0);
  }

 private:
  static constexpr int64_t kNone = -1000000;

  bool Narrow(std::vector<std::pair<int64_t, int64_t>>* windows) {
    for (bool more = true; more;) {
      more = false;
      for (size_t a = 0; a < windows->size(); ++a)
        for (size_t b = 0; b < windows->size(); ++b) {
          if (distance_[a][b] == kNone) continue;
          auto& [a_low, a_high] = (*windows)[a];
          auto& [b_low, b_high] = (*windows)[b];
          if (b_low < a_low + distance_[a][b]) b_low = a_low + distance_[a][b], more = true;
          if (a_high > b_high - distance_[a][b]) a_high = b_high - distance_[a][b], more = true;
          if (b_low > b_high || a_low > a_high) return false;
        }
    }
    for (const auto& [low, high] : *windows)
      if (low > high) return false;
    return true;
  }

  std::optional<bool> Search(std::vector<std::pair<int64_t, int64_t>> windows, size_t done) {
    if (++looks_ > 20000) return std::nullopt;
    if (!Narrow(&windows)) return false;
    if (done == program_.size()) return true;
    size_t next = 0;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < windows.size(); ++i)
      if (!placed_[i] && windows[i].second - windows[i].first < least)
        least = windows[i].second - windows[i].first, next = i;
    placed_[next] = 1;
    for (int64_t s = windows[next].first; s <= windows[next].second; ++s) {
      program_[next].start = s;
      if (!Fits(next)) continue;
      auto fixed = windows;
      fixed[next] = {s, s};
      const std::optional<bool> found = Search(fixed, done + 1);
      if (!found || *found) return found;
    }
    placed_[next] = 0;
    return false;
  }

  /// Slots and ports beside what is placed.
  bool Fits(size_t next) {
    std::vector<Instruction> part;
    std::map<std::tuple<int, int64_t, int64_t>, std::pair<int, int>> ports;
    for (size_t i = 0; i < program_.size(); ++i) {
      if (!placed_[i]) continue;
      if (i != next &&
          machine_.units[size_t(program_[i].unit)].slot ==
              machine_.units[size_t(program_[next].unit)].slot &&
          program_[i].start < program_[next].start + touched_[next].held &&
          program_[next].start < program_[i].start + touched_[i].held)
        return false;
      for (const auto& [key, count] : touched_[i].ports) {
        auto& [reads, writes] =
            ports[{std::get<0>(key), std::get<1>(key), program_[i].start + std::get<2>(key)}];
        (std::get<3>(key) ? writes : reads) += count;
        const Memory& m = machine_.memories[size_t(std::get<0>(key))];
        if ((m.reads && reads > m.reads) || (m.writes && writes > m.writes) ||
            (m.accesses && reads + writes > m.accesses))
          return false;
      }
    }
    return true;
  }

  const Machine& machine_;
  std::vector<Instruction> program_;
  std::vector<Touched> touched_;
  std::vector<std::vector<int64_t>> distance_;
  std::vector<char> placed_;
  int64_t looks_ = 0;
};

TEST_CASE("merge: small blocks against exhaustive search, hazards and results") {
  const Machine machine = SmallMachine();
  Rng rng(3);
  double logs = 0, worst = 1, gain = 0;
  int cases = 0, unknown = 0;
  for (int k = 0; k < 200; ++k) {
    CAPTURE(k);
    const std::vector<Block> blocks = RandomBlocks(rng, machine, 10);
    const MergedProgram sequence = SequenceBlocks(machine, blocks);
    MergeEffort effort;
    effort.work = 2'000'000;
    const MergedProgram merged = MergeBlocks(machine, blocks, effort);
    REQUIRE(Legal(machine, sequence.instructions));
    REQUIRE(Legal(machine, merged.instructions));
    REQUIRE(merged.cycles <= sequence.cycles);
    REQUIRE(merged.sequence_cycles == sequence.cycles);
    REQUIRE(merged.bound_cycles <= merged.cycles);
    REQUIRE(WordsAfter(machine, merged.instructions) == WordsAfter(machine, sequence.instructions));
    int64_t end = 0;
    for (const Instruction& in : merged.instructions)
      end = std::max(end, in.start + TouchedBy(machine, in).finished);
    REQUIRE(end == merged.cycles);
    Exhaustive exhaustive(machine, sequence.instructions);
    int64_t least = 0;
    bool known = true;
    for (int64_t cycles = 1; cycles <= merged.cycles && known; ++cycles) {
      const std::optional<bool> possible = exhaustive.Possible(cycles);
      known = possible.has_value();
      if (known && *possible) {
        least = cycles;
        break;
      }
    }
    if (!known) {
      ++unknown;
      continue;
    }
    REQUIRE(least > 0);
    REQUIRE(merged.bound_cycles <= least);
    const double ratio = double(merged.cycles) / double(least);
    logs += std::log(ratio);
    gain += std::log(double(sequence.cycles) / double(merged.cycles));
    worst = std::max(worst, ratio);
    ++cases;
  }
  MESSAGE(cases, " cases, ", unknown, " not searched to the end: ", std::exp(logs / cases),
          " of the least cycles, worst ", worst, "; one after another is ", std::exp(gain / cases));
  CHECK(cases >= 150);
  CHECK(std::exp(logs / cases) <= 1.02);
}

TEST_CASE("merge: orders found without trying all") {
  const Machine machine = SmallMachine();
  Rng rng(4);
  double logs = 0, worst = 1;
  for (int k = 0; k < 100; ++k) {
    const std::vector<Block> blocks = RandomBlocks(rng, machine, 10);
    MergeEffort all, heuristics;
    all.work = heuristics.work = 2'000'000;
    heuristics.exact_instructions = 0;
    const double ratio = double(MergeBlocks(machine, blocks, heuristics).cycles) /
                         double(MergeBlocks(machine, blocks, all).cycles);
    logs += std::log(ratio);
    worst = std::max(worst, ratio);
  }
  MESSAGE("without trying all orders: ", std::exp(logs / 100), ", worst ", worst);
  CHECK(std::exp(logs / 100) <= 1.02);
}

TEST_CASE("merge: longer programs keep their results") {
  const Machine machine = SmallMachine();
  Rng rng(6);
  for (int k = 0; k < 20; ++k) {
    std::vector<Block> blocks;
    for (int part = 0; part < 12; ++part)
      for (Block& block : RandomBlocks(rng, machine, 10)) blocks.push_back(std::move(block));
    MergeEffort effort;
    effort.work = 1'000'000;
    const MergedProgram merged = MergeBlocks(machine, blocks, effort);
    const MergedProgram sequence = SequenceBlocks(machine, blocks);
    CAPTURE(k);
    REQUIRE(Legal(machine, merged.instructions));
    REQUIRE(WordsAfter(machine, merged.instructions) == WordsAfter(machine, sequence.instructions));
    const MergedProgram again = MergeBlocks(machine, blocks, effort);
    REQUIRE(again.cycles == merged.cycles);
    for (size_t i = 0; i < again.instructions.size(); ++i)
      REQUIRE(again.instructions[i].start == merged.instructions[i].start);
  }
}

/// A run on the simulator: its cycles, and all words that it has written.
std::vector<std::optional<uint32_t>> Simulated(
    const Machine& machine, const std::vector<Segment>& segments,
    const std::vector<Instruction>& instructions,
    const std::map<std::pair<int, int64_t>, uint32_t>& inputs, int64_t* cycles) {
  Program program{machine.name, segments, instructions};
  Simulator simulator(machine, program);
  for (const auto& [at, word] : inputs) simulator.SetWords(at.first, at.second, &word, 1);
  const Execution execution = simulator.Run();
  CHECK(execution.cycles == PredictCycles(program, machine));
  *cycles = execution.cycles;
  std::vector<std::optional<uint32_t>> words;
  for (size_t m = 0; m < machine.memories.size(); ++m)
    for (int64_t p = 0; p < machine.PlacesOf(machine.memories[m].level); ++p)
      for (int64_t w = 0; w < execution.extent_words[m]; ++w)
        words.push_back(simulator.WordAt(int(m), p, w));
  return words;
}

TEST_CASE("merge: random programs of random machines, on the simulator") {
  std::mt19937 random(17);
  double gain = 0;
  for (int k = 0; k < 100; ++k) {
    CAPTURE(k);
    const Machine machine = RandomMachine(&random);
    std::vector<Block> blocks;
    Program first;
    for (int b = 0; b < 4; ++b) {
      Program program = RandomProgram(machine, 6, &random);
      blocks.push_back({"b" + std::to_string(b), program.instructions});
      if (b == 0) first = std::move(program);
    }
    const auto inputs = RandomWords(first, &random);
    MergeEffort effort;
    effort.work = 1'000'000;
    const MergedProgram merged = MergeBlocks(machine, blocks, effort);
    const MergedProgram sequence = SequenceBlocks(machine, blocks);
    int64_t cycles = 0, sequence_cycles = 0;
    const auto words = Simulated(machine, first.segments, merged.instructions, inputs, &cycles);
    REQUIRE(words ==
            Simulated(machine, first.segments, sequence.instructions, inputs, &sequence_cycles));
    REQUIRE(cycles == merged.cycles);
    REQUIRE(sequence_cycles == sequence.cycles);
    REQUIRE(cycles <= sequence_cycles);
    if (cycles > 0) gain += std::log(double(sequence_cycles) / double(cycles));
  }
  MESSAGE("one after another is ", std::exp(gain / 100));
}

/// Tiles that are loaded, spread, computed on, collected and stored, in two buffers in turn.
std::vector<Block> Tiles(const Machine& machine, int tiles) {
  const auto instruction = [&](const char* unit, const char* op, const char* from,
                               int64_t from_base, const char* to, int64_t to_base, int64_t n,
                               int64_t stride) {
    Instruction in;
    in.unit = machine.UnitNamed(unit);
    const auto& ops = machine.units[size_t(in.unit)].ops;
    for (size_t o = 0; o < ops.size(); ++o)
      if (ops[o].name == op) in.op = int(o);
    in.count = {1, 1, n};
    in.sources = {{machine.MemoryNamed(from), from_base, {0, 0, stride}, 0}};
    in.target = {machine.MemoryNamed(to), to_base, {0, 0, 1}, 0};
    return in;
  };
  std::vector<Block> blocks;
  for (int t = 0; t < tiles; ++t) {
    const int64_t half = t % 2;
    std::vector<Instruction> steps = {
        instruction("LOAD", "load", "DRAM", t * 512, "L2BM", half * 512, 512, 1),
        instruction("L2_DOWN", "broadcast", "L2BM", half * 512, "L1BM", half * 512, 512, 1),
        instruction("L1_DOWN", "distribute", "L1BM", half * 512, "LM0", half * 32, 32, 16),
        instruction("ALU", "copy", "LM0", half * 32, "R0", half * 32, 32, 1),
        instruction("ALU", "copy", "R0", half * 32, "LM1", half * 32, 32, 1),
        instruction("L1_UP", "per_mab", "LM1", half * 32, "L1BM", 1024 + half * 128, 32, 1),
        instruction("L2_UP", "collect", "L1BM", 1024 + half * 128, "L2BM", 4096 + half * 512, 128,
                    1),
        instruction("STORE", "store", "L2BM", 4096 + half * 512, "DRAM", 8000000 + t * 512, 512,
                    1)};
    steps[5].target.stride = steps[6].target.stride = {0, 0, 4};
    steps[5].mask.levels = {{}, {}, {}, {1}};
    for (const Instruction& in : steps) blocks.push_back({"tile", {in}});
  }
  return blocks;
}

TEST_CASE("merge: two buffers hide what takes less") {
  const Machine machine = FindMachine("tree64");
  for (int tiles : {8, 3000}) {
    const std::vector<Block> blocks = Tiles(machine, tiles);
    MergeEffort effort;
    effort.work = 1'000'000;
    const auto begin = std::chrono::steady_clock::now();
    const MergedProgram merged = MergeBlocks(machine, blocks, effort);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    MESSAGE(merged.instructions.size(), " instructions: ", merged.sequence_cycles, " to ",
            merged.cycles, " cycles, bound ", merged.bound_cycles, ", ", seconds, " s");
    CHECK(double(merged.cycles) <= (tiles > 8 ? 1.05 : 1.3) * double(merged.bound_cycles));
    if (tiles > 8) continue;
    CHECK(Legal(machine, merged.instructions));
    const std::vector<Segment> segments{{"x", 0, 0, tiles * 512, false},
                                        {"y", 0, 8000000, tiles * 512, true}};
    Simulator simulator(machine, {machine.name, segments, merged.instructions});
    std::vector<uint32_t> x(size_t(tiles) * 512), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = uint32_t(3 * i + 1);
    simulator.SetWords(0, 0, x.data(), int64_t(x.size()));
    CHECK(simulator.Run().cycles == merged.cycles);
    simulator.GetWords(0, 8000000, y.data(), int64_t(y.size()));
    // Word w of PE 0 of MAB m is word 16 w + 4 m of a tile; every L1B has all of it.
    for (size_t t = 0; t < size_t(tiles); ++t)
      for (size_t i = 0; i < 512; ++i)
        REQUIRE(y[t * 512 + i] == x[t * 512 + i / 16 * 16 + i / 4 % 4 * 4]);
  }
}

}  // namespace
}  // namespace hsimd
