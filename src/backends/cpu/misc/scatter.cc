/// scatter.cc: ScatterElements, ScatterND and the adjoints of the gathers, one write an update.
///
/// Their definition asks every update for every result; here the result is copied (or zero), and
/// each update goes to its place, in order: of updates to one place the last stays, and sums have a
/// fixed order. Sums, products of narrow floats are made in f32 and rounded once, as the definition
/// says. An index outside its axis is kIndexRange.
///
/// Threads share the work where they can never meet: lines of one index each, columns behind the
/// indexed axes. Each takes its updates in order, so their number changes nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/for_pieces.h"
#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/wide.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/tensor/visit_element.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

enum class Combine { kNone, kAdd, kMul, kMax, kMin };

std::optional<Combine> CombineOf(const NodePtr& n) {
  const std::string name = n->has_attr("reduction") ? n->attr<std::string>("reduction") : "none";
  static constexpr const char* kNames[] = {"none", "add", "mul", "max", "min"};
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) return Combine(i);
  return std::nullopt;
}

using Dims = std::vector<int64_t>;

int64_t Product(const Dims& d, size_t begin, size_t end) {
  return CheckedProduct(Dims(d.begin() + long(begin), d.begin() + long(end)));
}

/// Updates below which a second thread costs more than it helps, and bytes that are copied at once.
constexpr int64_t kAlone = 8192, kCopyBytes = int64_t{1} << 18;

/// What one thread does: of lines or batches [first, last), elements [begin, end) of each run.
struct Part {
  int64_t first, last, begin, end;
};

/// Where updates go: runs of `length` consecutive elements.
struct Places {
  // Tuples of `depth` indices name leading axes behind the batch: ScatterND, the adjoints of Gather
  // (depth 1; all batches share the indices) and GatherND.
  int64_t batch = 1, positions = 0, length = 1;
  bool shared = false;
  Dims extents;  ///< of the indexed axes
  // One index an element, of one axis: ScatterElements.
  bool elements = false;
  size_t axis = 0;
  Dims data, indices;
};

class ScatterCall final : public LibraryCall {
 public:
  ScatterCall(const ComputeRequest& q, Places places, Combine combine, size_t index, size_t update,
              bool from_data)
      : places_(std::move(places)),
        combine_(combine),
        dtype_(q.output_types[0]),
        wide_(q.input_types[index] == DType::kI64),
        from_data_(from_data),
        index_(index),
        update_(update),
        count_(CheckedProduct(q.output_dims[0])),
        threads_(q.threads),
        node_(q.node->Describe()) {}

  int64_t scratch_bytes() const override { return Rounds() ? CheckedMul(count_, 4) : 0; }
  std::string description() const override { return "scatter"; }

  void Run(const void* const* in, void* const* out, void* scratch) const override {
    if (count_ == 0) return;
    const void *data = from_data_ ? in[0] : nullptr, *index = in[index_], *update = in[update_];
    const ScopedThreads scoped(threads_);
    if (combine_ == Combine::kNone) {
      Begin(data, out[0], DTypeBytes(dtype_, 1));
      switch (DTypeBytes(dtype_, 1)) {
        case 1:
          return Put<uint8_t>(index, update, out[0]);
        case 2:
          return Put<uint16_t>(index, update, out[0]);
        case 4:
          return Put<uint32_t>(index, update, out[0]);
        case 8:
          return Put<uint64_t>(index, update, out[0]);
        default:
          return Put<Sixteen>(index, update, out[0]);
      }
    }
    VisitElement(dtype_, [&](auto element) {
      if constexpr (element.kNarrowFloat)
        Rounded(data, index, update, out[0], scratch, element);
      else
        Exact(data, index, update, out[0], element);
    });
  }

