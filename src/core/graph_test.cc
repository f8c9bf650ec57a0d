/// graph_test.cc: the graph store: handles, edits, use lists, staleness of derived rows, views, imports.
#include "weft/core/graph.h"

#include <doctest/doctest.h>

#include "weft/core/graph_attr.h"
#include "weft/core/op.h"
#include "weft/core/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(TestAdd).set_num_inputs(2);
WEFT_REGISTER_OP(TestNeg).set_num_inputs(1);
WEFT_REGISTER_OP(TestSplit).set_num_inputs(1).set_num_outputs(2);

ErrorCode CodeOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode(0);
}

struct Chain {
  Graph g;
  NodePtr x, a, b, c;
  Chain() {
    x = g.AddInput("x", DType::kF32, Shape{SymInt::Symbol("n"), 4});
    a = g.AddNode("TestNeg", {x}, {}, "a");
    b = g.AddNode("TestAdd", {a, x}, {}, "b");
    c = g.AddNode("TestNeg", {b}, {}, "c");
    g.outputs = {c};
  }
};

TEST_CASE("handles survive a move, and a copy has twins with the same ids") {
  Chain t;
  Graph copy = t.g;
  Graph moved = std::move(t.g);
  CHECK(moved.owns(t.a));
  CHECK(!copy.owns(t.a));
  CHECK(copy.at(t.a)->id() == t.a->id());
  CHECK(copy.at(t.b)->inputs[0].node == copy.at(t.a));
  copy.ReplaceNode(copy.at(t.a), {copy.at(t.x)});
  CHECK(t.b->inputs[0].node == t.a);  // the source is not touched
  VerifyGraph(copy);
  VerifyGraph(moved);
}

TEST_CASE("use lists follow every edit") {
  Chain t;
  NodePtr d = t.g.AddNode("TestAdd", {t.x, t.x}, {}, "d");
  CHECK(t.x->uses().size() == 4);
  t.g.ReplaceUses(t.a, d);
  CHECK(t.a->uses().empty());
  CHECK(t.b->inputs[0].node == d);
  VerifyGraph(t.g);
  t.g.Erase(t.a);
  CHECK(t.g.node(t.a ? 1 : 0) == nullptr);
  CHECK(t.g.num_nodes() == 4);
  VerifyGraph(t.g);
  CHECK(CodeOf([&] { t.g.Erase(d); }) == ErrorCode::kApiMisuse);
}

TEST_CASE("an output that is replaced keeps its name") {
  Chain t;
  t.g.ReplaceNode(t.c, {t.b});
  CHECK(t.g.outputs[0].node == t.b);
  CHECK(t.g.OutputName(0) == "c");
}

TEST_CASE("mixing graphs throws, outputs import") {
  Chain t;
  Graph other;
  CHECK(CodeOf([&] { other.AddNode("TestNeg", {t.a}); }) == ErrorCode::kApiMisuse);
  other.outputs = t.g.outputs;
  CHECK(other.num_nodes() == 4);
  CHECK(other.inputs().size() == 1);
  CHECK(other.outputs[0].node != t.c);
  VerifyGraph(other);
}

TEST_CASE("an edit clears derived rows of touched nodes and of what depends on them, and no others") {
  Chain t;
  ShapeMap shapes;
  for (NodePtr n : {t.x, t.a, t.b, t.c}) shapes.set(n, Shape{4});
  t.g.SetAttr("shape", shapes);
  CHECK(t.g.IsComplete("shape"));
  t.g.SetInput(t.b, 1, t.a);
  const auto& now = t.g.GetAttr<ShapeMap>("shape");
  CHECK(now.find(t.x));
  CHECK(now.find(t.a));
  CHECK(!now.find(t.b));
  CHECK(!now.find(t.c));
  CHECK(!t.g.IsComplete("shape"));
}

