/// reshape.cc: Reshape, Flatten, Squeeze, Unsqueeze: the same elements in row-major order under
/// other extents.
///
/// Inference follows the *value* of the shape input, so Reshape(x, Concat(Shape(y)[0], -1)) keeps
/// symbolic extents; a -1 is the exact quotient of the element counts: (a, b, 2, 3) -> (-1, 6) ->
/// (a, -1, 6) gives b again. The code pairs groups of extents with equal products ([b, s, 768] ->
/// [b, s, 12, 64] leaves b and s alone), so that index arithmetic stays local.
#include "ops/util/demand.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ReshapeParam : OpParam<ReshapeParam> {
  int64_t allowzero;
  WEFT_OP_PARAM(ReshapeParam) {
    WEFT_FIELD(allowzero).set_default(0).set_range(0, 1).describe(
        "0: a 0 in `shape` copies that dimension; 1: it is a dimension");
  }
};
WEFT_REGISTER_OP_PARAM(ReshapeParam);

struct FlattenParam : OpParam<FlattenParam> {
  int64_t axis;
  WEFT_OP_PARAM(FlattenParam) {
    WEFT_FIELD(axis).set_default(1).describe(
        "in [-rank, rank]: dimensions before it make the first output dimension");
  }
};
WEFT_REGISTER_OP_PARAM(FlattenParam);

SymInt ProductOf(const std::vector<SymInt>& d, size_t from, size_t to) {
  return Product(std::vector<SymInt>(d.begin() + long(from), d.begin() + long(to)));
}

/// Position in extents `in` of the element at `at` in extents `out`.
Indices RegroupIndices(const Indices& at, const std::vector<SymInt>& out,
                       const std::vector<SymInt>& in) {
  Indices result;
  size_t i = 0, j = 0;
  while (i < in.size() && j < out.size()) {
    // The smallest pair of groups with equal products; the last group takes what is left.
    size_t ni = in.size(), nj = out.size();
    bool found = false;
    for (size_t total = 2; !found && total <= in.size() - i + out.size() - j; ++total) {
      for (size_t a = 1; !found && a < total; ++a) {
        const size_t b = total - a;
        if (i + a > in.size() || j + b > out.size()) continue;
        if (ProductOf(in, i, i + a) == ProductOf(out, j, j + b)) {
          found = true;
          ni = i + a;
          nj = j + b;
        }
      }
    }
    const std::vector<SymInt> gi(in.begin() + long(i), in.begin() + long(ni));
    const std::vector<SymInt> go(out.begin() + long(j), out.begin() + long(nj));
    if (gi.size() == 1 && go.size() == 1) {
      result.push_back(at[j]);
    } else {
      const Expr offset = Linearize(Indices(at.begin() + long(j), at.begin() + long(nj)), go);
      for (Expr& e : Delinearize(offset, gi)) result.push_back(std::move(e));
    }
    i = ni;
    j = nj;
  }
  for (; i < in.size(); ++i) result.push_back(Expr::Int(0));  // extents of 1 are left
  return result;
}

Exprs ReshapeCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  return {in[0](RegroupIndices(at(0), at.shape[0].dims(), in[0].shape.dims()))};
}
std::vector<NodeEntry> ReshapeGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> dx(n->inputs.size());
  if (dy[0]) dx[0] = ReshapeLike(dy[0], n->inputs[0]);
  return dx;
}
std::vector<NodeEntry> SimplifySameShape(RewriteContext& ctx, const NodePtr& n) {
  return ReplaceIfSame(ctx, n, n->inputs[0]);
}
void CopyValue(InferShapeContext& ctx, const Shape& shape) {
  if (const SymTensorPtr v = InputValue(ctx, 0))
    SetValue(ctx, 0, shape, [&](int64_t i) { return v->elements.at(size_t(i)); });
}

