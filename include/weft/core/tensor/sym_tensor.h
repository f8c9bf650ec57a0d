/// sym_tensor.h: the value of a small integer tensor as far as compilation follows it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/support/api.h"
#include "weft/sym/sym.h"

namespace weft {

/// Value of a small integer (or bool) tensor known at compile time, each element an integer, an
/// expression or unknown. Carried along `Shape`, `Gather`, `Concat`, arithmetic ... so that shape
/// arithmetic is followed through.
struct WEFT_API SymTensor {
  std::vector<int64_t> dims;     ///< rank 0 or 1 in practice; any rank allowed
  std::vector<SymInt> elements;  ///< row-major
  bool is_const() const;         ///< every element an integer
  bool fully_known() const;      ///< no element unknown
  /// Of a constant one; throws InternalError for another.
  std::vector<int64_t> ints() const;
  friend WEFT_API bool operator==(const SymTensor& a, const SymTensor& b);
};
using SymTensorPtr = std::shared_ptr<const SymTensor>;
/// Rows of the attribute "value" are equal by content.
inline bool AttrRowsEqual(const SymTensorPtr& a, const SymTensorPtr& b) {
  return a == b || (a && b && *a == *b);
}
/// Largest tensor whose value is followed.
inline constexpr int64_t kMaxSymTensor = 1024;

}  // namespace weft
