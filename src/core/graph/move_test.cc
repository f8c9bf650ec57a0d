/// move_test.cc: nodes that move between graphs, single control edges, graphs with many outputs,
/// variables with many readers.
#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(MoveNeg).set_num_inputs(1);
WEFT_REGISTER_OP(MoveAdd).set_num_inputs(2);
WEFT_REGISTER_OP(MoveWrite)
    .set_num_inputs(2)
    .set_attr<TIsStateful>("TIsStateful", true)
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr&) { return std::vector<int>{0}; });

/// x -> a -> b -> c, b = a + x.
struct Chain {
  Graph g;
  NodePtr x, a, b, c;
  Chain() {
    x = g.AddInput("x", DType::kF32, Shape{4});
    a = g.AddNode("MoveNeg", {x}, {}, "a");
    b = g.AddNode("MoveAdd", {a, x}, {}, "b");
    c = g.AddNode("MoveNeg", {b}, {}, "c");
    g.outputs = {c};
  }
};

TEST_CASE("moved nodes keep their handles, attributes, origins and the edges among themselves") {
  Chain t;
  t.g.SetOrigin(t.a, std::make_shared<const std::vector<std::string>>(1, "user"));
  Graph body;
  NodePtr in;
  int asked = 0;
  t.g.SetInput(t.c, 0, t.x);  // nobody outside reads a or b now
  const NodePtr members[] = {t.a, t.b};
  body.MoveNodes(t.g, members, 2, [&](const NodeEntry& e) {
    ++asked;
    CHECK(e == NodeEntry(t.x));
    if (!in) in = body.AddInput("in");
    return NodeEntry(in);
  });
  body.outputs = {t.b};
  CHECK(asked == 2);
  CHECK(body.owns(t.a));
  CHECK(body.num_nodes() == 3);
  CHECK(in->id() == 0);
  CHECK(t.a->id() == 1);
  CHECK(t.b->id() == 2);
  CHECK(t.b->inputs[0] == NodeEntry(t.a));
  CHECK(t.b->inputs[1] == NodeEntry(in));
  CHECK(t.a->attrs.name == "a");
  CHECK(t.a->origin()->front() == "user");
  CHECK(t.g.num_nodes() == 2);
  CHECK(t.x->uses().size() == 1);
  CHECK(!t.g.owns(t.a));
  VerifyGraph(t.g);
  VerifyGraph(body);
}

TEST_CASE("moved nodes outlive the graph that they come from, and its copies are left alone") {
  Graph body;
  Graph copy;
  {
    Chain t;
    copy = t.g;
    t.g.SetInput(t.c, 0, t.x);
    const NodePtr members[] = {t.a, t.b};
    NodeEntry in(body.AddInput("in"));
    body.MoveNodes(t.g, members, 2, [&](const NodeEntry&) { return in; });
    body.outputs = {t.b};
  }
  VerifyGraph(body);
  VerifyGraph(copy);
  CHECK(body.num_nodes() == 3);
  CHECK(copy.num_nodes() == 4);
  // On to a third graph, and erased there.
  Graph last;
  const NodePtr a = body.node(1), b = body.node(2);
  body.outputs = {};
  const NodePtr members[] = {a, b};
  NodeEntry in(last.AddInput("in"));
  last.MoveNodes(body, members, 2, [&](const NodeEntry&) { return in; });
  body = Graph();
  VerifyGraph(last);
  last.Erase(b);
  last.Erase(a);
  CHECK(CodeOf([&] { last.outputs = {a}; }) == ErrorCode::kApiMisuse);  // still says what it was
}

