/// match_test.cc: patterns and accessors: what matches, what does not by a little, what is noted.
#include "weft/core/graph/match.h"

#include <doctest/doctest.h>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(MatchOne).set_num_inputs(1);
WEFT_REGISTER_OP(MatchTwo).set_num_inputs(2);
WEFT_REGISTER_OP(MatchMany).set_num_inputs(1, 3).set_num_outputs(2);

struct Built {
  Graph g;
  NodeEntry x{g.AddInput("x")}, y{g.AddInput("y")};
  NodeEntry One(NodeEntry e) { return NodeEntry(g.AddNode("MatchOne", {e})); }
  NodeEntry Two(NodeEntry a, NodeEntry b) { return NodeEntry(g.AddNode("MatchTwo", {a, b})); }
  NodeEntry Number(double v) { return g.AddConstant(Tensor::Scalar(DType::kF32, v)); }
};

TEST_CASE("a pattern follows operands and notes what it meets") {
  Built b;
  const NodeEntry e = b.Two(b.x, b.One(b.y));
  NodeEntry left, right;
  NodePtr inner;
  REQUIRE(
      m::Match(e, m::Op("MatchTwo", m::Any(&left), m::Op("MatchOne", m::Any(&right)).To(&inner))));
  CHECK(left == b.x);
  CHECK(right == b.y);
  CHECK(inner == e.node->inputs[1].node);
  CHECK(!m::Match(e, m::Op("MatchOne", m::Any())));
  CHECK(!m::Match(e, m::Op("MatchTwo", m::Op("MatchOne", m::Any()), m::Any())));  // the other way
  CHECK(!m::Match(b.x, m::Op("MatchOne", m::Any())));                             // a variable
  CHECK(!m::Match(NodeEntry(), m::Any()));
}

TEST_CASE("commutative operators match in either order, the written one first") {
  Built b;
  NodeEntry a;
  const auto pattern = m::Either("MatchTwo", m::Any(&a), m::Op("MatchOne", m::Same(&a)));
  REQUIRE(m::Match(b.Two(b.x, b.One(b.x)), pattern));
  CHECK(a == b.x);
  REQUIRE(m::Match(b.Two(b.One(b.y), b.y), pattern));
  CHECK(a == b.y);
  CHECK(!m::Match(b.Two(b.x, b.One(b.y)), pattern));
  const NodeEntry both = b.Two(b.x, b.y);
  REQUIRE(m::Match(both, m::Either("MatchTwo", m::Any(&a), m::Any())));
  CHECK(a == b.x);
}

TEST_CASE("numbers are constants of one element, within a tolerance where one is given") {
  Built b;
  double v = 0;
  REQUIRE(m::Match(b.Number(0.5), m::Number(&v)));
  CHECK(v == 0.5);
  CHECK(m::Match(b.Number(0.5), m::Number(0.5)));
  CHECK(!m::Match(b.Number(0.5000001), m::Number(0.5)));
  CHECK(m::Match(b.Number(0.5000001), m::Number(0.5, 1e-6)));
  CHECK(!m::Match(b.Number(0.51), m::Number(0.5, 1e-6)));
  CHECK(m::Match(b.Number(0), m::Number(0.0)));
  CHECK(!m::Match(b.x, m::Number(&v)));
  CHECK(!m::Match(b.g.AddConstant(Tensor::Ints({1, 2})), m::Number(&v)));
  TensorPtr t;
  CHECK(m::Match(b.g.AddConstant(Tensor::Ints({1, 2})), m::Constant(&t)));
  CHECK(t->num_elements() == 2);
}

TEST_CASE("further operands must be absent, other outputs do not count, one of two will do") {
  Built b;
  const NodePtr n = b.g.AddNode("MatchMany", {b.x, NodeEntry(), b.y});
  CHECK(!m::Match(n, m::Op("MatchMany", m::Any())));
  CHECK(m::Match(n, m::Op("MatchMany", m::Any(), m::Absent(), m::Any())));
  CHECK(!m::Match(NodeEntry(n, 1), m::Op("MatchMany", m::Any(), m::Absent(), m::Any())));
  CHECK(m::Match(b.g.AddNode("MatchMany", {b.x}), m::Op("MatchMany", m::Any(), m::Absent())));
  const auto either = m::OneOf(m::Op("MatchOne", m::Any()), m::Op("MatchTwo", m::Any(), m::Any()));
  CHECK(m::Match(b.One(b.x), either));
  CHECK(m::Match(b.Two(b.x, b.y), either));
  CHECK(!m::Match(NodeEntry(n), either));
}

TEST_CASE("the only reader: one use, not an output, and nobody waits") {
  Built b;
  const NodeEntry a = b.One(b.x), r = b.One(a);
  b.g.outputs = {r};
  CHECK(OnlyReader(b.g, a.node) == r.node);
  CHECK(IsOnlyReadBy(b.g, a, r.node));
  CHECK(m::Match(a, m::Op("MatchOne", m::Any()).ReadOnlyBy(b.g, r.node)));
  CHECK(!OnlyReader(b.g, r.node));  // the graph reads it
  CHECK(IsRead(b.g, r));
  CHECK(!IsOnlyReadBy(b.g, b.x, a.node));  // a variable is no result
  const NodeEntry other = b.One(a);
  CHECK(!OnlyReader(b.g, a.node));
  b.g.Erase(other.node);
  CHECK(OnlyReader(b.g, a.node) == r.node);
  r.node->control_deps.push_back(b.Two(b.x, b.y).node);
  CHECK(!OnlyReader(b.g, a.node));
}

TEST_CASE("permutations are completed by the reverse order") {
  Graph g;
  const NodePtr x = g.AddInput("x");
  CHECK(IsIdentityPerm({0, 1, 2}));
  CHECK(IsIdentityPerm({}));
  CHECK(!IsIdentityPerm({1, 0}));
  const NodePtr plain = g.AddNode("MatchOne", {x});
  CHECK(TransposePerm(plain, 3) == Ints{2, 1, 0});
  const NodePtr given = g.AddNode("MatchOne", {x}, {{"perm", Ints{1, 0, 2}}});
  CHECK(TransposePerm(given, 3) == Ints{1, 0, 2});
}

TEST_CASE("entries are keys of tables, ordered as nodes and their outputs are") {
  Built b;
  const NodePtr n = b.g.AddNode("MatchMany", {b.x});
  const NodeEntry first(n, 0), second(n, 1);
  CHECK(first.key() < second.key());
  CHECK(b.x.key() < first.key());
  CHECK(NodeEntry().key() == EntryKey{});
  CHECK(!NodeEntry().key().present());
  CHECK(second.key() < NodeEntry().key());
  CHECK(std::hash<NodeEntry>()(first) == std::hash<NodeEntry>()(NodeEntry(n, 0)));
  CHECK(std::hash<NodeEntry>()(first) != std::hash<NodeEntry>()(second));
}

}  // namespace
}  // namespace weft
