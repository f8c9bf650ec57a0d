/// place_blocks.h: blocks as one program, for tests of what emits them: without l1/merge.h, which
/// has tests of its own.
#pragma once

#include <algorithm>
#include <vector>

#include "../l2/emit.h"
#include "../l2/placer.h"

namespace hsimd {

/// All of `blocks` by the order they stand in, each instruction as early as it may be; with the
/// program's inputs and outputs as segments.
inline Program PlaceBlocks(const TileProgram& program, const Machine& machine,
                           const std::vector<Block>& blocks) {
  Program result;
  result.machine = machine.name;
  for (const TileValue& value : program.values)
    if (machine.memories[size_t(value.memory)].off_chip && value.role != TileValue::Role::kScratch)
      result.segments.push_back({value.name, value.memory, value.base, value.words,
                                 value.role == TileValue::Role::kOutput});
  Placer placer(machine);
  for (const Block& block : blocks)
    for (Instruction instruction : block.instructions) {
      placer.Place(instruction);
      result.instructions.push_back(std::move(instruction));
    }
  std::stable_sort(result.instructions.begin(), result.instructions.end(),
                   [](const Instruction& a, const Instruction& b) { return a.start < b.start; });
  return result;
}

}  // namespace hsimd
