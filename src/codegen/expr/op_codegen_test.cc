#include "weft/codegen/expr/op_codegen.h"

#include <doctest/doctest.h>

#include "weft/codegen/interp/interpreter.h"
#include "weft/core/op/op.h"
#include "weft/support/error.h"

namespace weft {
namespace {

// Small ops of this test's own, in domain `codegentest`.
WEFT_REGISTER_OP_IN(codegentest, Add)
    .set_num_inputs(2)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const Exprs& x) -> Exprs { return {x[0] + x[1]}; });
WEFT_REGISTER_OP_IN(codegentest, Twice)
    .set_num_inputs(1)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const Exprs& x) -> Exprs { return {x[0] * 2.0}; });
WEFT_REGISTER_OP_IN(codegentest, Zero)
    .set_num_inputs(1)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const Exprs&) -> Exprs { return {Expr::Literal(0)}; });
WEFT_REGISTER_OP_IN(codegentest, WrongType)
    .set_num_inputs(1)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const Exprs&) -> Exprs { return {Expr::Int(0)}; });
WEFT_REGISTER_OP_IN(codegentest, Swap)
    .set_num_inputs(1)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& x,
                           const OutputAt& at) -> Exprs {
                          return {x[0]({at(0)[1], at(0)[0]})};
                        });
WEFT_REGISTER_OP_IN(codegentest, SumDiff)
    .set_num_inputs(2)
    .set_num_outputs(2)
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const Exprs& x) -> Exprs {
      return {x[0] + x[1], x[0] - x[1]};
    });
/// Rows from a starting row on that is a value known to shape inference.
WEFT_REGISTER_OP_IN(codegentest, From)
    .set_num_inputs(2)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& x,
                           const OutputAt& at) -> Exprs {
                          return {x[0]({at(0)[0] + Expr::Dim(x[1].value->elements[0]), at(0)[1]})};
                        });
WEFT_REGISTER_OP_IN(codegentest, NoCode).set_num_inputs(1);
WEFT_REGISTER_OP_IN(codegentest, NoCodeEither).set_num_inputs(1);

