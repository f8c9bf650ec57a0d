// Shapes of a graph under construction, as lifts see them.
#include "shape_tracker.h"

#include "onnx/proto/onnx_test_util.h"
#include "weft/core/op/op.h"

namespace weft::onnx_import {
namespace {

struct Tracked {
  Graph graph;
  TypeTracker types;
  ShapeTracker shapes{&types};
};

TEST_CASE("shapes are inferred through arithmetic on extents, on demand") {
  if (!Op::Find("Reshape")) return;
  Tracked t;
  const NodeEntry x(t.graph.AddInput("x", DType::kF32, Shape::Parse("[batch, 6, 4]")));
  const auto ints = [&](std::vector<int64_t> v) {
    return NodeEntry(
        t.graph.AddNode(Op::Get("Constant"), {}, {{"value", Tensor::Ints(std::move(v))}}));
  };
  const auto add = [&](const char* op, std::vector<NodeEntry> in, AttrDict attrs = {}) {
    return NodeEntry(t.graph.AddNode(Op::Get(op), in, std::move(attrs)));
  };
  const NodeEntry rows = add("Shape", {x}, {{"start", 0}, {"end", 1}});
  const NodeEntry target = add("Concat", {rows, ints({3, -1})}, {{"axis", 0}});
  const NodeEntry y = add("Reshape", {x, target});
  CHECK(t.shapes.Of(y).ToString() == "[batch, 3, 8]");
  // What is made later is inferred when it is asked for.
  CHECK(t.shapes.Of(add("Transpose", {y}, {{"perm", Ints{2, 0, 1}}})).ToString() ==
        "[8, batch, 3]");
  CHECK(!t.shapes.Of(NodeEntry()).has_rank());
}

TEST_CASE("what does not fit is unknown here, and the pass says it") {
  if (!Op::Find("Add")) return;
  Tracked t;
  const NodeEntry a(t.graph.AddInput("a", DType::kF32, Shape::Parse("[2, 3]")));
  const NodeEntry b(t.graph.AddInput("b", DType::kF32, Shape::Parse("[2, 4]")));
  const NodeEntry free(t.graph.AddInput("free", DType::kF32));
  const NodeEntry sum(t.graph.AddNode(Op::Get("Add"), {a, b}));
  const NodeEntry open(t.graph.AddNode(Op::Get("Relu"), {free}));
  CHECK(!t.shapes.Of(sum).has_rank());
  CHECK(!t.shapes.Of(open).has_rank());
}

TEST_CASE("a chain as deep as a model needs no stack") {
  if (!Op::Find("Relu")) return;
  Tracked t;
  NodeEntry x(t.graph.AddInput("x", DType::kF32, Shape::Parse("[n, 2]")));
  for (int i = 0; i < 100'000; ++i) x = NodeEntry(t.graph.AddNode(Op::Get("Relu"), {x}));
  CHECK(t.shapes.Of(x).ToString() == "[n, 2]");
}

TEST_CASE("bodies know the ranks of what they take from around them") {
  if (!Op::Find("If")) return;
  const Graph g = ImportText(
      R"(g (bool c, float[b, s, 8] x, float[b, s, 2] cos) => (y) {
        z = Identity(x)
        y = If (c) <then_branch = t () => (r) { r = RotaryEmbedding<num_heads = 2>(z, cos, cos) },
                    else_branch = e () => (r) { r = Identity(z) }>
      })",
      23);
  CHECK(OpsOf(g) == std::vector<std::string>{"Identity", "If"});
}

}  // namespace
}  // namespace weft::onnx_import
