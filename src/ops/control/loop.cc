/// loop.cc: Loop: a body that runs a number of times, or while a condition holds.
///
/// Its bodies' inputs are those that ONNX gives them, then the captured values (import made them
/// operands, `num_captures` says how many). Who runs the bodies: weft/core/op/run_bodies.h.
///   grad    a Scan over what the states have been (body_gradient.h). A run of the loop in front of
///           it stacks them, and so says how many iterations there are.
///   throws  kTypeMismatch, kArity where a body does not fit; what the body throws
/// Extents that an iteration may change are not known before the run. Source: ONNX Loop-25.
#include <algorithm>
#include <climits>
#include <numeric>
#include <optional>

#include "ops/util/body_gradient.h"

namespace weft::ops {
namespace {

struct LoopParam : OpParam<LoopParam> {
  GraphAttr body;
  int64_t num_captures;
  WEFT_OP_PARAM(LoopParam) {
    WEFT_FIELD(body).describe("(i, cond, state..., captures...) -> (cond, state..., scanned...)");
    WEFT_FIELD(num_captures).set_default(0).describe("operands from outside of the body");
  }
};
WEFT_REGISTER_OP_PARAM(LoopParam);

/// Operands: M, cond, state..., captures...
struct LoopSplit {
  size_t states, scans, captures;
};
LoopSplit SplitLoop(const NodePtr& n, size_t num_inputs) {
  const auto& p = ParamOf<LoopParam>(n);
  const Graph& body = BodyOf(n, p.body);
  LoopSplit s;
  s.captures = size_t(std::max<int64_t>(p.num_captures, 0));
  WEFT_CHECK(body.inputs().size() >= 2 + s.captures && body.outputs.size() >= 1, kArity,
             "{}: the body has {} inputs and {} outputs", n->Describe(), body.inputs().size(),
             body.outputs.size());
  s.states = body.inputs().size() - 2 - s.captures;
  WEFT_CHECK(num_inputs == 2 + s.states + s.captures && body.outputs.size() >= 1 + s.states, kArity,
             "{}: {} operands for a body of {} inputs and {} outputs", n->Describe(), num_inputs,
             body.inputs().size(), body.outputs.size());
  s.scans = body.outputs.size() - 1 - s.states;
  return s;
}

/// Types and, given `ctx_shapes`, shapes of the body's inputs.
template <class Ctx>
std::vector<Type> LoopBodyTypes(Ctx& ctx) {
  std::vector<Type> types{DType::kI64, DType::kBool};
  for (const Type& t : TypesFrom(ctx, 2)) types.push_back(t);
  return types;
}
void LoopType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kI64Only);
  CheckInputType(ctx, 1, kBoolOnly);
  const LoopSplit s = SplitLoop(ctx.node(), size_t(ctx.num_inputs()));
  const InferredBody b = InferTypes(*ParamOf<LoopParam>(ctx.node()).body.graph, LoopBodyTypes(ctx));
  for (size_t k = 0; k < s.states + s.scans; ++k) {
    const Type given = k < s.states ? ctx.in(int(2 + k)) : Type();
    const Type t = b.type(k + 1);
    // An optional state is what it holds once an iteration has given it.
    const bool filled = given.is_optional() && t == given.element();
    WEFT_CHECK(!t.known() || !given.known() || t == given || filled, kTypeMismatch,
               "{}: state {} is {} before the body and {} after it", ctx.node()->Describe(), k,
               given.ToString(), t.ToString());
    if (t.known() || given.known()) ctx.set_out(int(k), t.known() ? t : given);
  }
}

