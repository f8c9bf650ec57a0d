/// matmul.cc: MatMul, weft::TransposedMatMul, Gemm and weft::MatMulGrad.
///
/// The rank of an operand is not known when a gradient is built, so MatMul's gradient is one op
/// that Simplify takes apart (FSimplify below) into Transpose, MatMul and SumTo as soon as the
/// shapes are known; its own code is exact for every rank.
#include "ops/util/adjoint.h"
#include "ops/util/axis_order.h"
#include "ops/util/onnx_body_util.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct GemmParam : OpParam<GemmParam> {
  double alpha, beta;
  int64_t transA, transB;
  WEFT_OP_PARAM(GemmParam) {
    WEFT_FIELD(alpha).set_default(1).describe("factor of the product");
    WEFT_FIELD(beta).set_default(1).describe("factor of C");
    WEFT_FIELD(transA).set_default(0).set_range(0, 1).describe("A is [k, m]");
    WEFT_FIELD(transB).set_default(0).set_range(0, 1).describe("B is [n, k]");
  }
};
WEFT_REGISTER_OP_PARAM(GemmParam);

struct MatMulGradParam : OpParam<MatMulGradParam> {
  int64_t of;
  WEFT_OP_PARAM(MatMulGradParam) {
    WEFT_FIELD(of).set_range(0, 1).describe("operand whose gradient this is");
  }
};
WEFT_REGISTER_OP_PARAM(MatMulGradParam);

struct TransposedMatMulParam : OpParam<TransposedMatMulParam> {
  Ints a_perm, b_perm;
  WEFT_OP_PARAM(TransposedMatMulParam) {
    WEFT_FIELD(a_perm).set_default({}).describe(
        "axis k of the left operand is axis a_perm[k] of A, as in Transpose; absent: A as it is");
    WEFT_FIELD(b_perm).set_default({}).describe("the same for B");
  }
};
WEFT_REGISTER_OP_PARAM(TransposedMatMulParam);

constexpr DTypeSet kMatMulTypes = kNumeric;

/// Extents of a product: batch extents broadcast, then m and n where the operands have those axes.
struct Product2 {
  bool a_vector, b_vector;
  std::vector<SymInt> batch;
  SymInt m, k, n;
};
Product2 Analyze(const Shape& a, const Shape& b, Facts* facts) {
  Product2 p;
  p.a_vector = a.rank() == 1;
  p.b_vector = b.rank() == 1;
  auto batch = [](const Shape& s) {
    return Shape(std::vector<SymInt>(s.dims().begin(), s.dims().end() - std::min(s.rank(), 2)));
  };
  p.batch = BroadcastDemanded(batch(a), batch(b), facts).dims();
  p.m = p.a_vector ? SymInt(1) : a[a.rank() - 2];
  p.k = a[a.rank() - 1];
  p.n = p.b_vector ? SymInt(1) : b[b.rank() - 1];
  return p;
}