 private:
  struct Sixteen {
    uint64_t halves[2];
  };
  template <class T>
  void Put(const void* index, const void* update, void* out) const {
    T* const y = static_cast<T*>(out);
    const T* const u = static_cast<const T*>(update);
    Each(index, [y, u](int64_t to, int64_t from, int64_t n) {
      if (n == 1)
        y[to] = u[from];
      else
        std::memcpy(y + to, u + from, size_t(n) * sizeof(T));
    });
  }

  bool Rounds() const { return combine_ != Combine::kNone && IsNarrowFloat(dtype_); }

  void Begin(const void* data, void* out, int64_t width) const {
    const size_t bytes = size_t(CheckedMul(count_, width));
    if (data == out) return;
    ForPieces(int64_t(bytes), kCopyBytes, [&](int64_t first, int64_t last) {
      char* const to = static_cast<char*>(out) + first;
      if (data)
        std::memcpy(to, static_cast<const char*>(data) + first, size_t(last - first));
      else
        std::memset(to, 0, size_t(last - first));
    });
  }

  /// Of `lines` that never meet, or of the elements of their runs.
  std::vector<Part> Cut(int64_t updates, int64_t lines, int64_t length) const {
    const int64_t most = updates < kAlone ? 1 : threads_;
    std::vector<Part> parts;
    if (lines >= most) {
      for (int64_t t = 0; t < most; ++t)
        parts.push_back({lines * t / most, lines * (t + 1) / most, 0, length});
      return parts;
    }
    // Runs of a cache line or more.
    const int64_t pieces = std::clamp<int64_t>(length / 32, 1, most);
    for (int64_t t = 0; t < pieces; ++t)
      parts.push_back({0, lines, length * t / pieces, length * (t + 1) / pieces});
    return parts;
  }
  template <class F>
  void Together(const std::vector<Part>& parts, const F& f) const {
    if (parts.size() == 1) return f(parts[0]);
    std::vector<std::exception_ptr> failed(parts.size());
    const RequestScope* const request = RequestScope::Current();
#pragma omp parallel for schedule(static)
    for (size_t p = 0; p < parts.size(); ++p) {
      const RequestScope::Borrow borrow(request);
      try {
        f(parts[p]);
      } catch (...) {  // none may leave the loop
        failed[p] = std::current_exception();
      }
    }
    for (const std::exception_ptr& e : failed)
      if (e) std::rethrow_exception(e);
  }

  int64_t Index(const void* index, int64_t i, int64_t extent) const {
    const int64_t v =
        wide_ ? static_cast<const int64_t*>(index)[i] : static_cast<const int32_t*>(index)[i];
    WEFT_CHECK(v >= -extent && v < extent, kIndexRange, "{}: index {} outside the axis of size {}",
               node_, v, extent);
    return v < 0 ? v + extent : v;
  }

  /// f(first element written, first update, how many) for every run of updates; those that meet, in
  /// order.
  template <class F>
  void Each(const void* index, const F& f) const {
    const Places& p = places_;
    if (p.elements) return EachElement(index, f);
    const int64_t updates = CheckedMul(CheckedMul(p.batch, p.positions), p.length);
    Together(Cut(updates, p.batch, p.length), [&](const Part& part) { EachTuple(index, part, f); });
  }
  template <class F>
  void EachTuple(const void* index, const Part& part, const F& f) const {
    const Places& p = places_;
    const int64_t depth = int64_t(p.extents.size());
    const int64_t block = CheckedMul(CheckedProduct(p.extents), p.length);
    for (int64_t b = part.first; b < part.last; ++b) {
      for (int64_t i = 0; i < p.positions; ++i) {
        int64_t to = 0;
        const int64_t first = (p.shared ? i : b * p.positions + i) * depth;
        for (int64_t k = 0; k < depth; ++k)
          to = to * p.extents[size_t(k)] + Index(index, first + k, p.extents[size_t(k)]);
        f(b * block + to * p.length + part.begin, (b * p.positions + i) * p.length + part.begin,
          part.end - part.begin);
        if ((i & 0xfff) == 0) RequestScope::Poll();
      }
    }
  }
  /// How many of the next `most` indices are the first of them.
  int64_t EqualFrom(const void* index, int64_t at, int64_t most) const {
    const auto equal = [&](const auto* i) {
      int64_t n = 1;
      while (n < most && i[at + n] == i[at]) ++n;
      return n;
    };
    return wide_ ? equal(static_cast<const int64_t*>(index))
                 : equal(static_cast<const int32_t*>(index));
  }

