/// taken_dtypes.h: the dtypes that a library takes an operator in. It refuses others at any
/// dimensions: what is known before a program is compiled need not be found out while it runs.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/core/op/op.h"
#include "weft/core/target.h"
#include "weft/core/tensor/dtype.h"

namespace weft {

/// Of the operator's first result: "TTakenDTypes.<library>". Absent: the library says it by itself.
using TTakenDTypes = std::vector<DType>;

inline const TTakenDTypes* TakenDTypes(const Target& target, const Op* op) {
  return Op::GetAttr<TTakenDTypes>("TTakenDTypes." + target.library()).find(op);
}
inline bool IsTaken(const TTakenDTypes* taken, DType t) {
  return !taken || std::find(taken->begin(), taken->end(), t) != taken->end();
}

}  // namespace weft