void ProductShapeOf(InferShapeContext& ctx, const Shape& a, const Shape& b) {
  WEFT_CHECK(a.rank() > 0 && b.rank() > 0, kShapeMismatch,
             "{}: operands must have rank 1 or more, got {} and {}", ctx.node()->Describe(),
             a.ToString(), b.ToString());
  const Product2 p = Analyze(a, b, &ctx.facts());
  UnifyDims(ctx, p.k, p.b_vector ? b[0] : b[b.rank() - 2], "the inner dimensions");
  std::vector<SymInt> dims = p.batch;
  if (!p.a_vector) dims.push_back(p.m);
  if (!p.b_vector) dims.push_back(p.n);
  ctx.set_out(0, Shape(std::move(dims)));
}
void MatMulShape(InferShapeContext& ctx) {
  const Shape &a = ctx.in(0), &b = ctx.in(1);
  if (!a.has_rank() || !b.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  ProductShapeOf(ctx, a, b);
}

/// Reads an operand: batch indices by broadcasting, then its matrix indices.
Expr ReadOperand(const TensorArg& x, const std::vector<SymInt>& batch_dims, const Indices& batch,
                 const Expr& row, const Expr& column) {
  if (x.rank() == 1) return x({row ? row : column});
  Indices at;
  const size_t own = size_t(x.rank() - 2), lead = batch.size() - own;
  for (size_t i = 0; i < own; ++i)
    at.push_back(BroadcastIndex(x.shape[int(i)], batch_dims[lead + i], batch[lead + i]));
  at.push_back(row);
  at.push_back(column);
  return x(at);
}
Expr ReadA(const TensorArg& a, const Product2& p, const Indices& batch, const Expr& i,
           const Expr& k) {
  return ReadOperand(a, p.batch, batch, p.a_vector ? Expr() : i, k);
}
Expr ReadB(const TensorArg& b, const Product2& p, const Indices& batch, const Expr& k,
           const Expr& j) {
  return ReadOperand(b, p.batch, batch, k, p.b_vector ? Expr() : j);
}

Exprs MatMulCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Product2 p = Analyze(in[0].shape, in[1].shape, nullptr);
  const Indices batch(at(0).begin(), at(0).begin() + long(p.batch.size()));
  size_t next = p.batch.size();
  const Expr i = p.a_vector ? Expr::Int(0) : at(0)[next++];
  const Expr j = p.b_vector ? Expr::Int(0) : at(0)[next];
  const Expr sum = SumOver({p.k}, [&](const Indices& k) {
    return WideProduct(ReadA(in[0], p, batch, i, k[0]), ReadB(in[1], p, batch, k[0], j));
  });
  return {Expr::Cast(in[0].dtype, sum)};
}

SymInt MatMulFlops(const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  if (!in.at(0).has_rank() || in[0].rank() == 0) return SymInt();
  return out.at(0).num_elements() * in[0][in[0].rank() - 1] * 2;
}

std::vector<NodeEntry> MatMulGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry a = n->inputs[0], b = n->inputs[1];
  return {ApplyOp("weft::MatMulGrad", {dy[0], b, ShapeOf(a)}, {{"of", 0}}),
          ApplyOp("weft::MatMulGrad", {dy[0], a, ShapeOf(b)}, {{"of", 1}})};
}

// ---- weft::TransposedMatMul(a, b) ----

const Ints& GivenPerm(const NodePtr& n, int i) {
  const auto& p = ParamOf<TransposedMatMulParam>(n);
  return i == 0 ? p.a_perm : p.b_perm;
}
/// Of operand i.
std::vector<int> PermOf(const NodePtr& n, int i, int rank) {
  return AxisOrder(n, GivenPerm(n, i), rank, i == 0 ? "a_perm" : "b_perm");
}

void TransposedMatMulShape(InferShapeContext& ctx) {
  const Shape &a = ctx.in(0), &b = ctx.in(1);
  if (!a.has_rank() || !b.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  ProductShapeOf(ctx, Permuted(a, PermOf(ctx.node(), 0, a.rank())),
                 Permuted(b, PermOf(ctx.node(), 1, b.rank())));
}

Exprs TransposedMatMulCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  std::vector<TensorArg> views = in;
  for (int i : {0, 1}) {
    const TensorArg& x = in[size_t(i)];
    const std::vector<int> perm = PermOf(n, i, x.rank());
    TensorArg& view = views[size_t(i)];
    view.shape = Permuted(x.shape, perm);
    view.value = nullptr;
    view.read = [x, perm](const Indices& here) {
      Indices from(perm.size());
      for (size_t k = 0; k < perm.size(); ++k) from[size_t(perm[k])] = here[k];
      return x(from);
    };
  }
  return MatMulCode(n, views, at);
}

SymInt TransposedMatMulFlops(const NodePtr& n, const std::vector<Shape>& in,
                             const std::vector<Shape>& out) {
  if (!in.at(0).has_rank() || in[0].rank() == 0) return SymInt();
  return MatMulFlops(n, {Permuted(in[0], PermOf(n, 0, in[0].rank()))}, out);
}

