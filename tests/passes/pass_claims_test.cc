/// pass_claims_test.cc: passes that lie. The manager has to notice and name the pass and the claim.
/// For every claim there are two liars, and honest passes that come close.
#include <doctest/doctest.h>

#include "tests/support/pass_samples.h"
#include "weft/core/graph/graph_attr.h"

namespace {

using namespace weft;
using e2e::Catch;
using e2e::Sample;
using e2e::Typed;

/// First node of that op.
NodePtr FindOp(const Graph& g, const std::string& op) {
  for (NodePtr n : g.TopoOrder())
    if (n->op() && n->op()->name == op) return n;
  return nullptr;
}

// ---- liars: provides ----

WEFT_REGISTER_PASS(LieProvidesNothing)
    .describe("provides nothing")
    .set_body([](Graph g) { return g; })
    .set_change_graph(false)
    .provide_graph_attr("lie_a")
    .preserve_all();

WEFT_REGISTER_PASS(LieProvidesOneOfTwo)
    .describe("provides one of two")
    .set_body([](Graph g) {
      g.attrs["lie_b"] = std::make_shared<std::any>(1);
      return g;
    })
    .set_change_graph(false)
    .provide_graph_attr("lie_b")
    .provide_graph_attr("lie_c")
    .preserve_all();

WEFT_REGISTER_PASS(HonestProvides)
    .describe("provides both")
    .set_body([](Graph g) {
      g.attrs["truth_b"] = std::make_shared<std::any>(1);
      g.attrs["truth_c"] = std::make_shared<std::any>(2);
      return g;
    })
    .set_change_graph(false)
    .provide_graph_attr("truth_b")
    .provide_graph_attr("truth_c")
    .preserve_all();

// ---- liars: preserves ----

WEFT_REGISTER_PASS(LiePreservesShape)
    .describe("moves a Reshape to another target")
    .set_body([](Graph g) {
      NodePtr r = FindOp(g, "Reshape");
      g.SetInput(r, 1, g.AddConstant(Tensor::Ints({6, 2})));
      return g;
    })
    .preserve_graph_attr("shape");

WEFT_REGISTER_PASS(LiePreservesType)
    .describe("changes what a Cast casts to")
    .set_body([](Graph g) {
      g.SetAttr(FindOp(g, "Cast"), "to", DType::kF64);
      return g;
    })
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("shape");

WEFT_REGISTER_PASS(HonestPreserves)
    .describe("replaces a Tanh by a Sigmoid")
    .set_body([](Graph g) {
      NodePtr t = FindOp(g, "Tanh");
      g.ReplaceUses(NodeEntry(t), NodeEntry(g.AddNode("Sigmoid", {t->inputs[0]})));
      g.EraseDead();
      return g;
    })
    .result(PassResult::kDiffers);

WEFT_REGISTER_PASS(LieScales).describe("the first output times 1.002").set_body([](Graph g) {
  g.outputs.set(
      0, NodeEntry(g.AddNode(
             "Mul", {g.outputs[0], g.AddConstant(Tensor::FromDoubles(DType::kF32, {}, {1.002}))})));
  return g;
});

// ---- liars: does not change the graph ----

WEFT_REGISTER_PASS(LieUnchangedAdds)
    .describe("adds a node")
    .set_body([](Graph g) {
      g.outputs.set(0, NodeEntry(g.AddNode("Neg", {g.outputs[0]})));
      return g;
    })
    .set_change_graph(false);

WEFT_REGISTER_PASS(LieUnchangedRenames)
    .describe("renames an output")
    .set_body([](Graph g) {
      g.SetOutputName(0, "another");
      return g;
    })
    .set_change_graph(false);

// ---- liars: deterministic ----

WEFT_REGISTER_PASS(LieCounterNames)
    .describe("names from a counter of the process")
    .set_body([](Graph g) {
      static int counter = 0;
      g.outputs.set(
          0, NodeEntry(g.AddNode("Identity", {g.outputs[0]}, {}, "n" + std::to_string(counter++))));
      return g;
    });

WEFT_REGISTER_PASS(LieFlipsAttribute)
    .describe("another attribute each time")
    .set_body([](Graph g) {
      static bool flip = false;
      flip = !flip;
      g.outputs.set(0, NodeEntry(g.AddNode("Elu", {g.outputs[0]}, {{"alpha", flip ? 1.0 : 1.5}})));
      return g;
    })
    .result(PassResult::kDiffers);

// ---- liars: computes the same ----

WEFT_REGISTER_PASS(LieSwapsOperands).describe("swaps the operands of Sub").set_body([](Graph g) {
  NodePtr s = FindOp(g, "Sub");
  const NodeEntry a = s->inputs[0], b = s->inputs[1];
  g.SetInput(s, 0, b);
  g.SetInput(s, 1, a);
  return g;
});

WEFT_REGISTER_PASS(LieDropsOutput).describe("drops the last output").set_body([](Graph g) {
  std::vector<NodeEntry> outputs = g.outputs;
  outputs.pop_back();
  g.outputs = outputs;
  return g;
});

WEFT_REGISTER_PASS(LieChangesType).describe("gives the result as f64").set_body([](Graph g) {
  g.outputs.set(0, NodeEntry(g.AddNode("Cast", {g.outputs[0]}, {{"to", DType::kF64}})));
  return g;
});

WEFT_REGISTER_PASS(HonestAppends)
    .describe("appends an output")
    .set_body([](Graph g) {
      g.outputs.push_back(NodeEntry(g.AddNode("Neg", {g.outputs[0]})));
      return g;
    })
    .result(PassResult::kAppends);

PassOptions With(void (*set)(Checks&)) {
  PassOptions o;
  set(o.checks);
  return o;
}

/// The pass is caught by that check, and not when the check is off.
void CheckCaught(const Graph& g, const std::string& pass, void (*set)(Checks&),
                 const std::string& claim) {
  CAPTURE(pass);
  const auto caught = Catch([&] { ApplyPass(g, pass, With(set)); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kCheckFailed);
  CAPTURE(caught->text);
  CHECK(caught->says("'" + pass + "'"));
  CHECK(caught->says(claim));
}
void Preserved(Checks& c) { c.preserved = true; }
void Changed(Checks& c) { c.changed = true; }
void Deterministic(Checks& c) { c.deterministic = true; }
void Equivalent(Checks& c) { c.equivalent = true; }
void Nothing(Checks&) {}
void Everything(Checks& c) { c = Checks::All(); }

}  // namespace

TEST_CASE("claims: provides") {
  CheckCaught(Sample(), "LieProvidesNothing", Nothing, "to provide 'lie_a'");
  CheckCaught(Sample(), "LieProvidesOneOfTwo", Nothing, "to provide 'lie_c'");
  CHECK_NOTHROW(ApplyPass(Sample(), "HonestProvides", With(Everything)));
}

TEST_CASE("claims: preserves") {
  CheckCaught(Typed(), "LiePreservesShape", Preserved, "to preserve 'shape'");
  CheckCaught(Typed(), "LiePreservesType", Preserved, "to preserve 'dtype'");
  CHECK_NOTHROW(ApplyPass(Typed(), "HonestPreserves", With(Everything)));
  // Unchecked, the lie goes through: checks are what finds it.
  CHECK_NOTHROW(ApplyPass(Typed(), "LiePreservesShape"));
}

TEST_CASE("claims: does not change the graph") {
  CheckCaught(Sample(), "LieUnchangedAdds", Changed, "not to change the graph");
  CheckCaught(Sample(), "LieUnchangedRenames", Changed, "not to change the graph");
}

TEST_CASE("claims: deterministic") {
  CheckCaught(Sample(), "LieCounterNames", Deterministic, "to be deterministic");
  CheckCaught(Sample(), "LieFlipsAttribute", Deterministic, "to be deterministic");
}

TEST_CASE("claims: computes the same") {
  CheckCaught(Sample(), "LieSwapsOperands", Equivalent, "to compute the same");
  CheckCaught(Sample(), "LieDropsOutput", Equivalent, "to keep the outputs");
  CheckCaught(Sample(), "LieChangesType", Equivalent, "to compute the same");
  CHECK_NOTHROW(ApplyPass(Sample(), "HonestAppends", With(Everything)));
}

TEST_CASE("claims: computes the same, to the precision of what it is computed from") {
  // The folded offset is added before the product rounds to bf16, and the result
  // is compared in f32.
  const Graph g = ApplyPasses(e2e::FromText(R"(
graph (%x: bf16[2, 2, 9], %z: f32[5]) -> (%s, %y) {
  %w = Constant() {value = tensor bf16[3, 2, 1] [0.3, -0.7, 0.9, 0.2, -0.4, 0.6]}
  %t = Constant() {value = tensor bf16[3, 1] [0.97, -0.65, 0.53]}
  %c = Conv(%x, %w)
  %b = Add(%c, %t)
  %y = Cast(%b) {to = f32}
  %s = Neg(%z)
})"),
                              {"InferType", "InferShape"});
  Graph folded;
  CHECK_NOTHROW(folded = ApplyPass(g, "FoldBatchNorm", With(Equivalent)));
  CHECK(folded.num_nodes() < g.num_nodes());
  // The other output is f32 throughout.
  CheckCaught(g, "LieScales", Equivalent, "output 's' differs on random inputs");
}
