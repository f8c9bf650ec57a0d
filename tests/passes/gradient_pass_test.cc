/// gradient_pass_test.cc: the pass Gradient, its call for frameworks, the split into two graphs,
/// and what becomes of gradients in Simplify and Fusion. Values come from the interpreter in double
/// precision and from finite differences.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"

namespace {

using namespace weft;
using namespace weft::e2e;

WEFT_REGISTER_OP(GptNoRule).set_num_inputs(1).set_num_outputs(1);
WEFT_REGISTER_OP(GptOtherNoRule).set_num_inputs(2).set_num_outputs(1);
WEFT_REGISTER_OP(GptThrows).set_num_inputs(1).set_num_outputs(1).set_attr<FGradient>(
    "FGradient", [](const NodePtr& n, const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
      ApplyOp("Neg", {dy[0]});
      ApplyOp("Neg", {n->inputs[0], n->inputs[0]});  // one operand too many
      return {};
    });

/// What a caller writes who has an expression and no rule: x * tanh(softplus(x)) * y.
WEFT_REGISTER_OP(GptMishTimes)
    .set_num_inputs(2)
    .set_num_outputs(1)
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                          })
    .set_attr<FInferShape>("FInferShape", [](InferShapeContext& ctx) { ctx.set_out(0, ctx.in(0)); })
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const Exprs& x) -> Exprs {
      const auto call = [](CallOp op, const Expr& e) { return Expr::Call(op, {e}); };
      return {x[0] * call(CallOp::kTanh, call(CallOp::kLog1p, call(CallOp::kExp, x[0]))) * x[1]};
    });
WEFT_REGISTER_OP(GptBits)
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferType>("FInferType", [](InferTypeContext& ctx) { ctx.set_out(0, ctx.in(0)); })
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const Exprs& x) -> Exprs {
      return {Expr::Bitcast(DType::kF64, Expr::Bitcast(DType::kI64, x[0]) + 1.0)};
    });

NodeEntry In(Graph& g, const char* name, Shape shape = {2, 3}, DType t = DType::kF64) {
  return NodeEntry(g.AddInput(name, t, std::move(shape)));
}
NodeEntry Total(const NodeEntry& x) { return ApplyOp("ReduceSum", {x}, {{"keepdims", 0}}); }

/// With elements of its own.
std::shared_ptr<Tensor> CopyOf(const Tensor& t) {
  auto copy = std::make_shared<Tensor>(t.dtype(), t.dims());
  for (int64_t i = 0; i < t.num_elements(); ++i) copy->set(i, t.at(i));
  return copy;
}
std::vector<TensorPtr> Evaluate(const Graph& g, const std::vector<TensorPtr>& inputs) {
  EvalOptions exact;
  exact.typed = false;
  return GetEvaluator()->Eval(g, inputs, exact);
}
int Count(const Graph& g, const char* op) {
  int n = 0;
  for (NodePtr node : g.TopoOrder()) n += IsOp(node, op);
  return n;
}
int Operators(const Graph& g) {
  int n = 0;
  for (NodePtr node : g.TopoOrder())
    n += !node->is_variable() && !Graph::ConstantOf(NodeEntry(node)) &&
         !IsOp(node, builtin::kShapeTensor);
  return n;
}

