/// scan.cc: Scan: a body that runs once for each slice of its operands.
///
/// Its bodies' inputs are those that ONNX gives them, then the captured values (import made them
/// operands, `num_captures` says how many). Who runs the bodies: weft/core/op/run_bodies.h.
///   throws  kTypeMismatch, kArity where a body does not fit; what the body throws
#include <algorithm>
#include <climits>

#include "ops/util/body_gradient.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

struct ScanParam : OpParam<ScanParam> {
  GraphAttr body;
  int64_t num_scan_inputs, num_captures;
  Ints scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
  WEFT_OP_PARAM(ScanParam) {
    WEFT_FIELD(body).describe("(state..., slices..., captures...) -> (state..., slices...)");
    WEFT_FIELD(num_scan_inputs).describe("operands that are sliced");
    WEFT_FIELD(num_captures).set_default(0).describe("operands from outside of the body");
    WEFT_FIELD(scan_input_axes).set_default({}).describe("sliced axis of each; default 0");
    WEFT_FIELD(scan_input_directions).set_default({}).describe("1: from the end");
    WEFT_FIELD(scan_output_axes).set_default({}).describe("axis that results are stacked on; 0");
    WEFT_FIELD(scan_output_directions).set_default({}).describe("1: the last result comes first");
  }
};
WEFT_REGISTER_OP_PARAM(ScanParam);

struct ScanSplit {
  size_t states, slices, captures, results;
};
ScanSplit SplitScan(const NodePtr& n, size_t num_inputs) {
  const auto& p = ParamOf<ScanParam>(n);
  const Graph& body = BodyOf(n, p.body);
  ScanSplit s;
  s.captures = size_t(std::max<int64_t>(p.num_captures, 0));
  s.slices = size_t(std::max<int64_t>(p.num_scan_inputs, 0));
  WEFT_CHECK(
      s.slices > 0 && num_inputs >= s.slices + s.captures && body.inputs().size() == num_inputs,
      kArity, "{}: {} operands, {} of them sliced, for a body of {} inputs", n->Describe(),
      num_inputs, s.slices, body.inputs().size());
  s.states = num_inputs - s.slices - s.captures;
  WEFT_CHECK(body.outputs.size() >= s.states, kArity, "{}: the body has {} outputs for {} states",
             n->Describe(), body.outputs.size(), s.states);
  s.results = body.outputs.size() - s.states;
  return s;
}
Shape WithoutAxis(const Shape& x, int axis) {
  std::vector<SymInt> dims = x.dims();
  dims.erase(dims.begin() + axis);
  return Shape(std::move(dims));
}
void ScanType(InferTypeContext& ctx) {
  const ScanSplit s = SplitScan(ctx.node(), size_t(ctx.num_inputs()));
  const InferredBody b = InferTypes(*ParamOf<ScanParam>(ctx.node()).body.graph, TypesFrom(ctx, 0));
  for (size_t k = 0; k < s.states + s.results; ++k) {
    const Type given = k < s.states ? ctx.in(int(k)) : Type();
    const Type t = b.type(k);
    WEFT_CHECK(!t.known() || !given.known() || t == given, kTypeMismatch,
               "{}: state {} is {} before the body and {} after it", ctx.node()->Describe(), k,
               given.ToString(), t.ToString());
    if (t.known() || given.known()) ctx.set_out(int(k), t.known() ? t : given);
  }
}
void ScanShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<ScanParam>(ctx.node());
  const ScanSplit s = SplitScan(ctx.node(), size_t(ctx.num_inputs()));
  std::vector<Shape> shapes = ShapesFrom(ctx, 0);
  const auto outer = SymbolsOf(shapes);
  SymInt length;
  for (size_t k = 0; k < s.slices; ++k) {
    Shape& x = shapes[s.states + k];
    if (!x.has_rank()) continue;
    WEFT_CHECK(x.rank() > 0, kShapeMismatch, "{}: a scalar cannot be sliced",
               ctx.node()->Describe());
    const int axis = AxisOf(EntryOr(p.scan_input_axes, k, 0), x.rank(), ctx.node());
    length = length.known() ? UnifyDims(ctx, length, x[axis], "the sliced dimensions") : x[axis];
    x = WithoutAxis(x, axis);
  }
  std::vector<Shape> states;
  const InferredBody b =
      InferStates(*p.body.graph, TypesFrom(ctx, 0), shapes, &ctx.facts(), 0, s.states, 0, &states);
  int unbacked = 0;
  SetStates(ctx, states, &unbacked);
  for (size_t k = 0; k < s.results; ++k) {
    const Shape one = b.shape(s.states + k);
    if (!one.has_rank()) {
      Unknown(ctx, int(s.states + k), "the body does not determine its rank");
      continue;
    }
    const int axis = AxisOf(EntryOr(p.scan_output_axes, k, 0), one.rank() + 1, ctx.node());
    std::vector<SymInt> dims = OuterDims(ctx, one, outer, &unbacked);
    dims.insert(dims.begin() + axis, length.known() ? length : ctx.unbacked(unbacked));
    ++unbacked;
    SetOrExplain(ctx, int(s.states + k), Shape(std::move(dims)));
  }
}
/// Iterations of which nothing but places changes from one to the next.
class RepeatedScan {
 public:
  RepeatedScan(const ScanSplit& s, const Tensors& in, const std::vector<int>& axes)
      : s_(s), in_(in), from_(in.size()), to_(s.states + s.results) {
    for (size_t k = 0; k < s.slices; ++k)
      possible_ = possible_ && SlicesLieTogether(*in[s.states + k], axes[k]);
    for (size_t k = in.size() - s.captures; k < in.size(); ++k)
      from_[k] = in[k] ? in[k]->data() : nullptr;
  }
  /// False: the iteration is to be run otherwise.
  bool Run(const BodyRunner& bodies, int64_t i, int64_t length, const ScanParam& p,
           LoopStates* states, std::vector<StackedResult>* stacks) {
    if (i == 0 || !possible_) return false;
    if (i == 1) {
      if (length > 2) body_ = RepeatInPlace(bodies, *states, *stacks);
      possible_ = body_ != nullptr;
      if (!possible_) return false;
    }
    states->Point(length - 1 - i, from_.data(), to_.data());
    for (size_t k = 0; k < s_.slices; ++k) {
      const Tensor& x = *in_[s_.states + k];
      const bool backward = EntryOr(p.scan_input_directions, k, 0) == 1;
      from_[s_.states + k] = static_cast<const char*>(x.data()) +
                             (backward ? length - 1 - i : i) * (x.num_bytes() / length);
    }
    for (size_t k = 0; k < s_.results; ++k) to_[s_.states + k] = (*stacks)[k].Point(i, length);
    body_->Run(from_.data(), to_.data());
    return true;
  }

