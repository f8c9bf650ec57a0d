/// timeline.h: start cycles for instructions in their order (private to move/).
#pragma once

#include <vector>

#include "../l1/program.h"

namespace hsimd {

/// Gives each instruction the earliest start after those before it that keeps every rule of
/// l1/program.h, and sorts by start. Words are told apart by address, not by place. Instructions
/// whose own elements collide are cut. Returns the cycles until all is written; -1 if one element
/// alone breaks a rule (a memory with one access a cycle, read and written in one).
int64_t StartInOrder(const Machine& machine, std::vector<Instruction>& instructions);

}  // namespace hsimd
