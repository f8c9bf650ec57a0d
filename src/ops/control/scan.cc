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
  int64_t num_scan_inputs, num_captures, parts;
  Ints scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
  WEFT_OP_PARAM(ScanParam) {
    WEFT_FIELD(body).describe("(state..., slices..., captures...) -> (state..., slices...)");
    WEFT_FIELD(num_scan_inputs).describe("operands that are sliced");
    WEFT_FIELD(num_captures).set_default(0).describe("operands from outside of the body");
    WEFT_FIELD(parts).set_default(1).describe(
        "the body gets and gives a part of the first axis of states, slices and results, and runs "
        "over each by itself; SplitRows says so");
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
/// Of the first axis one part, or of one part all.
Shape OnePart(Shape s, int64_t parts, const NodePtr& n) {
  if (parts == 1) return s;
  WEFT_CHECK(
      s.has_rank() && s.rank() > 0 && s[0].known() && s[0].is_const() && s[0].value() % parts == 0,
      kShapeMismatch, "{}: {} has no {} equal parts", n->Describe(), s.ToString(), parts);
  s.set(0, SymInt(s[0].value() / parts));
  return s;
}
Shape AllParts(Shape s, int64_t parts) {
  if (parts > 1 && s.has_rank() && s.rank() > 0) s.set(0, s[0] * SymInt(parts));
  return s;
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
    x = OnePart(WithoutAxis(x, axis), p.parts, ctx.node());
  }
  for (size_t k = 0; k < s.states; ++k) shapes[k] = OnePart(shapes[k], p.parts, ctx.node());
  std::vector<Shape> states;
  const InferredBody b =
      InferStates(*p.body.graph, TypesFrom(ctx, 0), shapes, &ctx.facts(), 0, s.states, 0, &states);
  for (Shape& state : states) state = AllParts(state, p.parts);
  SetStates(ctx, states);
  for (size_t k = 0; k < s.results; ++k) {
    const Shape one = b.shape(s.states + k);
    if (!one.has_rank()) {
      Unknown(ctx, int(s.states + k), "the body does not determine its rank");
      continue;
    }
    const int axis = AxisOf(EntryOr(p.scan_output_axes, k, 0), one.rank() + 1, ctx.node());
    const int output = int(s.states + k);
    std::vector<SymInt> dims = OuterDims(ctx, AllParts(one, p.parts), outer, output);
    dims.insert(dims.begin() + axis,
                length.known() ? length : ctx.unbacked(UnbackedIndex(output, one.rank())));
    SetOrExplain(ctx, int(s.states + k), Shape(std::move(dims)));
  }
}
/// Nothing but places has changed from one iteration to the next.
bool IsStraight(const ScanSplit& s, const Tensors& in, const std::vector<int>& axes,
                const LoopStates& states, const std::vector<StackedResult>& stacks) {
  for (size_t k = 0; k < s.slices; ++k)
    if (!SlicesLieTogether(*in[s.states + k], axes[k])) return false;
  return AllInPlace(states, stacks);
}
/// Runs the iterations behind the first one at once, where nothing but places changes from one to
/// the next; false: they are to be run one by one.
bool RunTheRest(const ScanSplit& s, const ScanParam& p, const Tensors& in,
                const std::vector<int>& axes, int64_t length, const BodyRunner& bodies,
                LoopStates* states, std::vector<StackedResult>* stacks) {
  if (!IsStraight(s, in, axes, *states, *stacks)) return false;
  const std::unique_ptr<RepeatedBody> body = bodies.Repeat("body");
  if (!body) return false;
  std::vector<IteratedPlace> from(in.size()), to(s.states + s.results);
  states->PointAll(1, length, from.data(), to.data());
  for (size_t k = 0; k < s.slices; ++k) {
    const Tensor& x = *in[s.states + k];
    from[s.states + k] = IteratedPlace::Slices(x.data(), x.num_bytes() / length, length,
                                               EntryOr(p.scan_input_directions, k, 0) == 1);
  }
  for (size_t k = in.size() - s.captures; k < in.size(); ++k)
    from[k] = IteratedPlace::Fixed(in[k] ? in[k]->data() : nullptr);
  for (size_t k = 0; k < s.results; ++k) to[s.states + k] = (*stacks)[k].PointAll(length);
  int64_t at = 1;
  body->RunAll(&at, length, from, to);
  return true;
}

