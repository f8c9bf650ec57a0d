/// contraction.h: kernels of sums of products over a matrix that stays in a cache.
#pragma once

#include <optional>

#include "weft/codegen/kernel/kernel.h"

namespace weft::llvmgen {

class Emitter;

/// The kernel as EmitContraction takes it, a work item being a point; nothing where it is none: all
/// of its sums are over the same terms, each a product of what is the same in all lanes and of what
/// lies side by side.
std::optional<Kernel> AsContraction(const Kernel& kernel);
/// Emits the whole function and returns the scratch it needs, in bytes.
SymInt EmitContraction(Emitter& e);

}  // namespace weft::llvmgen
