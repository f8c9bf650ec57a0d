/// product_shape.h: the extents of a matrix product with numpy's broadcasting, as libraries want them; for every backend.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "weft/support/checked.h"

namespace weft {

/// Batch extents (1 broadcasts), then the matrix.
struct ProductShape {
  std::vector<int64_t> a, b, y;
};

/// Of operands of these extents. Adjacent batch axes that broadcast alike become one; a shared right side takes the batch
/// into the rows. Nothing where they do not fit, or four batch axes do not do.
inline std::optional<ProductShape> CollapseProduct(std::vector<int64_t> a, std::vector<int64_t> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  if (b[b.size() - 2] != k) return std::nullopt;
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  if (CheckedProduct(b) == 1)
    return ProductShape{
        {CheckedMul(CheckedProduct(a), m), k}, {k, n}, {CheckedMul(CheckedProduct(a), m), n}};
  ProductShape p;
  int last = -1;
  for (size_t i = 0; i < rank; ++i) {
    if (a[i] == 1 && b[i] == 1) continue;
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return std::nullopt;
    const int how = a[i] == b[i] ? 0 : a[i] == 1 ? 1 : 2;
    if (how == last) {
      p.a.back() = CheckedMul(p.a.back(), a[i]);
      p.b.back() = CheckedMul(p.b.back(), b[i]);
      p.y.back() = CheckedMul(p.y.back(), std::max(a[i], b[i]));
    } else {
      p.a.push_back(a[i]);
      p.b.push_back(b[i]);
      p.y.push_back(std::max(a[i], b[i]));
    }
    last = how;
  }
  p.a.insert(p.a.end(), {m, k});
  p.b.insert(p.b.end(), {k, n});
  p.y.insert(p.y.end(), {m, n});
  if (p.y.size() > 6) return std::nullopt;
  return p;
}

}  // namespace weft