 private:
  const ScanSplit& s_;
  const Tensors& in_;
  std::vector<const void*> from_;
  std::vector<void*> to_;
  std::unique_ptr<RepeatedBody> body_;
  bool possible_ = true;
};

void ScanRun(const NodePtr& n, const Tensors& in, const BodyRunner& bodies,
             ResultTensors* results) {
  const auto& p = ParamOf<ScanParam>(n);
  const ScanSplit s = SplitScan(n, in.size());
  LoopStates states(Tensors(in.begin(), in.begin() + long(s.states)), *results);
  int64_t length = -1;
  std::vector<int> axes;
  for (size_t k = 0; k < s.slices; ++k) {
    const Tensor& x = *in[s.states + k];
    axes.push_back(AxisOf(EntryOr(p.scan_input_axes, k, 0), x.rank(), n));
    const int64_t extent = x.dims()[size_t(axes.back())];
    WEFT_CHECK(length < 0 || length == extent, kShapeMismatch, "{}: sliced dimensions {} and {}",
               n->Describe(), length, extent);
    length = extent;
  }
  std::vector<StackedResult> stacks;
  for (size_t k = 0; k < s.results; ++k)
    stacks.emplace_back(n, (*results)[s.states + k], EntryOr(p.scan_output_axes, k, 0),
                        EntryOr(p.scan_output_directions, k, 0) == 1);
  ResultTensors out(s.states + s.results);
  RepeatedScan again(s, in, axes);
  for (int64_t i = 0; i < length; ++i) {
    RequestScope::Poll();
    if (again.Run(bodies, i, length, p, &states, &stacks)) continue;
    Tensors args = states.now();
    for (size_t k = 0; k < s.slices; ++k) {
      const bool backward = EntryOr(p.scan_input_directions, k, 0) == 1;
      args.push_back(SliceAt(in[s.states + k], axes[k], backward ? length - 1 - i : i));
    }
    args.insert(args.end(), in.end() - long(s.captures), in.end());
    for (size_t k = 0; k < s.states; ++k) out[k] = states.Place(k, length - 1 - i);
    for (size_t k = 0; k < s.results; ++k) out[s.states + k] = stacks[k].Place(i, length);
    bodies.Run("body", args, &out);
    for (size_t k = 0; k < s.states; ++k) states.Take(k, out[k]);
    for (size_t k = 0; k < s.results; ++k) stacks[k].Take(out[s.states + k]);
  }
  const auto like = [&] {
    std::vector<Type> types;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < in.size(); ++i) {
      types.push_back(in[i] ? Type(in[i]->dtype()) : Type());
      Dims dims = in[i] ? in[i]->dims() : Dims();
      if (i >= s.states && i < s.states + s.slices) dims.erase(dims.begin() + axes[i - s.states]);
      shapes.push_back(Shape::OfInts(dims));
    }
    return InferBody(*p.body.graph, types, shapes);
  };
  const auto once = [&] {
    Tensors args = states.now();
    for (size_t k = 0; k < s.slices; ++k) {
      Dims dims = in[s.states + k]->dims();
      dims.erase(dims.begin() + axes[k]);
      args.push_back(NewTensor(in[s.states + k]->dtype(), std::move(dims)));  // of zeros
    }
    args.insert(args.end(), in.end() - long(s.captures), in.end());
    ResultTensors one(s.states + s.results);
    bodies.Run("body", args, &one);
    return one;
  };
  for (size_t k = 0; k < s.results; ++k)
    (*results)[s.states + k] = stacks[k].Finish(like, once, s.states + k);
  states.Finish(results);
}

