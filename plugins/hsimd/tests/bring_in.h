/// bring_in.h: instructions that bring words from off-chip memory to chosen addresses of the PEs,
/// for tests that run a program on the simulator: every word goes to every parent, and each parent
/// distributes what its PEs get.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "../l1/program.h"

namespace hsimd {

/// Words [base, base + words) of a memory of the PEs come from DRAM word dram + w * PEs + place.
inline std::vector<Instruction> BringIn(const Machine& machine, int memory, int64_t base,
                                        int64_t words, int64_t dram) {
  std::vector<int> chain;  // from the PEs up
  for (int child = machine.pe();;) {
    int found = -1;
    for (size_t u = 0; u < machine.units.size(); ++u)
      if (machine.units[u].kind == UnitKind::kDown && machine.units[u].child == child &&
          (child == 0 || machine.units[u].parent < child))
        found = int(u);
    chain.push_back(found);
    if (child == 0) break;
    child = machine.units[size_t(found)].parent;
  }
  const int64_t pes = machine.PlacesOf(machine.pe());
  std::vector<int> memories;  // of the parents, by hop
  int64_t piece = words;
  for (int unit : chain) {
    memories.push_back(machine.units[size_t(unit)].sources.at(0));
    piece = std::min(piece, machine.memories[size_t(memories.back())].words / pes);
  }
  std::vector<Instruction> out;
  for (int64_t from = 0; from < words; from += piece) {
    const int64_t n = std::min(piece, words - from);
    for (size_t h = chain.size(); h-- > 1;) {
      const Unit& unit = machine.units[size_t(chain[h])];
      Instruction down;
      down.unit = chain[h];
      for (size_t o = 0; o < unit.ops.size(); ++o)
        if (unit.ops[o].indexed.empty()) down.op = int(o);
      down.count = {1, 1, n * pes};
      down.sources = {{memories[h], h + 1 == chain.size() ? dram + from * pes : 0, {0, 0, 1}, 0}};
      down.target = {memories[h - 1], 0, {0, 0, 1}, 0};
      out.push_back(down);
    }
    const Unit& last = machine.units[size_t(chain[0])];
    size_t most = 0;
    int op = 0;
    for (size_t o = 0; o < last.ops.size(); ++o)
      if (last.ops[o].indexed.size() >= most) {
        most = last.ops[o].indexed.size();
        op = int(o);
      }
    const int64_t parents = machine.PlacesOf(last.parent), below = pes / parents;
    for (int64_t p = 0; p < parents; ++p) {
      Instruction down;
      down.unit = chain[0];
      down.op = op;
      down.count = {1, 1, n};
      down.mask.levels.resize(machine.levels.size());
      int64_t rest = p;
      for (int l = last.parent; l > 0; --l) {
        const int64_t count = machine.levels[size_t(l)].count;
        down.mask.levels[size_t(l)].assign(size_t((count + 63) / 64), 0);
        down.mask.levels[size_t(l)][size_t(rest % count / 64)] |= uint64_t{1}
                                                                  << (rest % count % 64);
        rest /= count;
      }
      down.sources = {{memories[0], p * below, {0, 0, pes}, 0}};
      down.target = {memory, base + from, {0, 0, 1}, 0};
      out.push_back(down);
    }
  }
  return out;
}

}  // namespace hsimd
