/// stage.h: one loop nest of the interpreter; private to src/codegen.
#pragma once

#include "interp.h"

namespace weft::interp {

/// `value` at every point of `outer` (loop numbers, outermost first), reduced over `inner` where
/// `op` is given. Results go row-major over `outer` to `table` (double or int64) or, rounded to
/// `dtype`, to `typed`.
struct Stage {
  Expr value;
  std::vector<int> outer, inner;
  std::optional<ReduceOp> op;
  DType dtype = DType::kUnknown;  ///< of the result
  double* table = nullptr;
  void* typed = nullptr;
};

/// What all stages of one evaluation share.
struct Context {
  std::vector<int64_t> extents;  ///< of every loop
  std::vector<Source> sources;   ///< inputs, then tables
  int first_table = 0;
  std::vector<std::vector<int>> table_loops;  ///< of every reduction
  InterpretMode mode = InterpretMode::kTyped;
};

void RunStage(const Stage& stage, const Context& context);

}  // namespace weft::interp
