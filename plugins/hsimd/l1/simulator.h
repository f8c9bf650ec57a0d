/// simulator.h: executes a program on data and refuses what the machine could not do.
///
/// Every element is executed in the cycle in which it issues; the hazards of program.h are found by
/// the cycle, instruction, place and word. They do not depend on data, so they are looked for until
/// a run has passed; later runs of the same simulator only compute.
///
/// f32 is IEEE 754 with one rounding an operation (the matrix unit rounds product and sum; the sum
/// runs over the places in order); reductions combine in the order of the places. A NaN that an
/// operation makes is 0x7fc00000.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program.h"

namespace hsimd {

enum class HazardKind {
  kUnderWay,      ///< a word is touched while a write to it is under way
  kNeverWritten,  ///< a word is read that nothing has written
  kReadPort,      ///< more reads than ports
  kWritePort,
  kAccessPort,
};

struct Hazard {
  HazardKind kind{};
  int64_t cycle = 0;  ///< in which it happens: of an element's issue, or (ports) of the access
  int64_t instruction = 0;  ///< that commits it
  int64_t element = 0;      ///< of the instruction, from 0
  int memory = 0;
  int64_t place = 0;  ///< of the memory's level, in the whole machine
  int64_t word = 0;
  int64_t other = -1;  ///< the instruction that it collides with; -1: none
};

/// "cycle 12: instruction 5 (@8 ALU.fadd), element 4, touches R0[8] in PE 3 while instruction 4 (@7
/// ALU.fmul) does and a write is under way".
std::string Describe(const Hazard& hazard, const Program& program, const Machine& machine);

struct Execution {
  int64_t cycles = 0;
  /// By unit: cycles in which it holds its slot.
  std::vector<int64_t> busy;
  /// By memory: distinct addresses that were touched (segments that nothing reads are not), and the
  /// largest of them + 1.
  std::vector<int64_t> touched_words, extent_words;
};

class Simulator {
 public:
  /// Copies both. Throws as CheckProgram; kLimit where the words that the program names need more
  /// than `max_bytes` of host memory.
  Simulator(Machine machine, Program program, int64_t max_bytes = int64_t{8} << 30);
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  const Machine& machine() const;
  const Program& program() const;

  /// Words of off-chip memory, which keeps them from run to run; those of an input segment count as
  /// written from the start (0 until they are set). Throws kApiMisuse out of the memory's words.
  void SetWords(int memory, int64_t base, const uint32_t* words, int64_t n);
  void GetWords(int memory, int64_t base, uint32_t* words, int64_t n) const;

  /// One run from cycle 0; memories on the chip start as never written. Throws kInvalidModel with
  /// Describe's text at the first hazard.
  Execution Run();
  /// As Run, but returns the hazard; `execution` is whole where there is none.
  std::optional<Hazard> TryRun(Execution* execution = nullptr);
  /// A word after a run, for tests and tools; nothing where it was never written.
  std::optional<uint32_t> WordAt(int memory, int64_t place, int64_t word) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hsimd
