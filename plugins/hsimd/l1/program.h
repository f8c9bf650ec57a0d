/// program.h: programs of instructions with start cycles, the last of the three levels (l1).
///
/// An instruction is an operation of a unit, a start cycle, a mask, and operands that are affine
/// streams; it has `count[0] * count[1] * count[2]` elements, the last count fastest. Element k
/// issues in cycle start + rate.StartOf(k). In that cycle it reads its sources, in every place of
/// the mask at the same addresses; its result is written at the end of cycle issue + latency - 1,
/// and can be read from cycle issue + latency on. Nothing stalls. These are errors that name cycle,
/// instruction, place and word:
///
///   under way     a word is touched, by any other element, in [issue, issue + latency) of an
///                 element that writes it (its own reads in its issue cycle are fine)
///   never written a word is read that nothing has written
///   port          a memory is read or written more often in a cycle and place than it has ports
///                 (reads count in the issue cycle, writes in the cycle issue + latency - 1)
///                 (equal streams of one instruction are one read)
///   slot          two instructions of one slot issue elements at once: an instruction holds its
///                 slot for ceil(elements / rate) cycles from its start
///   range         an address beyond the memory's words
///   two writers   a word of a parent is written by several places of one element (kUp, no reduce)
///
/// A mask names the places that take part: of a link the children, of a ring those that receive;
/// their neighbours are read whether they are in it or not. A matrix instruction takes all places
/// of the last level under a parent or none. The words of a parent that belong to places outside
/// the mask are not touched.
///
/// Cycles of a program: the first cycle in which nothing is under way any more; they follow from
/// its text, never from data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../machine/machine.h"

namespace hsimd {

/// Addresses base + sum of digit * stride over the three counters of the instruction.
struct Stream {
  int memory = -1;  ///< index in Machine::memories; -1: an immediate word
  int64_t base = 0;
  std::array<int64_t, 3> stride{0, 0, 0};
  uint32_t immediate = 0;  ///< bits, where memory is -1
};

/// A set of places on each level; the instruction works in the places all of whose ancestors are in
/// the sets of their levels. Bit p of word p / 64 is place p *within its parent*; an empty vector
/// is all of them.
struct Mask {
  std::vector<std::vector<uint64_t>> levels;  ///< by level, or empty: every place
  bool Has(int level, int64_t place) const;
  bool operator==(const Mask& o) const { return levels == o.levels; }
};

struct Instruction {
  int unit = 0, op = 0;  ///< indices in the machine
  int64_t start = 0;
  std::array<int64_t, 3> count{1, 1, 1};
  Mask mask;
  Stream target;
  /// ALU: its operands in order. Matrix: A (the whole words base .. base + n - 1, n the places of
  /// the last level under one parent), x, and acc where there are three. Links: one.
  std::vector<Stream> sources;
  std::string note;  ///< whence it came: the user's node, a move; a comment in the text

  int64_t elements() const { return count[0] * count[1] * count[2]; }
};

/// What lies in an off-chip memory before (inputs, constants) or after a run (results).
struct Segment {
  std::string name;
  int memory = 0;
  int64_t base = 0, words = 0;
  bool is_output = false;
};

struct Program {
  std::string machine;  ///< its name
  std::vector<Segment> segments;
  std::vector<Instruction> instructions;  ///< by start cycle
};

/// The text form; ParseProgram(PrintProgram(p)) equals p, where masks of which every level is whole
/// are empty, and notes are a line without blanks at its ends.
///
///   l1 1
///   machine toy4
///   input x : DRAM[0:24]
///   output y : DRAM[24:48]
///   @0 DOWN.distribute PM[0; 1, 4] -> R[8; 1, 4] x (3, 2) on PE=0,2-3   # note
///   @6 ALU.fma R[0; 1], 0x40000000, 0x3f800000 -> R[8; 1] x (3)
///
/// An address is base; strides, the last counter's last; counts are those of the instruction.
/// `on` names a set of places by level: "on L1B=0 PE=1-3"; levels that it does not name are whole.
/// Throws kSyntax with line and column, also for names that the machine lacks, with the nearest.
Program ParseProgram(std::string_view text, const Machine& machine, const std::string& source);
std::string PrintProgram(const Program& program, const Machine& machine);

/// The cycles of a program by adding up its schedule: shares with the simulator the reading of
/// machine and program alone.
int64_t PredictCycles(const Program& program, const Machine& machine);

}  // namespace hsimd
