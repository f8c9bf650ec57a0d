/// overlap.h: which instructions of a program can be in each other's way at all.
///
/// Hazards need two touches close in time. Most instructions that run at once touch ranges of
/// addresses apart from each other and leave ports to spare; for them nothing need be kept by word.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program.h"

namespace hsimd {

struct Overlaps {
  /// By instruction: whether an element may touch a word while a write of another element is under
  /// way: of its own instruction (kOwn), of another one (kOther). 0 is certain.
  static constexpr uint8_t kOwn = 1, kOther = 2;
  std::vector<uint8_t> words;
  /// 1 where a memory that it uses may run out of ports meanwhile. 0 is certain.
  std::vector<uint8_t> ports;
};

/// Of a program that passed CheckProgram. n log n in instructions, times those that run at once.
Overlaps FindOverlaps(const Program& program, const Machine& machine);

/// The addresses that operand 0 (the target) or 1 + s (source s) touches: [first, end).
std::pair<int64_t, int64_t> WordsOf(const Instruction& instruction, int operand,
                                    const Machine& machine);

}  // namespace hsimd
