/// attention_run.cc: blocks of rows of attention.
///
/// A block of scores, some rows by some keys, stays in the cache: the product makes it, the
/// soft-max turns it into weights, the second product takes it up. Rows longer than the block go on
/// with the next keys, with a running maximum and a running sum; what they had summed up shrinks
/// when the maximum grows (Milakov and Gimelshein 2018; Dao et al. 2022). Each thread takes
/// neighbouring blocks and packs keys and values of a head once for all of them. A few rows read
/// keys and values where they lie, each once: one token of a text runs at the speed of memory.
#include "attention_run.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/util/transpose.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

/// A block of scores, 96 KiB: with keys and values of as many rows it fits in a core's own cache
/// everywhere. From 48 to 192 rows and 128 to 512 keys times differ by less than what they vary
/// from run to run (Intel Xeon, AVX-512).
constexpr int64_t kMostRows = 96, kMostKeys = 256;
/// Packed keys and values that a thread keeps from one block of rows to the next.
constexpr int64_t kPackedBytes = int64_t{4} << 20;
/// Panels whose rows lie so near each other, or that so few rows of queries use, are not packed.
constexpr int64_t kNearFloats = 128, kFewRows = 32;
/// So few rows take products with keys as they lie: to pack them would be most of the work.
constexpr int64_t kRowsByDots = 16;

int64_t Parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

struct Memory {
  float *keys, *values, *queries, *scores, *sums, *most, *total, *factor;
  const float *packed_k = nullptr, *packed_v = nullptr;  ///< what keys and values were made of
};

/// `n` keys as columns of panels.
void PackKeys(const AttentionShape& s, const AttentionKernel& f, const float* k, int64_t n,
              float* to) {
  for (int64_t first = 0; first < n; first += f.panel) {
    const int64_t count = std::min(f.panel, n - first), width = CheckedRoundUp(count, f.lanes);
    const float* from = k + first * s.k.row;
    if (s.k.column == 1) {
      TransposeMatrix(from, s.k.row, to, width, count, s.depth);
    } else {
      for (int64_t j = 0; j < s.depth; ++j)
        for (int64_t c = 0; c < count; ++c) to[j * width + c] = from[j * s.k.column + c * s.k.row];
    }
    if (count < width)
      for (int64_t j = 0; j < s.depth; ++j)
        std::fill(to + j * width + count, to + (j + 1) * width, 0.f);
    to += width * s.depth;
  }
}

void PackValues(const AttentionShape& s, const AttentionKernel& f, const float* v, int64_t n,
                float* to) {
  for (int64_t first = 0; first < s.width; first += f.panel) {
    const int64_t count = std::min(f.panel, s.width - first),
                  width = CheckedRoundUp(count, f.lanes);
    for (int64_t i = 0; i < n; ++i, to += width) {
      const float* from = v + i * s.v.row + first * s.v.column;
      if (s.v.column == 1)
        std::copy_n(from, count, to);
      else
        for (int64_t c = 0; c < count; ++c) to[c] = from[c * s.v.column];
      std::fill(to + count, to + width, 0.f);
    }
  }
}

struct Panel {
  const float* at;
  int64_t step;
};

/// The keys [first, last) that the mask shows to one of `rows` rows, of the first `keys`.
struct Seen {
  int64_t first, last;
};
Seen SeenKeys(const AttentionShape& s, const float* mask, int64_t keys, int64_t rows) {
  if (!mask) return {0, keys};
  const auto hidden = [&](int64_t j) {
    for (int64_t i = 0; i < (s.mask.row == 0 ? 1 : rows); ++i)
      if (mask[i * s.mask.row + j * s.mask.column] != -INFINITY) return false;
    return true;
  };
  if (s.mask.column == 0) return {0, keys == 0 || hidden(0) ? 0 : keys};
  Seen seen{0, keys};
  while (seen.first < keys && hidden(seen.first)) ++seen.first;
  while (seen.last > seen.first && hidden(seen.last - 1)) --seen.last;
  return seen;
}

