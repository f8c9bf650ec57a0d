/// attention_kernel.h: the inner loops of attention, for the widest vectors of the machine.
///
/// A product reads its right side in panels: `width` columns, a multiple of `lanes` and at
/// most `panel`, that lie side by side. Panels of keys hold one key a column, panels of values
/// one feature a column.
#pragma once

#include <cstdint>

namespace weft::cpu {

struct AttentionKernel {
  const char* name;
  int64_t lanes;  ///< floats of a vector
  int64_t panel;  ///< most columns of a panel

  /// c = factor c + a b for the columns of one panel b [depth, width]; a [rows, depth] in steps of
  /// `a_step` floats, b and c likewise; one factor a row, null: c is only written.
  void (*multiply)(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t width,
                   float* c, int64_t c_step, int64_t rows, int64_t depth, const float* factor);

  /// c = a b' for n rows of b [n, depth] in steps of `b_step` floats: products of a few rows with
  /// keys that are read where they lie.
  void (*dots)(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n, float* c,
               int64_t c_step, int64_t rows, int64_t depth);

  /// x = cap tanh(x / cap) for n elements. Writes up to the next multiple of `lanes`.
  void (*bend)(float* x, int64_t n, float cap);

  /// A part of a row of scores: adds the mask (null: none; `mask_step` 0: one value for all, else
  /// 1) and replaces x by exp(x - most) with `most` the maximum of this and all earlier parts.
  /// `sum` grows by what comes out. Returns by what everything earlier has shrunk, `sum` included.
  /// Writes up to the next multiple of `lanes`.
  float (*soften)(float* x, int64_t n, const float* mask, int64_t mask_step, float* most,
                  float* sum);

  /// y = x / sum for n elements; y in steps of `step`.
  void (*divide)(const float* x, float sum, float* y, int64_t step, int64_t n);
};

/// The fastest that this machine runs.
const AttentionKernel& BestAttentionKernel();
/// Number `i` of those that this machine runs, slowest first; null: there are no more.
const AttentionKernel* AttentionKernelNumber(int i);

}  // namespace weft::cpu
