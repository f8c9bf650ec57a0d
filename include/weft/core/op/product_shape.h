/// product_shape.h: the extents of a matrix product with numpy's broadcasting, as libraries and
/// machines want them.
///
///   MatMul([2, 3, m, k], [k, n])     one product [6 m, k] x [k, n]
///   MatMul([2, 3, m, k], [3, k, n])  batches [2, 3] and [1, 3]
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "weft/support/checked.h"

namespace weft {

/// An operand in the order of the product's axes: extents, and how many elements lie from one
/// index to the next.
struct ProductOperand {
  std::vector<int64_t> dims, steps;

  static ProductOperand Plain(std::vector<int64_t> dims) {
    ProductOperand x{std::move(dims), {}};
    x.steps.assign(x.dims.size(), 1);
    for (size_t k = x.dims.size(); k-- > 1;) x.steps[k - 1] = CheckedMul(x.steps[k], x.dims[k]);
    return x;
  }
  /// Axis k is axis perm[k] of this one, as in Transpose; empty: no axis moves.
  ProductOperand Permuted(const std::vector<int64_t>& perm) const {
    if (perm.empty()) return *this;
    ProductOperand x;
    for (int64_t p : perm) {
      x.dims.push_back(dims[size_t(p)]);
      x.steps.push_back(steps[size_t(p)]);
    }
    return x;
  }
};

/// Batch extents (1 broadcasts), then the matrix. Along an axis of extent 1 the steps are
/// those of dense memory.
struct ProductShape {
  std::vector<int64_t> a, b, y;
  std::vector<int64_t> a_steps, b_steps;  ///< y is dense
};

namespace product_shape {

/// Does the axis (dims, steps)[k] go on where the axes from `inner` on end, so that
/// the two are one?
inline bool Continues(int64_t step, const ProductOperand& inner) {
  return inner.dims[0] == 1 || step == CheckedMul(inner.steps[0], inner.dims[0]);
}
/// Of axes of extent 1.
inline void SetIdleSteps(const std::vector<int64_t>& dims, std::vector<int64_t>* steps) {
  int64_t reach = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    if (dims[k] == 1) (*steps)[k] = reach;
    reach = std::max(reach, CheckedMul((*steps)[k], dims[k]));
  }
}
/// The axes but the last as one; nothing where they do not lie so.
inline std::optional<ProductOperand> AsRows(const ProductOperand& a) {
  ProductOperand rows{{1}, {1}};
  for (size_t k = a.dims.size() - 1; k-- > 0;) {
    if (a.dims[k] == 1) continue;
    if (!Continues(a.steps[k], rows)) return std::nullopt;
    if (rows.dims[0] == 1) rows.steps[0] = a.steps[k];
    rows.dims[0] = CheckedMul(rows.dims[0], a.dims[k]);
  }
  return ProductOperand{{rows.dims[0], a.dims.back()}, {rows.steps[0], a.steps.back()}};
}

}  // namespace product_shape

/// Of operands that lie so. Adjacent batch axes that broadcast alike, and lie alike, become one; a
/// shared right side takes the batch into the rows. Nothing where they do not fit, or four batch
/// axes do not do.
inline std::optional<ProductShape> CollapseProduct(ProductOperand a, ProductOperand b) {
  using product_shape::AsRows;
  using product_shape::SetIdleSteps;
  if (a.dims.empty() || b.dims.empty()) return std::nullopt;
  const auto insert = [](ProductOperand* x, size_t at, size_t count) {
    x->dims.insert(x->dims.begin() + long(at), count, 1);
    x->steps.insert(x->steps.begin() + long(at), count, 1);
  };
  if (a.dims.size() == 1) insert(&a, 0, 1);
  if (b.dims.size() == 1) insert(&b, 1, 1);
  const size_t rank = std::max(a.dims.size(), b.dims.size());
  insert(&a, 0, rank - a.dims.size());
  insert(&b, 0, rank - b.dims.size());
  const size_t batch = rank - 2;
  const int64_t m = a.dims[batch], k = a.dims[batch + 1], n = b.dims[batch + 1];
  if (b.dims[batch] != k) return std::nullopt;

  ProductShape p;
  const auto all_ones = [&](const ProductOperand& x) {
    return std::all_of(x.dims.begin(), x.dims.begin() + long(batch),
                       [](int64_t d) { return d == 1; });
  };
  const std::optional<ProductOperand> rows = all_ones(b) ? AsRows(a) : std::nullopt;
  if (rows) {
    p = {rows->dims, {k, n}, {rows->dims[0], n}, rows->steps, {b.steps[batch], b.steps[batch + 1]}};
  } else {
    int last = -1;
    for (size_t i = 0; i < batch; ++i) {
      const int64_t ad = a.dims[i], bd = b.dims[i], as = a.steps[i], bs = b.steps[i];
      if (ad == 1 && bd == 1) continue;
      if (ad != bd && ad != 1 && bd != 1) return std::nullopt;
      const int how = ad == bd ? 0 : ad == 1 ? 1 : 2;
      const bool joins = how == last && (ad == 1 || p.a_steps.back() == CheckedMul(as, ad)) &&
                         (bd == 1 || p.b_steps.back() == CheckedMul(bs, bd));
      if (joins) {
        p.a.back() = CheckedMul(p.a.back(), ad);
        p.b.back() = CheckedMul(p.b.back(), bd);
        p.y.back() = CheckedMul(p.y.back(), std::max(ad, bd));
        p.a_steps.back() = as;
        p.b_steps.back() = bs;
      } else {
        p.a.push_back(ad);
        p.b.push_back(bd);
        p.y.push_back(std::max(ad, bd));
        p.a_steps.push_back(as);
        p.b_steps.push_back(bs);
      }
      last = how;
    }
    for (size_t i : {batch, batch + 1}) {
      p.a.push_back(a.dims[i]);
      p.b.push_back(b.dims[i]);
      p.a_steps.push_back(a.steps[i]);
      p.b_steps.push_back(b.steps[i]);
    }
    p.y.insert(p.y.end(), {m, n});
    if (p.y.size() > 6) return std::nullopt;
  }
  SetIdleSteps(p.a, &p.a_steps);
  SetIdleSteps(p.b, &p.b_steps);
  return p;
}
inline std::optional<ProductShape> CollapseProduct(std::vector<int64_t> a, std::vector<int64_t> b) {
  return CollapseProduct(ProductOperand::Plain(std::move(a)), ProductOperand::Plain(std::move(b)));
}

}  // namespace weft
