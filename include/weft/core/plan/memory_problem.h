/// memory_problem.h: the account of memory that orders and recomputation are judged by: which bytes
/// are alive at each step of an order. A graph (passes/memory) and a file of `weft plan` are both
/// read into it; the planners of core/plan work on nothing else.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// What a node makes and others read. Bytes are numbers: whoever builds the problem evaluates sizes
/// at the extents (or hints) that it plans for.
struct MemoryValue {
  int64_t bytes = 0;  ///< >= 0; 0 as well for what lies outside the arena (results, variables)
  int producer = -1;  ///< the node that makes it; -1: there before the first step
  int shows = -1;     ///< it is a view of this value, and has no bytes of its own
  bool keep = false;  ///< stays until the end
};

/// One step. Operands are alive while it runs, beside its outputs and its scratch.
struct MemoryNode {
  std::vector<int> inputs, outputs;  ///< values; an input may be named twice
  std::vector<int> after;            ///< nodes that have to come first, beside producers
  /// (input, output) by position: where the input dies here, nothing else shows its block, and the
  /// output is not larger, the output is written over it. The first pair that fits is taken.
  std::vector<std::pair<int, int>> inplace;
  int64_t scratch = 0;           ///< bytes that only this step needs
  int64_t cost = 0;              ///< of running it once, in any unit
  bool recompute = true;         ///< it may run more than once: pure, and worth nothing to keep
  std::vector<int> before = {};  ///< nodes that no run of this one may stand behind
};

struct MemoryProblem {
  std::vector<MemoryNode> nodes;  ///< in an order that is possible
  std::vector<MemoryValue> values;
};

/// Nodes in the order of steps. One that is named again runs again; who reads its values then reads
/// the copy made last, and the copy before is free from its own last reader on.
using MemoryOrder = std::vector<int>;

struct MemoryUse {
  int64_t peak = 0;
  int at = -1;                ///< the first step of the peak
  std::vector<int64_t> live;  ///< bytes alive while each step runs
  int64_t cost = 0;           ///< of all steps
};

/// The bytes of an order that CheckOrder takes. Linear in the edges of its steps. Throws kOverflow.
WEFT_API MemoryUse UseOf(const MemoryProblem& problem, const MemoryOrder& order);

/// The bytes of the step that needs most of them, whatever else is alive: operands, results in
/// place where they may be, scratch.
WEFT_API int64_t LargestStep(const MemoryProblem& problem);

/// Values of which a copy is alive while step `step` of the order runs, with bytes of its own, the
/// largest first; one that is written over another's bytes beside it.
WEFT_API std::vector<int> AliveAt(const MemoryProblem& problem, const MemoryOrder& order, int step);

/// Throws kInvalidModel naming what is wrong: an index out of range, a view of itself, a node that
/// the order lacks, runs before what it needs, or runs again though it must not.
WEFT_API void CheckProblem(const MemoryProblem& problem);
WEFT_API void CheckOrder(const MemoryProblem& problem, const MemoryOrder& order);

/// 0, 1, 2 ...: the nodes as they stand.
WEFT_API MemoryOrder GivenOrder(const MemoryProblem& problem);

}  // namespace weft
