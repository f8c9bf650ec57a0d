/// algebra.cc: composition, and the views that are compositions: Reshape, Slice; digits split.
///
/// Compose is exact by carrying no digit: a digit n:s of the inner layout counts d * s, d < n, in
/// the outer's mixed radix. Where s is c units of one radix r and c divides r, it is the digits
/// (n / (r / c), r / c) of two neighbouring radices, and so on upwards. If over all inner digits
/// and the offset no radix is passed, places add up and the result is those digits. Small layouts
/// for which that fails are tried element by element (FitLayout).
#include <algorithm>

#include "digits.h"
#include "layout.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

using weft::CheckedAdd;
using weft::CheckedMul;

namespace {

constexpr int64_t kMostFitted = int64_t{1} << 16;

/// One radix of the outer layout's row-major number.
struct Radix {
  int64_t weight;
  int64_t size;  ///< values until the next radix begins
  size_t axis;
  Digit digit;
};

/// From the least significant on. An axis' first digit has as many values as the axis leaves it.
std::vector<Radix> RadicesOf(const Layout& l) {
  std::vector<Radix> out;
  int64_t axis_weight = 1;
  for (size_t a = l.shape.size(); a-- > 0;) {
    const std::vector<Digit> digits = Merged(l.axes[a], l.shape[a]);
    const std::vector<int64_t> weights = WeightsOf(digits);
    for (size_t k = digits.size(); k-- > 0;) {
      out.push_back({CheckedMul(axis_weight, weights[k]), digits[k].size, a, digits[k]});
    }
    axis_weight = CheckedMul(axis_weight, l.shape[a]);
  }
  return out;
}

/// Does radix k + 1 begin where radix k ends? (Not where the axis between them is padded.)
bool Continues(const std::vector<Radix>& radices, size_t k) {
  return k + 1 < radices.size() &&
         radices[k + 1].weight == CheckedMul(radices[k].weight, radices[k].size);
}

class Composer {
 public:
  Composer(const Layout& outer, const Layout& inner)
      : outer_(outer), inner_(inner), radices_(RadicesOf(outer)), used_(radices_.size(), 0) {}

  std::optional<Layout> Make() {
    Layout out;
    out.shape = inner_.shape;
    out.copies = outer_.copies;
    out.broadcast = outer_.broadcast;
    out.offset = outer_.offset;
    const auto at = inner_.offset.find(kAddress);
    if (!AddConstant(at == inner_.offset.end() ? 0 : at->second, out)) return std::nullopt;
    for (size_t a = 0; a < inner_.shape.size(); ++a) {
      std::vector<Digit> digits;
      const std::vector<Digit> own = Merged(inner_.axes[a], inner_.shape[a]);
      for (size_t k = own.size(); k-- > 0;) {
        if (!AddDigit(own[k], k == 0, digits)) return std::nullopt;
      }
      std::reverse(digits.begin(), digits.end());
      out.axes.push_back(std::move(digits));
    }
    std::vector<int64_t> reach(outer_.shape.size(), 0);  // in row-major numbers, by axis
    for (size_t k = 0; k < radices_.size(); ++k) {
      if (used_[k] >= radices_[k].size) return std::nullopt;  // it may carry
      reach[radices_[k].axis] += used_[k] * radices_[k].weight;
    }
    for (size_t a = outer_.shape.size(), weight = 1; a-- > 0; weight *= outer_.shape[a]) {
      if (reach[a] >= int64_t(weight) * outer_.shape[a]) return std::nullopt;  // padding's holes
    }
    Pin(outer_, out);
    return out;
  }

 private:
  bool AddConstant(int64_t rest, Layout& out) {
    for (size_t k = radices_.size(); k-- > 0;) {
      const int64_t d = rest / radices_[k].weight;
      rest %= radices_[k].weight;
      if (d == 0) continue;
      used_[k] += d;
      out.offset[radices_[k].digit.level] += CheckedMul(d, radices_[k].digit.stride);
    }
    for (auto it = out.offset.begin(); it != out.offset.end();) {
      it = it->second == 0 ? out.offset.erase(it) : std::next(it);
    }
    return rest == 0;
  }

  /// Appends the parts of n:s, least significant first. `first`: the digit may be padded.
  bool AddDigit(Digit inner, bool first, std::vector<Digit>& out) {
    int64_t n = inner.size, s = inner.stride;
    while (n > 1) {
      size_t k = radices_.size();
      while (k > 0 && radices_[k - 1].weight > s) --k;
      if (k == 0 || s % radices_[k - 1].weight != 0) return false;
      const Radix& r = radices_[--k];
      const int64_t c = s / r.weight;
      int64_t part = n;
      if (CheckedMul(n - 1, c) >= r.size) {
        if (r.size % c != 0 || !Continues(radices_, k)) return false;
        part = r.size / c;
        if (part < 2 || (n % part != 0 && !first)) return false;
      }
      used_[k] = CheckedAdd(used_[k], (part - 1) * c);
      out.push_back({part, r.digit.level, CheckedMul(c, r.digit.stride)});
      n = (n - 1) / part + 1;
      s = CheckedMul(s, part);
    }
    return true;
  }