void LoopShape(InferShapeContext& ctx) {
  const LoopSplit s = SplitLoop(ctx.node(), size_t(ctx.num_inputs()));
  std::vector<Shape> shapes{Shape::Scalar(), Shape::Scalar()};
  for (const Shape& x : ShapesFrom(ctx, 2)) shapes.push_back(x);
  const auto outer = SymbolsOf(shapes);
  std::vector<Shape> states;
  const InferredBody b = InferStates(*ParamOf<LoopParam>(ctx.node()).body.graph, LoopBodyTypes(ctx),
                                     shapes, &ctx.facts(), 2, s.states, 1, &states);
  SetStates(ctx, states);
  for (size_t k = 0; k < s.scans; ++k) {
    const Shape one = b.shape(1 + s.states + k);
    if (!one.has_rank()) {
      Unknown(ctx, int(s.states + k), "the body does not determine its rank");
      continue;
    }
    const int output = int(s.states + k);
    const SymInt count = ctx.unbacked(UnbackedIndex(output, 0));
    std::vector<SymInt> dims = OuterDims(ctx, one, outer, output, 1);
    dims.insert(dims.begin(), count);
    SetOrExplain(ctx, int(s.states + k), Shape(std::move(dims)));
  }
}
/// What the body says of going on, where nobody has to look: it gives a constant, or the condition
/// that it got, without which it would not have run.
std::optional<bool> ToldCondition(const Graph& body) {
  const NodeEntry& e = body.outputs[0];
  if (e.node == body.inputs()[1]) return true;
  const TensorPtr constant = Graph::ConstantOf(e);
  if (!constant || constant->num_elements() != 1) return std::nullopt;
  return constant->at_int(0) != 0;
}

/// The numbers of iterations, where the bodies have their tensors: a few at once.
class IterationNumbers {
 public:
  /// `trips`: there are no more.
  IterationNumbers(const BodyRunner& bodies, int64_t trips) : bodies_(bodies), trips_(trips) {}
  /// `i` is that of the last call, or the next one.
  TensorPtr At(int64_t i) {
    Reach(i);
    return SliceAt(bodies_, numbers_, 0, i - first_);
  }
  const void* PlaceOf(int64_t i) {
    Reach(i);
    return numbers_->data_as<int64_t>() + (i - first_);
  }

 private:
  static constexpr int64_t kFew = 8, kMost = 1024;
  void Reach(int64_t i) {
    const int64_t had = numbers_ ? numbers_->num_elements() : 0;
    if (i >= first_ && i < first_ + had) return;
    const int64_t most = std::max<int64_t>(trips_ - i, 1);
    std::vector<int64_t> next(size_t(std::min({std::max(kFew, 2 * had), kMost, most})));
    std::iota(next.begin(), next.end(), i);
    numbers_ = bodies_.Place(Tensor::Ints(next));
    first_ = i;
  }

  const BodyRunner& bodies_;
  const int64_t trips_;
  TensorPtr numbers_;
  int64_t first_ = 0;
};

void LoopRun(const NodePtr& n, const Tensors& in, const BodyRunner& bodies,
             ResultTensors* results) {
  const LoopSplit s = SplitLoop(n, in.size());
  for (const TensorPtr& t : {in[0], in[1]})
    WEFT_CHECK(!t || t->num_elements() == 1, kShapeMismatch, "{}: M or cond has {} elements",
               n->Describe(), t->num_elements());
  const int64_t trips = in[0] ? bodies.Read(in[0]) : INT64_MAX;
  bool goes = trips > 0 && (!in[1] || bodies.Read(in[1]));
  const std::optional<bool> told = ToldCondition(*ParamOf<LoopParam>(n).body.graph);
  TensorPtr go =
      in[1] ? Tensor::Reshaped(in[1], {}) : bodies.Place(Tensor::Scalar(DType::kBool, 1));
  IterationNumbers numbers(bodies, trips);
  LoopStates states(bodies, Tensors(in.begin() + 2, in.begin() + 2 + long(s.states)), *results);
  const Tensors captures(in.begin() + 2 + long(s.states), in.end());
  std::vector<StackedResult> stacks;
  for (size_t k = 0; k < s.scans; ++k)
    stacks.emplace_back(n, bodies, (*results)[s.states + k], 0, false);
  const CountedBody body(bodies, states, stacks);
  const auto operands = [&](int64_t i) {
    Tensors args{numbers.At(i), go};
    args.insert(args.end(), states.now().begin(), states.now().end());
    args.insert(args.end(), captures.begin(), captures.end());
    return args;
  };
  ResultTensors out(1 + s.states + s.scans);
  // Iterations of which nothing but places changes from one to the next.
  std::unique_ptr<RepeatedBody> again;
  std::shared_ptr<Tensor> goes_on;
  std::vector<const void*> from(in.size());
  std::vector<void*> to(out.size());
  for (int64_t i = 0; i < trips && goes; ++i) {
    body.Begin(i);
    if (i == 1 && AllInPlace(states, stacks)) again = body.Repeat("body");
    if (again) {
      if (i == 1) {
        goes_on = bodies.NewTensor(DType::kBool, {});
        from[1] = go->data(), to[0] = goes_on->mutable_data();
        for (size_t k = 0; k < captures.size(); ++k)
          from[2 + s.states + k] = captures[k] ? captures[k]->data() : nullptr;
      }
      from[0] = numbers.PlaceOf(i);
      states.Point(trips - 1 - i, from.data() + 2, to.data() + 1);
      for (size_t k = 0; k < s.scans; ++k) to[1 + s.states + k] = stacks[k].Point(i, trips);
      again->Run(from.data(), to.data());
      goes = told ? *told : bodies.Read(goes_on);
      continue;
    }
    out[0] = nullptr;
    // Where the condition may end it first, the place given is as good as the other.
    for (size_t k = 0; k < s.states; ++k) out[1 + k] = states.Place(k, trips - 1 - i);
    for (size_t k = 0; k < s.scans; ++k)
      out[1 + s.states + k] = stacks[k].Place(i, in[0] ? trips : -1);
    body.Run("body", operands(i), &out);
    WEFT_CHECK(out[0]->num_elements() == 1, kShapeMismatch, "{}: the condition has {} elements",
               n->Describe(), out[0]->num_elements());
    goes = told ? *told : bodies.Read(out[0]);
    go = Tensor::Reshaped(out[0], {});
    for (size_t k = 0; k < s.states; ++k) states.Take(k, out[1 + k]);
    for (size_t k = 0; k < s.scans; ++k) stacks[k].Take(out[1 + s.states + k]);
  }
  const auto like = [&] { return InferFor(*ParamOf<LoopParam>(n).body.graph, operands(0)); };
  const auto once = [&] {
    ResultTensors one(out.size());
    body.Run("body", operands(0), &one);
    return one;
  };
  for (size_t k = 0; k < s.scans; ++k)
    (*results)[s.states + k] = stacks[k].Finish(like, once, 1 + s.states + k);
  states.Finish(results);
  body.End();
}

