/// scatter.cc: ScatterElements, ScatterND, TensorScatter: a copy of `data` with some elements
/// replaced by or combined with `updates`.
///
/// By looking, as the adjoints of gather.cc: each result asks every update whether it is meant.
/// Exact and deterministic; of updates with equal indices the last one stays.
///   grad    none  to data where nothing was written, to the update that stayed
///           add   to data and to every update
///           max, min  shared equally by data and the updates that equal the result
///           mul   times the product of the other factors, zeros included
///           The second derivative is right but at zeros under `mul`.
///   throws  kShapeMismatch, kBadAttribute; indices outside the axis write nothing by this
///           definition; the host's library call, which is used where there is one, throws
///           kIndexRange
#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct ScatterParam : OpParam<ScatterParam> {
  int64_t axis;
  std::string reduction;
  WEFT_OP_PARAM(ScatterParam) {
    WEFT_FIELD(axis).set_default(0).describe("indexed axis of data, in [-rank, rank)");
    WEFT_FIELD(reduction).set_default("none").describe(
        "\"none\", \"add\", \"mul\", \"max\" or \"min\"");
  }
};
WEFT_REGISTER_OP_PARAM(ScatterParam);

struct ScatterNDParam : OpParam<ScatterNDParam> {
  std::string reduction;
  WEFT_OP_PARAM(ScatterNDParam) {
    WEFT_FIELD(reduction).set_default("none").describe(
        "\"none\", \"add\", \"mul\", \"max\" or \"min\"");
  }
};
WEFT_REGISTER_OP_PARAM(ScatterNDParam);

struct TensorScatterParam : OpParam<TensorScatterParam> {
  int64_t axis;
  std::string mode;
  WEFT_OP_PARAM(TensorScatterParam) {
    WEFT_FIELD(axis).set_default(-2).describe("sequence axis, not the first");
    WEFT_FIELD(mode).set_default("linear").describe("\"linear\", or \"circular\": indices wrap");
  }
};
WEFT_REGISTER_OP_PARAM(TensorScatterParam);

enum class Combine { kNone, kAdd, kMul, kMax, kMin };
Combine CombineOf(const NodePtr& n, const std::string& reduction) {
  if (reduction == "none") return Combine::kNone;
  if (reduction == "add") return Combine::kAdd;
  if (reduction == "mul") return Combine::kMul;
  if (reduction == "max") return Combine::kMax;
  WEFT_CHECK(reduction == "min", kBadAttribute, "{}: reduction \"{}\"", n->Describe(), reduction);
  return Combine::kMin;
}

void ScatterType(InferTypeContext& ctx, Combine combine) {
  const DTypeSet set = combine == Combine::kNone ? kAllTypes : kComputable;
  CheckInputType(ctx, 0, set);
  CheckInputType(ctx, 1, kIndexTypes);
  CheckInputType(ctx, 2, set);
  const Type x = ctx.in(0), u = ctx.in(2);
  WEFT_CHECK(!x.known() || !u.known() || x == u, kTypeMismatch, "{}: data {} and updates {}",
             ctx.node()->Describe(), x.ToString(), u.ToString());
  if (x.known() || u.known()) ctx.set_out(0, x.known() ? x : u);
}

/// data combined with the updates that `hit` names; `read(r)` is the update of position r, `linear`
/// its number. `read_linear` reads by number.
Expr Combined(Combine combine, const Expr& data, const std::vector<SymInt>& positions,
              const std::function<Expr(const Indices&)>& hit,
              const std::function<Expr(const Indices&)>& read,
              const std::function<Expr(const Expr&)>& read_linear) {
  for (SymInt d : positions)
    if (d.is(0)) return data;
  const DType t = data->dtype(), c = AccumulatorOf(t);
  const auto fold = [&](ReduceOp op, const Expr& neutral) {
    return ReduceOver(op, positions, [&](const Indices& r) {
      return Expr::Select(hit(r), Expr::Cast(c, read(r)), neutral);
    });
  };
  const Expr x = Expr::Cast(c, data);
  switch (combine) {
    case Combine::kAdd:
      if (t == DType::kBool) return Or(data, fold(ReduceOp::kAny, Expr::Bool(false)));
      return Expr::Cast(t, x + fold(ReduceOp::kSum, Zero(c)));
    case Combine::kMul:
      if (t == DType::kBool) return And(data, fold(ReduceOp::kAll, Expr::Bool(true)));
      return Expr::Cast(t, x * fold(ReduceOp::kProd, Expr::ConstInt(c, 1)));
    case Combine::kMax:
    case Combine::kMin: {
      // A miss counts as data itself, which takes part anyway.
      const bool max = combine == Combine::kMax;
      if (t == DType::kBool)
        return max ? Or(data, fold(ReduceOp::kAny, Expr::Bool(false)))
                   : And(data, fold(ReduceOp::kAll, Expr::Bool(true)));
      const Expr m = fold(max ? ReduceOp::kMax : ReduceOp::kMin, x);
      return Expr::Cast(t, max ? Max(x, m) : Min(x, m));
    }
    case Combine::kNone:
      break;
  }
  const Expr last = ReduceOver(ReduceOp::kMax, positions, [&](const Indices& r) {
    return Expr::Select(hit(r), Linearize(r, positions), Expr::Int(-1));
  });
  return Expr::Select(Lt(last, Expr::Int(0)), data, read_linear(Max(last, Expr::Int(0))));
}

