/// division_costs_test.cc: rows of profiles on nodes, and borders from times of divisions.
#include "division_costs.h"

#include <doctest/doctest.h>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {
namespace {

ProfileRow RowOf(const std::string& name, const std::string& kind, double us) {
  ProfileRow r;
  r.name = name, r.kind = kind, r.duration = us;
  return r;
}

// Operators of the tree are in rooms above.
WEFT_REGISTER_OP(CostsProduct)
    .set_num_inputs(2)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor);
WEFT_REGISTER_OP(CostsUnary).set_num_inputs(1);

struct Fixture {
  Graph g;
  std::vector<NodePtr> nodes;
  Fixture() {
    const NodePtr a = g.AddNode("CostsProduct", {g.AddInput("x"), g.AddInput("w")}, {}, "a");
    const NodePtr b = g.AddNode("CostsUnary", {a}, {}, "b"),
                  c = g.AddNode("CostsUnary", {b}, {}, "c");
    g.outputs = {c};
    nodes = {a, b, c};
  }
};

TEST_CASE("a row is shared by the nodes that it stands for, most to the one with the arithmetic") {
  const Fixture f;
  NodeCosts ours(f.nodes);
  ours.AddOurs({RowOf("a, b", "kernel", 21), RowOf("c", "kernel", 5)});
  CHECK(ours[0] == doctest::Approx(20));
  CHECK(ours[1] == doctest::Approx(1));
  CHECK(ours[2] == doctest::Approx(5));
}

TEST_CASE("an engine's rows count once; what they leave of a region goes by what nodes cost here") {
  const Fixture f;
  NodeCosts ours(f.nodes), theirs(f.nodes);
  ours.AddOurs({RowOf("a", "kernel", 30), RowOf("b", "kernel", 10), RowOf("c", "kernel", 7)});
  theirs.AddTheirs({RowOf("a, b", "delegate", 5), RowOf("a/WithoutBiases", "engine", 12),
                    RowOf("reorder", "engine", 3), RowOf("c", "kernel", 7)},
                   ours);
  CHECK(theirs[0] == doctest::Approx(12 + 8 * 0.75));
  CHECK(theirs[1] == doctest::Approx(8 * 0.25));
  CHECK(theirs[0] + theirs[1] == doctest::Approx(20));
  CHECK(theirs[2] < 0);  // not theirs
  NodeCosts fused(f.nodes);
  fused.AddTheirs({RowOf("a, b", "delegate", 0), RowOf("a, b", "engine", 21)}, ours);
  CHECK(fused[0] == doctest::Approx(20));
  CHECK(fused[1] == doctest::Approx(1));
  theirs.Scale(0.5);
  CHECK(theirs[1] == doctest::Approx(1));
}

TEST_CASE("borders: what made the times is found again") {
  const auto sample = [](double nodes, double tensors, double mib, double us) {
    return DivisionSample{nodes, tensors, mib * (1 << 20), us};
  };
  const BorderCosts both = FitBorders(
      {sample(1000, 4, 2, 1000 + 4 * 15 + 2 * 60), sample(1100, 30, 9, 1100 + 30 * 15 + 9 * 60)});
  CHECK(both.tensor_us == doctest::Approx(15));
  CHECK(both.mib_us == doctest::Approx(60));
  CHECK(both.Of(sample(0, 10, 1, 0)) == doctest::Approx(210));
  // Faster than its nodes: borders cost nothing, and never less.
  const BorderCosts none = FitBorders({sample(1000, 4, 2, 900), sample(1000, 8, 3, 800)});
  CHECK(none.tensor_us == 0);
  CHECK(none.mib_us == 0);
  // Nothing crosses.
  CHECK(FitBorders({sample(1000, 0, 0, 1100)}).Of(sample(0, 3, 3, 0)) == 0);
  CHECK(FitBorders({}).Of(sample(0, 3, 3, 0)) == 0);
  // As many bytes as tensors, by one factor: one of the two explains all.
  const BorderCosts one = FitBorders({sample(100, 1, 1, 110), sample(100, 2, 2, 120)});
  CHECK(one.Of(sample(0, 4, 4, 0)) == doctest::Approx(40));
}

}  // namespace
}  // namespace weft
