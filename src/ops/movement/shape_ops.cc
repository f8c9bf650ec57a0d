/// shape_ops.cc: Shape, Size, ConstantOfShape and weft::ShapeTensor: ops that turn extents into
/// values and back.
///
/// Their values are known wherever the extents are (as integers or expressions); they hold no data
/// of x, so a gradient that needs only the shape of x takes Shape(x) and does not keep x alive.
#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ShapeParam : OpParam<ShapeParam> {
  int64_t start, end;
  WEFT_OP_PARAM(ShapeParam) {
    WEFT_FIELD(start).set_default(0).describe(
        "first axis; negative counts from the end; clamped to [0, rank]");
    WEFT_FIELD(end).set_default(INT64_MAX).describe(
        "one past the last axis; negative counts from the end; clamped");
  }
};
WEFT_REGISTER_OP_PARAM(ShapeParam);

struct ConstantOfShapeParam : OpParam<ConstantOfShapeParam> {
  TensorAttr value;
  WEFT_OP_PARAM(ConstantOfShapeParam) {
    WEFT_FIELD(value).set_default({}).describe(
        "one element: value and dtype of the result; default f32 0");
  }
};
WEFT_REGISTER_OP_PARAM(ConstantOfShapeParam);

struct ShapeTensorParam : OpParam<ShapeTensorParam> {
  Shape dims;
  WEFT_OP_PARAM(ShapeTensorParam) {
    WEFT_FIELD(dims).describe("dimensions, integers or expressions over the graph's symbols");
  }
};
WEFT_REGISTER_OP_PARAM(ShapeTensorParam);

/// The vector `dims` at run-time position i.
Expr VectorAt(const std::vector<SymInt>& dims, const Expr& i) {
  if (dims.empty()) return Expr::Int(0);  // not asked for
  Expr e = Expr::Dim(dims.back());
  for (size_t k = dims.size() - 1; k-- > 0;)
    e = Expr::Select(Eq(i, Expr::Int(int64_t(k))), Expr::Dim(dims[k]), e);
  return e;
}

std::vector<SymInt> ShapeRange(const NodePtr& n, const Shape& x) {
  const auto& p = ParamOf<ShapeParam>(n);
  const int64_t rank = x.rank();
  auto clamp = [rank](int64_t v) {
    return std::min(std::max<int64_t>(v < 0 ? v + rank : v, 0), rank);
  };
  const int64_t start = clamp(p.start), end = std::max(clamp(p.end), start);
  return std::vector<SymInt>(x.dims().begin() + start, x.dims().begin() + end);
}

void I64Result(InferTypeContext& ctx) { ctx.set_out(0, DType::kI64); }

void ShapeShape(InferShapeContext& ctx) {
  if (!ctx.in(0).has_rank()) {
    ctx.set_out(0, Shape::OfRank(1));
    return Unknown(ctx, 0, "the rank of x is unknown");
  }
  const std::vector<SymInt> dims = ShapeRange(ctx.node(), ctx.in(0));
  const Shape out({SymInt(int64_t(dims.size()))});
  ctx.set_out(0, out);
  SetValue(ctx, 0, out, [&](int64_t i) { return dims[size_t(i)]; });
}
void SizeShape(InferShapeContext& ctx) {
  ctx.set_out(0, Shape::Scalar());
  const SymInt n = ctx.in(0).num_elements();
  SetValue(ctx, 0, Shape::Scalar(), [&](int64_t) { return n; });
}

TensorPtr FillOf(const NodePtr& n) {
  const TensorPtr& t = ParamOf<ConstantOfShapeParam>(n).value.tensor;
  if (!t) return Tensor::Scalar(DType::kF32, 0);
  WEFT_CHECK(t->num_elements() == 1, kBadAttribute, "{}: `value` must have one element, got {}",
             n->Describe(), t->num_elements());
  return t;
}
void ConstantOfShapeType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kI64Only);
  ctx.set_out(0, FillOf(ctx.node())->dtype());
}
void ConstantOfShapeShape(InferShapeContext& ctx) {
  const Shape out = ShapeFromInput(ctx, 0);
  if (!out.has_rank()) return;
  ctx.set_out(0, out);
  if (const SymTensorPtr v = SymTensorOf(*FillOf(ctx.node())))
    SetValue(ctx, 0, out, [&](int64_t) { return v->elements[0]; });
}
Exprs ConstantOfShapeCode(const NodePtr& n, const std::vector<TensorArg>&, const OutputAt&) {
  const TensorPtr t = FillOf(n);
  if (IsFloat(t->dtype())) return {Expr::Const(t->dtype(), t->at(0))};
  return {Expr::ConstInt(t->dtype(), t->at_int(0))};
}