  const Layout& outer_;
  const Layout& inner_;
  std::vector<Radix> radices_;
  std::vector<int64_t> used_;
};

int64_t AddressOf(const Layout& l, const Index& i) {
  const Place p = PlaceOf(l, i);
  const auto at = p.find(kAddress);
  return at == p.end() ? 0 : at->second;
}

Index Unflatten(int64_t number, const std::vector<int64_t>& shape) {
  Index index(shape.size());
  for (size_t a = shape.size(); a-- > 0;) {
    index[a] = number % shape[a];
    number /= shape[a];
  }
  return index;
}

}  // namespace

std::optional<Layout> Split(const Layout& layout, int axis, int digit, int64_t inner) {
  WEFT_CHECK(axis >= 0 && axis < int(layout.axes.size()) && digit >= 0 &&
                 digit < int(layout.axes[axis].size()),
             kUsage, "no digit {} in axis {} of {}", digit, axis, PrintLayout(layout));
  const Digit d = layout.axes[axis][digit];
  if (inner < 1 || d.size % inner != 0) return std::nullopt;
  Layout l = layout;
  l.axes[axis][digit] = {d.size / inner, d.level, CheckedMul(d.stride, inner)};
  l.axes[axis].insert(l.axes[axis].begin() + digit + 1, {inner, d.level, d.stride});
  return l;
}

std::optional<Layout> Compose(const Layout& outer, const Layout& inner) {
  int64_t last = 0;
  for (size_t a = 0; a < inner.shape.size(); ++a) {
    const std::vector<Digit> digits = Trimmed(inner.axes[a], inner.shape[a]);
    for (const Digit& d : digits) {
      WEFT_CHECK(d.level == kAddress, kUsage, "Compose: the inner layout names level {}", d.level);
    }
    last = CheckedAdd(last, LargestOn(kAddress, digits, inner.shape[a]));
  }
  WEFT_CHECK(inner.copies.empty(), kUsage, "Compose: the inner layout has copies");
  for (const auto& [level, v] : inner.offset) {
    WEFT_CHECK(level == kAddress, kUsage, "Compose: the inner layout names level {}", level);
    last = CheckedAdd(last, v);
  }
  WEFT_CHECK(last < outer.elements(), kIndexRange,
             "Compose: the inner layout reaches {}, the outer has {} elements", last,
             outer.elements());
  if (auto exact = Composer(outer, inner).Make()) return exact;
  if (inner.elements() > kMostFitted) return std::nullopt;
  auto fitted = FitLayout(inner.shape, [&](const Index& i) {
    return PlaceOf(outer, Unflatten(AddressOf(inner, i), outer.shape));
  });
  if (!fitted) return std::nullopt;
  for (const Digit& d : outer.copies) fitted->copies.push_back(d);
  fitted->broadcast = outer.broadcast;
  return fitted;
}

std::optional<Layout> FitLayout(const std::vector<int64_t>& shape,
                                const std::function<Place(const Index&)>& place_of) {
  Layout l;
  l.shape = shape;
  l.axes.resize(shape.size());
  if (l.elements() > kMostEnumerated) return std::nullopt;
  const Place origin = place_of(Index(shape.size(), 0));
  // The one coordinate that differs from the origin's and by how much; "" and 0 if not one.
  const auto step = [&](const Place& p) {
    std::pair<std::string, int64_t> by{kAddress, 0};
    int differ = 0;
    for (const auto& [level, v] : p) {
      const auto at = origin.find(level);
      const int64_t from = at == origin.end() ? 0 : at->second;
      if (v != from) by = {level, v - from}, ++differ;
    }
    return differ == 1 ? by : std::pair<std::string, int64_t>{kAddress, 0};
  };
  for (size_t a = 0; a < shape.size(); ++a) {
    Index i(shape.size(), 0);
    for (int64_t w = 1; w < shape[a];) {
      i[a] = w;
      const auto [level, stride] = step(place_of(i));
      if (stride <= 0) return std::nullopt;
      int64_t n = 2;
      for (; n * w < shape[a]; ++n) {
        i[a] = n * w;
        if (step(place_of(i)) != std::make_pair(level, n * stride)) break;
      }
      l.axes[a].insert(l.axes[a].begin(), {n, level, stride});
      w = CheckedMul(w, n);
    }
  }
  for (const auto& [level, v] : origin) {
    if (v < 0) return std::nullopt;
    if (v > 0) l.offset[level] = v;
    if (level != kAddress && !Names(l, level)) l.copies.push_back({1, level, 1});
  }
  bool fits = true;
  ForEachIndex(shape, [&](const Index& i) {
    if (!fits) return;
    const Place p = PlaceOf(l, i), q = place_of(i);
    for (const Place* x : {&p, &q}) {
      for (const auto& [level, v] : *x) {
        const auto u = p.find(level), w = q.find(level);
        fits = fits && (u == p.end() ? 0 : u->second) == (w == q.end() ? 0 : w->second);
      }
    }
  });
  if (!fits) return std::nullopt;
  return Canonical(l);
}

