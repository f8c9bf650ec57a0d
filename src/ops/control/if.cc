/// if.cc: If: one of two bodies.
///
/// Its bodies' inputs are those that ONNX gives them, then the captured values (import made them
/// operands, `num_captures` says how many). Who runs the bodies: weft/core/op/run_bodies.h.
///   throws  kTypeMismatch, kArity where a body does not fit; what the body throws
#include <algorithm>
#include <climits>
#include <optional>

#include "ops/util/body_gradient.h"
#include "ops/util/bounded_size.h"
#include "weft/core/pass/body_types.h"

namespace weft::ops {
namespace {

struct IfParam : OpParam<IfParam> {
  GraphAttr then_branch, else_branch;
  int64_t num_captures;
  WEFT_OP_PARAM(IfParam) {
    WEFT_FIELD(then_branch).describe("runs where cond holds");
    WEFT_FIELD(else_branch).describe("runs where it does not; as many outputs, of equal dtypes");
    WEFT_FIELD(num_captures).set_default(0).describe("operands from outside of the bodies");
  }
};
WEFT_REGISTER_OP_PARAM(IfParam);

void IfType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kBoolOnly);
  const auto& p = ParamOf<IfParam>(ctx.node());
  const auto types = TypesFrom(ctx, 1);
  const Graph &yes = BodyOf(ctx.node(), p.then_branch), &no = BodyOf(ctx.node(), p.else_branch);
  WEFT_CHECK(yes.outputs.size() == no.outputs.size(), kArity,
             "{}: the branches have {} and {} outputs", ctx.node()->Describe(), yes.outputs.size(),
             no.outputs.size());
  for (const Graph* branch : {&yes, &no})
    WEFT_CHECK(branch->inputs().size() == types.size(), kArity,
               "{}: {} operands behind the condition for a branch of {} inputs",
               ctx.node()->Describe(), types.size(), branch->inputs().size());
  const InferredBody a = InferTypes(yes, types), b = InferTypes(no, types);
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const Type t = a.type(size_t(i)), u = b.type(size_t(i));
    WEFT_CHECK(!t.known() || !u.known() || t == u, kTypeMismatch,
               "{}: output {} is {} in one branch and {} in the other", ctx.node()->Describe(), i,
               t.ToString(), u.ToString());
    if (t.known() || u.known()) ctx.set_out(i, t.known() ? t : u);
  }
}
/// The body at operands of these shapes; none where they do not fit it.
std::optional<InferredBody> TryBranch(const GraphAttr& branch, const std::vector<Type>& types,
                                      const std::vector<Shape>& shapes, const Facts& facts,
                                      const std::vector<SymTensorPtr>& values) {
  try {
    return InferBody(*branch.graph, types, shapes, &facts, values);
  } catch (const UserError& e) {
    if (!IsMisfit(e)) throw;
    return std::nullopt;
  }
}

/// Has a value for all values of its symbols: no sizes that have to broadcast, no division by what
/// may be 0.
bool IsTotal(SymInt e) {
  struct Visitor : SymVisitor {
    void Const(int64_t v) override { not_0.push_back(v != 0); }
    void Sym(SymInt) override { not_0.push_back(false); }
    void Op(char op) override {
      const bool by_number = not_0.back();
      not_0.pop_back();
      not_0.back() = false;
      total = total && op != 'b' && ((op != '/' && op != '%') || by_number);
    }
    std::vector<bool> not_0;  // of the operands so far: numbers other than 0
    bool total = true;
  } visitor;
  VisitPostfix(e, visitor);
  return visitor.total;
}

void IfShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<IfParam>(ctx.node());
  const auto types = TypesFrom(ctx, 1);
  const auto shapes = ShapesFrom(ctx, 1);
  const auto values = ValuesFrom(ctx, 1);
  const auto outer = SymbolsOf(shapes, values);
  const SymTensorPtr cond = InputValue(ctx, 0);
  const bool decided = cond && cond->is_const();
  WEFT_CHECK(!cond || cond->elements.size() == 1, kShapeMismatch, "{}: cond has {} elements",
             ctx.node()->Describe(), cond ? cond->elements.size() : 0);
  const bool yes = decided && cond->ints()[0] != 0;
  std::optional<InferredBody> taken, other;
  if (!decided) {
    taken = TryBranch(p.then_branch, types, shapes, ctx.facts(), values);
    other = TryBranch(p.else_branch, types, shapes, ctx.facts(), values);
    if (!taken) taken = other;
  }
  if (!taken)
    taken = InferBody(*(decided && !yes ? p.else_branch : p.then_branch).graph, types, shapes,
                      &ctx.facts(), values);
  const InferredBody &a = *taken, &b = other ? *other : a;
  const Facts facts_of_a = a.graph.AttrOr<Facts>("facts"),
              facts_of_b = b.graph.AttrOr<Facts>("facts");
  // The larger of what the branches allow.
  const auto most = [&](SymInt d, SymInt e) -> SymInt {
    if (!d.known() || !e.known()) return {};
    const int64_t hi = std::max(facts_of_a.RangeOf(d).hi, facts_of_b.RangeOf(e).hi);
    return hi == INT64_MAX ? SymInt() : SymInt(hi);
  };
  // Where sizes decide the branch, they decide what it gives.
  const SymInt first = cond && !decided ? cond->elements[0] : SymInt();
  const auto either = [&](SymInt d, SymInt e) -> SymInt {
    if (!IsOuter(d, outer) || !IsOuter(e, outer)) return {};
    if (d == e || !first.known()) return d == e ? d : SymInt();
    // The size of the branch that is not taken is evaluated with it.
    if (!IsTotal(d) || !IsTotal(e)) return {};
    constexpr uint32_t kReadable = 128;  // of nodes; what is larger is a size that a run tells
    const SymInt chosen = e + first * (d - e);
    if (chosen.size() > kReadable) return {};
    const Range r = facts_of_a.RangeOf(d), other = facts_of_b.RangeOf(e);
    ctx.facts().SetRange(chosen, {std::min(r.lo, other.lo), std::max(r.hi, other.hi)});
    return chosen;
  };
  for (int k = 0; k < ctx.num_outputs(); ++k) {
    const Shape s = a.shape(size_t(k)), t = b.shape(size_t(k));
    if (!s.has_rank() || !t.has_rank() || s.rank() != t.rank()) {
      Unknown(ctx, k, "the branches give shapes that differ or are not known");
      continue;
    }
    std::vector<SymInt> dims;
    for (int d = 0; d < s.rank(); ++d) {
      dims.push_back(either(s[d], t[d]));
      if (!dims.back().known())
        dims.back() = UnbackedAtMost(ctx, UnbackedIndex(k, d), most(s[d], t[d]));
    }
    const Shape out(std::move(dims));
    SetOrExplain(ctx, k, out);
    const SymTensorPtr v = a.value(size_t(k)), w = b.value(size_t(k));
    if (!v || !w || v->dims != w->dims) continue;
    SetValue(ctx, k, out, [&](int64_t i) {
      return either(v->elements.at(size_t(i)), w->elements.at(size_t(i)));
    });
  }
}
void IfRun(const NodePtr& n, const Tensors& in, const BodyRunner& bodies, ResultTensors* results) {
  WEFT_CHECK(in.at(0)->num_elements() == 1, kShapeMismatch, "{}: cond has {} elements",
             n->Describe(), in[0]->num_elements());
  const char* const branch = bodies.Read(in[0]) ? "then_branch" : "else_branch";
  try {
    bodies.Run(branch, Tensors(in.begin() + 1, in.end()), results);
  } catch (Error& e) {
    e.AddPlace(branch);
    throw;
  }
}

