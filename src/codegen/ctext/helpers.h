/// helpers.h: the small functions that generated C and CUDA text calls; private to code generation.
///
/// An operator of the expression language whose meaning differs from C's (division by zero,
/// saturating conversions, NaN-propagating minimum, 16-bit floats) becomes a call of one of these
/// functions. Only those that a text uses are printed, in order of first use, so that a source
/// needs no header (CUDA) or only <math.h> (C): with NVRTC the two half-precision headers alone
/// would cost as much as a whole kernel.
#pragma once

#include <set>
#include <string>

#include "weft/codegen/expr/expr.h"

namespace weft::ctext {

enum class Dialect { kC, kCuda };

/// Type of a value of `t` in a register: narrow floats are computed in f32.
WEFT_API std::string ValueType(DType t);
/// Type of an element of `t` in memory: bool is a byte, the 16-bit floats their bits.
WEFT_API std::string StorageType(DType t);
/// Unsigned type in which integers of type `t` are computed without overflow: u32 or u64.
WEFT_API std::string WrapType(DType t);

class WEFT_API Helpers {
 public:
  explicit Helpers(Dialect dialect) : dialect_(dialect) {}
  Dialect dialect() const { return dialect_; }

  /// A constant by its bits: hexadecimal floating point, decimal integers.
  std::string Literal(DType t, uint64_t bits);

  // Each returns the name of the function and notes that it is needed.
  std::string Binary(BinOp op, DType t);    ///< kDiv .. kMax, kShl, kShr; kMod of floats
  std::string ToInt(DType from, DType to);  ///< saturating truncation of f32 / f64
  std::string Bits(DType from, DType to);   ///< reinterpretation
  std::string Widen(DType from);            ///< bits of a narrow float to f32
  std::string Narrow(DType to);             ///< f32 to bits of a narrow float
  std::string Quotient();  ///< of u64, in 32 bits where both fit: a third of the time on a GPU
  std::string Philox();
  std::string Broadcast();  ///< extent of two broadcast extents
  void UseVectors();        ///< CUDA: Vec<T, N>, LoadVec, StoreVec, IsAligned, ToAligned

  /// Type names, headers of the dialect and the functions that were asked for.
  std::string Text() const;

 private:
  std::string Add(const std::string& name, const std::string& result, const std::string& args,
                  const std::string& body);
  Dialect dialect_;
  std::set<std::string> known_;
  std::string text_;
};

}  // namespace weft::ctext
