/// cumulative.cc: CumSum and CumProd in one walk along the axis.
///
/// Their definition folds the axis anew for every element. Floats up to 32 bits are accumulated in
/// f64, so that a long axis does not lose digits to the order of its sums. Lines and columns go to
/// the threads.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/wide.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/tensor/visit_element.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// Columns that are walked together where the axis is not the last: their sums are in the first
/// cache.
constexpr int64_t kColumns = 1024;
/// Lines that are walked side by side where it is: as many sums as hide the latency of one.
constexpr int64_t kLines = 8;
/// Elements below which a second thread costs more than it helps; between two looks at the request.
constexpr int64_t kAlone = 16384, kPoll = int64_t{1} << 20;

/// How a part of the elements is walked: `count` sums side by side, element j of step i at
/// i * step + j * apart.
struct Walk {
  int64_t extent, step, count, apart;
  bool exclusive;
};

/// Columns: one element behind the other.
template <bool kExclusive, class Acc, class Element, class Join>
inline __attribute__((always_inline)) void WalkColumns(const Walk& w,
                                                       const typename Element::Storage* x,
                                                       typename Element::Storage* y, Acc neutral,
                                                       Join join) {
  Acc sums[kColumns];
  const int64_t count = w.count, extent = w.extent, step = w.step;
  std::fill_n(sums, count, neutral);
  const auto give = [](Acc before, Acc after) {
    return Element::Store(typename Element::Value(kExclusive ? before : after));
  };
  int64_t i = 0;
  // Four steps for each time that a sum is loaded and stored.
  for (; i + 4 <= extent; i += 4, x += 4 * step, y += 4 * step) {
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) {
      const Acc a = sums[j], b = join(a, Acc(Element::Load(x[j])));
      const Acc c = join(b, Acc(Element::Load(x[step + j])));
      const Acc d = join(c, Acc(Element::Load(x[2 * step + j])));
      const Acc e = join(d, Acc(Element::Load(x[3 * step + j])));
      sums[j] = e;
      y[j] = give(a, b);
      y[step + j] = give(b, c);
      y[2 * step + j] = give(c, d);
      y[3 * step + j] = give(d, e);
    }
  }
  for (; i < extent; ++i, x += step, y += step) {
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) {
      const Acc before = sums[j], after = join(before, Acc(Element::Load(x[j])));
      sums[j] = after;
      y[j] = give(before, after);
    }
  }
}
template <class Acc, class Element, class Join>
void WalkColumnsPlain(const Walk& w, const typename Element::Storage* x,
                      typename Element::Storage* y, Acc neutral, Join join) {
  if (w.exclusive)
    WalkColumns<true, Acc, Element>(w, x, y, neutral, join);
  else
    WalkColumns<false, Acc, Element>(w, x, y, neutral, join);
}
#if defined(__x86_64__)
template <class Acc, class Element, class Join>
WEFT_WIDE void WalkColumnsWide(const Walk& w, const typename Element::Storage* x,
                               typename Element::Storage* y, Acc neutral, Join join) {
  if (w.exclusive)
    WalkColumns<true, Acc, Element>(w, x, y, neutral, join);
  else
    WalkColumns<false, Acc, Element>(w, x, y, neutral, join);
}
#endif

/// At most kLines of them.
template <class Acc, class Element, class Join>
void WalkLines(const Walk& w, const typename Element::Storage* x, typename Element::Storage* y,
               Acc neutral, Join join) {
  Acc sums[kLines];
  std::fill_n(sums, kLines, neutral);
  const auto step = [&](int64_t at, Acc* sum) {
    const Acc before = *sum;
    *sum = join(before, Acc(Element::Load(x[at])));
    y[at] = Element::Store(typename Element::Value(w.exclusive ? before : *sum));
  };
  if (w.count < kLines) {
    for (int64_t j = 0; j < w.count; ++j)
      for (int64_t i = 0; i < w.extent; ++i) step(j * w.apart + i * w.step, &sums[j]);
    return;
  }
  for (int64_t i = 0; i < w.extent; ++i)
#pragma GCC unroll 8
    for (int64_t j = 0; j < kLines; ++j) step(j * w.apart + i * w.step, &sums[j]);
}

class CumulativeCall final : public LibraryCall {
 public:
  CumulativeCall(const ComputeRequest& q, bool product)
      : dims_(q.output_dims[0]),
        dtype_(q.output_types[0]),
        wide_(q.input_types[1] == DType::kI64),
        product_(product),
        threads_(q.threads),
        exclusive_(IntAttr(q.node, "exclusive", 0) != 0),
        reverse_(IntAttr(q.node, "reverse", 0) != 0),
        node_(q.node->Describe()) {}

