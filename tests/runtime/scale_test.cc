/// scale_test.cc: nothing recurses over nodes. Graphs of 200,000 nodes in one chain, and
/// expressions as deep, go through everything on a thread with a stack of 256 KiB, where a
/// recursion of some thousand levels is a crash. No times are asserted: those are in bench/.
#include <doctest/doctest.h>
#include <pthread.h>

#include <exception>
#include <functional>

#include "tests/support/e2e_util.h"
#include "weft/codegen/expr/expr.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"

namespace {

using namespace weft;

constexpr int kDepth = 200000;
constexpr size_t kStack = 256 << 10;

/// Runs `f` on a small stack; what it throws is thrown here.
void OnSmallStack(const std::function<void()>& f) {
  struct Call {
    const std::function<void()>* f;
    std::exception_ptr error;
  } call{&f, nullptr};
  pthread_attr_t attr;
  REQUIRE(pthread_attr_init(&attr) == 0);
  REQUIRE(pthread_attr_setstacksize(&attr, kStack) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, &attr,
              [](void* p) -> void* {
                auto* c = static_cast<Call*>(p);
                try {
                  (*c->f)();
                } catch (...) {
                  c->error = std::current_exception();
                }
                return nullptr;
              },
              &call) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attr);
  if (call.error) std::rethrow_exception(call.error);
}

/// x -> Tanh -> Neg -> Add(., x) -> ..., `depth` operators.
Graph Chain(int depth) {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, {SymInt::Symbol("n"), 4}));
  NodeEntry y = x;
  for (int i = 0; i < depth; ++i) {
    if (i % 3 == 2)
      y = NodeEntry(g.AddNode("Add", {y, x}));
    else
      y = NodeEntry(g.AddNode(i % 3 ? "Tanh" : "Abs", {y}));
  }
  g.outputs = {y};
  return g;
}

WEFT_REGISTER_OP(ScaleTestNoRule).set_num_inputs(1).set_num_outputs(1);

int CountOp(const Graph& g, const std::string& op) {
  int n = 0;
  for (NodePtr p : g.TopoOrder()) n += p->op() && p->op()->name == op;
  return n;
}

}  // namespace

TEST_CASE("scale: building, copying, moving, verifying and dropping a chain of 200,000 nodes") {
  OnSmallStack([] {
    Graph g = Chain(kDepth);
    CHECK(g.num_nodes() == size_t(kDepth) + 1);
    CHECK(g.TopoOrder().size() == size_t(kDepth) + 1);
    CHECK(g.indexed_graph().num_nodes() == size_t(kDepth) + 1);
    VerifyGraph(g);
    Graph copy = g;
    CHECK(copy.num_nodes() == g.num_nodes());
    Graph other;
    other.outputs = g.outputs;  // imports what they reach
    CHECK(other.num_nodes() == g.num_nodes());
    Graph moved = std::move(copy);
    moved.Compact();
    VerifyGraph(moved);
    // The last output gone, everything is dead.
    moved.outputs = {NodeEntry(moved.inputs()[0])};
    CHECK(moved.EraseDead() == kDepth);
  });
}

TEST_CASE("scale: the text form of 200,000 nodes prints and parses") {
  OnSmallStack([] {
    const Graph g = Chain(kDepth);
    const std::string text = PrintGraph(g);
    const Graph again = ParseGraph(text);
    CHECK(again.num_nodes() == g.num_nodes());
    CHECK(PrintGraph(again) == text);
  });
}

TEST_CASE(
    "scale: inference, Simplify, Fusion, code generation, scheduling and planning of 200,000 "
    "nodes") {
  OnSmallStack([] {
    Graph g = ApplyPasses(Chain(kDepth), "InferType,InferShape");
    CHECK(g.GetAttr<ShapeMap>("shape")[g.outputs[0]].ToString() == "[n, 4]");
    // An edit at the front makes everything behind it stale.
    NodePtr first = g.inputs()[0]->uses()[0].user;
    g.Touch(first);
    CHECK_FALSE(g.IsComplete("shape"));
    g = ApplyPasses(std::move(g), "Simplify,FoldConstants,Fusion,CodeGen,Schedule,PlanMemory");
    VerifyGraph(g);
    CHECK(CountOp(g, "Tanh") == 0);
    const int kernels = CountOp(g, "weft::Fused");
    CHECK(kernels >= kDepth / 256);
    CHECK(kernels <= kDepth / 40);  // 64 operands a kernel, counted from above
    CHECK(int(g.GetAttr<Order>("order").nodes.size()) == kernels + 1);
  });
}

