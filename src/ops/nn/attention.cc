/// attention.cc: weft::Attention, y = softmax(scale q k' + mask) v, whose scores nothing else sees.
/// The pass Attention makes it of the operators of a model; operands and result stay in the axis
/// order that they have around it.
#include <algorithm>
#include <limits>

#include "ops/util/axis_order.h"
#include "ops/util/demand.h"
#include "ops/util/onnx_body_util.h"
#include "ops/util/shape_util.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct AttentionParam : OpParam<AttentionParam> {
  double scale, softcap;
  Ints q_perm, k_perm, v_perm, y_perm;
  int64_t safe;
  WEFT_OP_PARAM(AttentionParam) {
    WEFT_FIELD(scale).set_default(1).describe("factor of the products of queries and keys");
    WEFT_FIELD(softcap).set_default(0).set_range(0, 1e30).describe(
        "c > 0: scores become c tanh(score / c) before the mask is added");
    WEFT_FIELD(q_perm).set_default({}).describe(
        "axis k of the queries is axis q_perm[k] of q, as in Transpose; absent: q as it is");
    WEFT_FIELD(k_perm).set_default({}).describe("the same for k");
    WEFT_FIELD(v_perm).set_default({}).describe("the same for v");
    WEFT_FIELD(y_perm).set_default({}).describe(
        "axis k of y is axis y_perm[k] of the result [batch.., t, e]");
    WEFT_FIELD(safe).set_default(0).set_range(0, 1).describe(
        "1: rows of scores that have no soft-max (all -inf; NaN or inf among them) give 0");
  }
};
WEFT_REGISTER_OP_PARAM(AttentionParam);

enum Operand { kQ, kK, kV, kMask, kKeys };

std::vector<int> PermOf(const NodePtr& n, Operand i, int rank) {
  const auto& p = ParamOf<AttentionParam>(n);
  return i == kQ   ? AxisOrder(n, p.q_perm, rank, "q_perm")
         : i == kK ? AxisOrder(n, p.k_perm, rank, "k_perm")
                   : AxisOrder(n, p.v_perm, rank, "v_perm");
}
Shape BatchOf(const Shape& s) {
  return Shape(std::vector<SymInt>(s.dims().begin(), s.dims().end() - 2));
}
Shape With(const Shape& batch, SymInt rows, SymInt columns) {
  std::vector<SymInt> dims = batch.dims();
  dims.insert(dims.end(), {rows, columns});
  return Shape(std::move(dims));
}

void AttentionType(InferTypeContext& ctx) {
  CheckInputType(ctx, kKeys, kI64Only);
  const Type t = CommonInputType(ctx, kFloats, 0, std::min(ctx.num_inputs(), int(kKeys)));
  if (t.known()) ctx.set_out(0, t);
}

void AttentionShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  Shape in[3];
  for (const Operand i : {kQ, kK, kV}) {
    const Shape& s = ctx.in(i);
    if (!s.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
    WEFT_CHECK(s.rank() >= 2 && s.rank() == ctx.in(kQ).rank(), kShapeMismatch,
               "{}: operands must have one rank of 2 or more, got {}, {}, {}", n->Describe(),
               ctx.in(kQ).ToString(), ctx.in(kK).ToString(), ctx.in(kV).ToString());
    in[i] = Permuted(s, PermOf(n, i, s.rank()));
  }
  const int rank = in[kQ].rank(), rows = rank - 2, columns = rank - 1;
  UnifyDims(ctx, in[kQ][columns], in[kK][columns], "the columns of q and k");
  const SymInt keys = UnifyDims(ctx, in[kK][rows], in[kV][rows], "the rows of k and v");
  const Shape batch =
      BroadcastDemanded(BroadcastDemanded(BatchOf(in[kQ]), BatchOf(in[kK]), &ctx.facts()),
                        BatchOf(in[kV]), &ctx.facts());
  const bool counted = HasInput(ctx, kKeys);
  if (counted) CheckRank(ctx, kKeys, 0, "keys");
  const SymTensorPtr followed = counted ? InputValue(ctx, kKeys) : nullptr;
  const SymInt read = followed ? followed->elements.at(0) : SymInt();
  DemandAtMost(ctx, read, keys, "the keys that are read");
  if (HasInput(ctx, kMask) && ctx.in(kMask).has_rank()) {
    const Shape& mask = ctx.in(kMask);
    // Behind the keys that are read it need not reach.
    const SymInt across = counted && mask.rank() > 0 ? mask[mask.rank() - 1] : keys;
    DemandBroadcastTo(ctx, kMask, With(batch, in[kQ][rows], across));
    if (!across.is(1))
      DemandAtMost(ctx, read, across, "the keys that are read and the columns of the mask");
  }
  const Shape y = With(batch, in[kQ][rows], in[kV][columns]);
  ctx.set_out(0, Permuted(y, AxisOrder(n, ParamOf<AttentionParam>(n).y_perm, rank, "y_perm")));
}

