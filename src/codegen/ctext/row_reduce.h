/// row_reduce.h: the reductions of a row kernel that are computed once per row; private to code
/// generation.
#pragma once

#include <vector>

#include "emit.h"

namespace weft::ctext {

struct RowReduce {
  Expr node;  ///< the kReduce
  Expr body;  ///< its body over the kernel's own row loops instead of its bound variables
  /// 0: reads no other row reduction; those of one stage can share a pass over the row
  int stage = 0;
};

/// In the order in which they must be computed (by stage, then by first use).
/// Bodies are written over the row loops so that a value that several passes read is one node in
/// all of them.
WEFT_API std::vector<RowReduce> FindRowReduces(Emitter* e, const Kernel& kernel,
                                               const std::vector<KernelStore>& stores);

}  // namespace weft::ctext
