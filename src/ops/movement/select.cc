/// select.cc: TopK, NonZero, Compress, Unique: results whose extents or order depend on values.
/// They run on the host.
///   grad    TopK, Compress, Unique: dy goes back to the places that the results were taken from
///           (of equal elements, the first); NonZero none
///   throws  kShapeMismatch, kBadAttribute
/// Source: ONNX TopK-24, NonZero-13, Compress-11, Unique-11.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/util/bounded_size.h"
#include "ops/util/demand.h"
#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

/// `axis` absent: the tensor is flattened.
constexpr int64_t kFlat = INT64_MIN;

struct TopKParam : OpParam<TopKParam> {
  int64_t axis, largest, sorted;
  WEFT_OP_PARAM(TopKParam) {
    WEFT_FIELD(axis).set_default(-1).describe("in [-rank, rank)");
    WEFT_FIELD(largest).set_default(1).set_range(0, 1).describe("0: the smallest");
    WEFT_FIELD(sorted).set_default(1).set_range(0, 1).describe("results are always sorted");
  }
};
WEFT_REGISTER_OP_PARAM(TopKParam);

struct CompressParam : OpParam<CompressParam> {
  int64_t axis;
  WEFT_OP_PARAM(CompressParam) {
    WEFT_FIELD(axis).set_default(kFlat).describe("in [-rank, rank); absent: of x flattened");
  }
};
WEFT_REGISTER_OP_PARAM(CompressParam);

struct UniqueParam : OpParam<UniqueParam> {
  int64_t axis, sorted;
  WEFT_OP_PARAM(UniqueParam) {
    WEFT_FIELD(axis).set_default(kFlat).describe("in [-rank, rank); absent: of x flattened");
    WEFT_FIELD(sorted).set_default(1).set_range(0, 1).describe(
        "0: in the order of first occurrence");
  }
};
WEFT_REGISTER_OP_PARAM(UniqueParam);

/// x seen as [before, extent, inner].
struct Lines {
  int64_t before, extent, inner;
};
Lines LinesOf(const Dims& dims, int axis) {
  return {Span(dims, 0, size_t(axis)), dims[size_t(axis)],
          Span(dims, size_t(axis) + 1, dims.size())};
}

/// -1, 0, 1; NaN is larger than every number, so that sorting has an order.
int Compare(const Tensor& x, int64_t i, int64_t j) {
  if (x.dtype() == DType::kString) return x.strings()[size_t(i)].compare(x.strings()[size_t(j)]);
  if (IsFloat(x.dtype())) {
    const double a = x.at(i), b = x.at(j);
    if (std::isnan(a) || std::isnan(b)) return int(std::isnan(a)) - int(std::isnan(b));
    return a < b ? -1 : a > b;
  }
  const int64_t a = x.at_int(i), b = x.at_int(j);
  if (x.dtype() == DType::kU64) return uint64_t(a) < uint64_t(b) ? -1 : uint64_t(a) > uint64_t(b);
  return a < b ? -1 : a > b;
}

// ---- TopK ----

void TopKType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kNumeric);
  CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
  ctx.set_out(1, DType::kI64);
}
void TopKShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const int axis = AxisOf(ParamOf<TopKParam>(ctx.node()).axis, x.rank(), ctx.node());
  const SymTensorPtr k = InputValue(ctx, 1);
  SymInt count = k && k->elements.size() == 1 ? k->elements[0] : SymInt();
  if (!count.known()) count = UnbackedAtMost(ctx, 0, x[axis]);
  WEFT_CHECK(!count.is_const() || count.value() >= 0, kShapeMismatch, "{}: k is {}",
             ctx.node()->Describe(), count.ToString());
  DemandAtMost(ctx, count, x[axis], "k and the size of the axis");
  std::vector<SymInt> dims = x.dims();
  dims[size_t(axis)] = count;
  ctx.set_out(0, Shape(dims));
  ctx.set_out(1, Shape(std::move(dims)));
}
Tensors TopKHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<TopKParam>(n);
  const Tensor& x = *in[0];
  const int axis = AxisOf(p.axis, x.rank(), n);
  WEFT_CHECK(in[1]->num_elements() == 1, kShapeMismatch, "{}: k has {} elements", n->Describe(),
             in[1]->num_elements());
  const int64_t k = in[1]->at_int(0);
  const Lines l = LinesOf(x.dims(), axis);
  WEFT_CHECK(k >= 0 && k <= l.extent, kShapeMismatch, "{}: k is {}, the axis has {}", n->Describe(),
             k, l.extent);
  Dims dims = x.dims();
  dims[size_t(axis)] = k;
  auto values = NewTensor(x.dtype(), dims), indices = NewTensor(DType::kI64, dims);
  Dims order(static_cast<size_t>(l.extent));
  for (int64_t b = 0; b < l.before; ++b) {
    for (int64_t i = 0; i < l.inner; ++i) {
      const auto place = [&](int64_t e) { return (b * l.extent + e) * l.inner + i; };
      RequestScope::Poll();
      std::iota(order.begin(), order.end(), 0);
      // Of equal elements the one of the lower index comes first.
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t c) {
        const int d = Compare(x, place(a), place(c));
        return d != 0 ? (p.largest ? d > 0 : d < 0) : a < c;
      });
      for (int64_t e = 0; e < k; ++e) {
        const int64_t to = (b * k + e) * l.inner + i;
        CopyElements(x, place(order[size_t(e)]), values.get(), to, 1);
        indices->set_int(to, order[size_t(e)]);
      }
    }
  }
  return {values, indices};
}
std::vector<NodeEntry> TopKGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  return {ApplyOp("ScatterElements", {ZerosLike(n->inputs[0]), NodeEntry(n, 1), dy[0]},
                  {{"axis", ParamOf<TopKParam>(n).axis}}),
          NodeEntry()};
}

