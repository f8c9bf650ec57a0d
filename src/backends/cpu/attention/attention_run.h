/// attention_run.h: y = softmax(scale q k' + mask) v over dense f32 tensors of any axis order,
/// in blocks of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_kernel.h"

namespace weft::cpu {

/// How an operand lies in memory, in floats; a step of 0 repeats.
struct AttentionOperand {
  std::vector<int64_t> batch;  ///< steps along the batch axes
  int64_t row = 0, column = 0;
};

struct AttentionShape {
  std::vector<int64_t> batch;  ///< extents
  int64_t rows = 0;            ///< of q and y
  int64_t keys = 0;            ///< rows of k and v
  int64_t depth = 0;           ///< columns of q and k
  int64_t width = 0;           ///< columns of v and y
  AttentionOperand q, k, v, y, mask;
  bool masked = false;
  bool safe = false;  ///< rows of scores without a soft-max give 0 instead of NaN
  float scale = 1;
  float softcap = 0;  ///< > 0: scores x become softcap tanh(x / softcap) before the mask
};

/// The parts in which it is computed. They follow from the extents and the number of threads;
/// results do not depend on the latter.
struct AttentionPlan {
  AttentionPlan(const AttentionShape& shape, const AttentionKernel& kernel, int threads);
  const AttentionKernel* kernel;
  int threads;
  int64_t rows_at_once, keys_at_once;  ///< of a block of scores
  int64_t keys_packed;                 ///< whose panels a thread holds
  bool keys_lie_so, values_lie_so;     ///< panels are read where they are
  bool keys_by_rows;                   ///< keys are read where they are, one after the other
  int64_t batches, blocks;             ///< blocks of rows in each
  // Sizes in floats of a thread's memory.
  int64_t key_floats, value_floats, query_floats, score_floats, sum_floats, row_floats;
  int64_t scratch_bytes() const;
};

/// `keys`: of shape.keys those that are read, the first ones. `mask`: null where shape.masked is
/// not set; keys that it hides (-inf) from all rows of a block, in front of and behind the others,
/// are left out. `scratch`: plan.scratch_bytes(), 64-byte aligned.
void RunAttention(const AttentionShape& shape, const AttentionPlan& plan, int64_t keys,
                  const float* q, const float* k, const float* v, const float* mask, float* y,
                  void* scratch);

}  // namespace weft::cpu
