/// philox.h: random numbers as expressions: a pure function of a seed, a step, a stream and the
/// number of the element. Whoever asks again, in whatever kernel, order or thread, gets the same
/// number.
///
///   key(seed, step, stream)   64 bits: the seed keys a draw for the step, that one a draw for the
///                             stream
///   bits(key, k)              32 bits: the first word of Philox4x32-10 for key and counter k
///
/// Element i takes the bits at 2 i and 2 i + 1 (uniform f64, normal), or at i (uniform otherwise);
/// normal f64 takes four, from 4 i on.
#pragma once

#include "weft/codegen/expr/expr.h"

namespace weft::ops {

/// The key of one stream of one step.
Expr PhiloxKey(const Expr& seed, const Expr& step, int64_t stream);
/// Uniform on [0, 1) for element `number` (i64), as a value of AccumulatorOf(t): multiples of 2^-24
/// for f32, of 2^-53 for f64, of 2^-11 and 2^-8 for f16 and bf16, which can hold no more.
Expr PhiloxUniform(DType t, const Expr& key, const Expr& number);
/// Standard normal: sqrt(-2 log u) cos(2 pi v) (Box and Muller) with u on (0, 1], v on [0, 1), both
/// uniform; a value of AccumulatorOf(t).
Expr PhiloxNormal(DType t, const Expr& key, const Expr& number);
/// A seed that no other call of this process gets.
uint64_t FreshSeed();

}  // namespace weft::ops
