/// gradient_test.cc: lists and maps of entries: their text, and how they follow edits of the graph.
#include "weft/core/gradient/gradient.h"

#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "weft/core/op/op.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(GtUnary).set_num_inputs(1).set_num_outputs(1);
WEFT_REGISTER_OP(GtPair).set_num_inputs(1).set_num_outputs(2);

struct Chain {
  Graph g;
  NodePtr x, a, b, p;
  Chain() {
    x = g.AddInput("x");
    a = g.AddNode("GtUnary", {x}, {}, "a");
    b = g.AddNode("GtUnary", {a}, {}, "b");
    p = g.AddNode("GtPair", {b}, {}, "p");
    g.outputs = {NodeEntry(p, 0)};
  }
};

TEST_CASE("gradient: entries as text") {
  EntryList list{{3, 0}, {4, 1}, {}};
  CHECK(list.ToString() == "3, 4:1, _");
  CHECK(EntryList::Parse(" 3,4:1 , _") == list);
  CHECK(EntryList::Parse("").empty());
  for (const char* bad : {"x", "3:", ":1", "-1", "3,,4", "99999999999", "3:1:2", "4294967295"}) {
    CAPTURE(bad);
    CHECK(CodeOf([&] { EntryList::Parse(bad); }) == ErrorCode::kSyntax);
  }
  GradientMap m;
  m.forward_outputs = 2;
  m.set({1, 0}, {7, 0});
  m.set({2, 1}, {7, 0});
  m.set({3, 0}, {9, 2});
  CHECK(m.ToString() == "2 outputs, 1 -> 7, 2:1 -> 7, 3 -> 9:2");
  CHECK(GradientMap::Parse(m.ToString()).ToString() == m.ToString());
  CHECK(GradientMap::Parse("0 outputs").pairs().empty());
  for (const char* bad : {"", "2", "2 outputs, 3", "outputs", "1 outputs, _ -> 3"}) {
    CAPTURE(bad);
    CHECK(CodeOf([&] { GradientMap::Parse(bad); }) == ErrorCode::kSyntax);
  }
}

TEST_CASE("gradient: requests are about entries of the graph") {
  Chain c;
  Graph other;
  const NodeEntry foreign(other.AddInput("x"));
  CHECK(CodeOf([&] { SetGradient(c.g, {foreign}, {c.x}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { SetGradient(c.g, {c.p}, {foreign}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { SetGradient(c.g, {NodeEntry(c.p, 2)}, {c.x}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { SetGradient(c.g, {NodeEntry()}, {c.x}); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { SetGradient(c.g, {c.p}, {c.x}, {c.a, c.b}); }) == ErrorCode::kApiMisuse);
  SetGradient(c.g, {c.p, NodeEntry(c.p, 1)}, {c.x}, {c.a, NodeEntry()});
  CHECK(c.g.GetAttr<EntryList>("grad_ys").ToString() == "3, 3:1");
  CHECK(c.g.GetAttr<EntryList>("grad_out").ToString() == "1, _");
  SetGradient(c.g, {c.p}, {c.x});
  CHECK_FALSE(c.g.HasAttr("grad_out"));
}

TEST_CASE("gradient: rules are told the graph in which gradients are made") {
  Chain outer, inner;
  CHECK(GradientGraph() == nullptr);
  {
    const GradientScope scope(outer.g, nullptr, nullptr, &outer.g);
    CHECK(GradientGraph() == &outer.g);
    {
      const GradientScope other(inner.g, nullptr, nullptr);  // that only looks
      CHECK(GradientGraph() == nullptr);
    }
    CHECK(GradientGraph() == &outer.g);
  }
  CHECK(GradientGraph() == nullptr);
}

TEST_CASE("gradient: requests follow what they name, in this graph only") {
  Chain c;
  SetGradient(c.g, {NodeEntry(c.p, 1)}, {c.a, c.x});
  Graph copy = c.g;
  const NodePtr n = c.g.AddNode("GtUnary", {c.x}, {}, "n");
  c.g.ReplaceUses(c.a, n);
  CHECK(c.g.GetAttr<EntryList>("grad_xs").in(c.g)[0] == NodeEntry(n));
  CHECK(copy.GetAttr<EntryList>("grad_xs").in(copy)[0].node->attrs.name == "a");
  const NodePtr q = c.g.AddNode("GtPair", {c.b}, {}, "q");
  c.g.ReplaceNode(c.p, {NodeEntry(q, 0), NodeEntry(q, 1)});
  CHECK(c.g.GetAttr<EntryList>("grad_ys").in(c.g)[0] == NodeEntry(q, 1));
  // Asked for, so alive, though no output needs it.
  c.g.outputs = {NodeEntry(c.x)};
  c.g.EraseDead();
  CHECK(c.g.node(q->id()) == q);
  CHECK(c.g.node(c.p->id()) == NodePtr());
  const std::vector<NodeId> map = c.g.Compact();
  (void)map;
  CHECK(c.g.GetAttr<EntryList>("grad_ys").in(c.g)[0].node->attrs.name == "q");
  c.g.DropAttr("grad_ys");
  c.g.DropAttr("grad_xs");
  c.g.EraseDead();
  CHECK(c.g.num_nodes() == 1);
}

TEST_CASE("gradient: the map follows rewrites of either side") {
  Chain c;
  GradientMap m;
  const NodePtr ga = c.g.AddNode("GtUnary", {c.b}, {}, "ga");
  const NodePtr gb = c.g.AddNode("GtUnary", {ga}, {}, "gb");
  m.set(NodeEntry(c.a), NodeEntry(ga));
  m.set(NodeEntry(c.b), NodeEntry(gb));
  m.set(NodeEntry(c.x), NodeEntry(ga));
  c.g.outputs = {NodeEntry(c.p), NodeEntry(ga), NodeEntry(gb)};
  c.g.SetAttr("gradient_of", m);
  const auto of = [&](NodePtr n) {
    return c.g.GetAttr<GradientMap>("gradient_of").find(c.g, NodeEntry(n)).node;
  };
  // Two gradients become one, then that another.
  const NodePtr one = c.g.AddNode("GtUnary", {c.b}, {}, "one");
  c.g.ReplaceUses(ga, one);
  CHECK(of(c.a) == one);
  CHECK(of(c.x) == one);
  CHECK(of(c.b) == gb);
  c.g.ReplaceUses(gb, one);
  CHECK(of(c.b) == one);
  const NodePtr two = c.g.AddNode("GtUnary", {c.b}, {}, "two");
  c.g.ReplaceUses(one, two);
  CHECK(of(c.a) == two);
  CHECK(of(c.b) == two);
  CHECK(of(c.x) == two);
  // A forward entry becomes another, which has none yet; then one that has.
  const NodePtr a2 = c.g.AddNode("GtUnary", {c.x}, {}, "a2");
  c.g.ReplaceUses(c.a, a2);
  CHECK(of(a2) == two);
  CHECK_FALSE(of(c.a));
  c.g.ReplaceUses(a2, c.x);
  CHECK(of(c.x) == two);
  CHECK_FALSE(of(a2));
  // Erased: no gradient any more. Renumbered: the same.
  c.g.outputs = {NodeEntry(c.b), NodeEntry(two)};
  c.g.EraseDead();
  c.g.Compact();
  const NodePtr b = c.g.outputs[0].node;
  CHECK(of(b)->attrs.name == "two");
  c.g.outputs = {c.g.outputs[0]};
  c.g.EraseDead();
  CHECK_FALSE(of(b));
}

}  // namespace
}  // namespace weft