std::vector<NodeEntry> ScanGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  const auto& p = ParamOf<ScanParam>(n);
  const ScanSplit s = SplitScan(n, n->num_inputs());
  Recurrence r;
  r.node = n;
  r.body = p.body.graph.get();
  r.states = s.states;
  r.slices = s.slices;
  r.captures = s.captures;
  r.results = s.results;
  r.slice_axes = p.scan_input_axes;
  r.slice_directions = p.scan_input_directions;
  r.result_axes = p.scan_output_axes;
  r.result_directions = p.scan_output_directions;
  r.types = KnownTypes(n, 0);
  r.shapes = KnownShapes(n, 0);
  for (size_t k = 0; k < s.slices; ++k)
    if (Shape& x = r.shapes[s.states + k]; x.has_rank())
      x = WithoutAxis(x, AxisOf(EntryOr(p.scan_input_axes, k, 0), x.rank(), n));
  return RunBackwards(r, dy);
}

}  // namespace

WEFT_REGISTER_OP(Scan)
    .describe(
        "Runs `body` once for each slice of the last `num_scan_inputs` operands. The states go "
        "round; what else the body gives is stacked.\n"
        "Gradient: a Scan from the last slice to the first, of the gradient of the body. It needs "
        "the states of every iteration, which a run in front of it stacks: their dimensions must "
        "not change (kShapeMismatch when it runs). Source: ONNX Scan-25.")
    .variadic_input("operands", "any", "states, sliced operands, then the captured values")
    .output("outputs", "any", "final states, then stacks")
    .set_num_inputs(1, INT_MAX)
    .set_num_outputs([](const NodeAttrs& a) { return BodyOutputs(a, "body", 0); })
    .param<ScanParam>()
    .set_attr<FInferType>("FInferType", ScanType)
    .set_attr<FInferShape>("FInferShape", ScanShape)
    .set_attr<FGradient>("FGradient", ScanGradient)
    .set_attr<FRunBodies>("FRunBodies", ScanRun)
    .set_attr<FHostEval>("FHostEval", HostByEvaluator(ScanRun));

}  // namespace weft::ops
