/// predict.cc: the cycles of a program, from its schedule alone.
#include <algorithm>

#include "program.h"

namespace hsimd {

int64_t PredictCycles(const Program& program, const Machine& machine) {
  int64_t cycles = 0;
  for (const Instruction& i : program.instructions) {
    const UnitOp& op = machine.units[size_t(i.unit)].ops[size_t(i.op)];
    cycles = std::max(cycles, i.start + op.rate.StartOf(i.elements() - 1) + op.latency);
  }
  return cycles;
}

}  // namespace hsimd
