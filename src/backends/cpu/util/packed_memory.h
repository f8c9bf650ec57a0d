/// packed_memory.h: where weights lie that a call has packed for itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/core/tensor/tensor.h"

namespace weft::cpu {

/// As AllocateAligned; throws kOutOfMemory.
std::shared_ptr<float> PackedMemory(int64_t floats);

/// What constants of the same content have in common, as far as that is known: those of one mapped
/// file a name (weft/support/mapped_file.h), others their address.
std::string NameOfConstant(const Tensor& t);

/// Numbers below the normal range become zero. Weights that training has shrunk are full of them (a
/// fifth of some layers of a text recogniser), and Intel's processors take some hundred cycles for
/// each product: such a layer 45 times as long. Only beside a weight of 2^-100 or more: 1.2e-38 is
/// less than half a unit of rounding of it.
void DropSubnormals(float* v, int64_t n);

}  // namespace weft::cpu
