/// report.h: who holds the memory of a run.
#pragma once

#include <string>
#include <vector>

#include "weft/core/plan/memory_budget.h"

namespace weft {

/// What some bytes are for.
enum class MemoryKind : uint8_t {
  kArena,     ///< intermediate results
  kScratch,   ///< what a kernel or a library call needs while it runs
  kOutput,    ///< results, in tensors of the caller
  kInput,     ///< what is fed
  kVariable,  ///< state
  kConstant,  ///< weights as the model has them
};
WEFT_API const char* MemoryKindName(MemoryKind kind);

/// One block, and why it is there.
struct MemoryHolder {
  std::string name;  ///< the user's nodes that write it, or the name of an input, an output ...
  MemoryKind kind = MemoryKind::kArena;
  int64_t bytes = 0;
  int64_t offset = -1;     ///< in the arena; -1: it lies elsewhere
  int begin = 0, end = 0;  ///< alive in the half-open range of steps
  std::string why;         ///< what reads it last
};

/// One way of a program to run: from no recomputation to the least memory.
struct MemoryWay {
  int64_t peak_bytes = 0;
  int64_t recompute_flops = 0;  ///< operations that are done a second time
  int copies = 0;               ///< nodes that run again
};

/// A run at some extents. Bytes are those that are asked for from the system; predicted and
/// executed ones are the same.
struct WEFT_API MemoryReport {
  int64_t peak_bytes = 0;   ///< what a run adds: arena, and results
  int64_t arena_bytes = 0;  ///< of one block: intermediate results and scratch, bodies too
  int64_t bound_bytes = 0;  ///< the most of the arena that is needed at once: none is smaller
  int64_t floor_bytes = 0;  ///< results, and the operands, results and scratch of the largest step
  int64_t scratch_bytes = 0;  ///< the most scratch of one step, within the arena
  int64_t input_bytes = 0, output_bytes = 0, variable_bytes = 0;
  int64_t constant_bytes = 0;  ///< weights as the model has them, where they are kept
  int64_t packed_bytes = 0;    ///< as library calls keep them
  /// Data decide a size: no run takes more, one may take less.
  bool at_most = false;
  /// Values whose size nothing bounds before the run: they are not counted.
  std::vector<std::string> unbounded;
  int at_step = -1;                  ///< the first where bound_bytes are alive; -1: there is none
  std::vector<std::string> steps;    ///< their names; of a program of regions, of the largest one
  std::vector<int64_t> live;         ///< bytes of the arena alive at each step
  std::vector<MemoryHolder> blocks;  ///< all of them, as they begin
  std::vector<MemoryWay> ways;       ///< that the program has; the first computes nothing twice
  size_t way = 0;                    ///< the one taken

  /// Those alive at `at_step`, the largest first; results too.
  std::vector<MemoryHolder> Holders() const;
  /// A run takes these bytes, no more and no less.
  bool exact() const { return !at_most && unbounded.empty(); }
  /// What a budget is compared with.
  int64_t Counted(const MemoryBudget& budget) const;
};

}  // namespace weft