TEST_CASE("scale: the gradient of 200,000 nodes, its simplification, and a refusal of as many") {
  OnSmallStack([] {
    Graph g = ApplyPasses(Chain(kDepth), "InferType,InferShape");
    SetGradient(g, {g.outputs[0]}, {NodeEntry(g.inputs()[0])});
    g = ApplyPasses(std::move(g), "Gradient");
    REQUIRE(g.outputs.size() == 2);
    CHECK(g.num_nodes() > 2 * size_t(kDepth));
    CHECK(g.GetAttr<GradientMap>("gradient_of").pairs().size() > size_t(kDepth));
    g = ApplyPasses(std::move(g), "InferType,InferShape,Simplify");
    VerifyGraph(g);
    const GradientSplit split = SplitGradient(g);
    CHECK(split.retained.size() >= size_t(kDepth) / 3);
    // The last operator has no rule: what has been made is taken back.
    Graph f = Chain(kDepth);
    const NodeEntry y(f.AddNode("ScaleTestNoRule", {f.outputs[0]}));
    const size_t nodes = f.num_nodes();
    CHECK(e2e::Catch([&] { Gradients(f, {y}, {NodeEntry(f.inputs()[0])}); }));
    CHECK(f.num_nodes() == nodes);
  });
}

TEST_CASE("scale: 50,000 equal nodes beside each other merge into one") {
  OnSmallStack([] {
    Graph g;
    const NodeEntry x(g.AddInput("x", DType::kF32, {8}));
    std::vector<NodeEntry> all;
    for (int i = 0; i < 50000; ++i) all.push_back(NodeEntry(g.AddNode("Tanh", {x})));
    g.outputs = all;
    const Graph merged = ApplyPasses(g, "Simplify");
    CHECK(CountOp(merged, "Tanh") == 1);
    CHECK(merged.outputs.size() == 50000);
  });
}

TEST_CASE("scale: one kernel of some thousand operators") {
  OnSmallStack([] {
    constexpr int kOps = 5000;
    Graph g = Chain(kOps);
    g = ApplyPasses(
        std::move(g),
        Pipeline{{"Fusion", {{"max_ops", 100000}, {"max_tensors", 100000}}}, "CodeGen"});
    CHECK(CountOp(g, "weft::Fused") == 1);
    // And interpreted: the same numbers as operator by operator.
    const Graph plain = Chain(kOps);
    const RandomInputs in = MakeRandomInputs(plain, 1, {{"n", 2}});
    EvalOptions typed;
    CHECK(e2e::Difference(GetEvaluator()->Eval(g, in.tensors, typed),
                          GetEvaluator()->Eval(plain, in.tensors, typed)) <= 1);
  });
}

TEST_CASE("scale: expressions 200,000 deep are built, rewritten and dropped") {
  OnSmallStack([] {
    const Expr x = Expr::Load(0, DType::kF32, {Expr::Index(0)});
    Expr e = x;
    for (int i = 0; i < kDepth; ++i) e = i % 2 ? e + x : e * x;
    CHECK(PostOrder({e}).size() >= size_t(kDepth));
    const Expr shifted = SubstituteIndices(e, {Expr::Index(1)});
    CHECK(PostOrder({shifted}).size() == PostOrder({e}).size());
    CHECK(shifted != e);
  });
}

TEST_CASE("scale: a symbolic sum of 200,000 terms stays bounded") {
  OnSmallStack([] {
    SymInt s = 0;
    for (int i = 0; i < kDepth; ++i)
      s = s + SymInt::Symbol("s" + std::to_string(i % 500)) * SymInt(i % 7 + 1);
    CHECK(s.known());
    CHECK(s.ToString().size() < 100000);
  });
}