// ---- gradients of the scatters ----

/// A scatter, and the gather that reads where it writes.
struct Pair {
  const char *scatter, *gather;
  AttrDict attrs;
};
struct Scatters {
  NodePtr node;
  Pair pair;
  NodeEntry Scatter(const NodeEntry& data, const NodeEntry& updates, const char* reduction) const {
    AttrDict attrs = pair.attrs;
    attrs["reduction"] = reduction;
    return ApplyOp(pair.scatter, {data, node->inputs[1], updates}, attrs);
  }
  NodeEntry Gather(const NodeEntry& e) const {
    return ApplyOp(pair.gather, {e, node->inputs[1]}, pair.attrs);
  }
};

/// The updates that stay: each writes its number, and the last one of a place finds its own there.
NodeEntry Last(const Scatters& s) {
  const NodeEntry u = s.node->inputs[2];
  const auto number = [&](int64_t v) { return ScalarLike(u, DType::kI64, double(v)); };
  const NodeEntry count = ApplyOp("Range", {number(0), ApplyOp("Size", {u}), number(1)});
  const NodeEntry own = ReshapeLike(count, u);
  const NodeEntry nobody = ExpandLike(number(-1), s.node->inputs[0]);
  return ApplyOp("Equal", {own, s.Gather(s.Scatter(nobody, own, "none"))});
}

/// What the places of `data` and of `updates` get of dy; see the table at the top of this file.
std::vector<NodeEntry> ScatterGradient(const NodePtr& n, const std::vector<NodeEntry>& dys,
                                       Combine combine, const Pair& pair) {
  if (!dys[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  const Scatters s{n, pair};
  const NodeEntry x = n->inputs[0], u = n->inputs[2], dy = dys[0], y(n);
  const NodeEntry zero = ScalarOf(dy, 0), one = ScalarOf(dy, 1);
  const auto as_number = [&](const NodeEntry& e) { return ApplyOp("CastLike", {e, dy}); };
  switch (combine) {
    case Combine::kNone:
      return {s.Scatter(dy, ZerosLike(u), "none"), NodeEntry(), MaskedGrad(Last(s), s.Gather(dy))};
    case Combine::kAdd:
      return {dy, NodeEntry(), s.Gather(dy)};
    case Combine::kMax:
    case Combine::kMin: {
      const NodeEntry hit_x = as_number(ApplyOp("Equal", {x, y}));
      const NodeEntry hit_u = as_number(ApplyOp("Equal", {u, s.Gather(y)}));
      const NodeEntry share = dy / s.Scatter(hit_x, hit_u, "add");
      return {hit_x * share, NodeEntry(), hit_u * s.Gather(share)};
    }
    case Combine::kMul:
      break;
  }
  // The product of the others, without a division by 0: of all factors but zeros, where there is no
  // other zero.
  const NodeEntry x_zero = ApplyOp("Equal", {x, zero}), u_zero = ApplyOp("Equal", {u, zero});
  const NodeEntry x1 = ApplyOp("Where", {x_zero, one, x}), u1 = ApplyOp("Where", {u_zero, one, u});
  const NodeEntry product = s.Gather(dy * s.Scatter(x1, u1, "mul"));
  const NodeEntry zeros = s.Gather(s.Scatter(as_number(x_zero), as_number(u_zero), "add"));
  const NodeEntry alone = ApplyOp("Equal", {zeros, as_number(u_zero)});
  const NodeEntry ones = ExpandLike(one, x);
  return {dy * s.Scatter(ones, u, "mul"), NodeEntry(), MaskedGrad(alone, product / u1)};
}

// ---- ScatterElements ----

void ScatterElementsShape(InferShapeContext& ctx) {
  const Shape &x = ctx.in(0), &idx = ctx.in(1), &u = ctx.in(2);
  if (x.has_rank() && idx.has_rank()) {
    WEFT_CHECK(x.rank() == idx.rank() && x.rank() > 0, kShapeMismatch, "{}: data {}, indices {}",
               ctx.node()->Describe(), x.ToString(), idx.ToString());
    AxisOf(ParamOf<ScatterParam>(ctx.node()).axis, x.rank(), ctx.node());
  }
  if (idx.has_rank() && u.has_rank()) {
    WEFT_CHECK(idx.rank() == u.rank(), kShapeMismatch, "{}: indices {}, updates {}",
               ctx.node()->Describe(), idx.ToString(), u.ToString());
    for (int d = 0; d < u.rank(); ++d) UnifyDims(ctx, idx[d], u[d], "indices and updates");
  }
  ctx.set_out(0, x);
}
Exprs ScatterElementsCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<ScatterParam>(n);
  const TensorArg &x = in[0], &idx = in[1], &u = in[2];
  const size_t axis = size_t(AxisOf(p.axis, x.rank(), n));
  // Off the axis the updates may cover only a corner of data.
  Expr covered = Expr::Bool(true);
  Indices inside = at(0);
  for (int k = 0; k < idx.rank(); ++k) {
    if (size_t(k) == axis || idx.shape[k] == x.shape[k]) continue;
    covered = And(covered, Lt(at(0)[size_t(k)], idx.dim(k)));
    inside[size_t(k)] = Min(at(0)[size_t(k)], idx.dim(k) - Expr::Int(1));
    if (idx.shape[k].is(0)) return {x(at(0))};
  }
  const auto place = [&](const Expr& r) {
    Indices from = inside;
    from[axis] = r;
    return from;
  };
  return {Combined(
      CombineOf(n, p.reduction), x(at(0)), {idx.shape[int(axis)]},
      [&](const Indices& r) {
        return And(covered, Eq(WrapIndex(idx(place(r[0])), x.dim(int(axis))), at(0)[axis]));
      },
      [&](const Indices& r) { return u(place(r[0])); },
      [&](const Expr& r) { return u(place(r)); })};
}
std::vector<NodeEntry> ScatterElementsGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  const auto& p = ParamOf<ScatterParam>(n);
  return ScatterGradient(n, dy, CombineOf(n, p.reduction),
                         {"ScatterElements", "GatherElements", {{"axis", p.axis}}});
}

