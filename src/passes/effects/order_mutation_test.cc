/// order_mutation_test.cc: what the text form cannot say: edges against the order of making,
/// effects without a variable.
#include <doctest/doctest.h>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

WEFT_REGISTER_OP_IN(test, Draw)
    .describe("a random draw: an effect without a variable")
    .set_num_inputs(0)
    .set_num_outputs(1)
    .set_attr<TIsStateful>("TIsStateful", true);

bool ComesAfter(NodePtr n, NodePtr before) {
  for (Node* d : n->control_deps)
    if (d == before.get()) return true;
  return false;
}
NodeEntry Variable(Graph& g) { return NodeEntry(g.AddParam("v", Tensor::Ints({1}))); }

TEST_CASE("order mutation: an edge that is there counts more than the order of making") {
  Graph g;
  const NodeEntry v = Variable(g);
  const NodePtr read = g.AddNode("Neg", {v}), write = g.AddNode(builtin::kAssign, {v, v}),
                last = g.AddNode("Abs", {v});
  read->control_deps.push_back(write);
  g.outputs = {NodeEntry(read), NodeEntry(last)};
  const Graph out = ApplyPass(g, "OrderMutation");
  CHECK_NOTHROW(VerifyGraph(out));
  CHECK(ComesAfter(out.at(read), out.at(write)));
  CHECK(ComesAfter(out.at(last), out.at(write)));
  CHECK(out.at(write)->control_deps.empty());
}

TEST_CASE("order mutation: effects that write no variable stay in their order") {
  Graph g;
  const NodePtr a = g.AddNode("test::Draw", {}), b = g.AddNode("test::Draw", {}),
                c = g.AddNode("test::Draw", {});
  g.outputs = {NodeEntry(c), NodeEntry(a)};  // b has no reader, and still happens
  const Graph out = ApplyPass(g, "OrderMutation");
  CHECK(ComesAfter(out.at(b), out.at(a)));
  CHECK(ComesAfter(out.at(c), out.at(b)));
  CHECK(out.at(c)->control_deps.size() == 1);
  CHECK(out.at(a)->control_deps.empty());
}

TEST_CASE(
    "order mutation: rewrites keep the edges, so the order of making may be lost afterwards") {
  Graph g;
  const NodeEntry v = Variable(g);
  const NodePtr read = g.AddNode("Neg", {v}), write = g.AddNode(builtin::kAssign, {v, v});
  g.outputs = {NodeEntry(read)};
  Graph out = ApplyPass(g, "OrderMutation");
  const NodePtr later = out.AddNode("Abs", {out.at(v)});
  out.ReplaceNode(out.at(read), {NodeEntry(later)});
  out.EraseDead();
  out = ApplyPass(std::move(out), "OrderMutation");
  CHECK(later->id() > write->id());
  CHECK(ComesAfter(out.at(write), out.at(later)));
  CHECK_FALSE(ComesAfter(out.at(later), out.at(write)));
  CHECK_NOTHROW(VerifyGraph(out));
}

TEST_CASE("order mutation: long programs") {
  Graph g;
  const NodeEntry v = Variable(g);
  NodeEntry x(g.AddInput("x", DType::kI64, Shape{1}));
  constexpr int kSteps = 20000;
  for (int i = 0; i < kSteps; ++i) {
    x = NodeEntry(g.AddNode("Add", {x, v}));
    g.AddNode(builtin::kAssign, {v, x});
  }
  g.outputs = {x};
  const Graph out = ApplyPass(std::move(g), "OrderMutation");
  size_t edges = 0;
  for (NodePtr n : out.TopoOrder()) edges += n->control_deps.size();
  CHECK(edges ==
        kSteps - 1);  // every read but the first after a write; each write reads through its value
}

}  // namespace
}  // namespace weft
