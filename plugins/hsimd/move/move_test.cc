/// move_test.cc: moves executed word by word by the interpreter of interpreter.h.
#include "move.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include "../tests/indices.h"
#include "interpreter.h"
#include "weft/support/error.h"

namespace hsimd {
namespace {

/// All (place in the whole machine, address) of an element.
std::vector<std::pair<int64_t, int64_t>> Words(const Machine& m, const TensorAt& t,
                                               const Index& i) {
  std::vector<std::pair<int64_t, int64_t>> out;
  const int level = m.memories[t.memory].level;
  for (const Place& p : PlacesOf(t.layout, i)) {
    const auto at = p.find(kAddress);
    const int64_t word = t.base + (at == p.end() ? 0 : at->second);
    std::vector<int64_t> places{0};
    for (int l = 1; l <= level; ++l) {
      std::vector<int64_t> next;
      for (const int64_t q : places) {
        const auto c = p.find(m.levels[l].name);
        if (c != p.end()) {
          next.push_back(q * m.levels[l].count + c->second);
          continue;
        }
        for (int64_t k = 0; k < m.levels[l].count; ++k) next.push_back(q * m.levels[l].count + k);
      }
      places = next;
    }
    for (const int64_t q : places) out.emplace_back(q, word);
  }
  return out;
}

/// Executes the plan; empty if every target word has its element, nothing else was written, and the
/// cycles are as said.
std::string Execute(const Machine& m, const TensorAt& from, const TensorAt& to,
                    const std::vector<SpareWords>& spare, const MovePlan& plan) {
  MoveInterpreter run(m);
  const std::vector<Index> all = AllIndices(from.layout.shape);
  for (size_t k = 0; k < all.size(); ++k) {
    for (const auto& [place, word] : Words(m, from, all[k])) {
      run.At(from.memory, place, word) = int64_t(k) + 1;
    }
  }
  int64_t cycles = 0;
  const std::string why = run.Run(plan.instructions, &cycles);
  if (!why.empty()) return why;
  if (cycles != plan.cycles) return "cycles " + std::to_string(cycles);
  if (plan.bound_cycles > plan.cycles) return "bound above cycles";
  auto written = run.written();
  for (size_t k = 0; k < all.size(); ++k) {
    for (const auto& [place, word] : Words(m, to, all[k])) {
      if (run.At(to.memory, place, word) != int64_t(k) + 1) return "wrong word";
      written[to.memory][run.Cell(to.memory, place, word)] = false;
    }
  }
  for (const SpareWords& s : spare) {
    int64_t places = 1;
    for (int l = 0; l <= m.memories[s.memory].level; ++l) places *= m.levels[l].count;
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t w = 0; w < s.words; ++w) {
        written[s.memory][run.Cell(s.memory, p, s.base + w)] = false;
      }
    }
  }
  for (const auto& memory : written) {
    if (std::count(memory.begin(), memory.end(), true) > 0) return "wrote elsewhere";
  }
  return {};
}

std::vector<SpareWords> ToySpare(const Machine& m) {
  return {{m.MemoryNamed("R"), 6, 58}, {m.MemoryNamed("PM"), 8, 200}};
}