  template <class F>
  void EachElement(const void* index, const F& f) const {
    const Places& p = places_;
    const size_t last = p.data.size() - 1;
    const int64_t updates = CheckedProduct(p.indices);
    if (updates == 0) return;
    // A line: all rows of the same indices before the axis, or one row along it.
    const int64_t lines = Product(p.indices, 0, std::min(p.axis, last));
    const int64_t columns =
        p.axis == last ? p.indices[last] : std::min(p.indices[last], p.data[last]);
    // A row along the axis is not cut.
    Together(Cut(updates, lines, p.axis == last ? 1 : columns), [&](const Part& part) {
      EachElementOf(index, lines, p.axis == last ? Part{part.first, part.last, 0, columns} : part,
                    f);
    });
  }
  template <class F>
  void EachElementOf(const void* index, int64_t lines, const Part& part, const F& f) const {
    const Places& p = places_;
    const size_t rank = p.data.size(), last = rank - 1;
    const int64_t row = p.indices[last];
    const int64_t per_line = Product(p.indices, 0, last) / lines;
    Dims stride(rank, 1), at(rank, 0);
    for (size_t k = last; k-- > 0;) stride[k] = stride[k + 1] * p.data[k + 1];
    for (int64_t k = int64_t(last), rest = part.first * per_line; k-- > 0;
         rest /= p.indices[size_t(k)])
      at[size_t(k)] = rest % p.indices[size_t(k)];
    for (int64_t r = part.first * per_line; r < part.last * per_line; ++r) {
      int64_t base = 0;
      bool inside = true;  // off the axis, updates beyond data have no place
      for (size_t k = 0; k < last; ++k) {
        if (k == p.axis) continue;
        base += at[k] * stride[k];
        inside = inside && at[k] < p.data[k];
      }
      if (inside && p.axis == last) {
        for (int64_t j = part.begin; j < part.end; ++j)
          f(base + Index(index, r * row + j, p.data[last]), r * row + j, 1);
      } else if (inside) {
        // Equal indices move a run as one: most are expanded from fewer.
        for (int64_t j = part.begin, n = 1; j < part.end; j += n) {
          const int64_t i = Index(index, r * row + j, p.data[p.axis]);
          n = EqualFrom(index, r * row + j, part.end - j);
          f(base + i * stride[p.axis] + j, r * row + j, n);
        }
      }
      for (size_t k = last; k-- > 0;) {
        if (++at[k] < p.indices[k]) break;
        at[k] = 0;
      }
      RequestScope::Poll();
    }
  }

  template <class T>
  static T Join(Combine c, T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (c == Combine::kAdd) return a + b;
      if (c == Combine::kMul) return a * b;
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
    } else if constexpr (std::is_same_v<T, bool>) {
      return c == Combine::kAdd || c == Combine::kMax ? a || b : a && b;
    } else {  // integers wrap
      if (c == Combine::kAdd) return T(uint64_t(a) + uint64_t(b));
      if (c == Combine::kMul) return T(uint64_t(a) * uint64_t(b));
    }
    return c == Combine::kMax ? std::max(a, b) : std::min(a, b);
  }

  /// Of updates one behind the other; kLong of them or more by vectors.
  template <Combine c, class Element>
  static inline __attribute__((always_inline)) void JoinLine(typename Element::Storage* y,
                                                             const typename Element::Storage* u,
                                                             int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      y[i] = Element::Store(Join(c, Element::Load(y[i]), Element::Load(u[i])));
  }
  template <class Element>
  static inline __attribute__((always_inline)) void JoinAny(Combine c, typename Element::Storage* y,
                                                            const typename Element::Storage* u,
                                                            int64_t n) {
    if (c == Combine::kAdd)
      JoinLine<Combine::kAdd, Element>(y, u, n);
    else if (c == Combine::kMul)
      JoinLine<Combine::kMul, Element>(y, u, n);
    else if (c == Combine::kMax)
      JoinLine<Combine::kMax, Element>(y, u, n);
    else
      JoinLine<Combine::kMin, Element>(y, u, n);
  }
