/// random_program.h: random machines and random programs on them that are free of hazards.
#pragma once

#include <map>
#include <random>
#include <utility>

#include "../l1/program.h"

namespace hsimd {

/// 1 to 3 levels below the root, fan-outs 2 to 8 (at most 64 places), latencies 1 to 8, ports from
/// tight to none, integral and fractional rates, slots shared or not.
Machine RandomMachine(std::mt19937* random);

/// Any instruction that passes CheckProgram alone; starts in [0, 4).
Instruction RandomInstruction(const Machine& machine, std::mt19937* random);

/// A program of up to `n` instructions, packed as tightly as chance finds; it has no hazard by the
/// simulator (tests ask the naive interpreter too). An input fills the first half of each off-chip
/// memory.
Program RandomProgram(const Machine& machine, int n, std::mt19937* random);

/// Words for the inputs of a program, by (memory, address): small integers, floats, any bits.
std::map<std::pair<int, int64_t>, uint32_t> RandomWords(const Program& program,
                                                        std::mt19937* random);

}  // namespace hsimd
