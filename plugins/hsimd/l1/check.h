/// check.h: what can be said of a program without executing it, and its cycles.
///
/// Everything of program.h but what needs the words' history: "under way", "never written" and
/// ports are the simulator's (simulator.h). Nothing here depends on data either.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "program.h"

namespace hsimd {

/// "instruction 12 (@40 ALU.fadd)": how messages name an instruction, counted from 0.
std::string NameOf(const Program& program, int64_t instruction, const Machine& machine);

/// Throws kInvalidModel, naming the instruction, unless: the program is of this machine; units,
/// operations, memories and places exist, and the unit reaches the memories; the number of operands
/// fits; instructions come by start cycle, and those of one slot do not overlap; every address is
/// in range; no word of a parent has two writers; a matrix instruction takes whole groups; segments
/// lie in off-chip memory, inputs apart from each other.
void CheckProgram(const Program& program, const Machine& machine);

/// Cycles for which an instruction holds its slot, from its start.
int64_t CyclesHeld(const Instruction& instruction, const Machine& machine);

/// Streams that read the same addresses: one read of a port where one instruction has both.
bool SameStream(const Stream& a, const Stream& b);
/// Is source `s` one read with a source before it? A matrix's A is n words, no read of one.
bool ReadBefore(const Instruction& instruction, UnitKind kind, size_t s);

/// The least and the largest address of a stream. Throws kOverflow.
std::pair<int64_t, int64_t> AddressRange(const Stream& stream, const std::array<int64_t, 3>& count);

}  // namespace hsimd