/// A graph whose types are set by hand, as inference would.
struct Builder {
  Graph g;
  ShapeMap shapes;
  TypeMap types;
  NodeEntry Typed(NodeEntry e, Shape s, DType t = DType::kF32) {
    shapes.set(e, std::move(s));
    types.set(e, Type(t));
    return e;
  }
  NodeEntry Input(const char* name, Shape s, DType t = DType::kF32) {
    return Typed({g.AddInput(name, Type(t), s), 0}, s, t);
  }
  NodeEntry Op(const char* op, const std::vector<NodeEntry>& in, Shape s, DType t = DType::kF32) {
    const NodePtr n = g.AddNode(std::string("codegentest::") + op, in);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) Typed({n, k}, s, t);
    return {n, 0};
  }
  NodeEntry Param(TensorPtr value) {
    const Shape s = value->shape();
    const DType t = value->dtype();
    return Typed({g.AddParam("p", std::move(value)), 0}, s, t);
  }
  Graph Done(const std::vector<NodeEntry>& outputs) {
    g.outputs = outputs;
    g.SetAttr("shape", shapes);
    g.SetAttr("dtype", types);
    return std::move(g);
  }
};
TensorPtr Counting(std::vector<int64_t> dims) {
  std::vector<double> v(size_t(NumElements(dims)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = double(i);
  return Tensor::FromDoubles(DType::kF32, dims, v);
}

TEST_CASE("a chain of 2000 element-wise ops expands without recursion, each op once") {
  Builder b;
  const NodeEntry x = b.Input("x", {4, 3});
  NodeEntry y = x;
  for (int k = 0; k < 2000; ++k) y = b.Op("Add", {y, x}, {4, 3});
  const ComputeSpec spec = ExpandBody(b.Done({y}));
  CHECK(PostOrder(spec.values).size() < 2100);
  CHECK(Interpret(spec, {Counting({4, 3})}, {})[0]->at(5) == 5 * 2001);
}

TEST_CASE("a diamond of data movement stays linear") {
  Builder b;
  NodeEntry y = b.Input("x", {3, 3});
  for (int k = 0; k < 40; ++k)
    y = b.Op("Add", {b.Op("Swap", {y}, {3, 3}), y}, {3, 3});  // 2^40 paths
  const ComputeSpec spec = ExpandBody(b.Done({y}));
  CHECK(PostOrder(spec.values).size() < 500);
}

TEST_CASE("broadcasting is right-aligned") {
  Builder b;
  const NodeEntry x = b.Input("x", {2, 3}), bias = b.Input("bias", {3}),
                  column = b.Input("column", {2, 1});
  const ComputeSpec spec =
      ExpandBody(b.Done({b.Op("Add", {b.Op("Add", {x, bias}, {2, 3}), column}, {2, 3})}));
  const TensorPtr y = Interpret(spec, {Counting({2, 3}), Counting({3}), Counting({2, 1})}, {})[0];
  const double want[] = {0, 2, 4, 4, 6, 8};
  for (int i = 0; i < 6; ++i) CHECK(y->at(i) == want[i]);
}

TEST_CASE("broadcast index") {
  const Expr i = Expr::Index(0);
  const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");
  CHECK(BroadcastIndex(1, 5, i) == Expr::Int(0));
  CHECK(BroadcastIndex(5, 5, i) == i);
  CHECK(BroadcastIndex(n, n, i) == i);
  CHECK(BroadcastIndex(5, n, i) == i);
  CHECK(BroadcastIndex(n, Bcast(n, m), i)->kind() == ExprKind::kSelect);
}

TEST_CASE(
    "scalar constants become literals of their dtype, vectors selects, larger ones an error") {
  Builder b;
  const NodeEntry x = b.Input("x", {3});
  const NodeEntry c = b.Param(Tensor::Scalar(DType::kF32, 0.1)), v = b.Param(Counting({3}));
  const NodeEntry y = b.Op("Add", {b.Op("Add", {x, c}, {3}), v}, {3});
  const ComputeSpec spec = ExpandBody(b.Done({y}));
  CHECK(spec.inputs.size() == 1);
  const TensorPtr out = Interpret(spec, {Counting({3})}, {})[0];
  for (int i = 0; i < 3; ++i) CHECK(out->at(i) == double(float(float(i) + 0.1f) + float(i)));

  Builder large;
  const NodeEntry big = large.Param(Counting({100}));
  const NodeEntry z = large.Op("Twice", {big}, {100});
  CHECK_THROWS_AS(ExpandBody(large.Done({z})), UserError);
}

TEST_CASE("followed values reach the op") {
  Builder b;
  const NodeEntry x = b.Input("x", {5, 2}), start = b.Param(Tensor::Ints({2}));
  const Graph g = b.Done({b.Op("From", {x, start}, {3, 2})});
  CHECK(Interpret(ExpandBody(g), {Counting({5, 2})}, {})[0]->at(0) == 4);
  // Single: the constant keeps its slot.
  const ComputeSpec single = ExpandSingle(g, g.outputs[0].node);
  CHECK(single.inputs.size() == 2);
  CHECK(Interpret(single, {Counting({5, 2}), Tensor::Ints({2})}, {})[0]->at(0) == 4);
}

TEST_CASE("several outputs, literals and wrong types") {
  Builder b;
  const NodeEntry x = b.Input("x", {4}), y = b.Input("y", {4});
  const NodeEntry s = b.Op("SumDiff", {x, y}, {4});
  const NodeEntry zero = b.Op("Zero", {x}, {4}, DType::kI8);
  const ComputeSpec spec = ExpandBody(b.Done({s, {s.node, 1}, zero}));
  CHECK(spec.values[0]->bin_op() == BinOp::kAdd);
  CHECK(spec.values[1]->bin_op() == BinOp::kSub);
  CHECK(spec.values[2] == Expr::ConstInt(DType::kI8, 0));

  Builder wrong;
  const NodeEntry in = wrong.Input("x", {4});
  const NodeEntry w = wrong.Op("WrongType", {in}, {4});
  try {
    ExpandBody(wrong.Done({w}));
    CHECK(false);
  } catch (const InternalError& e) {
    CHECK(e.message().find("codegentest::WrongType") != std::string::npos);
  }
}

TEST_CASE("all ops without code are named at once") {
  Builder b;
  const NodeEntry x = b.Input("x", {4});
  const NodeEntry y = b.Op("NoCodeEither", {b.Op("NoCode", {x}, {4})}, {4});
  try {
    ExpandBody(b.Done({y}));
    CHECK(false);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissingOpAttr);
    CHECK(e.message().find("codegentest::NoCode,") != std::string::npos);
    CHECK(e.message().find("codegentest::NoCodeEither") != std::string::npos);
  }
}

TEST_CASE("linear offsets and back") {
  const SymInt n = SymInt::Symbol("n");
  const std::vector<SymInt> dims{2, 1, n, 4};
  const Indices at{Expr::Index(0), Expr::Index(1), Expr::Index(2), Expr::Index(3)};
  const Indices back = Delinearize(Linearize(at, dims), dims);
  CHECK(back[1] == Expr::Int(0));
  CHECK(Linearize({}, {}) == Expr::Int(0));
  CHECK(SimplifyIndex(back[2], dims, Facts()) == Expr::Index(2));
  CHECK(SimplifyIndex(back[0], dims, Facts()) == Expr::Index(0));
}

}  // namespace
}  // namespace weft