/// That of MatMul, in the order of the operands.
std::vector<NodeEntry> TransposedMatMulGradient(const NodePtr& n,
                                                const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  const auto transposed = [](const NodeEntry& x, const Ints& perm) {
    return perm.empty() ? x : ApplyOp("Transpose", {x}, {{"perm", perm}});
  };
  const NodeEntry operand[] = {transposed(n->inputs[0], GivenPerm(n, 0)),
                               transposed(n->inputs[1], GivenPerm(n, 1))};
  std::vector<NodeEntry> d;
  for (int i : {0, 1}) {
    const Ints& perm = GivenPerm(n, i);
    Ints inverse(perm.size());
    for (size_t k = 0; k < perm.size(); ++k) inverse.at(size_t(perm[k])) = int64_t(k);
    d.push_back(transposed(
        ApplyOp("weft::MatMulGrad", {dy[0], operand[1 - i], ShapeOf(operand[i])}, {{"of", i}}),
        inverse));
  }
  return d;
}

std::string TransposedMatMulBody(const OnnxBodyRequest& r) {
  return TransposeLine("a", "i0", GivenPerm(r.node, 0)) +
         TransposeLine("b", "i1", GivenPerm(r.node, 1)) + "o0 = MatMul(a, b)\n";
}

// ---- weft::MatMulGrad(dy, other, shape) ----

/// da[batch, i, k] = sum_j dy[.., i, j] b[.., k, j] and db[batch, k, j] = sum_i a[.., i, k] dy[..,
/// i, j], summed over the batch axes along which the operand was broadcast.
Exprs MatMulGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const bool of_a = ParamOf<MatMulGradParam>(n).of == 0;
  const TensorArg &dy = in[0], &other = in[1];
  const Shape& own = at.shape[0];
  const Product2 p = of_a ? Analyze(own, other.shape, nullptr) : Analyze(other.shape, own, nullptr);
  const bool own_vector = own.rank() == 1;
  // Batch axes of the product, and which of them are summed: absent from the operand, or 1 there.
  const size_t rank = p.batch.size(), own_rank = own_vector ? 0 : size_t(own.rank() - 2),
               lead = rank - own_rank;
  std::vector<SymInt> extents;
  for (size_t k = 0; k < rank; ++k) {
    if (k < lead) {
      extents.push_back(p.batch[k]);
    } else if (const SymInt d = own[int(k - lead)]; d != p.batch[k]) {
      // Summed where the operand's extent is 1, a single term where it is not.
      extents.push_back(d.is(1) ? p.batch[k] : ExactDiv(p.batch[k], d));
    }
  }
  extents.push_back(of_a ? p.n : p.m);
  const Expr zero = Expr::Int(0);
  const Expr sum = SumOver(extents, [&](const Indices& r) {
    Indices batch;
    size_t next = 0;
    for (size_t k = 0; k < rank; ++k) {
      if (k < lead) {
        batch.push_back(r[next++]);
      } else if (const SymInt d = own[int(k - lead)]; d != p.batch[k]) {
        batch.push_back(r[next++] + at(0)[k - lead]);
      } else {
        batch.push_back(at(0)[k - lead]);
      }
    }
    const Indices& x = at(0);
    Expr i, k, j;
    if (of_a) {
      i = own_vector ? zero : x[x.size() - 2];
      k = x.back();
      j = r.back();
    } else {
      k = own_vector ? x[0] : x[x.size() - 2];
      j = own_vector ? zero : x.back();
      i = r.back();
    }
    Indices y = batch;
    if (!p.a_vector) y.push_back(i);
    if (!p.b_vector) y.push_back(j);
    return of_a ? WideProduct(dy(y), ReadB(other, p, batch, k, j))
                : WideProduct(ReadA(other, p, batch, i, k), dy(y));
  });
  return {Expr::Cast(dy.dtype, sum)};
}