/// The 22 dense layouts of (4,6) on 4 PEs.
std::vector<Layout> DenseLayouts() {
  std::set<std::string> seen;
  std::vector<Layout> out;
  const std::vector<std::vector<std::vector<int64_t>>> lists{{{4}, {2, 2}}, {{6}, {2, 3}, {3, 2}}};
  for (const auto& rows : lists[0]) {
    for (const auto& columns : lists[1]) {
      std::vector<Digit> digits;
      for (const int64_t n : rows) digits.push_back({n, "", 0});
      for (const int64_t n : columns) digits.push_back({n, "", 0});
      for (int on = 0; on < 1 << digits.size(); ++on) {
        int64_t pes = 1;
        for (size_t k = 0; k < digits.size(); ++k) {
          digits[k].level = on >> k & 1 ? "PE" : kAddress;
          if (on >> k & 1) pes *= digits[k].size;
        }
        if (pes != 4) continue;
        std::vector<int> order(digits.size());
        for (size_t k = 0; k < order.size(); ++k) order[k] = int(k);
        do {
          std::map<std::string, int64_t> next{{kAddress, 1}, {"PE", 1}};
          for (const int k : order) {
            digits[k].stride = next[digits[k].level];
            next[digits[k].level] *= digits[k].size;
          }
          Layout l;
          l.shape = {4, 6};
          l.axes = {{digits.begin(), digits.begin() + int64_t(rows.size())},
                    {digits.begin() + int64_t(rows.size()), digits.end()}};
          if (seen.insert(PrintLayout(Canonical(l))).second) out.push_back(Canonical(l));
        } while (std::next_permutation(order.begin(), order.end()));
      }
    }
  }
  return out;
}

TEST_CASE("the exchange: 9 cycles by neighbours, 12 by the parent") {
  const Machine toy = FindMachine("toy4");
  const int r = toy.MemoryNamed("R");
  const TensorAt from{r, 0, ParseLayout("(4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))")};
  const TensorAt to{r, 0, ParseLayout("(4,6)/((4_PE:1), (6:1))")};
  const MovePlan ring = PlanMove(toy, from, to, ToySpare(toy));
  CHECK(Execute(toy, from, to, ToySpare(toy), ring) == "");
  CHECK(ring.cycles == 9);
  CHECK(ring.bound_cycles == 3);
  CHECK(ring.way == "ring");
  Machine parent = toy;
  parent.units.erase(parent.units.begin() + parent.UnitNamed("RING"));
  const MovePlan tree = PlanMove(parent, from, to, ToySpare(parent));
  CHECK(Execute(parent, from, to, ToySpare(parent), tree) == "");
  CHECK(tree.cycles == 12);
  CHECK(tree.way == "tree");
}

TEST_CASE("all 484 moves between the dense layouts of (4,6) on 4 PEs") {
  const Machine toy = FindMachine("toy4");
  const int r = toy.MemoryNamed("R");
  const std::vector<Layout> all = DenseLayouts();
  REQUIRE(all.size() == 22);
  int64_t sum = 0;
  for (const Layout& a : all) {
    for (const Layout& b : all) {
      const TensorAt from{r, 0, a}, to{r, 0, b};
      const MovePlan plan = PlanMove(toy, from, to, ToySpare(toy));
      const std::string why = Execute(toy, from, to, ToySpare(toy), plan);
      if (!why.empty()) FAIL_CHECK(PrintLayout(a) << " to " << PrintLayout(b) << ": " << why);
      CHECK((plan.cycles == 0) == SameMap(a, b));
      CHECK(plan.cycles <= 6 + 24);  // all up, each word down alone
      sum += plan.cycles;
    }
  }
  MESSAGE("mean cycles " << double(sum) / 484);
}

TEST_CASE("switches of layouts on tree64") {
  Machine tree = FindMachine("tree64");
  for (Memory& m : tree.memories) m.words = std::min<int64_t>(m.words, 4096);
  const std::pair<const char*, const char*> kRows[] = {
      {"(4,400)/((4_L1B:1), (4_MAB:1, 4_PE:1, 5:5, 5:1))",
       "(4,400)/((4_L1B:1), (4_MAB:1, 25:1, 4_PE:1))"},
      {"(16,128)/((4:32, 4_PE:1), (4_L1B:1, 32:1))",
       "(16,128)/((4_L1B:1, 4_MAB:1), (32:1, 4_PE:1))"},
  };
  std::vector<SpareWords> spare;
  for (const char* name : {"L2BM", "L1BM", "R0", "R1", "LM1"}) {
    spare.push_back({tree.MemoryNamed(name), 0, 512});
  }
  for (const auto& [a, b] : kRows) {
    const TensorAt from{tree.MemoryNamed("LM0"), 100, ParseLayout(a)};
    const TensorAt to{tree.MemoryNamed("LM0"), 0, ParseLayout(b)};
    CHECK(Execute(tree, from, to, spare, PlanMove(tree, from, to, spare)) == "");
  }
}