/// d sum(outputs[y]) / d inputs against central differences of the graph itself.
void CheckAgainstDifferences(const Graph& g, size_t y, const std::vector<TensorPtr>& inputs,
                             const std::vector<TensorPtr>& grads, double tolerance) {
  const auto total = [&](const std::vector<TensorPtr>& x) {
    const TensorPtr t = Evaluate(g, x)[y];
    double sum = 0;
    for (int64_t i = 0; i < t->num_elements(); ++i) sum += t->at(i);
    return sum;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    REQUIRE(grads[i]->dims() == inputs[i]->dims());
    for (int64_t k = 0; k < inputs[i]->num_elements(); ++k) {
      const double x = inputs[i]->at(k), h = 1e-6 * std::max(1.0, std::fabs(x));
      const auto moved = [&](double to) {
        const auto t = CopyOf(*inputs[i]);
        t->set(k, to);
        std::vector<TensorPtr> all = inputs;
        all[i] = t;
        return total(all);
      };
      const double numeric = (moved(x + h) - moved(x - h)) / (2 * h);
      CAPTURE(i);
      CAPTURE(k);
      CHECK(std::fabs(grads[i]->at(k) - numeric) <= tolerance * std::max(1.0, std::fabs(numeric)));
    }
  }
}

}  // namespace

TEST_CASE("gradient: outputs are appended under names, the request is met, the map is there") {
  Graph g;
  const NodeEntry a = In(g, "a"), b = In(g, "b", {3});
  const NodeEntry y = a * b;
  g.outputs = {y};
  g.SetOutputName(0, "y");
  SetGradient(g, {y}, {b, a, b});
  const Graph out = ApplyPass(g, "Gradient");
  REQUIRE(out.outputs.size() == 4);
  CHECK(out.OutputName(0) == "y");
  CHECK(out.OutputName(1) == "grad_b");
  CHECK(out.OutputName(2) == "grad_a");
  CHECK(out.OutputName(3) == "grad_b_2");
  CHECK(out.outputs[1] == out.outputs[3]);
  CHECK_FALSE(out.HasAttr("grad_ys"));
  CHECK_FALSE(out.HasAttr("grad_xs"));
  const GradientMap& map = out.GetAttr<GradientMap>("gradient_of");
  CHECK(map.forward_outputs == 1);
  CHECK(map.find(out, out.at(a)) == out.outputs[2]);
  CHECK(map.find(out, out.at(b)) == out.outputs[1]);
  CHECK(map.find(out, out.at(y)));
  // Without a request there is nothing to do, and it says so.
  const auto none = Catch([&] { ApplyPass(out, "Gradient"); });
  REQUIRE(none);
  CHECK(none->code == ErrorCode::kDependency);
  CHECK(none->says("grad_ys"));
}

TEST_CASE("gradient: the call of a framework leaves outputs and handles alone") {
  Graph g;
  const NodeEntry x = In(g, "x"), unused = In(g, "unused", {4});
  const NodeEntry h = ApplyOp("Tanh", {x}), loss = Total(h * h);
  g.outputs = {h};
  const std::vector<NodeEntry> d = Gradients(g, {loss}, {x, h, unused, loss});
  REQUIRE(d.size() == 4);
  CHECK(g.outputs.size() == 1);
  CHECK(g.outputs[0] == h);
  CHECK(g.owns(d[0].node));
  g.outputs = {loss, d[0], d[1], d[2], d[3]};
  const Reference r = RunReference(g, 3);
  CHECK(r.outputs[3]->dims() == std::vector<int64_t>{4});
  for (int k = 0; k < 4; ++k) CHECK(r.outputs[3]->at(k) == 0);
  CHECK(r.outputs[4]->at(0) == 1);
  CheckAgainstDifferences(g, 0, r.inputs, {r.outputs[1], r.outputs[3]}, 1e-6);
  for (int64_t k = 0; k < 6; ++k)
    CHECK(r.outputs[2]->at(k) == doctest::Approx(2 * std::tanh(r.inputs[0]->at(k))));
  VerifyGraph(g);
}