/// d = MatMulGrad(dy, other, shape) is bilinear: with g the gradient of d,
///   of = 0: ddy = MatMul(g, b),  db = MatMulGrad(dy, g, Shape(b)) of = 1 (g in the place of a)
///   of = 1: ddy = MatMul(a, g),  da = MatMulGrad(dy, g, Shape(a)) of = 0 (g in the place of b)
std::vector<NodeEntry> MatMulGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(3);
  if (!g[0]) return d;
  const NodeEntry dy = n->inputs[0], other = n->inputs[1];
  const bool of_a = ParamOf<MatMulGradParam>(n).of == 0;
  d[0] = of_a ? ApplyOp("MatMul", {g[0], other}) : ApplyOp("MatMul", {other, g[0]});
  d[1] = ApplyOp("weft::MatMulGrad", {dy, g[0], ShapeOf(other)}, {{"of", of_a ? 1 : 0}});
  return d;
}

NodeEntry SwapLast(const NodeEntry& x, int rank) {
  Ints perm;
  for (int k = 0; k < rank; ++k) perm.push_back(k);
  std::swap(perm[size_t(rank - 2)], perm[size_t(rank - 1)]);
  return ApplyOp("Transpose", {x}, {{"perm", perm}});
}
NodeEntry TransposedProduct(const NodeEntry& x, const NodeEntry& y, bool trans_x, bool trans_y) {
  return ApplyOp("Gemm", {x, y}, {{"transA", int64_t(trans_x)}, {"transB", int64_t(trans_y)}});
}
/// Two matrices: Gemm, which takes its operands transposed. With batch axes: da = SumTo(dy b^T),
/// db = SumTo(a^T dy); a weight [k, n] under a batch of a is one product over all rows.
std::vector<NodeEntry> SimplifyMatMulGrad(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry dy = n->inputs[0], other = n->inputs[1], like = n->inputs[2];
  const Shape &own = ctx.shape(NodeEntry(n, 0)), &o = ctx.shape(other), &y = ctx.shape(dy);
  if (!own.has_rank() || !o.has_rank() || !y.has_rank() || own.rank() < 2 || o.rank() < 2 ||
      !own.fully_known())
    return {};
  const bool of_a = ParamOf<MatMulGradParam>(n).of == 0;
  if (!of_a && own.rank() == 2 && o.rank() > 2 && y.rank() == o.rank()) {
    const NodeEntry rows = IntsLike(dy, {-1});
    auto flat = [&](const NodeEntry& x) {
      const NodeEntry last = ApplyOp("Shape", {x}, {{"start", -1}});
      return ApplyOp("Reshape", {x, ApplyOp("Concat", {rows, last}, {{"axis", 0}})});
    };
    // -1 has no value beside an extent of 0.
    if (ctx.facts().RangeOf(o[o.rank() - 1]).lo < 1 || ctx.facts().RangeOf(y[y.rank() - 1]).lo < 1)
      return {};
    return {TransposedProduct(flat(other), flat(dy), true, false)};
  }
  if (own.rank() == 2 && o.rank() == 2 && y.rank() == 2)
    return {of_a ? TransposedProduct(dy, other, false, true)
                 : TransposedProduct(other, dy, true, false)};
  NodeEntry full = of_a ? ApplyOp("MatMul", {dy, SwapLast(other, o.rank())})
                        : ApplyOp("MatMul", {SwapLast(other, o.rank()), dy});
  // The product has the batch axes of dy; the operand's are theirs or summed.
  bool same = own.rank() == y.rank();
  for (int k = 0; same && k < own.rank() - 2; ++k)
    same = own[k].known() && ctx.facts().ProvedEqual(own[k], y[k]);
  if (same) return {full};
  std::vector<int64_t> axes, singles;
  const int lead = y.rank() - own.rank();
  if (lead < 0) return {};
  for (int k = 0; k < lead; ++k) axes.push_back(k);
  for (int k = 0; k < own.rank() - 2; ++k) {
    if (ctx.facts().ProvedEqual(own[k], y[lead + k])) continue;
    if (!own[k].is(1)) return {};
    axes.push_back(lead + k);
  }
  full = ApplyOp("ReduceSum", {full, IntsLike(dy, axes)}, {{"keepdims", 1}});
  return {ApplyOp("Reshape", {full, like}, {{"allowzero", 1}})};
}

void MatMulGradShape(InferShapeContext& ctx) {
  static const FInferShape of_a = AdjointShape(MatMulShape, 2, {kSought, 1}),
                           of_b = AdjointShape(MatMulShape, 2, {1, kSought});
  (ParamOf<MatMulGradParam>(ctx.node()).of == 0 ? of_a : of_b)(ctx);
}
void MatMulGradType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kMatMulTypes, 0, 2);
  CheckInputType(ctx, 2, kI64Only);
  if (t.known()) ctx.set_out(0, t);
}

int RankOf(const OnnxBodyRequest& r, size_t i) {
  WEFT_CHECK(r.input_shapes[i].has_rank(), kUnsupported, "the rank of input {} is unknown", i);
  return r.input_shapes[i].rank();
}

/// The last two axes of x, of a rank from 2 on, swapped.
std::string Swapped(const std::string& name, const std::string& x, int rank) {
  std::vector<int64_t> perm;
  for (int k = 0; k < rank; ++k) perm.push_back(k);
  std::swap(perm[size_t(rank) - 1], perm[size_t(rank) - 2]);
  return TransposeLine(name, x, perm);
}

/// y = a b; the operand asked for has as many axes as there are extents in `shape`. A vector takes
/// part as a row (a) or a column (b), whose axis dy lacks.
std::string MatMulGradBody(const OnnxBodyRequest& r) {
  const bool first = r.node->attr<int64_t>("of") == 0;
  const int other = RankOf(r, 1);
  const Shape& extents = r.input_shapes[2];
  WEFT_CHECK(
      extents.has_rank() && extents.rank() == 1 && extents[0].known() && extents[0].is_const(),
      kUnsupported, "the rank of the operand is unknown");
  const int64_t own = extents[0].value();
  std::string text = IntsConstant("last", {-1}) + IntsConstant("before", {-2});
  if (own == 1 && other == 1) {
    text += "d = Mul(i0, i1)\n";
  } else if (first && other == 1) {  // a [.., m, k], b [k]: dy [.., m]
    text += "dy = Unsqueeze(i0, last)\nd = Mul(dy, i1)\n";
  } else if (first) {
    text += Swapped("b", "i1", other);
    text += own == 1 ? "dy = Unsqueeze(i0, before)\nd = MatMul(dy, b)\n" : "d = MatMul(i0, b)\n";
  } else if (other == 1) {  // a [k], b [.., k, n]: dy [.., n]
    text += "a = Unsqueeze(i1, last)\ndy = Unsqueeze(i0, before)\nd = Mul(a, dy)\n";
  } else {
    text += Swapped("a", "i1", other);
    text += own == 1 ? "dy = Unsqueeze(i0, last)\nwide = MatMul(a, dy)\nd = Squeeze(wide, last)\n"
                     : "d = MatMul(a, i0)\n";
  }
  // d has the leading axes of dy, then what the operand has.
  const Shape &dy = r.input_shapes[0], &to = r.output_shapes[0];
  Shape from;
  const int lead = dy.has_rank() ? dy.rank() - (own > 1) - (other > 1) : -1;
  if (lead >= 0 && to.has_rank() && to.rank() == own) {
    std::vector<SymInt> dims(dy.dims().begin(), dy.dims().begin() + lead);
    if (first && own == 1 && other > 1) dims.emplace_back(1);
    for (int k = std::max(0, to.rank() - 2); k < to.rank(); ++k) dims.push_back(to[k]);
    from = Shape(std::move(dims));
  }
  return text + SumToText("d", from, "i2", to);
}

// ---- Gemm ----

void GemmShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<GemmParam>(ctx.node());
  const Shape a = CheckRank(ctx, 0, 2, "A") ? ctx.in(0) : Shape::OfRank(2);
  const Shape b = CheckRank(ctx, 1, 2, "B") ? ctx.in(1) : Shape::OfRank(2);
  UnifyDims(ctx, a[p.transA ? 0 : 1], b[p.transB ? 1 : 0], "the inner dimensions");
  const Shape out({a[p.transA ? 1 : 0], b[p.transB ? 0 : 1]});
  DemandBroadcastTo(ctx, 2, out);
  ctx.set_out(0, out);
}
Exprs GemmCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<GemmParam>(n);
  const DType t = in[0].dtype, acc = AccumulatorOf(t);
  const Expr i = at(0)[0], j = at(0)[1];
  Expr y = SumOver({in[0].shape[p.transA ? 0 : 1]}, [&](const Indices& r) {
    const Expr k = r[0];
    return WideProduct(in[0](p.transA ? Indices{k, i} : Indices{i, k}),
                       in[1](p.transB ? Indices{j, k} : Indices{k, j}));
  });
  if (p.alpha != 1) y = y * Expr::Const(acc, p.alpha);
  if (HasInput(in, 2)) {
    const TensorArg& c = in[2];
    Indices from;
    for (int k = 0; k < c.rank(); ++k) {
      const int o = 2 - c.rank() + k;
      from.push_back(BroadcastIndex(c.shape[k], at.shape[0][o], at(0)[size_t(o)]));
    }
    Expr bias = Expr::Cast(acc, c(from));
    if (p.beta != 1) bias = bias * Expr::Const(acc, p.beta);
    y = y + bias;
  }
  return {Expr::Cast(t, y)};
}
std::vector<NodeEntry> GemmGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  const auto& p = ParamOf<GemmParam>(n);
  const NodeEntry dy = dys[0], a = n->inputs[0], b = n->inputs[1];
  auto gemm = [&](const NodeEntry& x, const NodeEntry& y, bool tx, bool ty) {
    return ApplyOp("Gemm", {x, y},
                   {{"alpha", p.alpha}, {"transA", int64_t(tx)}, {"transB", int64_t(ty)}});
  };
  d[0] = p.transA ? gemm(b, dy, p.transB, true) : gemm(dy, b, false, !p.transB);
  d[1] = p.transB ? gemm(dy, a, true, p.transA) : gemm(a, dy, !p.transA, false);
  if (HasInput(n, 2)) d[2] = SumTo(p.beta == 1 ? dy : dy * ScalarOf(dy, p.beta), n->inputs[2]);
  return d;
}

}  // namespace

WEFT_REGISTER_OP(MatMul)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "Matrix product as in numpy: y[.., i, j] = sum_k a[.., i, k] b[.., k, j]; leading axes "
        "broadcast; a 1-D operand is a row (a) or a column (b) whose axis the result lacks. f16 "
        "and bf16 accumulate in f32.\n"
        "Gradient: weft::MatMulGrad for each operand; keeps both operands.\n"
        "Errors: inner dimensions differ, a scalar operand (kShapeMismatch), dtypes differ "
        "(kTypeMismatch).\n"
        "Source: ONNX MatMul-13.")
    .input("A", TypeDoc(kMatMulTypes))
    .input("B", "T")
    .output("Y", "T")
    .param<NoParam>()
    .example({"f32[2, 3]", "f32[3, 4]"})
    .example({"f32[2, 1, 3, 4]", "f32[n, 4, 2]"})
    .example({"f32[3]", "f32[3]"})
    .example({"f32[3]", "f32[2, 3, 4]"})
    .example({"f32[2, 3, 4]", "f32[4]"})
    .set_attr<FInferType>("FInferType", SameType(kMatMulTypes))
    .set_attr<FInferShape>("FInferShape", MatMulShape)
    .set_attr<FCodeGen>("FCodeGen", MatMulCode)
    .set_attr<FGradient>("FGradient", MatMulGradient)
    .set_attr<FFlops>("FFlops", MatMulFlops);