TEST_CASE("rearrangements of 8 words against the exhaustive optimum") {
  // rearrangements.cc made the file.
  const Machine toy = FindMachine("toy4");
  const int r = toy.MemoryNamed("R");
  std::ifstream file(REARRANGEMENTS);
  REQUIRE(file.good());
  std::string line;
  double cycles = 0, least = 0, worst = 0;
  int64_t n = 0, optimal = 0;
  while (std::getline(file, line)) {
    if (line[0] == '#') continue;
    std::vector<WordMove> words;
    for (int k = 0; k < 8; ++k)
      words.push_back({(line[k] - '0') % 4, (line[k] - '0') / 4, k % 4, k / 4});
    const int64_t best = std::stoll(line.substr(9));
    const std::vector<SpareWords> spare{{r, 2, 1}};
    const MovePlan plan = PlanWords(toy, r, words, spare);
    MoveInterpreter run(toy);
    for (int k = 0; k < 8; ++k) run.At(r, words[k].from_place, words[k].from_word) = k + 1;
    int64_t executed = 0;
    CHECK(run.Run(plan.instructions, &executed) == "");
    CHECK(executed == plan.cycles);
    for (int k = 0; k < 8; ++k) CHECK(run.At(r, k % 4, k / 4) == k + 1);
    CHECK(plan.cycles >= best);
    CHECK(plan.bound_cycles <= best);
    if (best > 0) worst = std::max(worst, double(plan.cycles) / double(best));
    cycles += double(plan.cycles);
    least += double(best);
    optimal += plan.cycles == best;
    ++n;
  }
  CHECK(n == 2000);
  CHECK(cycles <= 1.02 * least);
  CHECK(worst <= 1.2);
  MESSAGE("over the optimum: mean " << cycles / least << ", worst " << worst << ", optimal "
                                    << optimal);
}

