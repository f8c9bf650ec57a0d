/// loss.cc: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
///
/// A rewrite gives the parts, which fuse: one kernel over the rows (n, d..) for soft-max, the
/// label's score and the gradient, one for the sum of the losses:
///   lp = LogSoftmax(x)   hot = weft::ClassMask(labels, c)
///   pick = ReduceSum(Where(hot, lp, 0), [1])
///   w = weft::ClassWeight(labels, weights)   loss_i = -(pick w)
/// Without weights they are ones: the look-up is what checks the labels. Over a symbolic number of
/// classes there is nothing to look up in: a label that is none of them then makes the loss NaN.
///
///   dx = (softmax(x) - hot) (dy w_i / sum w), for log-probabilities Where(hot, -dy w_i / sum w, 0)
#include <cmath>

#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct LossParam : OpParam<LossParam> {
  std::string reduction;
  int64_t ignore_index;
  WEFT_OP_PARAM(LossParam) {
    WEFT_FIELD(reduction).set_default("mean").describe("\"none\", \"sum\" or \"mean\"");
    WEFT_FIELD(ignore_index).set_default(0).describe("where given, the label that does not count");
  }
};
WEFT_REGISTER_OP_PARAM(LossParam);

enum class Reduction { kNone, kSum, kMean };
Reduction ReductionOf(const NodePtr& n) {
  const std::string& r = ParamOf<LossParam>(n).reduction;
  WEFT_CHECK(r == "none" || r == "sum" || r == "mean", kBadAttribute,
             "{}: reduction \"{}\", expected \"none\", \"sum\" or \"mean\"", n->Describe(), r);
  return r == "none" ? Reduction::kNone : r == "sum" ? Reduction::kSum : Reduction::kMean;
}
bool Ignores(const NodePtr& n) { return n->attrs.dict.find("ignore_index") != nullptr; }
/// The w_i are all 1.
bool IsPlain(const NodePtr& n) { return !Ignores(n) && !HasInput(n, 2); }
/// x holds scores, not log-probabilities.
bool TakesScores(const NodePtr& n) { return IsOp(n, "SoftmaxCrossEntropyLoss"); }
/// The attribute of the operators of class_index.cc.
AttrDict IgnoreAttr(const NodePtr& n) {
  AttrDict attrs;
  if (Ignores(n)) attrs["ignore_index"] = ParamOf<LossParam>(n).ignore_index;
  return attrs;
}

void LossType(InferTypeContext& ctx) {
  CheckInputType(ctx, 1, kIndexTypes);
  CheckInputType(ctx, 0, kFloats);
  CheckInputType(ctx, 2, kFloats);
  const Type x = ctx.in(0), w = ctx.num_inputs() > 2 && ctx.has_input(2) ? ctx.in(2) : Type();
  WEFT_CHECK(!x.known() || !w.known() || x == w, kTypeMismatch,
             "{}: scores are {}, weights {}: one dtype is expected", ctx.node()->Describe(),
             x.ToString(), w.ToString());
  if (!x.known()) return;
  for (int k = 0; k < ctx.num_outputs(); ++k) ctx.set_out(k, x);
}
void LossShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape &x = ctx.in(0), &labels = ctx.in(1);
  const bool reduced = ReductionOf(n) != Reduction::kNone;
  if (reduced) ctx.set_out(0, Shape::Scalar());
  WEFT_CHECK(!x.has_rank() || x.rank() >= 2, kShapeMismatch,
             "{}: scores {}, expected [n, c, ..] of rank 2 or more", n->Describe(), x.ToString());
  WEFT_CHECK(!x.has_rank() || !labels.has_rank() || labels.rank() == x.rank() - 1, kShapeMismatch,
             "{}: labels {} for scores {}, expected all axes but 1", n->Describe(),
             labels.ToString(), x.ToString());
  if (HasInput(ctx, 2) && CheckRank(ctx, 2, 1, "weights") && x.has_rank())
    UnifyDims(ctx, ctx.in(2)[0], x[1], "classes");
  if (ctx.num_outputs() > 1) {
    if (x.has_rank())
      ctx.set_out(1, x);
    else
      Unknown(ctx, 1, "the rank of the scores is unknown");
  }
  std::vector<SymInt> rows;
  if (x.has_rank()) {
    rows = x.dims();
    rows.erase(rows.begin() + 1);
    for (size_t k = 0; labels.has_rank() && k < rows.size(); ++k)
      rows[k] = UnifyDims(ctx, labels[int(k)], rows[k], "dimensions of labels and scores");
  } else if (labels.has_rank()) {
    rows = labels.dims();
  } else {
    if (!reduced) Unknown(ctx, 0, "the ranks of scores and labels are unknown");
    return;
  }
  if (!reduced) ctx.set_out(0, Shape(std::move(rows)));
}