TEST_CASE("replacing an entry by one with equal rows leaves users' rows alone") {
  Chain t;
  NodePtr d = t.g.AddNode("TestNeg", {t.x}, {}, "d");
  ShapeMap shapes;
  for (NodePtr n : {t.x, t.a, t.b, t.c, d}) shapes.set(n, Shape{4});
  t.g.SetAttr("shape", shapes);
  t.g.ReplaceUses(t.a, d);
  CHECK(t.g.GetAttr<ShapeMap>("shape").find(t.b));
  CHECK(t.g.IsComplete("shape"));
  CHECK(d->origin()->size() == 2);
}

TEST_CASE("copies share attribute values until one changes") {
  Chain t;
  ShapeMap shapes;
  for (NodePtr n : {t.x, t.a, t.b, t.c}) shapes.set(n, Shape{4});
  t.g.SetAttr("shape", shapes);
  Graph copy = t.g;
  copy.SetInput(copy.at(t.b), 1, copy.at(t.a));
  CHECK(!copy.GetAttr<ShapeMap>("shape").find(copy.at(t.b)));
  CHECK(t.g.GetAttr<ShapeMap>("shape").find(t.b));
}

TEST_CASE("a stale dense view cannot be observed") {
  Chain t;
  const IndexedGraph& view = t.g.indexed_graph();
  CHECK(view.num_nodes() == 4);
  CHECK(view.node_id(t.c) == 3);
  t.g.SetInput(t.b, 1, t.a);
  CHECK(CodeOf([&] { view.num_nodes(); }) == ErrorCode::kApiMisuse);
  CHECK(t.g.indexed_graph().num_nodes() == 4);
  t.g.outputs = {t.a};
  CHECK(t.g.indexed_graph().num_nodes() == 2);  // NNVM answered with the old view here
}

TEST_CASE("multi-output entries, control edges, cycles") {
  Graph g;
  NodePtr x = g.AddInput("x");
  NodePtr s = g.AddNode("TestSplit", {x}, {}, "s");
  NodePtr b = g.AddNode("TestAdd", {NodeEntry(s, 1), NodeEntry(s, 0)}, {}, "b");
  NodePtr c = g.AddNode("TestNeg", {x}, {}, "c");
  b->control_deps.push_back(c);
  g.outputs = {b};
  CHECK(g.TopoOrder().size() == 4);
  CHECK(g.indexed_graph().num_node_entries() == 5);
  g.ReplaceNode(c, {x});
  CHECK(b->control_deps[0] == x);
  g.SetInput(s, 0, b);
  CHECK(CodeOf([&] { g.TopoOrder(); }) == ErrorCode::kCycle);
}

TEST_CASE("dead nodes go, declared inputs stay, Compact renumbers in order") {
  Chain t;
  t.g.AddNode("TestNeg", {t.b}, {}, "dead");
  ShapeMap shapes;
  shapes.set(t.c, Shape{7});
  t.g.SetAttr("shape", shapes);
  CHECK(t.g.EraseDead() == 1);
  const auto map = t.g.Compact();
  CHECK(map[t.c ? 3 : 0] == 3);
  CHECK(t.g.GetAttr<ShapeMap>("shape")[t.c].same(Shape{7}));
  VerifyGraph(t.g);
}

TEST_CASE("200,000 nodes in a row: copy, order, destroy without recursion") {
  Graph g;
  NodeEntry e = g.AddInput("x");
  for (int i = 0; i < 200000; ++i) e = g.AddNode("TestNeg", {e});
  g.outputs = {e};
  Graph copy = g;
  CHECK(copy.TopoOrder().size() == 200001);
  Graph imported;
  imported.outputs = g.outputs;
  CHECK(imported.num_nodes() == 200001);
}

TEST_CASE("arity and unknown operators are refused with a hint") {
  Graph g;
  NodePtr x = g.AddInput("x");
  CHECK(CodeOf([&] { g.AddNode("TestAdd", {x}); }) == ErrorCode::kArity);
  CHECK(g.num_nodes() == 1);
  try {
    g.AddNode("TestNag", {x});
    CHECK(false);
  } catch (const Error& err) {
    CHECK(err.code() == ErrorCode::kUnknownOp);
    CHECK(err.hint().find("TestNeg") != std::string::npos);
  }
}

}  // namespace
}  // namespace weft