TEST_CASE("gradient: given output gradients, several ys, one y twice") {
  Graph g;
  const NodeEntry x = In(g, "x"), s = In(g, "s");
  const NodeEntry y = ApplyOp("Sin", {x}), z = ApplyOp("Exp", {x});
  const std::vector<NodeEntry> d = Gradients(g, {y, z, y}, {x, y}, {s, NodeEntry(), s});
  g.outputs = d;
  const Reference r = RunReference(g, 5);
  for (int64_t k = 0; k < 6; ++k) {
    const double v = r.inputs[0]->at(k), w = r.inputs[1]->at(k);
    CHECK(r.outputs[0]->at(k) == doctest::Approx(2 * w * std::cos(v) + std::exp(v)));
    CHECK(r.outputs[1]->at(k) == doctest::Approx(2 * w));
  }
  Graph f;
  const NodeEntry a = In(f, "a"), wrong = In(f, "w", {2, 3}, DType::kF32);
  const auto bad = Catch([&] { Gradients(f, {ApplyOp("Neg", {a})}, {a}, {wrong}); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kTypeMismatch);
}

TEST_CASE("gradient: integers have none, and asking says so for all at once") {
  Graph g;
  const NodeEntry x = In(g, "x"), i = In(g, "i", {2}, DType::kI64),
                  m = In(g, "m", {2, 3}, DType::kBool);
  const NodeEntry row = ApplyOp("Gather", {x, i}), y = ApplyOp("Where", {m, row, row + row});
  const auto bad = Catch([&] { Gradients(g, {y}, {x, i, m}); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kUnsupported);
  CHECK(bad->says("'i'"));
  CHECK(bad->says("'m'"));
  CHECK_FALSE(bad->says("'x'"));
  // A float that only an integer carries on reaches nothing: zeros, not an error.
  const NodeEntry back =
      ApplyOp("Cast", {ApplyOp("Cast", {x}, {{"to", DType::kI64}})}, {{"to", DType::kF64}});
  g.outputs = Gradients(g, {back}, {x});
  const Reference r = RunReference(g, 1);
  for (int64_t k = 0; k < 6; ++k) CHECK(r.outputs[0]->at(k) == 0);
}

TEST_CASE("gradient: an element-wise operator without a rule is differentiated by its expression") {
  Graph g;
  const NodeEntry x = In(g, "x"), w = In(g, "w", {3});
  const NodeEntry y(g.AddNode("GptMishTimes", {x, w}, {}, "mish"));
  const NodeEntry loss = Total(y * y);
  const std::vector<NodeEntry> first = Gradients(g, {loss}, {x, w});
  const NodeEntry norm = Total(first[0] * first[0]);
  const std::vector<NodeEntry> second = Gradients(g, {norm}, {x, w});
  g.outputs = {loss, norm, first[0], first[1], second[0], second[1]};
  VerifyGraph(g);
  const Reference r = RunReference(g, 3);
  CheckAgainstDifferences(g, 0, r.inputs, {r.outputs[2], r.outputs[3]}, 1e-5);
  CheckAgainstDifferences(g, 1, r.inputs, {r.outputs[4], r.outputs[5]}, 1e-5);
  const GradientMap& map = g.GetAttr<GradientMap>("gradient_of");
  CHECK(map.find(g, x));
  // The same in f32 through the whole pipeline of each engine, and in one kernel with a neighbour.
  Graph f;
  const NodeEntry fx = In(f, "x", {2, 3}, DType::kF32), fw = In(f, "w", {3}, DType::kF32);
  const NodeEntry fy(f.AddNode("GptMishTimes", {ApplyOp("Tanh", {fx}), fw}));
  f.outputs = std::vector<NodeEntry>{Gradients(f, {fy}, {fx})[0]};
  const Reference want = RunReference(f, 5);
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    const auto program = CompileWith(f, engine);
    CHECK(Difference(Session(program).Run(want.inputs), want.outputs) <= 1);
    if (std::string(engine.backend) == "cpu" && engine.fusion) CHECK(program->stats().kernels == 1);
  }
}

TEST_CASE("gradient: an expression without a derivative is named with the reason") {
  Graph g;
  const NodeEntry x = In(g, "x");
  const NodeEntry y(g.AddNode("GptBits", {x}, {}, "next number"));
  const std::string before = PrintGraph(g);
  const auto bad = Catch([&] { Gradients(g, {y}, {x}); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kUnsupported);
  CHECK(bad->says("'next number'"));
  CHECK(bad->says("no derivative of the bits of a number"));
  CHECK(PrintGraph(g) == before);
}

TEST_CASE("gradient: every operator without a rule is named, and the graph stays as it was") {
  Graph g;
  const NodeEntry x = In(g, "x"), c = In(g, "c");
  const NodeEntry off(g.AddNode("GptNoRule", {c}, {}, "aside"));
  const NodeEntry first(g.AddNode("GptNoRule", {x}, {}, "first"));
  const NodeEntry mid = ApplyOp("Tanh", {first});
  const NodeEntry last(g.AddNode("GptOtherNoRule", {mid, off}, {}, "last"));
  g.outputs = {last};
  const std::string before = PrintGraph(g);
  const auto bad = Catch([&] { Gradients(g, {last}, {x}); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kUnsupported);
  CHECK(bad->says("'first'"));
  CHECK(bad->says("'last'"));
  CHECK_FALSE(bad->says("'aside'"));
  CHECK_FALSE(bad->says("Tanh"));
  CHECK(PrintGraph(g) == before);
  CHECK(g.num_nodes() == 6);
  VerifyGraph(g);
  // Nothing of theirs is on the way from c's neighbour to a y before them.
  CHECK_FALSE(Catch([&] { Gradients(g, {mid}, {first}); }));
  // A rule that fails names its node, and leaves nothing behind either.
  const NodeEntry t(g.AddNode("GptThrows", {x}, {}, "bad rule"));
  const size_t nodes = g.num_nodes();
  const auto thrown = Catch([&] { Gradients(g, {t}, {x}); });
  REQUIRE(thrown);
  CHECK(thrown->says("the gradient of"));
  CHECK(thrown->says("bad rule"));
  CHECK(g.num_nodes() == nodes);
  VerifyGraph(g);
}

TEST_CASE("gradient: fused kernels, and what would draw anew, say why") {
  // Between its two runs the body would draw another mask.
  Graph g = FromText(R"(graph (%n: i64[], %x: f32[2]) -> (%y) {
    %y = Loop(%n, _, %x) {
      body = graph (%i: i64[], %k: bool[], %v: f32[2]) -> (%k, %w) {
        %r = If(%k, %v) {
          num_captures = 1,
          then_branch = graph (%a: f32[2]) -> (%b) { %b = RandomUniformLike(%a) },
          else_branch = graph (%a: f32[2]) -> (%a) { }
        }
        %w = Mul(%v, %r)
      }
    }
  })");
  const size_t nodes = g.num_nodes();
  const auto bad = Catch([&] { Gradients(g, {g.outputs[0]}, {NodeEntry(g.inputs()[1])}); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kUnsupported);
  CHECK(bad->says("'y' (Loop)"));
  CHECK(bad->says("RandomUniformLike"));
  CHECK(g.num_nodes() == nodes);
  Graph f = ApplyPasses(FromText(R"(graph (%x: f32[8]) -> (%y) {
    %t = Tanh(%x)
    %y = Mul(%t, %t)
  })"),
                        "InferType,InferShape,Fusion");
  REQUIRE(Count(f, builtin::kFused) == 1);
  const auto fused = Catch([&] { Gradients(f, {f.outputs[0]}, {NodeEntry(f.inputs()[0])}); });
  REQUIRE(fused);
  CHECK(fused->says("before the pass Fusion"));
}

TEST_CASE(
    "gradient: rules see null for outputs that nobody reads, and only what is asked for runs") {
  Graph g;
  const NodeEntry x = In(g, "x", {6}), w = In(g, "w", {3});
  const NodePtr split = g.AddNode("Split", {x}, {{"num_outputs", 2}, {"axis", 0}});
  const NodeEntry y = NodeEntry(split, 1) * w;
  g.outputs = Gradients(g, {y}, {x});
  const Reference r = RunReference(g, 2);
  for (int64_t k = 0; k < 3; ++k) CHECK(r.outputs[0]->at(k) == 0);
  for (int64_t k = 0; k < 3; ++k)
    CHECK(r.outputs[0]->at(3 + k) == doctest::Approx(r.inputs[1]->at(k)));
  // The product for w, which was not asked for, is not left in the graph.
  int products = 0;
  for (NodeId id = 0; id < g.id_bound(); ++id) products += IsOp(g.node(id), "Mul");
  CHECK(products == 2);
}

TEST_CASE("gradient: partial gradients are added as they come, two at a time") {
  Graph g;
  const NodeEntry x = In(g, "x");
  NodeEntry y;
  for (const char* op : {"Sin", "Cos", "Tanh", "Exp", "Sigmoid"})
    y = y ? y + ApplyOp(op, {x}) : ApplyOp(op, {x});
  const NodeEntry d = Gradients(g, {y}, {x})[0];
  // Every sum has two terms, one of which is a partial gradient and no sum.
  NodeEntry sum = d;
  int sums = 0;
  while (IsOp(sum.node, "Add")) {
    ++sums;
    CHECK_FALSE(IsOp(sum.node->inputs[1].node, "Add"));
    sum = sum.node->inputs[0];
  }
  CHECK(sums == 4);
  CHECK(Count(g, "Sum") == 0);
}

TEST_CASE("gradient: nodes of the backward part stand for those of the forward part") {
  Graph g;
  const NodeEntry x = In(g, "x");
  const NodeEntry h(g.AddNode("Tanh", {x}, {}, "layer")), y(g.AddNode("Sqrt", {h}, {}, "root"));
  const NodeId bound = g.id_bound();
  Gradients(g, {y}, {x});
  int seen = 0;
  for (NodeId id = bound; id < g.id_bound(); ++id) {
    const NodePtr n = g.node(id);
    if (!n) continue;
    REQUIRE(bool(n->origin()));
    REQUIRE(n->origin()->size() == 1);
    const std::string& name = (*n->origin())[0];
    CHECK((name == "layer" || name == "root"));
    ++seen;
  }
  CHECK(seen > 2);
}

TEST_CASE("gradient: the second derivative of smooth functions against differences of the first") {
  struct Case {
    const char* name;
    std::function<NodeEntry(const NodeEntry& x, const NodeEntry& w)> f;
  };
  const auto positive = [](const NodeEntry& x) { return ApplyOp("Softplus", {x}); };
  const std::vector<Case> cases = {
      {"tanh(x w)",
       [](const NodeEntry& x, const NodeEntry& w) { return ApplyOp("Tanh", {x * w}); }},
      {"x / (1 + exp w)",
       [](const NodeEntry& x, const NodeEntry& w) {
         return x / (ScalarOf(w, 1) + ApplyOp("Exp", {w}));
       }},
      {"softplus(x) ^ w",
       [&](const NodeEntry& x, const NodeEntry& w) {
         return ApplyOp("Pow", {positive(x), w});
       }},
      {"log-softmax",
       [](const NodeEntry& x, const NodeEntry& w) {
         return ApplyOp("LogSoftmax", {x}, {{"axis", -1}}) * w;
       }},
      {"matmul",
       [](const NodeEntry& x, const NodeEntry& w) {
         return ApplyOp("Sigmoid", {ApplyOp("MatMul", {x, ApplyOp("Transpose", {w})})});
       }},
      {"layer norm",
       [](const NodeEntry& x, const NodeEntry& w) {
         const NodeEntry row = ApplyOp("ReduceMean", {w, IntsLike(w, {0})}, {{"keepdims", 0}});
         return ApplyOp("LayerNormalization", {x * x, row, row});
       }},
      {"sqrt of a mean of squares", [](const NodeEntry& x, const NodeEntry& w) {
         const NodeEntry mean = ApplyOp("ReduceMean", {x * x, IntsLike(x, {1})});
         return w / ApplyOp("Sqrt", {mean + ScalarOf(x, 0.5)});
       }}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Graph g;
    const NodeEntry x = In(g, "x"), w = In(g, "w");
    const std::vector<NodeEntry> first = Gradients(g, {c.f(x, w)}, {x, w});
    // A scalar that mixes all elements of the first derivatives, with weights that tell them apart.
    NodeEntry weight =
        ConstantLike(x, Tensor::FromDoubles(DType::kF64, {2, 3}, {0.5, -1, 0.25, 2, 1, -0.75}));
    const NodeEntry mixed = Total(first[0] * weight) + Total(first[1] * weight * weight);
    const std::vector<NodeEntry> second = Gradients(g, {mixed}, {x, w});
    g.outputs = std::vector<NodeEntry>{mixed, second[0], second[1]};
    const Reference r = RunReference(g, 11);
    CheckAgainstDifferences(g, 0, r.inputs, {r.outputs[1], r.outputs[2]}, 2e-5);
    // And after every simplification.
    const Graph s = ApplyPasses(g, "InferType,InferShape,Simplify,FoldConstants,Simplify,Fusion");
    CHECK(Difference(Evaluate(s, r.inputs), r.outputs, 1e-9, 1e-9) <= 1);
  }
}

TEST_CASE("gradient: a third derivative") {
  Graph g;
  const NodeEntry x = In(g, "x", {4});
  NodeEntry y = ApplyOp("Sin", {x});
  for (int k = 0; k < 3; ++k) y = Gradients(g, {y}, {x})[0];
  g.outputs = {y};
  const Reference r = RunReference(g, 1);
  for (int64_t k = 0; k < 4; ++k)
    CHECK(r.outputs[0]->at(k) == doctest::Approx(-std::cos(r.inputs[0]->at(k))));
}

TEST_CASE("gradient: forward and backward apart give what the whole gives") {
  for (const bool seeds : {false, true}) {
    CAPTURE(seeds);
    Graph g = FromText(R"(graph @net(%x: f64[b, 4], %label: f64[b, 3]) -> (%p, %loss) {
      %w = Constant() {value = tensor f64[4, 3] [0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, -0.8, 0.9, 0.05, 0.15, 0.25]}
      %h = MatMul(%x, %w)
      %t = Tanh(%h)
      %p = Softmax(%t) {axis = -1}
      %l = Log(%p)
      %m = Mul(%l, %label)
      %loss = ReduceSum(%m) {keepdims = 0}
    })");
    NodeEntry seed;
    if (seeds) seed = NodeEntry(g.AddInput("grad_loss", DType::kF64, Shape::Scalar()));
    SetGradient(g, {g.outputs[1]}, {NodeEntry(g.inputs()[0]), g.outputs[0]}, {seed});
    g = ApplyPasses(std::move(g), "Gradient,InferType,InferShape,Simplify");
    const GradientSplit split = SplitGradient(g);
    VerifyGraph(split.forward);
    VerifyGraph(split.backward);
    CHECK(split.forward.OutputName(0) == "p");
    CHECK(split.forward.OutputName(1) == "loss");
    CHECK(split.forward.outputs.size() > 2);
    CHECK(split.forward.OutputName(2).rfind("retained_", 0) == 0);
    CHECK(split.backward.outputs.size() == 2);
    CHECK(split.backward.OutputName(0) == "grad_x");
    CHECK(Operators(split.backward) > 0);
    CHECK(Count(split.backward, "Tanh") == 0);
    CHECK(Count(split.backward, "Softmax") == 0);
    const Reference whole = RunReference(g, 4, {{"b", 5}});
    const auto value_of = [&](const std::string& name) {
      const std::vector<NodePtr> all = g.AllInputs();
      for (size_t i = 0; i < all.size(); ++i)
        if (all[i]->attrs.name == name) return whole.inputs[i];
      FAIL(name);
      return TensorPtr();
    };
    std::vector<TensorPtr> in;
    for (NodePtr p : split.forward.AllInputs()) {
      CHECK(p->attrs.name != "grad_loss");
      in.push_back(value_of(p->attrs.name));
    }
    const std::vector<TensorPtr> forward = Evaluate(split.forward, in);
    const std::vector<NodePtr> asked = split.backward.AllInputs();
    REQUIRE(asked.size() >= split.retained.size());
    std::vector<TensorPtr> back;
    const size_t own = asked.size() - split.retained.size();
    for (size_t i = 0; i < own; ++i) back.push_back(value_of(asked[i]->attrs.name));
    for (size_t k : split.retained) back.push_back(forward.at(k));
    CHECK((own > 0 && asked[own - 1]->attrs.name == "grad_loss") == seeds);
    const std::vector<TensorPtr> backward = Evaluate(split.backward, back);
    CHECK(Difference({forward[0], forward[1], backward[0], backward[1]}, whole.outputs, 0, 0) <= 1);
    // Both parts are graphs like any other.
    ApplyPasses(split.backward, "InferType,InferShape,Simplify,Fusion");
  }
  Graph plain;
  plain.outputs = {In(plain, "x")};
  const auto none = Catch([&] { SplitGradient(plain); });
  REQUIRE(none);
  CHECK(none->code == ErrorCode::kDependency);
  CHECK(SplitGradient(plain, 1).backward.outputs.empty());
  CHECK(Catch([&] { SplitGradient(plain, 2); })->code == ErrorCode::kApiMisuse);
}

TEST_CASE("gradient: a product over zeros keeps its gradient through ONNX's operators") {
  for (const char* row : {"%y = ReduceProd(%x, %a) {keepdims = 0}", "%y = ReduceProd(%x)",
                          "%y = ReduceProd(%x) {noop_with_empty_axes = 1}"}) {
    CAPTURE(row);
    Graph g = FromText(std::string(R"(graph (%x: f32[4, 3]) -> (%y) {
      %a = Constant() {value = tensor i64[1] [1]}
      )") + row + "\n}");
    SetGradient(g, {g.outputs[0]}, {NodeEntry(g.inputs()[0])});
    g = ApplyPasses(std::move(g), "Gradient,InferType,InferShape,Simplify");
    CHECK(Count(g, "weft::ReduceProdGrad") <= 1);
    const Graph again = ImportOnnxBytes(ExportOnnxBytes(g));
    CHECK(Count(again, "weft::ReduceProdGrad") == 0);
    // No zero, one and two in a row.
    const auto x =
        Tensor::FromDoubles(DType::kF32, {4, 3}, {2, 3, -4, 0, 5, 0.5, 0, 7, 0, -1, 0.25, 3});
    CHECK(Difference(Evaluate(again, {x}), Evaluate(g, {x}), 1e-6, 1e-7) <= 1);
  }
}

// ---- y = max(a, b): the backward part ----

namespace {

/// max(a, b) of these shapes with both gradients for a given gy, simplified and fused.
struct Maximum {
  Graph plain, fused;
};
Maximum MaxGraph(const std::string& a, const std::string& b, bool fetch_y, bool written_out) {
  Graph g = FromText("graph (%a: f32" + a + ", %b: f32" + b + ", %s: f32" + a +
                     ") -> (%y) {\n  %y = Max(%a, %b)\n}");
  const NodeEntry na(g.inputs()[0]), nb(g.inputs()[1]), gy(g.inputs()[2]), y = g.outputs[0];
  std::vector<NodeEntry> d;
  if (written_out) {
    // gy' = where(a == b, gy / 2, gy); grad_a = (gy' cast(a >= b)).sum_to(a), grad_b likewise
    const NodeEntry half =
        ApplyOp("Where", {ApplyOp("Equal", {na, nb}), gy / ScalarLike(gy, DType::kF32, 2), gy});
    const auto mask = [&](const NodeEntry& p, const NodeEntry& q) {
      return ApplyOp("Cast", {ApplyOp("GreaterOrEqual", {p, q})}, {{"to", DType::kF32}});
    };
    d = {SumTo(half * mask(na, nb), na), SumTo(half * mask(nb, na), nb)};
  } else {
    d = Gradients(g, {y}, {na, nb}, {gy});
  }
  std::vector<NodeEntry> outputs;
  if (fetch_y) outputs.push_back(y);
  outputs.insert(outputs.end(), d.begin(), d.end());
  g.outputs = outputs;
  return {g, ApplyPasses(g, "InferType,InferShape,Simplify,Fusion")};
}

}  // namespace

TEST_CASE("gradient: the backward part of max(a, b) is one kernel where the shapes are equal") {
  for (const char* shape : {"[6, 5]", "[n, m]", "[n, 7]"}) {
    for (const bool fetch_y : {false, true}) {
      for (const bool written_out : {false, true}) {
        CAPTURE(shape);
        CAPTURE(fetch_y);
        CAPTURE(written_out);
        const Maximum m = MaxGraph(shape, shape, fetch_y, written_out);
        CHECK(Operators(m.fused) == 1);
        REQUIRE(IsOp(m.fused.outputs[0].node, builtin::kFused));
        CHECK(m.fused.outputs[0].node->num_outputs() == (fetch_y ? 3u : 2u));
        CHECK(Count(m.fused, builtin::kSumTo) == 0);
        const RandomInputs in = MakeRandomInputs(m.plain, 9, {{"n", 4}, {"m", 3}});
        // Ties share.
        std::vector<TensorPtr> tied = in.tensors;
        const auto b = CopyOf(*tied[1]);
        for (int64_t k = 0; k < b->num_elements(); k += 2) b->set(k, tied[0]->at(k));
        tied[1] = b;
        const auto want = Evaluate(m.plain, tied);
        CHECK(Difference(Evaluate(m.fused, tied), want, 1e-6, 1e-7) <= 1);
        const size_t first = fetch_y ? 1 : 0;
        for (int64_t k = 0; k < b->num_elements(); k += 2)
          CHECK(want[first]->at(k) == doctest::Approx(tied[2]->at(k) / 2));
      }
    }
  }
}

TEST_CASE("gradient: with broadcasting the sums of max(a, b) stay") {
  struct Case {
    const char *a, *b;
  };
  for (const Case& c : {Case{"[6, 5]", "[5]"}, Case{"[6, 5]", "[6, 1]"}, Case{"[n, m]", "[m]"},
                        Case{"[n, m]", "[1, m]"}, Case{"[n, m]", "[]"}, Case{"[n, m]", "[n, k]"}}) {
    for (const bool written_out : {false, true}) {
      CAPTURE(c.a);
      CAPTURE(c.b);
      const Maximum m = MaxGraph(c.a, c.b, true, written_out);
      const auto in = MakeRandomInputs(m.plain, 9, {{"n", 4}, {"m", 3}, {"k", 1}}).tensors;
      const auto want = Evaluate(m.plain, in), got = Evaluate(m.fused, in);
      REQUIRE(want[2]->dims() == in[1]->dims());
      CHECK(Difference(got, want, 1e-5, 1e-6) <= 1);
      double given = 0, arrived = 0;
      for (int64_t k = 0; k < in[2]->num_elements(); ++k) given += in[2]->at(k);
      for (int i : {1, 2})
        for (int64_t k = 0; k < want[size_t(i)]->num_elements(); ++k)
          arrived += want[size_t(i)]->at(k);
      CHECK(arrived == doctest::Approx(given).epsilon(1e-5));
    }
  }
}