// ---- the definition ----

/// One row of x: the classes at one position (n, d..).
class Row {
 public:
  Row(const TensorArg& x, const Indices& row) : x_(x), row_(row), type_(AccumulatorOf(x.dtype)) {}
  Expr At(const Expr& c) const {
    Indices from = row_;
    from.insert(from.begin() + 1, c);
    return Expr::Cast(type_, x_(from));
  }
  /// log(sum(exp(x))) = max + log(sum(exp(x - max))).
  std::pair<Expr, Expr> LogSum() const {
    const Expr max = Over(ReduceOp::kMax, [&](const Expr& c) { return At(c); });
    const Expr sum =
        Over(ReduceOp::kSum, [&](const Expr& c) { return CallMath(CallOp::kExp, At(c) - max); });
    return {max, CallMath(CallOp::kLog, sum)};
  }

 private:
  Expr Over(ReduceOp op, const std::function<Expr(const Expr&)>& body) const {
    return Expr::Reduce(op, {x_.shape[1]}, [&](const Indices& r) { return body(r[0]); });
  }
  const TensorArg& x_;
  const Indices& row_;
  DType type_;
};

Exprs LossCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &labels = in[1];
  const DType t = AccumulatorOf(x.dtype);
  const bool scores = TakesScores(n);
  const auto label = [&](const Indices& row) { return Expr::Cast(DType::kI64, labels(row)); };
  const auto counts = [&](const Indices& row) {
    return Ignores(n) ? Ne(label(row), Expr::Int(ParamOf<LossParam>(n).ignore_index))
                      : Expr::Bool(true);
  };
  const auto weight = [&](const Indices& row) {
    const Expr w = HasInput(in, 2) ? Expr::Cast(t, in[2]({label(row)})) : Expr::Const(t, 1);
    return ReadWhere(counts(row), w, Zero(t));
  };
  const auto loss = [&](const Indices& row) {
    const Row r(x, row);
    Expr log_prob = r.At(label(row));
    if (scores) {
      const auto [max, log] = r.LogSum();
      log_prob = log_prob - max - log;
    }
    return ReadWhere(counts(row), -(log_prob * weight(row)), Zero(t));
  };
  Expr y;
  const Reduction reduction = ReductionOf(n);
  if (reduction == Reduction::kNone) {
    y = loss(at(0));
  } else {
    const std::vector<SymInt>& rows = labels.shape.dims();
    y = Expr::Reduce(ReduceOp::kSum, rows, loss);
    if (reduction == Reduction::kMean)
      y = y / (IsPlain(n) ? CountOf(rows, t) : Expr::Reduce(ReduceOp::kSum, rows, weight));
  }
  Exprs out{Expr::Cast(x.dtype, y)};
  if (scores) {
    Indices row = at(1);
    const Expr c = row[1];
    row.erase(row.begin() + 1);
    const Row r(x, row);
    const auto [max, log] = r.LogSum();
    out.push_back(Expr::Cast(x.dtype, r.At(c) - max - log));
  }
  return out;
}

// ---- the parts ----

NodeEntry ClassCount(const NodeEntry& x) {
  return ApplyOp("Gather", {ShapeOf(x), ConstantLike(x, Tensor::Scalar(DType::kI64, 1))});
}
NodeEntry MaskOf(const NodePtr& n) {
  AttrDict attrs = IgnoreAttr(n);
  attrs["axis"] = int64_t{1};
  return ApplyOp("weft::ClassMask", {n->inputs[1], ClassCount(n->inputs[0])}, std::move(attrs));
}
/// `weights` of dtype and extent of the classes.
NodeEntry WeightOf(const NodePtr& n, const NodeEntry& weights) {
  return ApplyOp("weft::ClassWeight", {n->inputs[1], weights}, IgnoreAttr(n));
}