/// An operand at batch indices, by broadcasting, and at a row and a column.
Expr ReadOperand(const NodePtr& n, const TensorArg& x, Operand i, const Shape& batch,
                 const Indices& at, const Expr& row, const Expr& column) {
  const std::vector<int> perm = PermOf(n, i, x.rank());
  Indices from(perm.size());
  for (size_t k = 0; k < perm.size(); ++k)
    from[size_t(perm[k])] = k + 2 == perm.size() ? row
                            : k + 1 == perm.size()
                                ? column
                                : BroadcastIndex(x.shape[perm[k]], batch[int(k)], at[k]);
  return Expr::Cast(AccumulatorOf(x.dtype), x(from));
}
Expr ReadMask(const TensorArg& x, const Shape& scores, const Indices& at) {
  const int lead = scores.rank() - x.rank();
  Indices from;
  for (int k = 0; k < x.rank(); ++k)
    from.push_back(BroadcastIndex(x.shape[k], scores[lead + k], at[size_t(lead + k)]));
  return Expr::Cast(AccumulatorOf(x.dtype), x(from));
}

Exprs AttentionCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<AttentionParam>(n);
  const int rank = in[kQ].rank();
  const Shape q = Permuted(in[kQ].shape, PermOf(n, kQ, rank)),
              k = Permuted(in[kK].shape, PermOf(n, kK, rank));
  const std::vector<int> y_perm = AxisOrder(n, p.y_perm, rank, "y_perm");
  Indices y(y_perm.size());
  std::vector<SymInt> extents(y_perm.size());
  for (size_t a = 0; a < y_perm.size(); ++a) {
    y[size_t(y_perm[a])] = at(0)[a];
    extents[size_t(y_perm[a])] = at.shape[0][int(a)];
  }
  const Shape batch = BatchOf(Shape(extents));
  const Indices b(y.begin(), y.end() - 2);
  const Expr row = y[size_t(rank - 2)], column = y[size_t(rank - 1)];
  const SymInt depth = q[rank - 1], keys = k[rank - 2];
  const bool masked = HasInput(in, kMask), counted = HasInput(in, kKeys);
  const SymInt across =
      counted && masked && in[kMask].rank() > 0 ? in[kMask].shape[in[kMask].rank() - 1] : keys;
  const Shape scores = With(batch, q[rank - 2], across);
  const DType t = AccumulatorOf(in[kQ].dtype);

  // Rows behind those that are read hold anything.
  const auto if_read = [&](const Expr& key, const Expr& value, const Expr& behind) {
    return counted ? ReadEither(Lt(key, in[kKeys]({})), value, behind) : value;
  };
  const auto score = [&](const Expr& key) {
    Expr s = SumOver({depth}, [&](const Indices& r) {
      return ReadOperand(n, in[kQ], kQ, batch, b, row, r[0]) *
             ReadOperand(n, in[kK], kK, batch, b, key, r[0]);
    });
    if (p.scale != 1) s = s * Expr::Const(t, p.scale);
    if (p.softcap > 0)
      s = CallMath(CallOp::kTanh, s * Expr::Const(t, 1 / p.softcap)) * Expr::Const(t, p.softcap);
    if (masked) {
      Indices from = b;
      from.insert(from.end(), {row, key});
      s = s + ReadMask(in[kMask], scores, from);
    }
    return if_read(key, s, Expr::Const(t, -std::numeric_limits<double>::infinity()));
  };
  const Expr most =
      ReduceOver(ReduceOp::kMax, {keys}, [&](const Indices& r) { return score(r[0]); });
  const Expr sum = ReduceOver(ReduceOp::kSum, {keys}, [&](const Indices& r) {
    return CallMath(CallOp::kExp, score(r[0]) - most);
  });
  const Expr zero = Expr::Const(t, 0);
  const Expr value = ReduceOver(ReduceOp::kSum, {keys}, [&](const Indices& r) {
    return if_read(r[0],
                   CallMath(CallOp::kExp, score(r[0]) - most) * (Expr::Const(t, 1) / sum) *
                       ReadOperand(n, in[kV], kV, batch, b, r[0], column),
                   zero);
  });
  // The sum is NaN where there is none.
  const Expr given = p.safe ? Expr::Select(Lt(zero, sum), value, zero) : value;
  return {Expr::Cast(in[kQ].dtype, given)};
}