void ShapeTensorShape(InferShapeContext& ctx) {
  const Shape& dims = ParamOf<ShapeTensorParam>(ctx.node()).dims;
  WEFT_CHECK(dims.fully_known(), kBadAttribute, "{}: dims {} must be known", ctx.node()->Describe(),
             dims.ToString());
  const Shape out({SymInt(int64_t(dims.rank()))});
  ctx.set_out(0, out);
  SetValue(ctx, 0, out, [&](int64_t i) { return dims[int(i)]; });
}

}  // namespace

WEFT_REGISTER_OP(Shape)
    .describe(
        "The dimensions of x on the axes [start, end) as an i64 vector. Never reads the elements "
        "of x.\n"
        "Gradient: none. Source: ONNX Shape-24.")
    .input("data", TypeDoc(kAllTypes))
    .output("shape", "i64")
    .param<ShapeParam>()
    .example({"f32[2, n, 3]"})
    .example({"f32[2, n, 3]"}, "start = 1, end = -1")
    .example({"f32[]"})
    .set_attr<FInferType>("FInferType", I64Result)
    .set_attr<FInferShape>("FInferShape", ShapeShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at)
                            -> Exprs { return {VectorAt(ShapeRange(n, in[0].shape), at(0)[0])}; })
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Size)
    .describe("The number of elements of x, an i64 scalar. Gradient: none. Source: ONNX Size-24.")
    .input("data", TypeDoc(kAllTypes))
    .output("size", "i64")
    .param<NoParam>()
    .example({"f32[2, n, 3]"})
    .set_attr<FInferType>("FInferType", I64Result)
    .set_attr<FInferShape>("FInferShape", SizeShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in, const OutputAt&)
                            -> Exprs { return {Expr::Dim(in[0].shape.num_elements())}; })
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(ConstantOfShape)
    .describe(
        "A tensor of shape `input`, every element `value`.\n"
        "Errors: a negative dimension (kShapeMismatch), `value` of more than one element "
        "(kBadAttribute).\n"
        "Gradient: none. Source: ONNX ConstantOfShape-24.")
    .input("input", "i64", "1-D: the dimensions; empty gives a scalar")
    .output("output", TypeDoc(kAllTypes))
    .param<ConstantOfShapeParam>()
    .example({"i64[2] = [2, 3]"})
    .set_attr<FInferType>("FInferType", ConstantOfShapeType)
    .set_attr<FInferShape>("FInferShape", ConstantOfShapeShape)
    .set_attr<TSizeOperands>("TSizeOperands", {0})
    .set_attr<FCodeGen>("FCodeGen", ConstantOfShapeCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FInputDomains>("FInputDomains", Domains({{InputDomain::kShapeValue}}));

WEFT_REGISTER_OP_IN(weft, ShapeTensor)
    .describe(
        "An i64 vector of the dimensions `dims`, expressions over the symbols of the graph; no "
        "input.\n"
        "Gradient: none. Errors: an unknown dimension (kBadAttribute). Source: Weft (what Shape of "
        "a known shape becomes).")
    .output("shape", "i64")
    .set_num_inputs(0)
    .param<ShapeTensorParam>()
    .example({}, "dims = shape [2, 3]")
    .set_attr<FInferType>("FInferType", I64Result)
    .set_attr<FInferShape>("FInferShape", ShapeTensorShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr& n, const std::vector<TensorArg>&,
                           const OutputAt& at) -> Exprs {
                          return {VectorAt(ParamOf<ShapeTensorParam>(n).dims.dims(), at(0)[0])};
                        })
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