// ---- NonZero ----

void NonZeroType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kComputable);
  ctx.set_out(0, DType::kI64);
}
void NonZeroShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  ctx.set_out(0, Shape({SymInt(int64_t(x.rank())), UnbackedAtMost(ctx, 0, x.num_elements())}));
  Unknown(ctx, 0, "it depends on the elements of x");
}
Tensors NonZeroHost(const NodePtr&, const Tensors& in) {
  const Tensor& x = *in[0];
  Dims found;
  for (int64_t i = 0; i < x.num_elements(); ++i)
    if (IsFloat(x.dtype()) ? x.at(i) != 0 : x.at_int(i) != 0) found.push_back(i);
  const int64_t count = int64_t(found.size());
  auto y = NewTensor(DType::kI64, {x.rank(), count});
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = found[size_t(k)];
    for (int d = x.rank(); d-- > 0; rest /= x.dims()[size_t(d)])
      y->set_int(d * count + k, rest % x.dims()[size_t(d)]);
  }
  return {y};
}

// ---- Compress ----

int AxisOrFlat(int64_t axis, int rank, const NodePtr& n) {
  return axis == kFlat ? -1 : AxisOf(axis, rank, n);
}
void CompressType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  CheckInputType(ctx, 1, kBoolOnly);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void CompressShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  CheckRank(ctx, 1, 1, "condition");
  SymInt count;
  if (const SymTensorPtr c = InputValue(ctx, 1); c && c->is_const()) {
    const auto bits = c->ints();
    count = int64_t(std::count_if(bits.begin(), bits.end(), [](int64_t b) { return b != 0; }));
  }
  if (!count.known()) {
    count = UnbackedAtMost(ctx, 0, ctx.in(1).has_rank() ? ctx.in(1)[0] : SymInt());
    Unknown(ctx, 0, "it depends on how many conditions hold");
  }
  if (ParamOf<CompressParam>(ctx.node()).axis == kFlat) return ctx.set_out(0, Shape({count}));
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  std::vector<SymInt> dims = x.dims();
  dims[size_t(AxisOf(ParamOf<CompressParam>(ctx.node()).axis, x.rank(), ctx.node()))] = count;
  ctx.set_out(0, Shape(std::move(dims)));
}
Tensors CompressHost(const NodePtr& n, const Tensors& in) {
  const Tensor &x = *in[0], &condition = *in[1];
  const int axis = AxisOrFlat(ParamOf<CompressParam>(n).axis, x.rank(), n);
  const Lines l = axis < 0 ? Lines{1, x.num_elements(), 1} : LinesOf(x.dims(), axis);
  Dims kept;
  WEFT_CHECK(condition.num_elements() <= l.extent, kShapeMismatch,
             "{}: {} conditions for an axis of size {}", n->Describe(), condition.num_elements(),
             l.extent);
  for (int64_t i = 0; i < condition.num_elements(); ++i)
    if (condition.at_int(i)) kept.push_back(i);
  const int64_t count = int64_t(kept.size());
  Dims dims = axis < 0 ? Dims{count} : x.dims();
  if (axis >= 0) dims[size_t(axis)] = count;
  auto y = NewTensor(x.dtype(), dims);
  for (int64_t b = 0; b < l.before; ++b)
    for (int64_t k = 0; k < count; ++k)
      CopyElements(x, (b * l.extent + kept[size_t(k)]) * l.inner, y.get(),
                   (b * count + k) * l.inner, l.inner);
  return {y};
}

