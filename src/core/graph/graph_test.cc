/// graph_test.cc: the graph store: handles, edits, use lists, staleness of
/// derived rows, views, imports.
#include "weft/core/graph/graph.h"

#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(TestAdd).set_num_inputs(2);
WEFT_REGISTER_OP(TestNeg).set_num_inputs(1);
WEFT_REGISTER_OP(TestSplit).set_num_inputs(1).set_num_outputs(2);

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

TEST_CASE(
    "an edit clears derived rows of touched nodes and of what depends on them, and no others") {
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

// ---- regressions ----

WEFT_REGISTER_OP(TestState)
    .set_num_inputs(2)
    .set_attr<TIsStateful>("TIsStateful", true)
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr&) { return std::vector<int>{0}; });
WEFT_REGISTER_OP(TestParsed).set_num_inputs(1).set_attr_parser([](NodeAttrs* a) {
  a->parsed = std::stof(std::string(a->dict.at("s")));
});

struct TestDerived {
  std::vector<NodeId> ids;
};
WEFT_REGISTER_GRAPH_ATTR(test_derived, kDerived, TestDerived)
    .describe("names nodes, cannot be renumbered");

TEST_CASE("control edges of a node replaced by its own input go to its users, without a cycle") {
  Graph g;
  NodePtr x = g.AddInput("x");
  NodePtr d = g.AddNode("TestNeg", {x}, {}, "d"), i = g.AddNode("TestNeg", {x}, {}, "i");
  i->control_deps.push_back(d);
  NodePtr y = g.AddNode("TestNeg", {i}, {}, "y"), z = g.AddNode("TestNeg", {x}, {}, "z");
  z->control_deps.push_back(i);
  g.outputs = {y, d, z};
  g.ReplaceNode(i, {x});
  VerifyGraph(g);
  CHECK(x->control_deps.empty());
  REQUIRE(y->control_deps.size() == 1);
  CHECK(y->control_deps[0] == d);
  REQUIRE(z->control_deps.size() == 2);  // ran after i, hence after d
  CHECK(z->control_deps[0] == x);
  CHECK(z->control_deps[1] == d);
}

TEST_CASE("control edges of a node replaced by a new one go to the new one") {
  Chain t;
  NodePtr d = t.g.AddNode("TestNeg", {t.x}, {}, "d");
  t.b->control_deps.push_back(d);
  NodePtr e = t.g.AddNode("TestAdd", {t.x, t.a}, {}, "e");
  t.g.ReplaceNode(t.b, {e});
  VerifyGraph(t.g);
  REQUIRE(e->control_deps.size() == 1);
  CHECK(e->control_deps[0] == d);
  CHECK(t.c->control_deps.empty());
}

TEST_CASE(
    "a parameter that an op mutates is no constant, and an effect that no output reaches is "
    "ordered") {
  Graph g;
  NodePtr v = g.AddParam("v", Tensor::Ints({1})), w = g.AddParam("w", Tensor::Ints({2}));
  NodePtr x = g.AddInput("x");
  g.outputs = {g.AddNode("TestAdd", {v, x})};
  CHECK(bool(Graph::ConstantOf(v)));
  NodePtr s = g.AddNode("TestState", {v, w}, {}, "s");
  CHECK(!Graph::ConstantOf(v));
  CHECK(bool(Graph::ConstantOf(w)));  // read by it, not written
  CHECK(g.TopoOrder().back() == s);
  CHECK(g.indexed_graph().exist(s));
  CHECK(g.indexed_graph().mutable_input_nodes() ==
        std::vector<uint32_t>{g.indexed_graph().node_id(v)});
}

TEST_CASE("a traversal goes on when its callback adds nodes") {
  Chain t;
  int visits = 0;
  DFSVisit(t.g.outputs, [&](const NodePtr& n) {
    ++visits;
    if (n != t.a) return;
    NodeEntry e = t.a;
    for (int i = 0; i < 100000; ++i) e = t.g.AddNode("TestNeg", {t.a});
    t.g.ReplaceUses(t.x, e);
  });
  CHECK(visits == 5);
}

TEST_CASE("a view from before the last two goes on throwing") {
  Chain t;
  const IndexedGraph& old = t.g.indexed_graph();
  for (int i = 0; i < 3; ++i) {
    t.g.Touch(t.a);
    CHECK(t.g.indexed_graph().num_nodes() == 4);
    CHECK(CodeOf([&] { old.num_nodes(); }) == ErrorCode::kApiMisuse);
    CHECK(CodeOf([&] { old.node_id(t.a); }) == ErrorCode::kApiMisuse);
  }
}

TEST_CASE("a handle to an erased node is refused") {
  Chain t;
  NodePtr d = t.g.AddNode("TestNeg", {t.x});
  t.g.Erase(d);
  CHECK(CodeOf([&] { t.g.AddNode("TestNeg", {d}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t.g.outputs = {d}; }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t.g.outputs.push_back(d); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t.a->control_deps.push_back(d); }) == ErrorCode::kApiMisuse);
  VerifyGraph(t.g);
}

