/// hop.h: one step of a move: boxes from one memory to another by one operation of one unit
/// (private to move/).
#pragma once

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "box.h"

namespace hsimd {

struct Hop {
  int unit = 0, op = 0;
  int from = 0, to = 0;  ///< memories
  bool operator<(const Hop& o) const {
    return std::tie(unit, op, from, to) < std::tie(o.unit, o.op, o.from, o.to);
  }
};

/// All operations that carry words from one memory to another, reductions left out.
std::vector<Hop> HopsBetween(const Machine& machine, int from, int to);
/// All hops of the machine.
std::vector<Hop> AllHops(const Machine& machine);

/// Cycles in which the hop's instructions issue elements, each from its first issue to its last;
/// nullopt where it cannot carry one of the boxes: a place that is not the neighbour, the child or
/// the parent.
std::optional<int64_t> HopCycles(const Machine& machine, const Hop& hop,
                                 const std::vector<Box>& boxes);
/// The hop of fewest cycles between two memories, and these; nullopt where none can carry the
/// boxes.
std::optional<std::pair<Hop, int64_t>> CheapestHop(const Machine& machine, int from, int to,
                                                   const std::vector<Box>& boxes, bool rings);
/// The instructions, without starts; nullopt above `most`.
std::optional<std::vector<Instruction>> EmitHop(const Machine& machine, const Hop& hop,
                                                const std::vector<Box>& boxes, int64_t most);

/// Weight of one place of each level in the address of the parent's memory; 0 where not indexed.
Coords LaneWeights(const Machine& machine, const UnitOp& op);
/// The last lane of the links below a memory: how far behind a stream's own address they reach.
int64_t LastLane(const Machine& machine, int memory);

}  // namespace hsimd