Tensors StatesOf(const ScanSplit& s, const Tensors& in) {
  return {in.begin(), in.begin() + long(s.states)};
}
/// All iterations, where slices and results lie together; `results`: in their places.
StraightLoop LoopOf(const ScanParam& p, const ScanSplit& s, const Tensors& in, int64_t length,
                    const ResultTensors& results) {
  StraightLoop loop;
  loop.body = "body";
  loop.count = length;
  loop.parts = p.parts;
  loop.captures = s.captures;
  loop.states_text = DescribeStates(StatesOf(s, in));
  const int64_t slices = std::max<int64_t>(length, 1);
  for (size_t k = 0; k < s.states; ++k) loop.states.push_back({in[k]->num_bytes(), false});
  for (size_t k = 0; k < s.slices; ++k)
    loop.slices.push_back(
        {in[s.states + k]->num_bytes() / slices, EntryOr(p.scan_input_directions, k, 0) == 1});
  for (size_t k = 0; k < s.results; ++k)
    loop.results.push_back({results[s.states + k]->num_bytes() / slices,
                            EntryOr(p.scan_output_directions, k, 0) == 1});
  const std::vector<NodeEntry>& outputs = p.body.graph->outputs;
  for (size_t k = 0; k < s.states; ++k)
    for (size_t r = 0; r < s.results; ++r)
      if (outputs[k] == outputs[s.states + r]) loop.states[k].result = int(r);
  return loop;
}

/// A Scan in parts, whose axes are all the first. What an iteration reads and writes lies where the
/// whole has it, a part of each.
class ScanInParts {
 public:
  ScanInParts(const NodePtr& n, const ScanSplit& s, const BodyRunner& bodies, const Tensors& in,
              int64_t length, ResultTensors* results)
      : p_(ParamOf<ScanParam>(n)), s_(s), bodies_(bodies), in_(in), length_(length) {
    for (size_t k = 0; k < s.states; ++k)
      if (!(*results)[k]) (*results)[k] = bodies.NewTensor(in[k]->dtype(), in[k]->dims());
    for (size_t k = s.states; k < results->size(); ++k)
      if (!(*results)[k]) (*results)[k] = NewStack(n, k);
    results_ = *results;
    // Once, and not by each thread: views of them are written.
    for (const auto& t : results_) t->mutable_data();
    for (size_t k = 0; k < s.states; ++k)
      others_.push_back(bodies.NewTensor(in[k]->dtype(), in[k]->dims()));
    loop_ = LoopOf(p_, s, in, length, results_);
  }
  /// Of second places of states.
  int64_t bytes() const {
    int64_t all = 0;
    for (const auto& t : others_) all += t->num_bytes();
    return all;
  }
  /// All iterations over one part.
  void Run(int64_t part, const BodyRunner& bodies) const {
    int64_t i = 0;
    try {
      Run(part, bodies, &i);
    } catch (Error& e) {
      ExplainIteration(&e, i, loop_.states_text, 0);
      throw;
    }
  }
  const StraightLoop& loop() const { return loop_; }

 private:
  void Run(int64_t part, const BodyRunner& bodies, int64_t* at) const {
    std::unique_ptr<RepeatedBody> again;
    for (int64_t& i = *at; i < length_; ++i) {
      if (again) {
        std::vector<const void*> operands;
        std::vector<void*> to_results, others;
        for (const TensorPtr& t : in_) operands.push_back(t ? t->data() : nullptr);
        for (const auto& t : results_) to_results.push_back(AddressOf(*t));
        for (const auto& t : others_) others.push_back(AddressOf(*t));
        std::vector<IteratedPlace> from, to;
        // Where the first iteration has left them.
        StraightLoop loop = loop_;
        for (StraightLoop::Piece& state : loop.states) state.result = -1;
        loop.Point(part, operands.data(), to_results.data(), others.data(), &from, &to);
        return again->RunAll(&i, length_, from, to);
      }
      RequestScope::Poll();
      RequestScope::CheckIterations(i);
      const ResultTensors places = Places(part, i);
      ResultTensors out = places;
      bodies.Run("body", Operands(part, i), &out);
      for (size_t k = 0; k < out.size(); ++k)
        if (out[k] != places[k])
          bodies.Copy(places[k]->mutable_data(), out[k]->data(), places[k]->num_bytes());
      if (i == 0 && length_ > 1) again = bodies.Repeat("body");
    }
  }
  /// Threads may ask at the same time.
  static void* AddressOf(const Tensor& t) { return const_cast<void*>(t.data()); }
  std::shared_ptr<Tensor> NewStack(const NodePtr& n, size_t k) const {
    Tensors one = Operands(0, 0);
    const InferredBody body = InferFor(*p_.body.graph, one);
    Dims dims = body.shape(k).ints();
    WEFT_CHECK(!dims.empty(), kShapeMismatch, "{}: result {} has no axis", n->Describe(), k);
    dims[0] *= p_.parts;
    dims.insert(dims.begin(), length_);
    return bodies_.NewTensor(body.type(k).dtype, dims);
  }
  int64_t SliceOf(size_t k, int64_t i) const {
    return EntryOr(p_.scan_input_directions, k, 0) == 1 ? length_ - 1 - i : i;
  }
  int64_t StackAt(size_t k, int64_t i) const {
    return EntryOr(p_.scan_output_directions, k, 0) == 1 ? length_ - 1 - i : i;
  }
  /// Where state k lies behind iteration i; the last one is the result.
  const std::shared_ptr<Tensor>& StateBehind(size_t k, int64_t i) const {
    return (length_ - 1 - i) % 2 == 0 ? results_[k] : others_[k];
  }
  TensorPtr StateBefore(size_t k, int64_t i) const {
    return i == 0 ? in_[k] : TensorPtr(StateBehind(k, i - 1));
  }
  std::shared_ptr<Tensor> One(const TensorPtr& whole, int64_t part) const {
    return PartOf(std::const_pointer_cast<Tensor>(whole), part, p_.parts);
  }
  Tensors Operands(int64_t part, int64_t i) const {
    Tensors args;
    for (size_t k = 0; k < s_.states; ++k) args.push_back(One(StateBefore(k, i), part));
    for (size_t k = 0; k < s_.slices; ++k)
      args.push_back(One(SliceAt(bodies_, in_[s_.states + k], 0, SliceOf(k, i)), part));
    args.insert(args.end(), in_.end() - long(s_.captures), in_.end());
    return args;
  }
  ResultTensors Places(int64_t part, int64_t i) const {
    ResultTensors places;
    for (size_t k = 0; k < s_.states; ++k) places.push_back(One(StateBehind(k, i), part));
    for (size_t k = 0; k < s_.results; ++k)
      places.push_back(One(SliceAt(bodies_, results_[s_.states + k], 0, StackAt(k, i)), part));
    return places;
  }
  const ScanParam& p_;
  const ScanSplit& s_;
  const BodyRunner& bodies_;
  const Tensors& in_;
  const int64_t length_;
  ResultTensors results_, others_;
  StraightLoop loop_;
};