TEST_CASE("what is derived from the whole structure ends with every edit of it") {
  const auto ends = [](const std::function<void(Chain&)>& edit) {
    Chain t;
    ShapeMap shapes;
    for (NodePtr n : {t.x, t.a, t.b, t.c}) shapes.set(n, Shape{4});
    t.g.SetAttr("shape", shapes);
    t.g.SetAttr("test_derived", TestDerived{});
    REQUIRE(t.g.HasAttr("test_derived"));
    edit(t);
    CHECK(t.g.IsComplete("shape"));  // rows stay
    return !t.g.HasAttr("test_derived");
  };
  CHECK(ends([](Chain& t) { t.c->control_deps.push_back(t.a); }));
  CHECK(ends([](Chain& t) { t.c->control_deps.clear(); }));
  CHECK(ends([](Chain& t) { t.g.outputs = {t.a}; }));
  CHECK(ends([](Chain& t) { t.g.outputs.push_back(t.a); }));
  CHECK(ends([](Chain& t) { t.g.outputs.set(0, t.a); }));
  CHECK(ends([](Chain& t) { t.g.ReplaceUses(t.a, t.x); }));
  CHECK(ends([](Chain& t) { t.g.SetInputs({}); }));
  CHECK(!ends([](Chain& t) { t.g.SetOutputName(0, "y"); }));
}

TEST_CASE("Compact drops a derived value that it cannot renumber") {
  Chain t;
  t.g.HasAttr("");
  t.g.SetAttr("test_derived", TestDerived{{t.c->id()}});
  t.g.Compact();
  CHECK(!t.g.HasAttr("test_derived"));
}

TEST_CASE("SetAttr reruns the op's own parser, and a value it refuses changes nothing") {
  Graph g;
  NodePtr a = g.AddNode("TestParsed", {g.AddInput("x")}, {{"s", "1"}});
  g.SetAttr(a, "s", "5");
  CHECK(std::any_cast<float>(a->attrs.parsed) == 5);
  CHECK_THROWS(g.SetAttr(a, "s", "no number"));
  CHECK(std::any_cast<float>(a->attrs.parsed) == 5);
  CHECK(a->attr<std::string>("s") == "5");
}

TEST_CASE("outputs pushed one by one share what they have in common") {
  Chain t;
  Graph ret;
  for (const NodeEntry& e : std::vector<NodeEntry>{t.a, t.b, t.c}) ret.outputs.push_back(e);
  CHECK(ret.num_nodes() == 4);
  CHECK(ret.inputs().size() == 1);
  CHECK(ret.outputs[1].node->inputs[0] == ret.outputs[0]);
  VerifyGraph(ret);
  // Neither a source edited in between nor an erased twin is mistaken for what was copied.
  t.g.SetInput(t.b, 0, t.x);
  ret.outputs.push_back(t.c);
  CHECK(ret.num_nodes() == 6);
  CHECK(ret.outputs[3].node->inputs[0].node->inputs[0].node == ret.inputs()[0]);
  ret.outputs.clear();
  ret.EraseDead();
  ret.outputs = {t.a};
  CHECK(ret.num_nodes() == 2);
  VerifyGraph(ret);
}

TEST_CASE("output names survive reassignment and travel with a list of outputs") {
  Chain t;
  t.g.SetOutputName(0, "logits");
  t.g.set_name("model");
  Graph ret;
  ret.outputs = t.g.outputs;
  CHECK(ret.OutputName(0) == "logits");
  CHECK(ret.name() == "model");
  t.g.outputs = std::vector<NodeEntry>{t.b};
  CHECK(t.g.OutputName(0) == "logits");
  Graph named;
  named.outputs = {named.AddInput("p")};
  named.SetOutputName(0, "mine");
  named.set_name("own");
  named.outputs = t.g.outputs;
  CHECK(named.OutputName(0) == "mine");
  CHECK(named.name() == "own");
}

TEST_CASE("handles in the attributes of a copy mean its own nodes") {
  Chain t;
  t.g.attrs["test_entries"] = std::make_shared<std::any>(std::vector<NodeEntry>{t.a, NodeEntry()});
  t.g.attrs["test_nodes"] = std::make_shared<std::any>(std::vector<NodePtr>{t.b});
  Graph copy = t.g, assigned;
  assigned = t.g;
  for (const Graph* g : {&copy, &assigned}) {
    CHECK(g->GetAttr<std::vector<NodeEntry>>("test_entries")[0].node == g->at(t.a));
    CHECK(!g->GetAttr<std::vector<NodeEntry>>("test_entries")[1]);
    CHECK(g->GetAttr<std::vector<NodePtr>>("test_nodes")[0] == g->at(t.b));
  }
  CHECK(t.g.GetAttr<std::vector<NodeEntry>>("test_entries")[0].node == t.a);
}

TEST_CASE("lists of inputs and outputs clear and resize") {
  Chain t;
  t.g.SetOutputName(0, "y");
  t.g.outputs.resize(2);
  CHECK(CodeOf([&] { VerifyGraph(t.g); }) == ErrorCode::kInternal);
  t.g.outputs.set(1, t.a);
  VerifyGraph(t.g);
  CHECK(t.g.OutputName(1) == "a");
  t.g.outputs.resize(0);
  t.c->inputs.clear();
  CHECK(t.b->uses().empty());
  t.c->inputs.push_back(t.a);
  VerifyGraph(t.g);
}

TEST_CASE("a cycle that no output reaches is found") {
  Chain t;
  NodePtr a = t.g.AddNode("TestAdd", {t.x, t.x}), b = t.g.AddNode("TestNeg", {a});
  t.g.SetInput(a, 1, b);
  CHECK(CodeOf([&] { VerifyGraph(t.g); }) == ErrorCode::kCycle);
}

}  // namespace
}  // namespace weft
