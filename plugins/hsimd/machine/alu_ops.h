/// alu_ops.h: the operations that an ALU may have, on words of 32 bits.
///
/// An operation is named in machine files and in program text by the names here. A word holds f32,
/// i32 or bool (0 or 1; operands that are not 0 count as true). The set covers what weft's
/// ExpandMath and ExpandBody leave of an expression: every unary, binary, select, cast, bit-cast
/// and fma of f32, i32 and bool (some functions of ExpandMath compute in f64: not covered). Their
/// meanings are those of weft/codegen/expr/expr.h: integers wrap, x / 0 = x mod 0 = 0, shifts by 32
/// or more give 0, minima and maxima propagate NaN, conversions truncate and saturate and take NaN
/// to 0, rounding is half to even.
/// f32 follows IEEE 754 with subnormals; a NaN that an operation makes is 0x7fc00000, whatever NaN
/// came in, so that results have one set of bits on every host.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hsimd {

enum class AluOp : uint8_t {
  kCopy,    ///< a
  kSelect,  ///< a ? b : c

  // f32 to f32
  kFAdd,
  kFSub,
  kFMul,
  kFDiv,
  kFMod,  ///< C's fmod
  kFMin,
  kFMax,
  kFma,      ///< a * b + c in one rounding
  kFMulAdd,  ///< a * b rounded, + c rounded
  kFNeg,
  kFAbs,
  kFFloor,
  kFCeil,
  kFRound,
  kFTrunc,
  kFSqrt,

  // f32 to bool
  kFLess,
  kFLessEqual,
  kFEqual,
  kFNotEqual,
  kFIsNan,
  kFIsInf,

  // i32 to i32
  kIAdd,
  kISub,
  kIMul,
  kIMulAdd,  ///< a * b + c: addresses
  kIDiv,     ///< truncates
  kIMod,     ///< sign of the dividend
  kIFloorDiv,
  kIFloorMod,  ///< sign of the divisor
  kIMin,
  kIMax,
  kINeg,
  kIAbs,
  kIShl,
  kIShr,      ///< of signed numbers: copies of the sign come in
  kUShr,      ///< of unsigned numbers: zeros come in
  kUMulHigh,  ///< the upper half of the product of two u32

  // i32 to bool
  kILess,
  kILessEqual,
  kIEqual,
  kINotEqual,
  kULess,  ///< unsigned
  kULessEqual,

  // bits; of bools too, but for kBitNot
  kAnd,
  kOr,
  kXor,
  kBitNot,
  kNot,  ///< of a bool

  // conversions
  kF2I,
  kI2F,     ///< half to even
  kF2Bool,  ///< a != 0 as a number: -0 is false, NaN true
  kI2Bool,
};

struct AluOpInfo {
  AluOp op;
  const char* name;  ///< "fadd"
  int arity;         ///< 1 to 3
};

/// Every operation, in the order of the enumeration.
const std::vector<AluOpInfo>& AluOps();
/// Nothing where no operation has the name.
std::optional<AluOp> AluOpNamed(std::string_view name);
const AluOpInfo& InfoOf(AluOp op);

/// The result word; b and c are not read beyond the arity.
uint32_t ApplyAlu(AluOp op, uint32_t a, uint32_t b = 0, uint32_t c = 0);

/// dst[i] = op(a[i], b[i], c[i]) for i in [0, n): the words of ApplyAlu, in the places of an
/// instruction. Arrays are equal or disjoint; those beyond the arity may be null.
using AluLanes = void (*)(int64_t n, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                          uint32_t* dst);
AluLanes LanesOf(AluOp op);

}  // namespace hsimd