/// Most classes without weights that get a table of ones: 4 MiB in f32.
constexpr int64_t kMostOnes = int64_t{1} << 20;

/// Without weights over a symbolic number of classes: 1, and NaN for a label that is none of them.
NodeEntry OneInRange(const NodePtr& n, DType t) {
  const NodeEntry x = n->inputs[0];
  const auto i64 = [&x](int64_t v) { return ScalarLike(x, DType::kI64, double(v)); };
  const NodeEntry label = ApplyOp("Cast", {n->inputs[1]}, {{"to", DType::kI64}});
  const NodeEntry outside = ApplyOp(
      "Or", {ApplyOp("Less", {label, i64(0)}), ApplyOp("GreaterOrEqual", {label, ClassCount(x)})});
  const NodeEntry w =
      ApplyOp("Where", {outside, ScalarLike(x, t, std::nan("")), ScalarLike(x, t, 1)});
  if (!Ignores(n)) return w;
  const NodeEntry none = ApplyOp("Equal", {label, i64(ParamOf<LossParam>(n).ignore_index)});
  return ApplyOp("Where", {none, ScalarLike(x, t, 0), w});
}

std::vector<NodeEntry> SimplifyLoss(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  const Shape& shape = ctx.shape(x);
  const DType type = ctx.dtype(x), t = AccumulatorOf(type);
  if (!shape.has_rank() || !shape[1].known() || type == DType::kUnknown) return {};
  NodeEntry lp = CastFrom(x, type, t);
  if (TakesScores(n)) lp = ApplyOp("LogSoftmax", {lp}, {{"axis", 1}});
  const NodeEntry zero = ScalarLike(x, t, 0);
  const NodeEntry pick = ApplyOp(
      "ReduceSum", {ApplyOp("Where", {MaskOf(n), lp, zero}), IntsLike(x, {1})}, {{"keepdims", 0}});
  NodeEntry w;
  if (HasInput(n, 2)) {
    w = WeightOf(n, CastFrom(n->inputs[2], type, t));
  } else if (shape[1].is_const() && shape[1].value() <= kMostOnes) {
    auto ones = std::make_shared<Tensor>(t, std::vector<int64_t>{shape[1].value()});
    for (int64_t c = 0; c < shape[1].value(); ++c) ones->set(c, 1);
    w = WeightOf(n, ConstantLike(x, ones));
  } else {
    w = OneInRange(n, t);
  }
  // An ignored label picks nothing and has weight 0.
  NodeEntry loss = -(pick * w);
  const auto total = [](const char* op, const NodeEntry& e) {
    return ApplyOp(op, {e}, {{"keepdims", 0}});
  };
  const Reduction reduction = ReductionOf(n);
  if (reduction == Reduction::kSum)
    loss = total("ReduceSum", loss);
  else if (reduction == Reduction::kMean)
    loss =
        IsPlain(n) ? total("ReduceMean", loss) : total("ReduceSum", loss) / total("ReduceSum", w);
  std::vector<NodeEntry> out{CastFrom(loss, t, type)};
  if (TakesScores(n)) out.push_back(CastFrom(lp, t, type));
  return out;
}

/// `e`, which spans x, times d loss / d loss_i w_i of its row.
NodeEntry TimesRow(const NodePtr& n, const NodeEntry& e, const NodeEntry& dy) {
  const Reduction reduction = ReductionOf(n);
  const NodeEntry axis = IntsLike(dy, {1});
  if (IsPlain(n)) {
    if (reduction == Reduction::kNone) return e * ApplyOp("Unsqueeze", {dy, axis});
    return reduction == Reduction::kSum
               ? e * dy
               : ApplyOp("weft::DivideCount", {e * dy, ApplyOp("Size", {n->inputs[1]})});
  }
  const NodeEntry weights =
      HasInput(n, 2) ? n->inputs[2]
                     : ApplyOp("Expand", {ScalarOf(dy, 1),
                                          ApplyOp("Reshape", {ClassCount(n->inputs[0]), axis})});
  const NodeEntry w = WeightOf(n, weights);
  NodeEntry row = w * dy;
  if (reduction == Reduction::kMean) row = row / ApplyOp("ReduceSum", {w}, {{"keepdims", 0}});
  return e * ApplyOp("Unsqueeze", {row, axis});
}