/// Two products and five operations an element of the scores.
SymInt AttentionFlops(const NodePtr& n, const std::vector<Shape>& in,
                      const std::vector<Shape>& out) {
  const Shape &q = in.at(kQ), &v = in.at(kV);
  if (!q.has_rank() || !v.has_rank() || !out.at(0).has_rank()) return SymInt();
  const int rank = q.rank();
  const Shape queries = Permuted(q, PermOf(n, kQ, rank)), values = Permuted(v, PermOf(n, kV, rank));
  SymInt rows = 1;
  const std::vector<int> y_perm = AxisOrder(n, ParamOf<AttentionParam>(n).y_perm, rank, "y_perm");
  for (int k = 0; k < rank; ++k)
    if (y_perm[size_t(k)] != rank - 1) rows = rows * out[0][k];
  return rows * values[rank - 2] * ((queries[rank - 1] + values[rank - 1]) * 2 + 5);
}

std::string AttentionBody(const OnnxBodyRequest& r) {
  const auto& p = ParamOf<AttentionParam>(r.node);
  const Shape& k = r.input_shapes[kK];
  WEFT_CHECK(k.has_rank(), kUnsupported, "{}: its ONNX form needs the rank of k",
             r.node->Describe());
  Ints columns;
  for (int a : PermOf(r.node, kK, k.rank())) columns.push_back(a);
  std::swap(columns.at(columns.size() - 2), columns.back());
  const bool counted = HasInput(r.node, kKeys);
  const std::string last = std::to_string(k.rank() - 1), rows = std::to_string(k.rank() - 2);
  std::string text = TransposeLine("q", "i0", p.q_perm) +
                     TransposeLine(counted ? "all_k" : "k", "i1", columns) +
                     TransposeLine(counted ? "all_v" : "v", "i2", p.v_perm);
  if (counted)
    text +=
        "first = Constant<value_ints = [0]>()\none = Constant<value_ints = [1]>()\n"
        "count = Reshape(i4, one)\nacross = Constant<value_ints = [" +
        last +
        "]>()\n"
        "down = Constant<value_ints = [" +
        rows +
        "]>()\n"
        "k = Slice(all_k, first, count, across)\nv = Slice(all_v, first, count, down)\n";
  text += fmt::format(
      "factor = Constant<value = double {{{}}}>()\nscale = CastLike(factor, i0)\n"
      "products = MatMul(q, k)\nscores = Mul(products, scale)\n",
      p.scale);
  std::string scores = "scores";
  if (p.softcap > 0) {
    text += fmt::format(
        "limit = Constant<value = double {{{}}}>()\ncap = CastLike(limit, i0)\n"
        "shares = Div(scores, cap)\nbent = Tanh(shares)\ncapped = Mul(bent, cap)\n",
        p.softcap);
    scores = "capped";
  }
  if (HasInput(r.node, kMask)) {
    const std::string mask = counted ? "seen" : "i3";
    if (counted)
      text += "end = Constant<value_ints = [-1]>()\nseen = Slice(i3, first, count, end)\n";
    text += "masked = Add(" + scores + ", " + mask + ")\n";
    scores = "masked";
  }
  text += fmt::format("weights = Softmax<axis = -1>({})\n", scores);
  if (p.safe)
    text +=
        "none = IsNaN(weights)\nzero = Constant<value = float {0}>()\n"
        "zeros = CastLike(zero, i0)\nsafe = Where(none, zeros, weights)\n";
  text += fmt::format("result = MatMul({}, v)\n", p.safe ? "safe" : "weights");
  return text + TransposeLine("o0", "result", p.y_perm);
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Attention)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "y = softmax(scale Q K' + mask) V with Q = Transpose(q, q_perm) [batch.., t, d], K = "
        "Transpose(k, k_perm) [batch.., s, d], V = Transpose(v, v_perm) [batch.., s, e]; the "
        "soft-max runs along s, and y is the result [batch.., t, e] with its axes in the order "
        "y_perm. Batch axes broadcast. A row of scores that are all -inf gives NaN, with safe = 1 "
        "zeros; no keys at all give 0. With `keys` n only the first n rows of K and V are read, "
        "and the mask may end behind them: a cache with room behind what it holds. Keys that the "
        "mask hides from all rows may be left out, so that NaN in them is not seen. f16 and bf16 "
        "compute in f32. The scores are never stored "
        "whole. No gradient: the pass Attention makes it where nothing else reads them.\n"
        "Errors: ranks differ or are below 2, dimensions differ, the mask does not broadcast "
        "(kShapeMismatch), a perm is not a permutation (kBadAttribute), dtypes differ "
        "(kTypeMismatch). Source: Vaswani et al. 2017, Attention is all you need.")
    .input("q", TypeDoc(kFloats))
    .input("k", "T")
    .input("v", "T")
    .optional_input("mask", "T", "added to the scores; broadcasts to [batch.., t, s]")
    .optional_input("keys", "i64", "scalar: rows of k and v that are read; absent: all")
    .output("y", "T")
    .param<AttentionParam>()
    .example({"f32[3, 4]", "f32[5, 4]", "f32[5, 2]"}, "scale = 0.5")
    .example({"f32[2, 3, n, 4]", "f32[2, 3, 5, 4]", "f32[2, 3, 5, 4]", "f32[n, 5]"})
    .example({"f32[2, 5, 3, 4]", "f32[2, 6, 3, 4]", "f32[2, 6, 3, 4]", "f32[2, 1, 1, 6]"},
             "scale = 0.5, q_perm = [0, 2, 1, 3], k_perm = [0, 2, 1, 3], v_perm = [0, 2, 1, 3], "
             "y_perm = [0, 2, 1, 3]")
    .example({"f32[2, 3, 4]", "f32[1, 4, n]", "f32[2, n, 3]"}, "k_perm = [0, 2, 1]")
    .example({"f32[3, 4]", "f32[5, 4]", "f32[5, 2]", "f32[5]"}, "safe = 1")
    .example({"f32[2, 3, 4]", "f32[2, 5, 4]", "f32[2, 5, 2]", "f32[3, 4]", "i64[] = [4]"},
             "softcap = 2.0")
    .set_attr<FInferType>("FInferType", AttentionType)
    .set_attr<FInferShape>("FInferShape", AttentionShape)
    .set_attr<FCodeGen>("FCodeGen", AttentionCode)
    .set_attr<FFlops>("FFlops", AttentionFlops)
    .set_attr<FOnnxBody>("FOnnxBody", AttentionBody);

}  // namespace weft::ops
