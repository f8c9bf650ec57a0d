/// body_plan.h: where the values of a vector's body lie while it runs; private to l2/.
///
/// Values of steps get a memory each such that every instruction has ports for all of its operands,
/// and slots in it; what lies in the wrong memory is copied once. The plan does not depend on the
/// length of a chunk: a slot is as many words as the chunk has points.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emitter.h"

namespace hsimd {

/// Where an operand of a micro step lies.
struct BodyPlace {
  enum class Kind : uint8_t { kImmediate, kInput, kTemp, kTarget, kSum };
  Kind kind = Kind::kImmediate;
  int index = 0;  ///< input, temporary, or result
  uint32_t bits = 0;
};

struct MicroStep {
  AluOp op = AluOp::kCopy;
  std::vector<BodyPlace> operands;
  BodyPlace target;
};

struct BodyPlan {
  struct Temp {
    int memory = 0, slot = 0;
  };
  std::vector<MicroStep> steps;
  std::vector<Temp> temps;
  std::vector<int> slots;  ///< by memory
};

/// How the results of one pass over a chunk are combined.
struct BodyPass {
  std::optional<BodyPlace::Kind> from;  ///< combined with what lies in sums or targets
  BodyPlace::Kind to = BodyPlace::Kind::kTarget;
  int sum_memory = -1;
};

/// Nullopt, with the reason in `why`, where no memory has the ports. `temp_memories`: those that
/// may hold temporaries.
std::optional<BodyPlan> PlanBody(const Machine& machine, const RawVector& vector,
                                 const BodyPass& pass, const std::vector<int>& temp_memories,
                                 std::string* why);

/// Steps in operations that the machine has: x - y as x + -y, one that multiplies and adds as two,
/// comparisons by their opposites. Throws kUnsupported naming the operation.
void LegalizeSteps(const Machine& machine, RawVector& vector);

}  // namespace hsimd