void ReshapeShape(InferShapeContext& ctx) {
  const bool allowzero = ParamOf<ReshapeParam>(ctx.node()).allowzero != 0;
  if (ctx.in(1).has_rank()) CheckRank(ctx, 1, 1, "shape");
  const auto length = VectorLength(ctx, 1);
  if (!length || *length > 64)
    return Unknown(ctx, 0, "neither the value nor the length of the shape input is known");
  const SymTensorPtr v = InputValue(ctx, 1);
  const Shape& x = ctx.in(0);
  std::vector<SymInt> dims;
  for (int64_t k = 0; k < *length; ++k) dims.push_back(v ? v->elements[size_t(k)] : SymInt());
  int infer = -1;
  bool complete = true;
  for (int k = 0; k < int(dims.size()); ++k) {
    if (!dims[k].known()) {
      // Data-dependent only if nothing upstream is still unknown; 0 and -1 cannot be ruled out, the
      // run decides.
      dims[k] = ctx.unbacked(k);
      continue;
    }
    if (dims[k].is(0) && !allowzero) {
      if (!x.has_rank()) {
        dims[k] = SymInt();
        complete = false;
        continue;
      }
      WEFT_CHECK(k < x.rank(), kShapeMismatch,
                 "{}: shape[{}] = 0 copies a dimension that x {} does not have",
                 ctx.node()->Describe(), k, x.ToString());
      dims[k] = x[k];
      complete = complete && dims[k].known();
    } else if (dims[k].is(-1)) {
      WEFT_CHECK(infer < 0, kShapeMismatch, "{}: more than one -1 in the shape",
                 ctx.node()->Describe());
      infer = k;
    } else {
      WEFT_CHECK(!dims[k].is_const() || dims[k].value() >= 0, kShapeMismatch, "{}: shape[{}] is {}",
                 ctx.node()->Describe(), k, dims[k].value());
    }
  }
  const SymInt total = x.num_elements();
  if (infer >= 0) {
    std::vector<SymInt> others = dims;
    others[size_t(infer)] = 1;
    const SymInt rest = Product(others);
    if (!total.known() || !rest.known()) {
      // An extent that both sides share may be unknown: x [?, 4] to [0, -1] is [?, 4].
      dims[size_t(infer)] = SymInt();
      if (x.has_rank()) {
        std::vector<SymInt> mine = x.dims(), theirs = others;
        bool all = true;
        for (int k = 0; k < int(theirs.size()); ++k) {
          if (theirs[k].known()) continue;
          const bool copied = v && v->elements[k].is(0) && k < int(mine.size());
          all = all && copied;
          if (copied) mine[k] = theirs[k] = 1;
        }
        const SymInt a = Product(mine), b = Product(theirs);
        if (all && a.known() && b.known() && !b.is(0)) dims[size_t(infer)] = ExactDiv(a, b);
      }
      if (!dims[size_t(infer)].known())
        Unknown(ctx, 0, "the number of elements behind the -1 is unknown");
    } else {
      WEFT_CHECK(!rest.is(0), kShapeMismatch, "{}: -1 beside a dimension of 0 has no value",
                 ctx.node()->Describe());
      if (rest.is_const())
        DemandMultiple(ctx, total, rest.value(), "elements by the other dimensions");
      else
        UnifyDims(ctx, Mod(total, rest), 0, "what the other dimensions leave and 0");
      dims[size_t(infer)] = ExactDiv(total, rest);
    }
  } else if (complete && total.known()) {
    const SymInt mine = Product(dims);
    if (mine.known() && mine != total) {
      WEFT_CHECK(!(mine.is_const() && total.is_const()) && ctx.facts().AddEqual(total, mine),
                 kShapeMismatch, "{}: x {} has {} elements, the shape {} has {}",
                 ctx.node()->Describe(), x.ToString(), total.ToString(), Shape(dims).ToString(),
                 mine.ToString());
    }
  }
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  CopyValue(ctx, out);
}

void FlattenShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return ctx.set_out(0, Shape::OfRank(2));
  int64_t axis = ParamOf<FlattenParam>(ctx.node()).axis;
  WEFT_CHECK(axis >= -x.rank() && axis <= x.rank(), kBadAttribute,
             "{}: axis {} out of range [{}, {}]", ctx.node()->Describe(), axis, -x.rank(),
             x.rank());
  if (axis < 0) axis += x.rank();
  ctx.set_out(0, Shape({ProductOf(x.dims(), 0, size_t(axis)),
                        ProductOf(x.dims(), size_t(axis), x.dims().size())}));
}

void SqueezeShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  std::vector<bool> drop(x.dims().size());
  if (HasInput(ctx, 1)) {
    const auto axes = InputInts(ctx, 1);
    if (!axes) {
      if (const auto count = VectorLength(ctx, 1); count && *count <= x.rank())
        ctx.set_out(0, Shape::OfRank(x.rank() - int(*count)));
      return Unknown(ctx, 0, "the axes are not known at compile time");
    }
    for (int a : NormalizeAxes(*axes, x.rank(), ctx.node())) {
      WEFT_CHECK(!x[a].known() || !x[a].is_const() || x[a].is(1), kShapeMismatch,
                 "{}: axis {} of x {} is not 1", ctx.node()->Describe(), a, x.ToString());
      if (x[a].known() && !x[a].is(1)) {
        WEFT_CHECK(ctx.facts().AddEqual(x[a], 1), kShapeMismatch, "{}: axis {} of x {} cannot be 1",
                   ctx.node()->Describe(), a, x.ToString());
      }
      drop[size_t(a)] = true;
    }
  } else {
    for (int a = 0; a < x.rank(); ++a) {
      if (!x[a].known() || (!x[a].is_const() && !ctx.facts().ProvedNot1(x[a])))
        return Unknown(ctx, 0, "no axes are given and a dimension may or may not be 1");
      drop[size_t(a)] = x[a].is(1);
    }
  }
  std::vector<SymInt> dims;
  for (int a = 0; a < x.rank(); ++a) {
    if (!drop[size_t(a)]) dims.push_back(x[a]);
  }
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  CopyValue(ctx, out);
}

void UnsqueezeShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const auto axes = InputInts(ctx, 1);
  if (!axes) {
    if (const auto count = VectorLength(ctx, 1); count && *count <= 64)
      ctx.set_out(0, Shape::OfRank(x.rank() + int(*count)));
    return Unknown(ctx, 0, "the axes are not known at compile time");
  }
  const int rank = x.rank() + int(axes->size());
  std::vector<bool> fresh(size_t(rank), false);
  for (int a : NormalizeAxes(*axes, rank, ctx.node())) fresh[size_t(a)] = true;
  std::vector<SymInt> dims;
  int from = 0;
  for (int a = 0; a < rank; ++a) dims.push_back(fresh[size_t(a)] ? SymInt(1) : x[from++]);
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  CopyValue(ctx, out);
}

const FInferType kDataType = TypeOfFirst(kAllTypes);
void DataAndI64(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

}  // namespace

WEFT_REGISTER_OP(Reshape)
    .set_attr<TIsView>("TIsView", true)
    .describe(
        "y holds the elements of x in row-major order in shape `shape`; one may be -1 (what is "
        "left).\n"
        "Gradient: dx = Reshape(dy, Shape(x)).\n"
        "Errors: element counts differ, two -1, a 0 beyond the rank of x (kShapeMismatch).\n"
        "Source: ONNX Reshape-24.")
    .input("data", TypeDoc(kAllTypes))
    .input("shape", "i64", "1-D; -1 at most once, 0 as `allowzero` says")
    .output("reshaped", "T")
    .param<ReshapeParam>()
    .example({"f32[2, 6]", "i64[3] = [3, -1, 2]"})
    .example({"f32[n, 4, 3]", "i64[2] = [0, -1]"})
    .example({"i32[0, 3]", "i64[2] = [3, 0]"}, "allowzero = 1")
    .set_attr<FInferType>("FInferType", DataAndI64)
    .set_attr<FInferShape>("FInferShape", ReshapeShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", ReshapeCode)
    .set_attr<FGradient>("FGradient", ReshapeGrad)
    .set_attr<FSimplify>("FSimplify", SimplifySameShape)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), {InputDomain::kShapeValue}}))
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Flatten)
    .set_attr<TIsView>("TIsView", true)
    .describe(
        "y [p, q]: p the product of the dimensions of x before `axis`, q of the others.\n"
        "Gradient: dx = Reshape(dy, Shape(x)). Errors: axis outside [-rank, rank] "
        "(kBadAttribute).\n"
        "Source: ONNX Flatten-24.")
    .input("input", TypeDoc(kAllTypes))
    .output("output", "T")
    .param<FlattenParam>()
    .example({"f32[2, 3, 4]"})
    .example({"f32[n, 3, 4]"}, "axis = -1")
    .example({"f32[2, 3]"}, "axis = 0")
    .set_attr<FInferType>("FInferType", kDataType)
    .set_attr<FInferShape>("FInferShape", FlattenShape)
    .set_attr<FCodeGen>("FCodeGen", ReshapeCode)
    .set_attr<FGradient>("FGradient", ReshapeGrad)
    .set_attr<FSimplify>("FSimplify", SimplifySameShape)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Squeeze)
    .set_attr<TIsView>("TIsView", true)
    .describe(
        "Drops axes of size 1: those in `axes`, or all of them.\n"
        "Gradient: dx = Reshape(dy, Shape(x)). Errors: an axis is not 1 (kShapeMismatch), out of "
        "range or repeated (kBadAttribute). Source: ONNX Squeeze-24.")
    .input("data", TypeDoc(kAllTypes))
    .optional_input("axes", "i64", "in [-rank, rank)")
    .output("squeezed", "T")
    .param<NoParam>()
    .example({"f32[2, 1, 3]", "i64[1] = [1]"})
    .example({"f32[1, n, 1]", "i64[2] = [0, -1]"})
    .example({"f32[1, 2, 1]"})
    .set_attr<FInferType>("FInferType", DataAndI64)
    .set_attr<FInferShape>("FInferShape", SqueezeShape)
    .set_attr<FCodeGen>("FCodeGen", ReshapeCode)
    .set_attr<FGradient>("FGradient", ReshapeGrad)
    .set_attr<FSimplify>("FSimplify", SimplifySameShape)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Unsqueeze)
    .set_attr<TIsView>("TIsView", true)
    .describe(
        "Inserts axes of size 1 so that they stand at `axes` of the result.\n"
        "Gradient: dx = Reshape(dy, Shape(x)). Errors: an axis out of range or repeated "
        "(kBadAttribute).\n"
        "Source: ONNX Unsqueeze-24.")
    .input("data", TypeDoc(kAllTypes))
    .input("axes", "i64", "in [-r, r), r the rank of the result")
    .output("expanded", "T")
    .param<NoParam>()
    .example({"f32[2, 3]", "i64[1] = [1]"})
    .example({"f32[n]", "i64[2] = [0, -1]"})
    .set_attr<FInferType>("FInferType", DataAndI64)
    .set_attr<FInferShape>("FInferShape", UnsqueezeShape)
    .set_attr<FCodeGen>("FCodeGen", ReshapeCode)
    .set_attr<FGradient>("FGradient", ReshapeGrad)
    .set_attr<FSimplify>("FSimplify", SimplifySameShape)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<TMovesElements>("TMovesElements", true);

}  // namespace weft::ops
