/// op_signature.h: types and shapes of an operator as a formula.
///
///   const OpSignature s("T[..., n, k], T[..., k, m] -> T[..., n, m]");
///   WEFT_REGISTER_OP_IN(demo, Mix).set_attr<FInferType>("FInferType", s.types())
///       .set_attr<FInferShape>("FInferShape", s.shapes())
///
/// One term an input, `->`, one term an output. A term is a dtype (`f32`) or a capital letter
/// (equal letters, equal dtypes) and extents in brackets: numbers; names, where equal names are
/// equal extents; behind the arrow any expression of them (`2*n + 1`, `n//2`, `max(n, m)`); a
/// leading `...` stands for any extents, the same everywhere. Without brackets the shape is free in
/// front of the arrow and unknown behind it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/core/op/op_attr_types.h"

namespace weft {

class WEFT_API OpSignature {
 public:
  /// Throws kSyntax, naming the place; also for a name behind the arrow that is not in front of it.
  explicit OpSignature(std::string_view text);
  int num_inputs() const;
  int num_outputs() const;
  FInferType types() const;
  FInferShape shapes() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft
