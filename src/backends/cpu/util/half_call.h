/// half_call.h: library calls of half precision, f16 and bf16, by those of f32: operands are
/// widened, which is exact, and results rounded once.
///
/// The definitions of these operators sum halves in f32 and round at the end, so nothing but the
/// order of a sum differs. The libraries below have no code for halves; without this a kernel would
/// be generated for each set of dimensions, while the program runs, and would be the plain loops of
/// the definition.
///
///   y = MatMul(a, b) in f16   ->   a32 = a   b32 = b   y32 = MatMul(a32, b32)   y = round(y32)
///
/// A constant is widened once for all calls that read it. Epilogues are left to kernels, which
/// round behind each step.
#pragma once

#include <cstdint>

#include "weft/core/tensor/dtype.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

inline bool IsHalf(DType t) { return IsFloat(t) && DTypeBits(t) == 16; }

/// FTakesDType of calls that are f32's: other dtypes are kernels from the start, which are compiled
/// once for all dimensions.
inline bool TakesSingle(DType t) { return t == DType::kF32 || IsHalf(t); }

/// `prepare`, and where operands or results are halves, what it makes of the request in f32.
FCompute WithHalves(FCompute prepare);

/// Elements [first, last), by one thread; `t` is a half type.
void WidenHalves(DType t, const void* from, float* to, int64_t first, int64_t last);
void RoundToHalves(DType t, const float* from, void* to, int64_t first, int64_t last);

}  // namespace weft::cpu