// ---- ScatterND ----

/// Indices [positions..., k] name places in the first k axes of
/// data; updates [positions..., rest...].
void ScatterNDShape(InferShapeContext& ctx) {
  const Shape &x = ctx.in(0), &idx = ctx.in(1), &u = ctx.in(2);
  ctx.set_out(0, x);
  if (!x.has_rank() || !idx.has_rank()) return;
  WEFT_CHECK(x.rank() > 0 && idx.rank() > 0, kShapeMismatch, "{}: data {}, indices {}",
             ctx.node()->Describe(), x.ToString(), idx.ToString());
  const SymInt k = idx[idx.rank() - 1];
  if (!k.known() || !k.is_const() || !u.has_rank()) return;
  WEFT_CHECK(k.value() <= x.rank() && u.rank() == idx.rank() - 1 + x.rank() - k.value(),
             kShapeMismatch, "{}: data {}, indices {}, updates {}", ctx.node()->Describe(),
             x.ToString(), idx.ToString(), u.ToString());
  for (int d = 0; d < idx.rank() - 1; ++d) UnifyDims(ctx, idx[d], u[d], "indices and updates");
  for (int d = idx.rank() - 1, e = int(k.value()); d < u.rank(); ++d, ++e)
    UnifyDims(ctx, x[e], u[d], "data and updates");
}
Exprs ScatterNDCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &idx = in[1], &u = in[2];
  const SymInt depth = idx.shape[idx.rank() - 1];
  WEFT_CHECK(depth.known() && depth.is_const(), kUnsupported,
             "{}: the last dimension of indices {} must be known", n->Describe(),
             idx.shape.ToString());
  const int k = int(depth.value());
  std::vector<SymInt> positions(idx.shape.dims().begin(), idx.shape.dims().end() - 1);
  const Indices rest(at(0).begin() + k, at(0).end());
  const auto read = [&](const Indices& r) {
    Indices from = r;
    from.insert(from.end(), rest.begin(), rest.end());
    return u(from);
  };
  return {Combined(
      CombineOf(n, ParamOf<ScatterNDParam>(n).reduction), x(at(0)), positions,
      [&](const Indices& r) {
        Expr hit = Expr::Bool(true);
        for (int j = 0; j < k; ++j) {
          Indices where = r;
          where.push_back(Expr::Int(j));
          hit = And(hit, Eq(WrapIndex(idx(where), x.dim(j)), at(0)[size_t(j)]));
        }
        return hit;
      },
      read, [&](const Expr& r) { return read(Delinearize(r, positions)); })};
}
std::vector<NodeEntry> ScatterNDGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  return ScatterGradient(n, dy, CombineOf(n, ParamOf<ScatterNDParam>(n).reduction),
                         {"ScatterND", "GatherND", {}});
}

