/// cumulative.cc: CumSum and CumProd in one walk along the axis.
///
/// Their definition folds the axis anew for every element. Floats up to 32 bits are accumulated in
/// f64, so that a long axis does not lose digits to the order of its sums.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/util/compute_util.h"
#include "backends/shared/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/tensor/visit_element.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// Columns that are walked together where the axis is not the last: a cache line or two.
constexpr int64_t kColumns = 32;

class CumulativeCall final : public LibraryCall {
 public:
  CumulativeCall(const ComputeRequest& q, bool product)
      : dims_(q.output_dims[0]),
        dtype_(q.output_types[0]),
        wide_(q.input_types[1] == DType::kI64),
        product_(product),
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
    Walk w;
    for (int64_t k = 0; k < axis; ++k) w.outer = CheckedMul(w.outer, dims_[size_t(k)]);
    w.extent = dims_[size_t(axis)];
    for (int64_t k = axis + 1; k < rank; ++k) w.inner = CheckedMul(w.inner, dims_[size_t(k)]);
    VisitElement(dtype_, [&](auto element) {
      using Acc = std::conditional_t<std::is_floating_point_v<typename decltype(element)::Value>,
                                     double, uint64_t>;
      if (product_)
        Columns<Acc>(w, in[0], out[0], element, Acc(1), [](Acc a, Acc b) { return a * b; });
      else
        Columns<Acc>(w, in[0], out[0], element, Acc(0), [](Acc a, Acc b) { return a + b; });
    });
  }

 private:
  struct Walk {
    int64_t outer = 1, extent = 1, inner = 1;
  };

  template <class Acc, class Element, class Join>
  void Columns(const Walk& w, const void* from, void* to, Element, Acc neutral, Join join) const {
    const auto* x = static_cast<const typename Element::Storage*>(from);
    auto* y = static_cast<typename Element::Storage*>(to);
    const int64_t step = reverse_ ? -w.inner : w.inner;
    for (int64_t o = 0; o < w.outer; ++o) {
      for (int64_t first = 0; first < w.inner; first += kColumns) {
        RequestScope::Poll();
        const int64_t n = std::min(kColumns, w.inner - first);
        int64_t at = o * w.extent * w.inner + first + (reverse_ ? (w.extent - 1) * w.inner : 0);
        Acc acc[kColumns];
        std::fill_n(acc, n, neutral);
        for (int64_t i = 0; i < w.extent; ++i, at += step) {
          for (int64_t j = 0; j < n; ++j) {
            const Acc before = acc[j];
            acc[j] = join(before, Acc(Element::Load(x[at + j])));
            y[at + j] = Element::Store(typename Element::Value(exclusive_ ? before : acc[j]));
          }
        }
      }
    }
  }

  std::vector<int64_t> dims_;
  DType dtype_;
  bool wide_, product_, exclusive_, reverse_;
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