#if defined(__x86_64__)
  template <class Element>
  WEFT_WIDE static void JoinWide(Combine c, typename Element::Storage* y,
                                 const typename Element::Storage* u, int64_t n) {
    JoinAny<Element>(c, y, u, n);
  }
#endif
  static constexpr int64_t kLong = 8;

  /// In the type itself.
  template <class Element>
  void Exact(const void* data, const void* index, const void* update, void* out, Element) const {
    using T = typename Element::Storage;
    Begin(data, out, int64_t(sizeof(T)));
    T* const y = static_cast<T*>(out);
    const T* const u = static_cast<const T*>(update);
    const Combine c = combine_;
#if defined(__x86_64__)
    const bool wide = HasWide();
#endif
    const auto join = [=](int64_t to, int64_t from, int64_t n) {
#if defined(__x86_64__)
      if (n >= kLong && wide) return JoinWide<Element>(c, y + to, u + from, n);
#endif
      for (int64_t i = 0; i < n; ++i)
        y[to + i] = Element::Store(Join(c, Element::Load(y[to + i]), Element::Load(u[from + i])));
    };
    if (c != Combine::kAdd) return Each(index, join);
    Each(index, [=](int64_t to, int64_t from, int64_t n) {
      if (n == 1)
        y[to] = Element::Store(Join(Combine::kAdd, Element::Load(y[to]), Element::Load(u[from])));
      else
        join(to, from, n);
    });
  }

  template <class Element>
  void Rounded(const void* data, const void* index, const void* update, void* out, void* scratch,
               Element) const {
    using T = typename Element::Storage;
    const auto* x = static_cast<const T*>(data);
    const auto* u = static_cast<const T*>(update);
    auto* sum = static_cast<float*>(scratch);
    for (int64_t i = 0; i < count_; ++i) sum[i] = x ? Element::Load(x[i]) : 0.f;
    Each(index, [&](int64_t to, int64_t from, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        sum[to + i] = Join(combine_, sum[to + i], Element::Load(u[from + i]));
    });
    auto* y = static_cast<T*>(out);
    for (int64_t i = 0; i < count_; ++i) y[i] = Element::Store(sum[i]);
  }

  Places places_;
  Combine combine_;
  DType dtype_;
  bool wide_, from_data_;
  size_t index_, update_;
  int64_t count_;
  int threads_;
  std::string node_;
};

/// Elements of whole bytes that can be combined as asked for.
bool Serves(const ComputeRequest& q, Combine combine, size_t index) {
  const DType i = q.input_types[index], t = q.output_types[0];
  if (i != DType::kI64 && i != DType::kI32) return false;
  return combine == Combine::kNone
             ? t != DType::kString && DTypeBits(t) % 8 == 0 && DTypeBits(t) > 0
             : IsComputable(t);
}

size_t AxisOf(const ComputeRequest& q, size_t rank) {
  const int64_t axis = IntAttr(q.node, "axis", 0);
  return size_t(axis < 0 ? axis + int64_t(rank) : axis);
}

std::unique_ptr<LibraryCall> PrepareElements(const ComputeRequest& q, Combine combine, size_t index,
                                             size_t update, bool from_data) {
  const Dims &x = q.output_dims[0], &i = q.input_dims[index];
  if (!Serves(q, combine, index) || x.empty() || i.size() != x.size() || q.input_dims[update] != i)
    return nullptr;
  Places p;
  p.elements = true;
  p.axis = AxisOf(q, x.size());
  if (p.axis >= x.size()) return nullptr;
  p.data = x;
  p.indices = i;
  return std::make_unique<ScatterCall>(q, std::move(p), combine, index, update, from_data);
}