std::optional<Layout> Reshape(const Layout& layout, const std::vector<int64_t>& shape) {
  WEFT_CHECK(weft::CheckedProduct(shape) == layout.elements(), kShapeMismatch,
             "Reshape of {} elements to {}", layout.elements(), weft::CheckedProduct(shape));
  return Compose(layout, RowMajor(shape));
}

Layout Transpose(const Layout& layout, const std::vector<int>& permutation) {
  std::vector<int> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (size_t a = 0; a < sorted.size(); ++a) {
    WEFT_CHECK(sorted[a] == int(a), kUsage, "Transpose: not a permutation of the axes");
  }
  WEFT_CHECK(sorted.size() == layout.shape.size(), kUsage, "Transpose: {} axes of {}",
             sorted.size(), layout.shape.size());
  Layout l = layout;
  for (size_t a = 0; a < permutation.size(); ++a) {
    l.shape[a] = layout.shape[permutation[a]];
    l.axes[a] = layout.axes[permutation[a]];
  }
  return l;
}

std::optional<Layout> Slice(const Layout& layout, int axis, int64_t start, int64_t size,
                            int64_t step) {
  WEFT_CHECK(axis >= 0 && axis < int(layout.shape.size()), kUsage, "Slice: no axis {}", axis);
  WEFT_CHECK(start >= 0 && size >= 1 && step >= 1 &&
                 CheckedAdd(start, CheckedMul(size - 1, step)) < layout.shape[axis],
             kIndexRange, "Slice: {} + {} x {} of an axis of {}", start, size, step,
             layout.shape[axis]);
  Layout inner = RowMajor(layout.shape);
  int64_t weight = 1;
  for (size_t a = layout.shape.size(); a-- > size_t(axis) + 1;) weight *= layout.shape[a];
  inner.shape[axis] = size;
  inner.axes[axis] = {{size, kAddress, CheckedMul(weight, step)}};
  if (start > 0) inner.offset[kAddress] = CheckedMul(start, weight);
  return Compose(layout, inner);
}

std::optional<Layout> Expand(const Layout& layout, int axis, int64_t size) {
  WEFT_CHECK(axis >= 0 && axis < int(layout.shape.size()) && layout.shape[axis] == 1, kUsage,
             "Expand: axis {} of {} is not of size 1", axis, PrintLayout(layout));
  Layout l = layout;
  l.shape[axis] = size;
  l.axes[axis].clear();
  for (Digit& d : l.copies) {
    if (size == 1) break;
    const bool whole = size % d.size == 0;
    if (d.size == 1 || (!whole && d.size % size != 0)) continue;
    const int64_t n = whole ? d.size : size;
    l.axes[axis].push_back({n, d.level, d.stride * (d.size / n)});
    d.size /= n;
    size /= n;
  }
  if (size != 1) return std::nullopt;
  // What is used up goes, unless it alone says that the level is not replicated whole.
  for (size_t k = l.copies.size(); k-- > 0;) {
    if (l.copies[k].size == 1 && layout.copies[k].size > 1) l.copies[k].stride = 1;
  }
  return l;
}

Layout Unexpand(const Layout& layout, int axis) {
  WEFT_CHECK(axis >= 0 && axis < int(layout.shape.size()), kUsage, "Unexpand: no axis {}", axis);
  Layout l = layout;
  for (const Digit& d : Trimmed(layout.axes[axis], layout.shape[axis])) {
    if (d.level != kAddress && d.level != kWide) l.copies.push_back(d);
  }
  l.shape[axis] = 1;
  l.axes[axis].clear();
  Pin(layout, l);
  return l;
}

Layout Compact(const Layout& layout) {
  Layout l = layout;
  std::vector<Digit*> digits;
  for (auto& axis : l.axes) {
    for (Digit& d : axis) {
      if (d.level == kAddress) digits.push_back(&d);
    }
  }
  std::stable_sort(digits.begin(), digits.end(),
                   [](const Digit* x, const Digit* y) { return x->stride < y->stride; });
  int64_t stride = 1;
  for (Digit* d : digits) {
    d->stride = stride;
    stride = CheckedMul(stride, d->size);
  }
  l.offset.erase(kAddress);
  return l;
}

Layout Squeeze(const Layout& layout, int axis) {
  WEFT_CHECK(axis >= 0 && axis < int(layout.shape.size()) && layout.shape[axis] == 1, kUsage,
             "Squeeze: axis {} of {} is not of size 1", axis, PrintLayout(layout));
  Layout l = layout;
  l.shape.erase(l.shape.begin() + axis);
  l.axes.erase(l.axes.begin() + axis);
  Pin(layout, l);
  return l;
}

Layout Unsqueeze(const Layout& layout, int axis) {
  WEFT_CHECK(axis >= 0 && axis <= int(layout.shape.size()), kUsage, "Unsqueeze: no axis {}", axis);
  Layout l = layout;
  l.shape.insert(l.shape.begin() + axis, 1);
  l.axes.insert(l.axes.begin() + axis, std::vector<Digit>{});
  return l;
}

}  // namespace hsimd