std::vector<NodeEntry> LossGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  const NodeEntry x = n->inputs[0];
  if (AllNull(dys)) return d;
  const NodeEntry mask = MaskOf(n), hot = ApplyOp("CastLike", {mask, x});
  if (!TakesScores(n)) {
    d[0] = ApplyOp("Where", {mask, TimesRow(n, -hot, dys[0]), ScalarOf(x, 0)});
    return d;
  }
  const NodeEntry p = ApplyOp("Softmax", {x}, {{"axis", 1}});
  if (dys[0]) d[0] = TimesRow(n, p - hot, dys[0]);
  if (dys.size() > 1 && dys[1]) {
    const NodeEntry sum = ApplyOp("ReduceSum", {dys[1], IntsLike(x, {1})}, {{"keepdims", 1}});
    const NodeEntry more = dys[1] - p * sum;
    d[0] = d[0] ? d[0] + more : more;
  }
  return d;
}

FInputDomains LossDomains() {
  return [](const NodePtr&) -> std::vector<InputDomain> {
    InputDomain labels{InputDomain::kIndex};
    labels.of = 0;
    labels.axis = 1;
    return {InputDomain(), labels, InputDomain{InputDomain::kPositive}};
  };
}

}  // namespace

#define WEFT_REGISTER_LOSS(Name, Doc, GradDoc, Version, Scores, Labels)                           \
  WEFT_REGISTER_OP(Name)                                                                          \
      .describe(Doc                                                                               \
                " w = weights[label], 1 without weights, 0 where the label is ignore_index; "     \
                "reduction \"mean\" divides by the sum of w, and is NaN where that is 0. f16 "    \
                "and bf16 compute in f32. Gradient: " GradDoc                                     \
                "; labels and weights have none. Errors: a label outside [0, c) "                 \
                "(kIndexRange), dimensions or ranks that do not fit (kShapeMismatch), another "   \
                "reduction (kBadAttribute). Source: ONNX " #Name "-" Version ".")                 \
      .input(Scores, TypeDoc(kFloats), "[n, c, d..]")                                             \
      .input(Labels, TypeDoc(kIndexTypes, "Tind"), "[n, d..], in [0, c), or ignore_index")        \
      .optional_input("weights", "T", "[c]")                                                      \
      .param<LossParam>()                                                                         \
      .example({"f32[4, 3]", "i64[4]"})                                                           \
      .example({"f32[n, 5, 2]", "i32[n, 2]", "f32[5]"}, "reduction = \"sum\", ignore_index = 2")  \
      .example({"f64[3, 4, 2, 2]", "i64[3, 2, 2]"}, "reduction = \"none\", ignore_index = -100")  \
      .set_attr<FInferType>("FInferType", LossType)                                               \
      .set_attr<FInferShape>("FInferShape", LossShape)                                            \
      .set_attr<FCodeGen>("FCodeGen", LossCode)                                                   \
      .set_attr<FGradient>("FGradient", LossGradient)                                             \
      .set_attr<FSimplify>("FSimplify", SimplifyLoss)                                             \
      .set_attr<FInputDomains>("FInputDomains", LossDomains())                                    \
      .set_attr<FFlops>(                                                                          \
          "FFlops", [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) { \
            return in.at(0).num_elements() * 5;                                                   \
          })

WEFT_REGISTER_LOSS(NegativeLogLikelihoodLoss, "loss = -w x[label], x log-probabilities.",
                   "dx = -w dy at the label, else 0", "22", "input", "target")
    .output("loss", "T", "[n, d..], or a scalar");
WEFT_REGISTER_LOSS(SoftmaxCrossEntropyLoss,
                   "loss = -w log_prob[label], log_prob = x - log(sum(exp(x))) over the classes.",
                   "dx = (softmax(x) - onehot) w dy", "13", "scores", "labels")
    .output("output", "T", "[n, d..], or a scalar")
    .optional_output("log_prob", "T", "[n, c, d..]")
    .set_num_outputs(2);

}  // namespace weft::ops