/// `batch` leading axes are shared by all three; the last axis of the indices holds tuples.
std::unique_ptr<LibraryCall> PrepareTuples(const ComputeRequest& q, Combine combine, size_t batch,
                                           size_t index, size_t update, bool from_data) {
  const Dims &x = q.output_dims[0], &i = q.input_dims[index], &u = q.input_dims[update];
  if (!Serves(q, combine, index) || i.size() <= batch) return nullptr;
  const size_t depth = size_t(i.back());
  if (batch + depth > x.size() || u.size() != i.size() - 1 + x.size() - batch - depth)
    return nullptr;
  Places p;
  p.batch = Product(x, 0, batch);
  p.positions = Product(i, batch, i.size() - 1);
  p.length = Product(x, batch + depth, x.size());
  p.extents.assign(x.begin() + long(batch), x.begin() + long(batch + depth));
  if (CheckedProduct(u) != CheckedMul(CheckedMul(p.batch, p.positions), p.length)) return nullptr;
  return std::make_unique<ScatterCall>(q, std::move(p), combine, index, update, from_data);
}

/// The adjoint of Gather: dy [before..., indices..., after...].
std::unique_ptr<LibraryCall> PrepareGatherGrad(const ComputeRequest& q) {
  const Dims &x = q.output_dims[0], &u = q.input_dims[0];
  const size_t axis = AxisOf(q, x.size());
  if (!Serves(q, Combine::kAdd, 2) || axis >= x.size()) return nullptr;
  Places p;
  p.batch = Product(x, 0, axis);
  p.positions = CheckedProduct(q.input_dims[2]);
  p.length = Product(x, axis + 1, x.size());
  p.extents = {x[axis]};
  p.shared = true;
  if (CheckedProduct(u) != CheckedMul(CheckedMul(p.batch, p.positions), p.length)) return nullptr;
  return std::make_unique<ScatterCall>(q, std::move(p), Combine::kAdd, 2, 0, false);
}

std::unique_ptr<LibraryCall> PrepareScatterElements(const ComputeRequest& q) {
  const auto combine = CombineOf(q.node);
  return combine ? PrepareElements(q, *combine, 1, 2, true) : nullptr;
}
std::unique_ptr<LibraryCall> PrepareScatterND(const ComputeRequest& q) {
  const auto combine = CombineOf(q.node);
  return combine ? PrepareTuples(q, *combine, 0, 1, 2, true) : nullptr;
}
std::unique_ptr<LibraryCall> PrepareGatherElementsGrad(const ComputeRequest& q) {
  return PrepareElements(q, Combine::kAdd, 2, 0, false);
}
std::unique_ptr<LibraryCall> PrepareGatherNDGrad(const ComputeRequest& q) {
  const int64_t batch = IntAttr(q.node, "batch_dims", 0);
  return PrepareTuples(q, Combine::kAdd, size_t(batch), 2, 0, false);
}

WEFT_REGISTER_OP(ScatterElements).set_attr<FCompute>("FCompute.cpu", PrepareScatterElements);
WEFT_REGISTER_OP(ScatterND).set_attr<FCompute>("FCompute.cpu", PrepareScatterND);
WEFT_REGISTER_OP_IN(weft, GatherGrad).set_attr<FCompute>("FCompute.cpu", PrepareGatherGrad);
WEFT_REGISTER_OP_IN(weft, GatherElementsGrad)
    .set_attr<FCompute>("FCompute.cpu", PrepareGatherElementsGrad);
WEFT_REGISTER_OP_IN(weft, GatherNDGrad).set_attr<FCompute>("FCompute.cpu", PrepareGatherNDGrad);

}  // namespace
}  // namespace weft::cpu