// ---- Unique ----

void UniqueType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kComputable | DTypeSet{DType::kString});
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
  for (int i = 1; i < ctx.num_outputs(); ++i) ctx.set_out(i, DType::kI64);
}
void UniqueShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  const int64_t axis = ParamOf<UniqueParam>(ctx.node()).axis;
  const SymInt most = !x.has_rank()   ? SymInt()
                      : axis == kFlat ? x.num_elements()
                                      : x[AxisOf(axis, x.rank(), ctx.node())];
  const SymInt count = UnbackedAtMost(ctx, 0, most);
  Unknown(ctx, 0, "it depends on how many elements differ");
  const Shape counts({count});
  if (ctx.num_outputs() > 1) ctx.set_out(1, counts);
  if (ctx.num_outputs() > 3) ctx.set_out(3, counts);
  if (axis == kFlat) {
    ctx.set_out(0, counts);
    if (ctx.num_outputs() > 2) ctx.set_out(2, Shape({x.num_elements()}));
    return;
  }
  if (!x.has_rank()) return;
  const int k = AxisOf(axis, x.rank(), ctx.node());
  std::vector<SymInt> dims = x.dims();
  if (ctx.num_outputs() > 2) ctx.set_out(2, Shape({dims[size_t(k)]}));
  dims[size_t(k)] = count;
  ctx.set_out(0, Shape(std::move(dims)));
}
Tensors UniqueHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<UniqueParam>(n);
  const Tensor& x = *in[0];
  const int axis = AxisOrFlat(p.axis, x.rank(), n);
  const Lines l = axis < 0 ? Lines{1, x.num_elements(), 1} : LinesOf(x.dims(), axis);
  // Slices compare element by element, first axis first.
  const auto compare = [&](int64_t a, int64_t b) {
    RequestScope::Poll();
    for (int64_t o = 0; o < l.before; ++o)
      for (int64_t i = 0; i < l.inner; ++i) {
        const int d =
            Compare(x, (o * l.extent + a) * l.inner + i, (o * l.extent + b) * l.inner + i);
        if (d != 0) return d;
      }
    return 0;
  };
  Dims order(static_cast<size_t>(l.extent));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  Dims first, counts, group(static_cast<size_t>(l.extent));
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || compare(order[k - 1], order[k]) != 0) {
      first.push_back(order[k]);
      counts.push_back(0);
    }
    ++counts.back();
    group[size_t(order[k])] = int64_t(first.size()) - 1;
  }
  Dims rank(first.size());
  std::iota(rank.begin(), rank.end(), 0);
  if (!p.sorted)
    std::sort(rank.begin(), rank.end(),
              [&](int64_t a, int64_t b) { return first[size_t(a)] < first[size_t(b)]; });
  Dims place(first.size());
  for (size_t k = 0; k < rank.size(); ++k) place[size_t(rank[k])] = int64_t(k);
  const int64_t count = int64_t(first.size());
  Dims dims = axis < 0 ? Dims{count} : x.dims();
  if (axis >= 0) dims[size_t(axis)] = count;
  auto y = NewTensor(x.dtype(), dims), indices = NewTensor(DType::kI64, {count}),
       inverse = NewTensor(DType::kI64, {l.extent}), totals = NewTensor(DType::kI64, {count});
  for (int64_t k = 0; k < count; ++k) {
    const int64_t g = rank[size_t(k)];
    for (int64_t b = 0; b < l.before; ++b)
      CopyElements(x, (b * l.extent + first[size_t(g)]) * l.inner, y.get(),
                   (b * count + k) * l.inner, l.inner);
    indices->set_int(k, first[size_t(g)]);
    totals->set_int(k, counts[size_t(g)]);
  }
  for (int64_t i = 0; i < l.extent; ++i) inverse->set_int(i, place[size_t(group[size_t(i)])]);
  Tensors all{y, indices, inverse, totals};
  all.resize(n->num_outputs());
  return all;
}

