/// placer.h: gives instructions their start cycles, one after another, each as early as it may be.
///
/// Semantics are those of the order in which instructions are given: one reads what the last before
/// it has written. An instruction starts in the first cycle in which its slot is free for as long
/// as it holds it, every memory has ports for all of its elements, and no word is touched while a
/// write to it is under way; it may so start before earlier ones that it does not depend on.
/// Words are told apart by memory and address, not by place: instructions under different masks are
/// ordered as if they met.
#pragma once

#include <cstdint>
#include <vector>

#include "../l1/program.h"
#include "../machine/machine.h"

namespace hsimd {

class Placer {
 public:
  explicit Placer(const Machine& machine);

  /// Sets instruction.start and takes what it uses. Throws kInvalidModel where no start could be
  /// right: an element needs a word that an earlier element of the same instruction still writes,
  /// or more ports than a memory has.
  void Place(Instruction& instruction);

 private:
  struct Use {  ///< a word touched by an element
    int memory;
    int64_t address, time;  ///< relative to the start: issue cycle
    bool write;
  };
  struct MemoryState {
    std::vector<int64_t> ready;          ///< by address: a write before is complete from here on
    std::vector<int64_t> released;       ///< by address: 1 + the last cycle in which it is read
    std::vector<uint8_t> reads, writes;  ///< by cycle
  };
  void Collect(const Instruction& instruction);
  int64_t FirstFree(const Instruction& instruction, int64_t start);

  const Machine& machine_;
  std::vector<MemoryState> memories_;
  std::vector<int> slot_of_unit_;
  std::vector<std::vector<uint8_t>> busy_;  ///< by slot and cycle
  std::vector<Use> uses_;                   ///< of the instruction in hand
  std::vector<std::pair<int64_t, int>> port_reads_,
      port_writes_;  ///< (time, memory), once an access, by time
};

}  // namespace hsimd