TEST_CASE("what others use, outputs and variables do not move") {
  auto move = [](Chain& t, std::vector<NodePtr> members) {
    Graph body;
    NodeEntry in(body.AddInput("in"));
    body.MoveNodes(t.g, members.data(), members.size(), [&](const NodeEntry&) { return in; });
  };
  Chain used, output, variable, self, foreign;
  CHECK(CodeOf([&] { move(used, {used.a}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { move(output, {output.a, output.b, output.c}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { move(variable, {variable.x}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { move(foreign, {self.a}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { self.g.MoveNodes(self.g, &self.a, 1, nullptr); }) == ErrorCode::kApiMisuse);
  Chain waits;
  waits.g.SetInput(waits.c, 0, waits.x);
  waits.c->control_deps.push_back(waits.b);
  CHECK(CodeOf([&] { move(waits, {waits.a, waits.b}); }) == ErrorCode::kApiMisuse);
}

TEST_CASE("control edges among moved nodes stay, those to others go") {
  Chain t;
  NodePtr before = t.g.AddNode("MoveNeg", {t.x});
  t.g.SetInput(t.c, 0, t.x);
  t.b->control_deps.push_back(t.a);
  t.b->control_deps.push_back(before);
  Graph body;
  NodeEntry in(body.AddInput("in"));
  const NodePtr members[] = {t.a, t.b};
  body.MoveNodes(t.g, members, 2, [&](const NodeEntry&) { return in; });
  REQUIRE(t.b->control_deps.size() == 1);
  CHECK(t.b->control_deps[0] == t.a);
  CHECK(before->uses().empty());
  VerifyGraph(t.g);
  VerifyGraph(body);
}

TEST_CASE("one control edge is removed, the others keep their order") {
  Chain t;
  NodePtr n[4];
  for (NodePtr& k : n) {
    k = t.g.AddNode("MoveNeg", {t.x});
    t.c->control_deps.push_back(k);
  }
  const uint64_t revision = t.g.revision();
  t.c->control_deps.remove(t.a);  // no such edge
  CHECK(t.g.revision() == revision);
  t.c->control_deps.remove(n[1]);
  CHECK(t.g.revision() != revision);
  REQUIRE(t.c->control_deps.size() == 3);
  CHECK(t.c->control_deps[0] == n[0]);
  CHECK(t.c->control_deps[1] == n[2]);
  CHECK(t.c->control_deps[2] == n[3]);
  CHECK(n[1]->uses().empty());
  VerifyGraph(t.g);
  t.c->control_deps.remove(n[0]);
  t.c->control_deps.remove(n[3]);
  t.c->control_deps.remove(n[2]);
  CHECK(t.c->control_deps.empty());
  VerifyGraph(t.g);
}

TEST_CASE("a graph knows which nodes are its outputs through every edit") {
  Chain t;
  auto same = [](const Graph& g) {
    for (NodeId id = 0; id < g.id_bound(); ++id) {
      bool listed = false;
      for (const NodeEntry& e : g.outputs) listed |= e.node && e.node == g.node(id);
      CHECK(g.is_output(g.node(id)) == listed);
    }
  };
  t.g.outputs = {t.a, t.b, t.a};
  same(t.g);
  t.g.outputs.set(0, t.c);
  same(t.g);
  t.g.outputs.set(2, t.c);
  same(t.g);
  t.g.outputs.push_back(t.a);
  same(t.g);
  t.g.ReplaceUses(t.c, t.b);
  same(t.g);
  CHECK(t.g.outputs[0] == NodeEntry(t.b));
  CHECK(t.g.outputs[2] == NodeEntry(t.b));
  Graph copy = t.g;
  same(copy);
  t.g.outputs.resize(1);
  same(t.g);
  t.g.outputs.resize(3);
  same(t.g);
  same(copy);
  t.g.outputs = {t.b, t.a};
  t.g.EraseDead();
  t.g.Compact();
  same(t.g);
  t.g.ReplaceUses(t.b, t.a);
  same(t.g);
  CHECK(!copy.is_output(t.a));  // another graph's
}

TEST_CASE("a variable is a constant until an operator writes it, and again afterwards") {
  Graph g;
  NodePtr v = g.AddParam("v", Tensor::Ints({1})), w = g.AddParam("w", Tensor::Ints({2}));
  NodePtr reader = g.AddNode("MoveNeg", {v});
  CHECK(bool(Graph::ConstantOf(v)));
  NodePtr more = g.AddNode("MoveAdd", {v, v});
  CHECK(bool(Graph::ConstantOf(v)));
  NodePtr writes = g.AddNode("MoveWrite", {w, v});
  CHECK(bool(Graph::ConstantOf(v)));  // read by it
  CHECK(!Graph::ConstantOf(w));
  g.SetInput(writes, 0, v);
  g.SetInput(writes, 1, w);
  CHECK(!Graph::ConstantOf(v));
  CHECK(bool(Graph::ConstantOf(w)));
  Graph copy = g;
  CHECK(!Graph::ConstantOf(copy.at(v)));
  g.Erase(more);
  CHECK(!Graph::ConstantOf(v));
  g.Erase(writes);
  CHECK(bool(Graph::ConstantOf(v)));
  CHECK(!Graph::ConstantOf(copy.at(v)));
  // A node put together by hand has no operator at first.
  AmbientScope ambient(g);
  NodePtr hand = Node::Create();
  hand->inputs.push_back(v);
  hand->inputs.push_back(w);
  CHECK(bool(Graph::ConstantOf(v)));
  hand->attrs.op = Op::Get("MoveWrite");
  CHECK(!Graph::ConstantOf(v));
  CHECK(bool(reader));
}

}  // namespace
}  // namespace weft