/// One to three levels below the root, memories on each, links of random modes, rates, latencies.
Machine RandomMachine(Rng& rng) {
  Machine m;
  m.name = "random";
  m.levels.push_back({"ROOT", 1});
  const int depth = int(Between(rng, 1, 3));
  int64_t places = 1;
  for (int l = 1; l <= depth; ++l) {
    m.levels.push_back({"L" + std::to_string(l), Between(rng, 2, depth == 1 ? 8 : 4)});
    places *= m.levels.back().count;
  }
  const auto rate = [&] {
    Rate r;
    if (Between(rng, 0, 3) == 0) r.elements = Between(rng, 2, 8);
    if (Between(rng, 0, 5) == 0) r = {1, Between(rng, 2, 3)};
    return r;
  };
  const auto memory = [&](const std::string& name, int level, int64_t words) {
    Memory mem;
    mem.name = name;
    mem.level = level;
    mem.words = words;
    m.memories.push_back(mem);
    return int(m.memories.size()) - 1;
  };
  const int dram = memory("DRAM", 0, 4096);
  m.memories[dram].off_chip = true;
  std::vector<std::vector<int>> at(depth + 1);
  for (int l = 0; l < depth; ++l) {
    if (l == 0 || Between(rng, 0, 4) > 0) at[l].push_back(memory("M" + std::to_string(l), l, 2048));
  }
  const int pe_memories = int(Between(rng, 1, 3));
  for (int k = 0; k < pe_memories; ++k) {
    const int r = memory("R" + std::to_string(k), depth, 512);
    at[depth].push_back(r);
    switch (Between(rng, 0, 2)) {
      case 0:
        m.memories[r].reads = m.memories[r].writes = 1;
        break;
      case 1:
        if (pe_memories > 1) m.memories[r].accesses = 1;
        break;
      default:
        break;
    }
  }
  const auto slot = [&](const char* name) {
    return Between(rng, 0, 1) == 0 ? std::string("ONE") : std::string(name);
  };
  const auto latency = [&] { return Between(rng, 0, 1) == 0 ? 1 : Between(rng, 2, 8); };
  Unit alu;
  alu.name = "ALU";
  alu.slot = slot("ALU");
  alu.ops = {{"copy", {}, latency(), {}, "", 0}};
  m.units.push_back(alu);
  Unit load;
  load.name = "LOAD";
  load.kind = UnitKind::kDown;
  load.slot = slot("DMA");
  load.parent = load.child = 0;
  load.sources = {dram};
  load.targets = at[0];
  load.ops = {{"load", rate(), latency(), {}, "", 0}};
  Unit store = load;
  store.name = "STORE";
  store.kind = UnitKind::kUp;
  std::swap(store.sources, store.targets);
  m.units.push_back(load);
  m.units.push_back(store);
  int above = 0;
  for (int l = 1; l <= depth; ++l) {
    if (at[l].empty()) continue;
    Unit down;
    down.name = "DOWN" + std::to_string(l);
    down.kind = UnitKind::kDown;
    down.slot = slot("LINK");
    down.parent = above;
    down.child = l;
    down.sources = at[above];
    down.targets = at[l];
    std::vector<int> levels;
    for (int k = above + 1; k <= l; ++k) levels.push_back(k);
    down.ops = {{"distribute", rate(), latency(), levels, "", 0}};
    Unit up = down;
    up.name = "UP" + std::to_string(l);
    up.kind = UnitKind::kUp;
    std::swap(up.sources, up.targets);
    up.slot = slot("LINK");
    if (Between(rng, 0, 1) == 0) down.ops.push_back({"broadcast", rate(), latency(), {}, "", 0});
    if (Between(rng, 0, 1) == 0) up.ops.push_back({"single", rate(), latency(), {}, "", 0});
    for (const int k : levels) {
      if (levels.size() == 1 || Between(rng, 0, 1) == 0) continue;
      down.ops.push_back({"per" + std::to_string(k), rate(), latency(), {k}, "", 0});
      up.ops.push_back({"per" + std::to_string(k), rate(), latency(), {k}, "", 0});
    }
    m.units.push_back(down);
    m.units.push_back(up);
    above = l;
  }
  if (Between(rng, 0, 1) == 0) {
    Unit ring;
    ring.name = "RING";
    ring.kind = UnitKind::kRing;
    ring.slot = slot("RING");
    ring.child = depth;
    ring.ops = {{"left", rate(), latency(), {}, "", 1}, {"right", rate(), latency(), {}, "", -1}};
    if (Between(rng, 0, 2) == 0) ring.ops.push_back({"far", rate(), latency(), {}, "", 2});
    m.units.push_back(ring);
  }
  return m;
}

