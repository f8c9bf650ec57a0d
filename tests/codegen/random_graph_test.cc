/// random_graph_test.cc: the random graphs themselves: the same for a seed, and with what the
/// differential test is to see in them.
#include "tests/support/random/random_graph.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/support/e2e_util.h"
#include "weft/core/op/op.h"

using namespace weft;
using fuzz::RandomGraph;

TEST_CASE("random graphs: a seed gives one graph") {
  for (uint64_t seed : {1, 77, 4242}) {
    const RandomGraph a = fuzz::MakeRandomGraph(seed), b = fuzz::MakeRandomGraph(seed);
    CHECK(PrintGraph(a.graph) == PrintGraph(b.graph));
    const auto x = fuzz::MakeInputs(a, 0), y = fuzz::MakeInputs(b, 0);
    for (size_t i = 0; i < x.size(); ++i) CHECK(x[i]->Equals(*y[i]));
  }
}

TEST_CASE("random graphs: they hold what they are meant to") {
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= 1200; seed += 2) {
    const Graph g = fuzz::MakeRandomGraph(seed).graph;
    bool foldable = false;
    for (NodePtr n : g.TopoOrder()) {
      if (n->is_variable()) continue;
      const std::string& op = n->op()->name;
      ++seen[op];
      for (const auto& [name, value] : n->attrs.dict) ++seen[op + "." + name];
      // An operand at the end that is absent is not kept.
      bool absent = int(n->num_inputs()) < n->op()->max_inputs;
      for (const NodeEntry& e : n->inputs) absent |= !e.node;
      seen[op + " without an operand"] += absent;
      foldable |= op == "BatchNormalization";
    }
    if (!foldable) continue;
    const Graph before = ApplyPasses(g, {"InferType", "InferShape"});
    seen["folded"] += ApplyPass(before, "FoldBatchNorm").num_nodes() != before.num_nodes();
  }
  for (const char* what : {"Conv",
                           "Conv.group",
                           "Conv.strides",
                           "Conv.dilations",
                           "Conv.pads",
                           "Conv.auto_pad",
                           "Conv without an operand",
                           "ConvTranspose",
                           "ConvTranspose.group",
                           "ConvTranspose.output_padding",
                           "MaxPool",
                           "MaxPool.ceil_mode",
                           "MaxPool.dilations",
                           "MaxPool.storage_order",
                           "AveragePool",
                           "AveragePool.count_include_pad",
                           "AveragePool.ceil_mode",
                           "LpPool",
                           "GlobalMaxPool",
                           "GlobalAveragePool",
                           "GlobalLpPool",
                           "Resize",
                           "Resize.axes",
                           "Resize.nearest_mode",
                           "Resize.antialias",
                           "Resize.keep_aspect_ratio_policy",
                           "BatchNormalization",
                           "BatchNormalization.training_mode",
                           "InstanceNormalization",
                           "LRN",
                           "Pad",
                           "Pad without an operand",
                           "Slice without an operand",
                           "Clip without an operand",
                           "Tile",
                           "DepthToSpace",
                           "SpaceToDepth",
                           "Gemm",
                           "Gemm without an operand",
                           "folded"}) {
    CAPTURE(std::string(what));
    CHECK(seen[what] >= 5);
  }
  for (const auto& [what, count] : seen)
    if (std::getenv("WEFT_FUZZ_VERBOSE")) MESSAGE(what << ": " << count);
}