/// `rows` rows of one batch over the first `keys` keys.
void Block(const AttentionShape& s, const AttentionPlan& p, int64_t keys, const float* q,
           const float* k, const float* v, const float* mask, float* y, int64_t rows, Memory* m) {
  const AttentionKernel& f = *p.kernel;
  for (int64_t i = 0; i < rows; ++i) {
    if (s.q.column == 1) {
#pragma omp simd
      for (int64_t j = 0; j < s.depth; ++j)
        m->queries[i * s.depth + j] = s.scale * q[i * s.q.row + j];
    } else {
      for (int64_t j = 0; j < s.depth; ++j)
        m->queries[i * s.depth + j] = s.scale * q[i * s.q.row + j * s.q.column];
    }
  }
  std::fill_n(m->most, rows, -INFINITY);
  std::fill_n(m->total, rows, 0.f);
  const int64_t score_step = p.keys_at_once, sum_step = CheckedRoundUp(s.width, f.lanes);
  const Seen seen = SeenKeys(s, mask, keys, rows);
  if (seen.first == seen.last) std::fill_n(m->sums, rows * sum_step, 0.f);
  // Blocks begin at the same keys for all rows, so that what is packed serves the next rows.
  const int64_t begin = seen.first / p.keys_at_once * p.keys_at_once;
  for (int64_t start = begin / p.keys_packed * p.keys_packed; start < seen.last;
       start += p.keys_packed) {
    const int64_t held = std::min(p.keys_packed, keys - start);
    const float *k_at = k + start * s.k.row, *v_at = v + start * s.v.row;
    if (!p.keys_lie_so && !p.keys_by_rows && m->packed_k != k_at)
      PackKeys(s, f, k_at, held, m->keys);
    if (!p.values_lie_so && m->packed_v != v_at) PackValues(s, f, v_at, held, m->values);
    m->packed_k = k_at;
    m->packed_v = v_at;
    for (int64_t first = std::max<int64_t>(begin - start, 0);
         first < std::min(held, seen.last - start); first += p.keys_at_once) {
      const int64_t n = std::min(p.keys_at_once, std::min(held, seen.last - start) - first);
      if (p.keys_by_rows)
        f.dots(m->queries, s.depth, k_at + first * s.k.row, s.k.row, n, m->scores, score_step, rows,
               s.depth);
      for (int64_t c = 0; c < n && !p.keys_by_rows; c += f.panel) {
        const int64_t width = CheckedRoundUp(std::min(f.panel, n - c), f.lanes);
        // Panels were packed before it was known how many keys are seen.
        const int64_t packed = CheckedRoundUp(std::min(f.panel, held - first - c), f.lanes);
        const Panel b = p.keys_lie_so ? Panel{k_at + first + c, s.k.column}
                                      : Panel{m->keys + (first + c) * s.depth, packed};
        f.multiply(m->queries, s.depth, b.at, b.step, width, m->scores + c, score_step, rows,
                   s.depth, nullptr);
      }
      if (s.softcap > 0)
        for (int64_t i = 0; i < rows; ++i) f.bend(m->scores + i * score_step, n, s.softcap);
      const float* mask_at = mask ? mask + (start + first) * s.mask.column : nullptr;
      for (int64_t i = 0; i < rows; ++i)
        m->factor[i] =
            f.soften(m->scores + i * score_step, n, mask_at ? mask_at + i * s.mask.row : nullptr,
                     s.mask.column, m->most + i, m->total + i);
      const bool begins = start + first == begin;
      for (int64_t c = 0; c < s.width; c += f.panel) {
        const int64_t width = CheckedRoundUp(std::min(f.panel, s.width - c), f.lanes);
        const Panel b = p.values_lie_so ? Panel{v_at + first * s.v.row + c, s.v.row}
                                        : Panel{m->values + c * held + first * width, width};
        f.multiply(m->scores, score_step, b.at, b.step, width, m->sums + c, sum_step, rows, n,
                   begins ? nullptr : m->factor);
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    // The sum is 0 where all is hidden, NaN where a score is not finite.
    if ((s.safe || keys == 0) && !(m->total[i] > 0)) {
      for (int64_t c = 0; c < s.width; ++c) y[i * s.y.row + c * s.y.column] = 0;
      continue;
    }
    f.divide(m->sums + i * sum_step, m->total[i], y + i * s.y.row, s.y.column, s.width);
  }
}

int64_t Offset(const AttentionShape& s, const AttentionOperand& x, int64_t batch) {
  int64_t at = 0;
  for (size_t k = s.batch.size(); k-- > 0;) {
    at += batch % s.batch[k] * x.batch[k];
    batch /= s.batch[k];
  }
  return at;
}

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape& s, const AttentionKernel& f, int team)
    : kernel(&f), batches(CheckedProduct(s.batch)) {
  keys_at_once = std::min(kMostKeys, CheckedRoundUp(s.keys, f.lanes));
  const int64_t padded = CheckedRoundUp(s.width, f.lanes);
  const int64_t fit = kPackedBytes / (4 * (s.depth + padded));
  keys_packed =
      std::min(CheckedRoundUp(s.keys, f.lanes), std::max(fit / kMostKeys, int64_t{1}) * kMostKeys);
  // Rows of panels that lie far apart share few sets of the first cache: for many rows it pays
  // to move them together.
  const auto lies_so = [&](int64_t across, int64_t down, int64_t extent) {
    return across == 1 && extent % f.lanes == 0 && (down <= kNearFloats || s.rows <= kFewRows);
  };
  keys_lie_so = lies_so(s.k.row, s.k.column, s.keys);
  keys_by_rows = !keys_lie_so && s.k.column == 1 && s.rows <= kRowsByDots;
  values_lie_so = lies_so(s.v.column, s.v.row, s.width);
  // A few blocks for each thread, so that none waits long for the last.
  blocks =
      std::max(Parts(s.rows, kMostRows), std::min(Parts(4 * team, batches), Parts(s.rows, 16)));
  rows_at_once = std::min(kMostRows, CheckedRoundUp(Parts(s.rows, blocks), 6));
  blocks = Parts(s.rows, rows_at_once);
  threads = int(std::min<int64_t>(team, batches * blocks));
  const auto floats = [](int64_t a, int64_t b) { return CheckedRoundUp(CheckedMul(a, b), 16); };
  key_floats = keys_lie_so || keys_by_rows ? 0 : floats(keys_packed, s.depth);
  value_floats = values_lie_so ? 0 : floats(keys_packed, padded);
  query_floats = floats(rows_at_once, s.depth);
  score_floats = floats(rows_at_once, keys_at_once);
  sum_floats = floats(rows_at_once, padded);
  row_floats = floats(rows_at_once, 1);
}

int64_t AttentionPlan::scratch_bytes() const {
  return CheckedMul(4 * int64_t{threads}, key_floats + value_floats + query_floats + score_floats +
                                              sum_floats + 3 * row_floats);
}

void RunAttention(const AttentionShape& s, const AttentionPlan& p, int64_t keys, const float* q,
                  const float* k, const float* v, const float* mask, float* y, void* scratch) {
  const int64_t items = p.batches * p.blocks, own = p.scratch_bytes() / 4 / p.threads;
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
  for (int part = 0; part < p.threads; ++part) {
    float* at = static_cast<float*>(scratch) + part * own;
    const auto take = [&at](int64_t floats) { return at += floats, at - floats; };
    Memory m{take(p.key_floats), take(p.value_floats), take(p.query_floats), take(p.score_floats),
             take(p.sum_floats), take(p.row_floats),   take(p.row_floats),   take(p.row_floats)};
    for (int64_t i = items * part / p.threads; i < items * (part + 1) / p.threads; ++i) {
      const int64_t batch = i / p.blocks, row = i % p.blocks * p.rows_at_once;
      Block(s, p, keys, q + Offset(s, s.q, batch) + row * s.q.row, k + Offset(s, s.k, batch),
            v + Offset(s, s.v, batch),
            mask ? mask + Offset(s, s.mask, batch) + row * s.mask.row : nullptr,
            y + Offset(s, s.y, batch) + row * s.y.row, std::min(p.rows_at_once, s.rows - row), &m);
    }
  }
}

}  // namespace weft::cpu