// ---- TensorScatter ----

void TensorScatterType(InferTypeContext& ctx) {
  CheckInputType(ctx, 2, kI64Only);
  const Type t = CommonInputType(ctx, kAllTypes, 0, 2);
  if (t.known()) ctx.set_out(0, t);
}
void TensorScatterShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<TensorScatterParam>(ctx.node());
  WEFT_CHECK(p.mode == "linear" || p.mode == "circular", kBadAttribute, "{}: mode \"{}\"",
             ctx.node()->Describe(), p.mode);
  const Shape &x = ctx.in(0), &u = ctx.in(1);
  ctx.set_out(0, x);
  if (HasInput(ctx, 2) && CheckRank(ctx, 2, 1, "write_indices") && x.has_rank())
    UnifyDims(ctx, ctx.in(2)[0], x[0], "the batch and write_indices");
  if (!x.has_rank() || !u.has_rank()) return;
  WEFT_CHECK(x.rank() == u.rank(), kShapeMismatch, "{}: cache {}, update {}",
             ctx.node()->Describe(), x.ToString(), u.ToString());
  const int axis = AxisOf(p.axis, x.rank(), ctx.node());
  WEFT_CHECK(axis > 0, kBadAttribute, "{}: the first axis is the batch", ctx.node()->Describe());
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis) UnifyDims(ctx, x[d], u[d], "cache and update");
}
Exprs TensorScatterCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<TensorScatterParam>(n);
  const TensorArg &x = in[0], &u = in[1];
  const int axis = AxisOf(p.axis, x.rank(), n);
  const Expr start = HasInput(in, 2) ? in[2]({at(0)[0]}) : Expr::Int(0);
  Expr i = at(0)[size_t(axis)] - start;
  if (p.mode == "circular") i = FloorModExpr(i, x.dim(axis));
  Indices from = at(0);
  from[size_t(axis)] = i;
  return {ReadEither(InRange(i, u.dim(axis)), u(from), x(at(0)))};
}

/// past_cache gets dy where nothing was written; update reads dy where it was written. The cache is
/// seen as [batch, before, axis, after].
std::vector<NodeEntry> TensorScatterGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  const auto& p = ParamOf<TensorScatterParam>(n);
  const NodeEntry dy = dys[0], x = n->inputs[0], u = n->inputs[1];
  std::vector<NodeEntry> args(n->inputs.begin(), n->inputs.end());
  args[0] = dy;
  args[1] = ZerosLike(u);
  d[0] = ApplyOp("TensorScatter", args, AttrsOf(n));
  const int64_t behind = p.axis == -1 ? INT64_MAX : p.axis + 1;  // clamped to the rank
  const auto product = [](const NodeEntry& of, int64_t from, int64_t to) {
    return ApplyOp("ReduceProd", {ApplyOp("Shape", {of}, {{"start", from}, {"end", to}})});
  };
  const auto extents = [&](const NodeEntry& of) {
    return ApplyOp("Concat",
                   {product(of, 0, 1), product(of, 1, p.axis), product(of, p.axis, behind),
                    product(of, behind, INT64_MAX)},
                   {{"axis", 0}});
  };
  const auto number = [&](int64_t v) { return ScalarLike(u, DType::kI64, double(v)); };
  const auto ints = [&](const std::vector<int64_t>& v) { return IntsLike(u, v); };
  const NodeEntry like_x = extents(x), like_u = extents(u);
  const auto axis_of = [&](const NodeEntry& shape) {
    return ApplyOp("Gather", {shape, number(2)}, {{"axis", 0}});
  };
  NodeEntry place = ApplyOp(
      "Reshape", {ApplyOp("Range", {number(0), axis_of(like_u), number(1)}), ints({1, 1, -1, 1})});
  if (HasInput(n, 2)) place = place + ApplyOp("Reshape", {n->inputs[2], ints({-1, 1, 1, 1})});
  const NodeEntry extent = axis_of(like_x);
  if (p.mode == "circular") place = ApplyOp("Mod", {place, extent});
  const NodeEntry inside = ApplyOp("Less", {place, extent});
  const NodeEntry rows = ApplyOp("Reshape", {dy, like_x}, {{"allowzero", 1}});
  const NodeEntry at = ApplyOp("Where", {inside, place, number(0)});
  const NodeEntry read =
      ApplyOp("GatherElements", {rows, ApplyOp("Expand", {at, like_u})}, {{"axis", 2}});
  d[1] = ReshapeLike(MaskedGrad(inside, read), u);
  return d;
}

}  // namespace