  std::string description() const override { return product_ ? "running product" : "running sum"; }

  void Run(const void* const* in, void* const* out, void*) const override {
    const int64_t rank = int64_t(dims_.size());
    int64_t axis =
        wide_ ? *static_cast<const int64_t*>(in[1]) : *static_cast<const int32_t*>(in[1]);
    WEFT_CHECK(axis >= -rank && axis < rank, kBadAttribute, "{}: axis {} of rank {}", node_, axis,
               rank);
    axis += axis < 0 ? rank : 0;
    int64_t outer = 1, inner = 1;
    for (int64_t k = 0; k < axis; ++k) outer = CheckedMul(outer, dims_[size_t(k)]);
    for (int64_t k = axis + 1; k < rank; ++k) inner = CheckedMul(inner, dims_[size_t(k)]);
    const int64_t extent = dims_[size_t(axis)];
    VisitElement(dtype_, [&](auto element) {
      // Integers wrap, in any width that is not less than theirs.
      using Stored = typename decltype(element)::Storage;
      using Acc =
          std::conditional_t<std::is_floating_point_v<typename decltype(element)::Value>, double,
                             std::conditional_t<sizeof(Stored) <= 4, uint32_t, uint64_t>>;
      if (product_)
        All<Acc>(outer, extent, inner, in[0], out[0], element, Acc(1),
                 [](Acc a, Acc b) { return a * b; });
      else
        All<Acc>(outer, extent, inner, in[0], out[0], element, Acc(0),
                 [](Acc a, Acc b) { return a + b; });
    });
  }

 private:
  template <class Acc, class Element, class Join>
  void All(int64_t outer, int64_t extent, int64_t inner, const void* from, void* to, Element,
           Acc neutral, Join join) const {
    const auto* x = static_cast<const typename Element::Storage*>(from);
    auto* y = static_cast<typename Element::Storage*>(to);
    if (outer == 0 || extent == 0 || inner == 0) return;
    const bool lines = inner == 1;
    // Few wide parts: memory is read in long runs.
    const int64_t share_of_one = CheckedRoundUp((inner + threads_ - 1) / threads_, 64);
    const int64_t together =
        lines ? kLines : std::min(outer < threads_ ? share_of_one : inner, kColumns);
    const int64_t per_outer = lines ? 1 : (inner + together - 1) / together;
    const int64_t parts = lines ? (outer + together - 1) / together : CheckedMul(outer, per_outer);
    const auto walk = [&](int64_t p) {
      const int64_t first = (lines ? p : p % per_outer) * together;
      const int64_t count = std::min(together, (lines ? outer : inner) - first);
      int64_t at = lines ? first * extent : p / per_outer * extent * inner + first;
      Walk w{extent, inner, count, extent, exclusive_};
      if (reverse_) {
        at += (extent - 1) * inner;
        w.step = -inner;
      }
      if (lines) return WalkLines<Acc, Element>(w, x + at, y + at, neutral, join);
#if defined(__x86_64__)
      if (HasWide()) return WalkColumnsWide<Acc, Element>(w, x + at, y + at, neutral, join);
#endif
      WalkColumnsPlain<Acc, Element>(w, x + at, y + at, neutral, join);
    };
    const ScopedThreads scoped(threads_);
    const int64_t share = std::max<int64_t>(kPoll / CheckedMul(extent, together), threads_);
    for (int64_t begin = 0; begin < parts; begin += share) {
      RequestScope::Poll();
      const int64_t end = std::min(parts, begin + share);
#pragma omp parallel for schedule(static) if (end - begin > 1 && \
                                              (end - begin) * together * extent > kAlone)
      for (int64_t p = begin; p < end; ++p) walk(p);
    }
  }

  std::vector<int64_t> dims_;
  DType dtype_;
  bool wide_, product_;
  int threads_;
  bool exclusive_, reverse_;
  std::string node_;
};

FCompute PrepareCumulative(bool product) {
  return [product](const ComputeRequest& q) -> std::unique_ptr<LibraryCall> {
    const DType axis = q.input_types[1], t = q.output_types[0];
    if ((axis != DType::kI64 && axis != DType::kI32) || !IsComputable(t) || t == DType::kBool ||
        CheckedProduct(q.input_dims[1]) != 1 || q.output_dims[0].empty())
      return nullptr;
    return std::make_unique<CumulativeCall>(q, product);
  };
}

WEFT_REGISTER_OP(CumSum).set_attr<FCompute>("FCompute.cpu", PrepareCumulative(false));
WEFT_REGISTER_OP(CumProd).set_attr<FCompute>("FCompute.cpu", PrepareCumulative(true));

}  // namespace
}  // namespace weft::cpu