void ScanRun(const NodePtr& n, const Tensors& in, const BodyRunner& bodies,
             ResultTensors* results) {
  const auto& p = ParamOf<ScanParam>(n);
  const ScanSplit s = SplitScan(n, in.size());
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
  if (p.parts > 1) {
    const ScanInParts scan(n, s, bodies, in, length, results);
    if (length == 0) {
      for (size_t k = 0; k < s.states; ++k)
        (*results)[k] = std::const_pointer_cast<Tensor>(in[k]);  // nobody writes to it
      return;
    }
    bodies.RunTogether(size_t(p.parts), [&](size_t part, const BodyRunner& runner) {
      scan.Run(int64_t(part), runner);
    });
    bodies.Holds(scan.bytes());
    bodies.Keep(scan.loop());
    return;
  }
  LoopStates states(bodies, StatesOf(s, in), *results);
  std::vector<StackedResult> stacks;
  for (size_t k = 0; k < s.results; ++k)
    stacks.emplace_back(n, bodies, (*results)[s.states + k], EntryOr(p.scan_output_axes, k, 0),
                        EntryOr(p.scan_output_directions, k, 0) == 1);
  const CountedBody body(bodies, states, stacks);
  ResultTensors out(s.states + s.results);
  for (int64_t i = 0; i < length; ++i) {
    if (i == 1 && length > 2 && RunTheRest(s, p, in, axes, length, body, &states, &stacks)) break;
    body.Begin(i);
    Tensors args = states.now();
    for (size_t k = 0; k < s.slices; ++k) {
      const bool backward = EntryOr(p.scan_input_directions, k, 0) == 1;
      args.push_back(SliceAt(bodies, in[s.states + k], axes[k], backward ? length - 1 - i : i));
    }
    args.insert(args.end(), in.end() - long(s.captures), in.end());
    for (size_t k = 0; k < s.states; ++k) out[k] = states.Place(k, length - 1 - i);
    for (size_t k = 0; k < s.results; ++k) out[s.states + k] = stacks[k].Place(i, length);
    body.Run("body", args, &out);
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
      const bool whole = i >= s.states + s.slices;
      shapes.push_back(OnePart(Shape::OfInts(dims), whole ? 1 : p.parts, n));
    }
    return InferBody(*p.body.graph, types, shapes);
  };
  const auto once = [&] {
    Tensors args = states.now();
    for (size_t k = 0; k < s.slices; ++k) {
      Dims dims = in[s.states + k]->dims();
      dims.erase(dims.begin() + axes[k]);
      args.push_back(bodies.Place(NewTensor(in[s.states + k]->dtype(), std::move(dims))));  // zeros
    }
    args.insert(args.end(), in.end() - long(s.captures), in.end());
    ResultTensors one(s.states + s.results);
    body.Run("body", args, &one);
    return one;
  };
  for (size_t k = 0; k < s.results; ++k)
    (*results)[s.states + k] = stacks[k].Finish(like, once, s.states + k);
  states.Finish(results);
  body.End();
  if (length > 0 && IsStraight(s, in, axes, states, stacks))
    bodies.Keep(LoopOf(p, s, in, length, *results));
}

std::vector<NodeEntry> ScanGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  const auto& p = ParamOf<ScanParam>(n);
  WEFT_CHECK(p.parts == 1, kUnsupported, "{}: a gradient of a Scan in parts", n->Describe());
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