std::vector<NodeEntry> IfGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> dx(n->num_inputs());
  const std::vector<Type> types = KnownTypes(n, 1);
  const std::vector<Shape> shapes = KnownShapes(n, 1);
  std::vector<bool> seeded;
  for (const NodeEntry& e : dy) seeded.push_back(bool(e));
  if (AllNull(dy)) return dx;
  const auto& p = ParamOf<IfParam>(n);
  const auto differentiate = [&](const GraphAttr& branch) {
    try {
      return DifferentiateBody(BodyOf(n, branch), types, shapes, seeded);
    } catch (const Error& e) {
      // These may be the shapes of a run of the other branch.
      if (e.code() != ErrorCode::kShapeMismatch) throw;
      return DifferentiateBody(BodyOf(n, branch), types, {}, seeded);
    }
  };
  struct Branch {
    BodyGradient gradient;
    std::vector<NodeEntry> inputs, outputs;
  };
  Branch branches[] = {{differentiate(p.then_branch), {}, {}},
                       {differentiate(p.else_branch), {}, {}}};
  std::vector<NodeEntry> operands{n->inputs[0]};
  std::vector<size_t> slots;
  for (size_t i = 0; i + 1 < n->num_inputs(); ++i) {
    if (!branches[0].gradient.gradients[i] && !branches[1].gradient.gradients[i]) continue;
    slots.push_back(i + 1);
    for (Branch& b : branches) {
      const NodeEntry g = b.gradient.gradients[i];
      b.outputs.push_back(g ? g : ZerosLike(b.gradient.operands[i]));
    }
  }
  if (slots.empty()) return dx;
  const std::set<NodeId> read[] = {VariablesBehind(branches[0].outputs),
                                   VariablesBehind(branches[1].outputs)};
  for (size_t i = 0; i + 1 < n->num_inputs(); ++i) {
    if (!read[0].count(branches[0].gradient.operands[i].node->id()) &&
        !read[1].count(branches[1].gradient.operands[i].node->id()))
      continue;
    operands.push_back(n->inputs[i + 1]);
    for (Branch& b : branches) b.inputs.push_back(b.gradient.operands[i]);
  }
  for (size_t k = 0; k < dy.size(); ++k) {
    if (!dy[k]) continue;
    operands.push_back(dy[k]);
    for (Branch& b : branches) b.inputs.push_back(b.gradient.seeds[k]);
  }
  const NodeEntry run =
      ApplyOp("If", operands,
              {{"then_branch", ExtractBody(n, branches[0].inputs, branches[0].outputs)},
               {"else_branch", ExtractBody(n, branches[1].inputs, branches[1].outputs)},
               {"num_captures", int64_t(operands.size() - 1)}});
  // Where the shape of a result is unknown, the gradients of the branches may differ in shape.
  bool shaped = true;
  for (uint32_t k = 0; k < dy.size(); ++k)
    shaped = shaped && (!dy[k] || KnownShape(NodeEntry(n, k)).fully_known());
  for (size_t i = 0; i < slots.size(); ++i) {
    const NodeEntry g(run.node, uint32_t(i));
    dx[slots[i]] = shaped ? g : SumTo(g, n->inputs[slots[i]]);
  }
  return dx;
}

}  // namespace

WEFT_REGISTER_OP(If)
    .describe(
        "The outputs of `then_branch` where cond holds, else those of `else_branch`; only that "
        "body runs.\n"
        "Gradient: an If of the gradients of the branches; a captured value that the branch taken "
        "does not read has zeros. Source: ONNX If-25.")
    .input("cond", "bool", "one element")
    .variadic_input("captures", "any", "values from outside that the bodies read")
    .output("outputs", "any", "as many as a branch has")
    .set_num_inputs(1, INT_MAX)
    .set_num_outputs([](const NodeAttrs& a) { return BodyOutputs(a, "then_branch", 0); })
    .param<IfParam>()
    .set_attr<FInferType>("FInferType", IfType)
    .set_attr<FInferShape>("FInferShape", IfShape)
    .set_attr<FGradient>("FGradient", IfGradient)
    .set_attr<FRunBodies>("FRunBodies", IfRun)
    .set_attr<FHostEval>("FHostEval", HostByEvaluator(IfRun));

}  // namespace weft::ops