/// A layout of the shape in a memory: digits of random factors on levels that have room.
Layout RandomLayoutOf(Rng& rng, const Machine& m, int memory, const std::vector<int64_t>& shape) {
  const int level = m.memories[memory].level;
  while (true) {
    Layout l;
    l.shape = shape;
    l.axes.resize(shape.size());
    std::map<std::string, std::vector<Digit*>> by_level;
    for (size_t a = 0; a < shape.size(); ++a) {
      int64_t rest = shape[a];
      while (rest > 1) {
        int64_t n = Between(rng, 2, 4);
        if (Between(rng, 0, 2) > 0) {
          for (n = Between(rng, 2, 4); rest % n != 0 && n < rest; ++n) {
          }
        }
        std::string name = kAddress;
        if (level > 0 && Between(rng, 0, 1) == 0) name = m.levels[Between(rng, 1, level)].name;
        l.axes[a].insert(l.axes[a].begin(), {n, name, 0});
        rest = (rest - 1) / n + 1;
      }
    }
    if (level > 0 && Between(rng, 0, 3) == 0) {
      l.copies.push_back({2, m.levels[Between(rng, 1, level)].name, 0});
    }
    for (auto& axis : l.axes) {
      for (Digit& d : axis) by_level[d.level].push_back(&d);
    }
    for (Digit& d : l.copies) by_level[d.level].push_back(&d);
    for (auto& [name, digits] : by_level) {
      std::shuffle(digits.begin(), digits.end(), rng);
      int64_t stride = 1;
      for (Digit* d : digits) {
        if (Between(rng, 0, 7) == 0) ++stride;
        d->stride = stride;
        stride *= d->size;
      }
    }
    for (int k = 1; k <= level; ++k) {
      const std::string& name = m.levels[k].name;
      const int64_t room = m.levels[k].count - Extent(l, name);
      if (room > 0 && Between(rng, 0, 2) == 0) l.offset[name] = Between(rng, 1, room);
    }
    try {
      Validate(l, m, level);
    } catch (const weft::Error&) {
      continue;
    }
    if (Extent(l, kAddress) <= 200) return l;
  }
}

TEST_CASE("20,000 random moves on random machines") {
  Rng rng(7);
  std::map<std::string, int64_t> ways;
  std::map<std::string, int64_t> refused;
  double over = 0;
  int64_t moved = 0;
  for (int round = 0; round < 20000; ++round) {
    const Machine m = RandomMachine(rng);
    std::vector<int64_t> shape;
    const int rank = int(Between(rng, 0, 3));
    for (int a = 0; a < rank; ++a) shape.push_back(Between(rng, 1, rank == 3 ? 5 : 12));
    TensorAt from, to;
    from.memory = int(Between(rng, 0, int64_t(m.memories.size()) - 1));
    to.memory = Between(rng, 0, 1) == 0 ? from.memory
                                        : int(Between(rng, 0, int64_t(m.memories.size()) - 1));
    from.layout = RandomLayoutOf(rng, m, from.memory, shape);
    to.layout = RandomLayoutOf(rng, m, to.memory, shape);
    const bool in_place = from.memory == to.memory;
    from.base = Between(rng, 0, 4);
    to.base = in_place ? Between(rng, 0, 1) == 0 ? from.base : Between(rng, 0, 30) : 2;
    std::vector<SpareWords> spare;
    for (int k = 0; k < int(m.memories.size()); ++k) {
      const int64_t small = Between(rng, 0, 3) == 0 ? Between(rng, 20, 200) : 4096;
      spare.push_back({k, 256, std::min(small, m.memories[k].words - 256)});
    }
    MovePlan plan;
    try {
      plan = PlanMove(m, from, to, spare);
    } catch (const weft::Error& e) {
      ++refused[weft::ErrorCodeName(e.code())];
      const bool limit = e.code() == weft::ErrorCode::kLimit;
      if (e.code() != weft::ErrorCode::kUnsupported && !limit) FAIL_CHECK(e.what());
      continue;
    }
    const std::string why = Execute(m, from, to, spare, plan);
    if (!why.empty()) {
      FAIL_CHECK(round << ": " << PrintLayout(from.layout) << " to " << PrintLayout(to.layout)
                       << " in " << m.memories[from.memory].name << ", "
                       << m.memories[to.memory].name << " by " << plan.way << ": " << why);
    }
    ++ways[plan.way];
    if (plan.cycles > 0) over += double(plan.cycles) / double(plan.bound_cycles), ++moved;
  }
  int64_t planned = 0;
  for (const auto& [way, n] : ways) {
    MESSAGE(way << " " << n);
    planned += n;
  }
  CHECK(planned > 19000);  // few are refused
  CHECK(moved > 16000);    // and few stay
  for (const auto& [code, n] : refused) MESSAGE("refused " << code << " " << n);
  MESSAGE("mean over the bound " << over / double(moved));
}

}  // namespace
}  // namespace hsimd