WEFT_REGISTER_OP(ScatterElements)
    .describe(
        "data, with updates[..., i, ...] put to (or combined with) the place indices[..., i, ...] "
        "of the axis.\nOf equal indices the last stays. Gradient: the table at the top of "
        "scatter.cc. Source: ONNX ScatterElements-18.")
    .input("data", TypeDoc(kAllTypes))
    .input("indices", TypeDoc(kIndexTypes, "Tind"), "in [-size, size) of the axis")
    .input("updates", "T", "the shape of indices")
    .output("output", "T", "the shape of data")
    .param<ScatterParam>()
    .example({"f32[4, 3]", "i64[2, 3] = [0, 3, 1, -1, 2, 0]", "f32[2, 3]"})
    .example({"f32[n, 4]", "i64[1, 2] = [1, 1]", "f32[1, 2]"}, "axis = 1, reduction = \"add\"")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            ScatterType(
                                ctx,
                                CombineOf(ctx.node(), ParamOf<ScatterParam>(ctx.node()).reduction));
                          })
    .set_attr<FInferShape>("FInferShape", ScatterElementsShape)
    .set_attr<FCodeGen>("FCodeGen", ScatterElementsCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FGradient>("FGradient", ScatterElementsGrad)
    .set_attr<FInputDomains>("FInputDomains", [](const NodePtr& n) -> std::vector<InputDomain> {
      InputDomain d{InputDomain::kIndex};
      d.axis = int(ParamOf<ScatterParam>(n).axis);
      return {InputDomain(), d, InputDomain()};
    });

WEFT_REGISTER_OP(ScatterND)
    .describe(
        "data, with updates[p..., :] put to (or combined with) the place indices[p..., :] of its "
        "leading axes.\nOf equal indices the last stays. Gradient: as ScatterElements. Source: "
        "ONNX ScatterND-18.")
    .input("data", TypeDoc(kAllTypes))
    .input("indices", "i64", "[positions..., k]")
    .input("updates", "T", "[positions..., the dimensions of data from k on]")
    .output("output", "T", "the shape of data")
    .param<ScatterNDParam>()
    .example({"f32[4, 3]", "i64[2, 1] = [2, -4]", "f32[2, 3]"})
    .example({"f32[4, 3]", "i64[3, 2] = [0, 1, 3, 2, 0, 1]", "f32[3]"}, "reduction = \"add\"")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            ScatterType(ctx,
                                        CombineOf(ctx.node(),
                                                  ParamOf<ScatterNDParam>(ctx.node()).reduction));
                          })
    .set_attr<FInferShape>("FInferShape", ScatterNDShape)
    .set_attr<FCodeGen>("FCodeGen", ScatterNDCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FGradient>("FGradient", ScatterNDGrad)
    .set_attr<FInputDomains>("FInputDomains", [](const NodePtr&) -> std::vector<InputDomain> {
      return {InputDomain(), {InputDomain::kIndex}, InputDomain()};
    });

WEFT_REGISTER_OP(TensorScatter)
    .describe(
        "past_cache with `update` written along the axis from write_indices[batch] on; "
        "\"circular\" "
        "wraps.\nGradient: dy where nothing was written, and where update was. Source: ONNX "
        "TensorScatter-24.")
    .input("past_cache", TypeDoc(kAllTypes))
    .input("update", "T")
    .optional_input("write_indices", "i64", "[batch]; absent: 0")
    .output("present_cache", "T", "the shape of past_cache")
    .param<TensorScatterParam>()
    .example({"f32[2, 5, 3]", "f32[2, 2, 3]", "i64[2] = [1, 3]"})
    .example({"f32[2, 5, 3]", "f32[2, 2, 3]", "i64[2] = [4, 0]"}, "mode = \"circular\"")
    .set_attr<FInferType>("FInferType", TensorScatterType)
    .set_attr<FInferShape>("FInferShape", TensorScatterShape)
    .set_attr<FCodeGen>("FCodeGen", TensorScatterCode)
    // A kernel would write every row of the cache.
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FGradient>("FGradient", TensorScatterGrad);

}  // namespace weft::ops
