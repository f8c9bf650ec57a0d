/// taken_dtypes.h: the dtypes that a library takes an operator in. It refuses others at any
/// dimensions: what is known before a program is compiled need not be found out while it runs.
#pragma once

#include <functional>

#include "weft/core/op/op.h"
#include "weft/core/target.h"
#include "weft/core/tensor/dtype.h"

namespace weft {

/// Of the operator's first result: "FTakesDType.<library>". Absent: the library says it by itself.
using FTakesDType = std::function<bool(DType)>;

inline const FTakesDType* TakesDTypeOf(const Target& target, const Op* op) {
  return Op::GetAttr<FTakesDType>("FTakesDType." + target.library()).find(op);
}
inline bool IsTaken(const FTakesDType* takes, DType t) { return !takes || (*takes)(t); }

}  // namespace weft
