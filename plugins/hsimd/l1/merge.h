/// merge.h: places blocks of instructions on one timeline so that what uses different slots runs
/// side by side: double buffers, stores between loads, the tail of a node under the head of the
/// next.
///
/// The blocks one after another are the meaning of the program: which element reads which write of
/// a word. Merging keeps it (true, anti and output dependences, by words and masks, element by
/// element), and moves instructions, not blocks. Instructions of one block whose elements depend on
/// each other both ways (a load of one bank of A beside the products of the other) stay at their
/// distance. Every hazard of program.h is respected by construction: words under way, ports, slots.
/// Cycles of the result are never more than those of the blocks one after another.
///
/// List scheduling by longest tail into the earliest gap, then schedules from behind and from the
/// front in turn, and other orders while there is work left; small problems are searched through.
/// Source: Graham, 1966; Li, Willis, EJOR 56, 1992 (forward-backward passes); Lam, PLDI 1988
/// (reservation tables of instructions that last).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program.h"

namespace hsimd {

struct Block {
  std::string name;                       ///< the node or the move, for messages
  std::vector<Instruction> instructions;  ///< starts relative to the block's, >= 0; free of hazards
};

struct MergeEffort {
  /// Steps looked at, about 2 ns each, beyond the first schedule.
  int64_t work = 200'000'000;
  /// Up to this many instructions all orders are tried (branch and bound, within the work).
  int exact_instructions = 12;
};

struct MergedProgram {
  std::vector<Instruction> instructions;  ///< by start, then in the order of the blocks
  int64_t cycles = 0;
  int64_t sequence_cycles = 0;  ///< of the blocks one after another
  int64_t bound_cycles = 0;     ///< the larger of the longest chain and the fullest slot
};

/// The blocks one after another: each starts where nothing of the one before is under way any more.
MergedProgram SequenceBlocks(const Machine& machine, const std::vector<Block>& blocks);

/// Throws weft::Error: InternalError for an instruction that names no unit or memory of the machine
/// or an address out of range, kOverflow for cycles beyond 2^40. Deterministic.
MergedProgram MergeBlocks(const Machine& machine, const std::vector<Block>& blocks,
                          const MergeEffort& effort = {});

}  // namespace hsimd