WEFT_REGISTER_OP_IN(weft, TransposedMatMul)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "y = MatMul(Transpose(A, a_perm), Transpose(B, b_perm)), for libraries that read "
        "transposed operands without a copy.\n"
        "Gradient: that of MatMul, transposed back; keeps both operands.\n"
        "Errors: those of MatMul; a perm of another rank (kShapeMismatch), or one that is not a "
        "permutation (kBadAttribute).\n"
        "Source: Weft; the pass FoldTranspose makes it.")
    .input("A", TypeDoc(kMatMulTypes))
    .input("B", "T")
    .output("Y", "T")
    .param<TransposedMatMulParam>()
    .example({"f32[2, 3, 5, 4]", "f32[2, 6, 3, 4]"}, "a_perm = [0, 1, 2, 3], b_perm = [0, 2, 3, 1]")
    .example({"f32[2, 4, n]", "f32[5, 4]"}, "a_perm = [0, 2, 1], b_perm = [1, 0]")
    .example({"f32[3, 2]", "f32[3]"}, "a_perm = [1, 0]")
    .set_attr<FInferType>("FInferType", SameType(kMatMulTypes))
    .set_attr<FInferShape>("FInferShape", TransposedMatMulShape)
    .set_attr<FCodeGen>("FCodeGen", TransposedMatMulCode)
    .set_attr<FGradient>("FGradient", TransposedMatMulGradient)
    .set_attr<FFlops>("FFlops", TransposedMatMulFlops)
    .set_attr<FOnnxBody>("FOnnxBody", TransposedMatMulBody);

WEFT_REGISTER_OP_IN(weft, MatMulGrad)
    .describe(
        "Gradient of y = MatMul(a, b) by operand `of` from dy, the other operand and the shape of "
        "the operand.\n"
        "Gradient: MatMul and weft::MatMulGrad. Source: Weft.")
    .input("dy", TypeDoc(kMatMulTypes))
    .input("other", "T", "b for of = 0, a for of = 1")
    .input("shape", "i64", "dimensions of operand `of`")
    .output("d", "T")
    .param<MatMulGradParam>()
    .example({"f32[2, 4]", "f32[3, 4]", "i64[2] = [2, 3]"}, "of = 0")
    .example({"f32[5, 2, 4]", "f32[5, 2, 3]", "i64[2] = [3, 4]"}, "of = 1")
    .set_attr<FInferType>("FInferType", MatMulGradType)
    .set_attr<FInferShape>("FInferShape", MatMulGradShape)
    .set_attr<FCodeGen>("FCodeGen", MatMulGradCode)
    .set_attr<FGradient>("FGradient", MatMulGradGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyMatMulGrad)
    .set_attr<FOnnxBody>("FOnnxBody", MatMulGradBody);

WEFT_REGISTER_OP(Gemm)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "y = alpha op(A) op(B) + beta C with op the transposition that transA / transB ask for; C "
        "broadcasts one way.\n"
        "Gradient: dA, dB are Gemm of dy and the other factor, dC = SumTo(beta dy, C); keeps A and "
        "B.\n"
        "Errors: ranks other than 2, inner dimensions differ, C does not broadcast "
        "(kShapeMismatch). Source: ONNX Gemm-13.")
    .input("A", TypeDoc(kMatMulTypes), "[m, k], or [k, m] with transA")
    .input("B", "T", "[k, n], or [n, k] with transB")
    .optional_input("C", "T", "broadcasts to [m, n]")
    .output("Y", "T", "[m, n]")
    .param<GemmParam>()
    .example({"f32[2, 3]", "f32[3, 4]", "f32[4]"})
    .example({"f32[3, n]", "f32[4, 3]", "f32[n, 1]"},
             "transA = 1, transB = 1, alpha = 0.5, beta = 2.0")
    .example({"f32[2, 3]", "f32[3, 4]"})
    .set_attr<FInferType>("FInferType", SameType(kMatMulTypes))
    .set_attr<FInferShape>("FInferShape", GemmShape)
    .set_attr<FCodeGen>("FCodeGen", GemmCode)
    .set_attr<FGradient>("FGradient", GemmGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr& n, const std::vector<Shape>& in,
                         const std::vector<Shape>& out) -> SymInt {
                        if (!in.at(0).has_rank()) return SymInt();
                        return out.at(0).num_elements() *
                               in[0][ParamOf<GemmParam>(n).transA ? 0 : 1] * 2;
                      });

}  // namespace weft::ops
