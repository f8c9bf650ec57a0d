/// typed_edit_test.cc: what an edit keeps and gives, what it leaves to others, and where rows go.
#include "weft/core/graph/typed_edit.h"

#include <doctest/doctest.h>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

// The operators that edits make are registered above this room.
WEFT_REGISTER_OP(Constant).set_num_inputs(0);
WEFT_REGISTER_OP_IN(weft, ShapeTensor).set_num_inputs(0);
WEFT_REGISTER_GRAPH_ATTR(edit_mark, kDerived, EntryMap<int>);
WEFT_REGISTER_OP(EditNeg).set_num_inputs(1);
WEFT_REGISTER_OP(EditAbs).set_num_inputs(1);
WEFT_REGISTER_OP(EditSplit).set_num_inputs(1).set_num_outputs(2);

/// x -> a -> b, with types, shapes.
struct Typed {
  Graph g;
  NodePtr x, a, b;
  Typed() {
    x = g.AddInput("x", DType::kF32, Shape{4});
    a = g.AddNode("EditNeg", {x}, {}, "a");
    b = g.AddNode("EditNeg", {a}, {}, "b");
    g.outputs = {b};
    ShapeMap shapes;
    TypeMap types;
    for (const NodePtr& n : {x, a, b}) {
      shapes.set(NodeEntry(n), Shape{4});
      types.set(NodeEntry(n), Type(DType::kF32));
    }
    g.SetAttr("shape", shapes);
    g.SetAttr("dtype", types);
  }
};

TEST_CASE("an edit keeps the rows of what stays, and gives a replacement those of the replaced") {
  Typed t;
  NodeEntry made;
  {
    TypedEdit edit(t.g);
    CHECK(edit.shape(NodeEntry(t.a)).same(Shape{4}));
    CHECK(edit.dtype(NodeEntry(t.a)) == DType::kF32);
    CHECK(!bool(edit.value(NodeEntry(t.a))));
    made = NodeEntry(t.g.AddNode("EditAbs", {NodeEntry(t.x)}, {}, "c"));
    edit.Replace(t.a, {made});
    CHECK(edit.shape(made).same(Shape{4}));
  }
  REQUIRE(t.g.IsComplete("shape"));
  REQUIRE(t.g.IsComplete("dtype"));
  CHECK(t.g.GetAttr<ShapeMap>("shape")[made].same(Shape{4}));
  CHECK(t.g.GetAttr<TypeMap>("dtype")[made] == Type(DType::kF32));
  // Behind the replacement nothing has changed.
  CHECK(t.g.GetAttr<ShapeMap>("shape")[NodeEntry(t.b)].same(Shape{4}));
  CHECK(t.b->inputs[0] == made);
}

TEST_CASE("what a replacement has rows of already stays") {
  Typed t;
  TypedEdit edit(t.g);
  const NodeEntry cast =
      edit.Add("EditAbs", {NodeEntry(t.x)}, {}, {Shape{4}, Type(DType::kI32), nullptr});
  edit.Replace(t.a, {cast});
  CHECK(edit.dtype(cast) == DType::kI32);
}

TEST_CASE("an edit gives no graph an attribute that it did not have") {
  Typed t;
  t.g.DropAttr("dtype");
  {
    TypedEdit edit(t.g);
    edit.Add("EditAbs", {NodeEntry(t.x)}, {}, NodeEntry(t.a));
  }
  CHECK(t.g.HasAttr("shape"));
  CHECK(!t.g.HasAttr("dtype"));  // a pass that needs types still has them inferred
  CHECK(!t.g.HasAttr("value"));
}

TEST_CASE("a body that is being made gets the rows of what its entries stand for") {
  Typed t;
  TypedEdit edit(t.g);
  Graph body;
  TypedEdit inner(body);
  const NodeEntry in(body.AddInput("in"));
  inner.KnowAs(in, edit, NodeEntry(t.x));
  const NodeEntry out = inner.Add("EditNeg", {in}, {}, in);
  body.outputs = {out};
  inner.Finish();
  CHECK(body.GetAttr<ShapeMap>("shape")[out].same(Shape{4}));
  CHECK(body.GetAttr<TypeMap>("dtype")[in] == Type(DType::kF32));
  CHECK(body.HasAttr("value"));
}

TEST_CASE("constants, parameters and vectors of extents know what they are") {
  Typed t;
  TypedEdit edit(t.g);
  const NodeEntry c = edit.AddConstant(Tensor::Ints({1, 2, 3}));
  CHECK(edit.shape(c).same(Shape{3}));
  CHECK(edit.dtype(c) == DType::kI64);
  const NodeEntry p = edit.AddParam("w", std::make_shared<Tensor>(DType::kF16, Ints{2, 5}));
  CHECK(p.node->is_variable());
  CHECK(edit.shape(p).same(Shape{2, 5}));
  CHECK(edit.dtype(p) == DType::kF16);
  const SymInt n = SymInt::Symbol("n");
  const NodeEntry fixed = edit.AddExtents(Shape{2, 3}), open = edit.AddExtents(Shape{n, SymInt(3)});
  CHECK(bool(Graph::ConstantOf(fixed)));
  CHECK(!bool(Graph::ConstantOf(open)));
  REQUIRE(bool(edit.value(open)));
  CHECK(edit.value(open)->elements[0].same(n));
}

TEST_CASE("claimed rows of other attributes go to the replacement, unclaimed ones do not") {
  for (const bool claimed : {true, false}) {
    Typed t;
    EntryMap<int> marks;
    marks.set(NodeEntry(t.a), 7);
    t.g.SetAttr("edit_mark", marks);
    PassBuilder builder(claimed ? "EditClaims" : "EditClaimsNot",
                        {"test", "typed_edit_test.cc", 1});
    NodeEntry made;
    builder.set_body([&](Graph g, PassContext&) {
      {
        const NodePtr a = g.outputs[0].node->inputs[0].node;
        TypedEdit edit(g);
        made = edit.Add("EditAbs", {a->inputs[0]}, {}, NodeEntry(a));
        edit.Replace(a, {made});
      }
      return g;
    });
    builder.preserve_graph_attr("shape").preserve_graph_attr("dtype");
    if (claimed) builder.preserve_graph_attr("edit_mark");
    builder.Commit();
    const Graph out = ApplyPass(t.g, claimed ? "EditClaims" : "EditClaimsNot");
    const auto rows = out.AttrOr<EntryMap<int>>("edit_mark");
    const NodeEntry now(out.outputs[0].node->inputs[0]);
    CHECK((rows[now] == 7) == claimed);
  }
}

}  // namespace
}  // namespace weft