std::vector<NodeEntry> LoopGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  const LoopSplit s = SplitLoop(n, n->num_inputs());
  // An iteration runs where the condition in front of it holds: it is no variable of the body.
  Graph body = *ParamOf<LoopParam>(n).body.graph;
  const NodeEntry cond(body.inputs()[1]);
  body.ReplaceUses(cond, body.AddConstant(Tensor::Scalar(DType::kBool, 1)));
  Recurrence r;
  r.node = n;
  r.body = &body;
  r.first_input = 2;
  r.first_output = 1;
  r.states = s.states;
  r.captures = s.captures;
  r.results = s.scans;
  r.types = KnownTypes(n, 2);
  r.types.insert(r.types.begin(), {Type(DType::kI64), Type(DType::kBool)});
  r.shapes = KnownShapes(n, 2);
  r.shapes.insert(r.shapes.begin(), 2, Shape::Scalar());
  std::vector<NodeEntry> dx = RunBackwards(r, dy);
  dx.insert(dx.begin(), 2, NodeEntry());
  return dx;
}

}  // namespace

WEFT_REGISTER_OP(Loop)
    .describe(
        "Runs `body` at most M times and while its condition holds. The states go round; what else "
        "the body gives is stacked on a new first axis.\n"
        "Gradient: a Scan of the gradient of the body, from the last iteration to the first. It "
        "needs the states of every iteration, which a run of the loop in front of it stacks: their "
        "dimensions must not change (kShapeMismatch when it runs). Source: ONNX Loop-25.")
    .optional_input("M", "i64", "absent: no bound")
    .optional_input("cond", "bool", "absent: true")
    .variadic_input("states", "any", "then the captured values")
    .output("outputs", "any", "final states, then stacks")
    .set_num_inputs(2, INT_MAX)
    .set_num_outputs([](const NodeAttrs& a) { return BodyOutputs(a, "body", 1); })
    .param<LoopParam>()
    .set_attr<FInferType>("FInferType", LoopType)
    .set_attr<FInferShape>("FInferShape", LoopShape)
    .set_attr<FGradient>("FGradient", LoopGradient)
    .set_attr<FRunBodies>("FRunBodies", LoopRun)
    .set_attr<FHostEval>("FHostEval", HostByEvaluator(LoopRun));

}  // namespace weft::ops