/// y = x (or its elements in a row) gathered along the axis at `positions`: dy goes back there.
NodeEntry BackTo(const NodeEntry& x, const NodeEntry& dy, const NodeEntry& positions,
                 int64_t axis) {
  if (axis != kFlat)
    return ApplyOp("weft::GatherGrad", {dy, ShapeOf(x), positions}, {{"axis", axis}});
  const NodeEntry count = ApplyOp("Unsqueeze", {ApplyOp("Size", {x}), IntsLike(x, {0})});
  return ReshapeLike(ApplyOp("weft::GatherGrad", {dy, count, positions}, {{"axis", 0}}), x);
}
std::vector<NodeEntry> CompressGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry kept = ApplyOp("NonZero", {n->inputs[1]});  // [1, count]
  const NodeEntry positions = ApplyOp("Squeeze", {kept, IntsLike(kept, {0})});
  return {BackTo(n->inputs[0], dy[0], positions, ParamOf<CompressParam>(n).axis), NodeEntry()};
}
std::vector<NodeEntry> UniqueGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  return {BackTo(n->inputs[0], dy[0], NodeEntry(n, 1), ParamOf<UniqueParam>(n).axis)};
}

}  // namespace

WEFT_REGISTER_OP(TopK)
    .describe(
        "The k largest (smallest) elements along `axis` in descending (ascending) order, and their "
        "indices; of equal ones the lower index first. NaN is the largest.\n"
        "Gradient: dy scattered to the places taken. Errors: k outside [0, size] "
        "(kShapeMismatch). Source: ONNX TopK-24.")
    .input("X", TypeDoc(kNumeric))
    .input("K", "i64", "one element")
    .output("Values", "T")
    .output("Indices", "i64")
    .param<TopKParam>()
    .example({"f32[3, 5]", "i64[1] = [2]"})
    .example({"i32[4, n]", "i64[1] = [3]"}, "axis = 0, largest = 0")
    .set_attr<FInferType>("FInferType", TopKType)
    .set_attr<FInferShape>("FInferShape", TopKShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FHostEval>("FHostEval", TopKHost)
    .set_attr<FGradient>("FGradient", TopKGrad);

WEFT_REGISTER_OP(NonZero)
    .describe(
        "Indices of the elements that are not zero, one column each, in row-major order. Gradient: "
        "none. Source: ONNX NonZero-13.")
    .input("X", TypeDoc(kComputable))
    .output("Y", "i64", "[rank, count]")
    .param<NoParam>()
    .example({"f32[2, 3] = [0, 1, 2, 0, 0, 3]"})
    .example({"i64[n, 2]"})
    .set_attr<FInferType>("FInferType", NonZeroType)
    .set_attr<FInferShape>("FInferShape", NonZeroShape)
    .set_attr<FHostEval>("FHostEval", NonZeroHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(Compress)
    .describe(
        "The slices along `axis` whose condition holds; slices beyond the conditions are left "
        "out.\nGradient: dy at the slices that were kept, 0 elsewhere. Source: ONNX Compress-11.")
    .input("input", TypeDoc(kAllTypes))
    .input("condition", "bool", "1-D, not longer than the axis")
    .output("output", "T")
    .param<CompressParam>()
    .example({"f32[3, 2]", "bool[3] = [true, false, true]"}, "axis = 0")
    .example({"f32[3, 2]", "bool[4] = [false, true, true, false]"})
    .set_attr<FInferType>("FInferType", CompressType)
    .set_attr<FInferShape>("FInferShape", CompressShape)
    .set_attr<FHostEval>("FHostEval", CompressHost)
    .set_attr<FGradient>("FGradient", CompressGrad);

WEFT_REGISTER_OP(Unique)
    .describe(
        "The different elements of x (slices along `axis`), where each occurs first, which one "
        "each "
        "input is, and how often each occurs.\nGradient: dy at the first occurrence of each, 0 "
        "elsewhere. "
        "Source: ONNX Unique-11.")
    .input("X", TypeDoc(kComputable | DTypeSet{DType::kString}))
    .output("Y", "T")
    .optional_output("indices", "i64", "of the first occurrence")
    .optional_output("inverse_indices", "i64", "for each input its place in Y")
    .optional_output("counts", "i64")
    .set_num_outputs(4)
    .param<UniqueParam>()
    .example({"i32[5] = [2, 1, 2, 3, 1]"})
    .example({"f32[3, n]"}, "axis = -1, sorted = 0")
    .set_attr<FInferType>("FInferType", UniqueType)
    .set_attr<FInferShape>("FInferShape", UniqueShape)
    .set_attr<FHostEval>("FHostEval", UniqueHost)
    .set_attr<FGradient>("FGradient", UniqueGrad);

}  // namespace weft::ops
