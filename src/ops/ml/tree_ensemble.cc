/// tree_ensemble.cc: weft::TreeEnsemble, decision trees whose leaves are added up; and
/// weft::PairwiseCoupling, probabilities of classes from those of pairs.
///
/// All trees share one array of nodes. Node k sends a row to true_children[k] where
/// row[features[k]] <= splits[k], or where that feature is NaN and nan_true[k] is 1; else to
/// false_children[k]. A number >= 0 is a node, and comes after its parent; a negative one is leaf
/// ~number, whose weights are [leaf_starts[leaf], leaf_starts[leaf + 1]). Import says every
/// operator of ai.onnx.ml for trees with it (src/onnx/lift/lift_trees.cc).
///   throws  kBadAttribute for lists of different lengths and for numbers that name nothing
#include <algorithm>
#include <cmath>

#include "ops/util/demand.h"
#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

struct TreeEnsembleParam : OpParam<TreeEnsembleParam> {
  std::string aggregate;
  int64_t targets;
  TensorAttr roots, features, splits, nan_true, true_children, false_children;
  TensorAttr leaf_starts, leaf_targets, leaf_weights;
  WEFT_OP_PARAM(TreeEnsembleParam) {
    WEFT_FIELD(aggregate).set_default("SUM").describe("\"SUM\", \"AVERAGE\", \"MIN\" or \"MAX\"");
    WEFT_FIELD(targets).set_lower_bound(1).describe("columns of the result");
    WEFT_FIELD(roots).describe("i32, of each tree");
    WEFT_FIELD(features).describe("i32, of each node");
    WEFT_FIELD(splits).describe("of each node, of the dtype of x; a NaN is above no value");
    WEFT_FIELD(nan_true).describe("u8, of each node");
    WEFT_FIELD(true_children).describe("i32, of each node");
    WEFT_FIELD(false_children).describe("i32, of each node");
    WEFT_FIELD(leaf_starts).describe("i32, of each leaf, and one more");
    WEFT_FIELD(leaf_targets).describe("i32, of each weight");
    WEFT_FIELD(leaf_weights).describe("of each weight, of the dtype of x");
  }
};
WEFT_REGISTER_OP_PARAM(TreeEnsembleParam);

struct PairwiseCouplingParam : OpParam<PairwiseCouplingParam> {
  int64_t classes;
  WEFT_OP_PARAM(PairwiseCouplingParam) {
    WEFT_FIELD(classes).set_range(2, 65535).describe("how many classes there are");
  }
};
WEFT_REGISTER_OP_PARAM(PairwiseCouplingParam);

// ---- TreeEnsemble ----

constexpr DTypeSet kTreeTypes{DType::kF32, DType::kF64};

/// The list of an attribute, checked for its dtype and length (negative: any).
const Tensor& ListOf(const NodePtr& n, const char* name, const TensorAttr& attr, DType dtype,
                     int64_t length) {
  WEFT_CHECK(attr.tensor && attr.tensor->dtype() == dtype && attr.tensor->rank() == 1,
             kBadAttribute, "{}: attribute '{}' is not a list of {}", n->Describe(), name,
             DTypeName(dtype));
  WEFT_CHECK(length < 0 || attr.tensor->num_elements() == length, kBadAttribute,
             "{}: attribute '{}' has {} elements, expected {}", n->Describe(), name,
             attr.tensor->num_elements(), length);
  return *attr.tensor;
}
/// Throws unless a run stays inside of every list and ends.
void CheckTrees(const NodePtr& n, DType dtype) {
  const auto& p = ParamOf<TreeEnsembleParam>(n);
  WEFT_CHECK(p.aggregate == "SUM" || p.aggregate == "AVERAGE" || p.aggregate == "MIN" ||
                 p.aggregate == "MAX",
             kBadAttribute, "{}: aggregate \"{}\"", n->Describe(), p.aggregate);
  const Tensor& features = ListOf(n, "features", p.features, DType::kI32, -1);
  const int64_t nodes = features.num_elements();
  ListOf(n, "splits", p.splits, dtype, nodes);
  ListOf(n, "nan_true", p.nan_true, DType::kU8, nodes);
  const Tensor& yes = ListOf(n, "true_children", p.true_children, DType::kI32, nodes);
  const Tensor& no = ListOf(n, "false_children", p.false_children, DType::kI32, nodes);
  const Tensor& starts = ListOf(n, "leaf_starts", p.leaf_starts, DType::kI32, -1);
  const Tensor& targets = ListOf(n, "leaf_targets", p.leaf_targets, DType::kI32, -1);
  ListOf(n, "leaf_weights", p.leaf_weights, dtype, targets.num_elements());
  const int64_t leaves = starts.num_elements() - 1;
  const auto check = [&](bool good, const char* name, int64_t at, int64_t value) {
    WEFT_CHECK(good, kBadAttribute, "{}: attribute '{}' holds {} at {}", n->Describe(), name, value,
               at);
  };
  const auto child = [&](const Tensor& list, const char* name, int64_t parent, int64_t at) {
    const int32_t c = list.data_as<int32_t>()[at];
    check(c < 0 ? ~int64_t{c} < leaves : c > parent && c < nodes, name, at, c);
  };
  for (int64_t i = 0; i < nodes; ++i) {
    const int32_t f = features.data_as<int32_t>()[i];
    check(f >= 0, "features", i, f);
    child(yes, "true_children", i, i);
    child(no, "false_children", i, i);
  }
  const Tensor& roots = ListOf(n, "roots", p.roots, DType::kI32, -1);
  for (int64_t i = 0; i < roots.num_elements(); ++i) child(roots, "roots", -1, i);
  check(leaves >= 0 && starts.data_as<int32_t>()[0] == 0, "leaf_starts", 0, leaves);
  const int32_t* start = starts.data_as<int32_t>();
  for (int64_t i = 0; i < leaves; ++i)
    check(start[i] <= start[i + 1], "leaf_starts", i + 1, start[i + 1]);
  check(start[leaves] == targets.num_elements(), "leaf_starts", leaves, start[leaves]);
  for (int64_t i = 0; i < targets.num_elements(); ++i) {
    const int32_t t = targets.data_as<int32_t>()[i];
    check(t >= 0 && t < p.targets, "leaf_targets", i, t);
  }
}
void TreeEnsembleType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kTreeTypes);
  if (!ctx.in(0).known()) return;
  CheckTrees(ctx.node(), ctx.in(0).dtype);
  ctx.set_out(0, ctx.in(0));
}
void TreeEnsembleShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<TreeEnsembleParam>(ctx.node());
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() == 2, kShapeMismatch, "{}: x has shape {}, expected [rows, features]",
             ctx.node()->Describe(), x.ToString());
  const int32_t* f = p.features.tensor->data_as<int32_t>();
  const int64_t nodes = p.features.tensor->num_elements();
  const int64_t greatest = nodes == 0 ? -1 : *std::max_element(f, f + nodes);
  DemandAtLeast(ctx, x[1], greatest + 1, "the features that the nodes ask for");
  ctx.set_out(0, Shape({x[0], SymInt(p.targets)}));
}

template <class T>
void RunTrees(const NodePtr& n, const Tensor& x, Tensor* y) {
  const auto& p = ParamOf<TreeEnsembleParam>(n);
  const auto ints = [](const TensorAttr& a) { return a.tensor->data_as<int32_t>(); };
  const int64_t columns = x.dims()[1], trees = p.roots.tensor->num_elements();
  const bool least = p.aggregate == "MIN", greatest = p.aggregate == "MAX";
  std::vector<uint8_t> met(static_cast<size_t>(p.targets));
  for (int64_t r = 0; r < x.dims()[0]; ++r) {
    const T* row = x.data_as<T>() + r * columns;
    T* out = y->mutable_data_as<T>() + r * p.targets;
    std::fill(met.begin(), met.end(), uint8_t{0});
    if ((r & 63) == 0) RequestScope::Poll();
    for (int64_t t = 0; t < trees; ++t) {
      int32_t k = ints(p.roots)[t];
      while (k >= 0) {
        const int32_t feature = ints(p.features)[k];
        WEFT_CHECK(feature < columns, kShapeMismatch, "{}: a node asks for feature {}, x has {}",
                   n->Describe(), feature, columns);
        const T v = row[feature];
        const bool yes = std::isnan(v) ? p.nan_true.tensor->data_as<uint8_t>()[k] == 1
                                       : v <= p.splits.tensor->data_as<T>()[k];
        k = yes ? ints(p.true_children)[k] : ints(p.false_children)[k];
      }
      for (int32_t w = ints(p.leaf_starts)[~k]; w < ints(p.leaf_starts)[~k + 1]; ++w) {
        const T weight = p.leaf_weights.tensor->data_as<T>()[w];
        const int32_t target = ints(p.leaf_targets)[w];
        const bool first = !std::exchange(met[size_t(target)], uint8_t{1});
        if (least || greatest)
          out[target] =
              first || (least ? weight < out[target] : weight > out[target]) ? weight : out[target];
        else
          out[target] += weight;
      }
    }
    if (p.aggregate == "AVERAGE" && trees > 0)
      for (int64_t c = 0; c < p.targets; ++c) out[c] /= T(trees);
  }
}
Tensors TreeEnsembleHost(const NodePtr& n, const Tensors& in) {
  auto y = NewTensor(in[0]->dtype(), {in[0]->dims()[0], ParamOf<TreeEnsembleParam>(n).targets});
  if (y->dtype() == DType::kF64)
    RunTrees<double>(n, *in[0], y.get());
  else
    RunTrees<float>(n, *in[0], y.get());
  return {y};
}
SymInt TreeEnsembleFlops(const NodePtr& n, const std::vector<Shape>& in,
                         const std::vector<Shape>&) {
  const auto& p = ParamOf<TreeEnsembleParam>(n);
  const int64_t trees = std::max<int64_t>(1, p.roots.tensor->num_elements());
  const double each = double(p.features.tensor->num_elements()) / double(trees) + 1;
  return in.at(0).has_rank() ? in[0][0] * SymInt(trees * int64_t(std::log2(each) + 1)) : SymInt();
}

// ---- PairwiseCoupling ----

/// T.-F. Wu, C.-J. Lin and R. C. Weng, "Probability estimates for multi-class classification by
/// pairwise coupling" (2004), algorithm 2; bounds, and the rounds after which it stops, are those
/// of libsvm.
class Coupling {
 public:
  explicit Coupling(int64_t classes) : k_(size_t(classes)), q_(k_ * k_), qp_(k_) {}

  /// `r`: for each pair i < j, how probable i is of both.
  void Run(const float* r, float* p) {
    FillQ(r);
    const float epsilon = 0.005f / float(k_);
    for (size_t i = 0; i < k_; ++i) p[i] = 1 / float(k_);
    for (int round = 0; round < 100; ++round) {
      float pqp = 0, worst = 0;
      for (size_t i = 0; i < k_; ++i) {
        qp_[i] = 0;
        for (size_t j = 0; j < k_; ++j) qp_[i] += q_[i * k_ + j] * p[j];
        pqp += p[i] * qp_[i];
      }
      for (size_t i = 0; i < k_; ++i) worst = std::max(worst, std::fabs(qp_[i] - pqp));
      if (worst < epsilon) return;
      for (size_t i = 0; i < k_; ++i) {
        const float step = (pqp - qp_[i]) / q_[i * k_ + i], scale = 1 + step;
        p[i] += step;
        pqp = (pqp + step * (step * q_[i * k_ + i] + 2 * qp_[i])) / scale / scale;
        for (size_t j = 0; j < k_; ++j) {
          qp_[j] = (qp_[j] + step * q_[i * k_ + j]) / scale;
          p[j] /= scale;
        }
      }
    }
  }

 private:
  void FillQ(const float* r) {
    std::fill(q_.begin(), q_.end(), 0.f);
    for (size_t i = 0; i < k_; ++i) {
      for (size_t j = i + 1; j < k_; ++j, ++r) {
        const float of_i = std::min(std::max(*r, 1e-7f), 1 - 1e-7f), of_j = 1 - of_i;
        q_[i * k_ + i] += of_j * of_j;
        q_[j * k_ + j] += of_i * of_i;
        q_[i * k_ + j] = q_[j * k_ + i] = -of_i * of_j;
      }
    }
  }

  size_t k_;
  std::vector<float> q_, qp_;
};
void CouplingShape(InferShapeContext& ctx) {
  const int64_t classes = ParamOf<PairwiseCouplingParam>(ctx.node()).classes;
  const int64_t pairs = classes * (classes - 1) / 2;
  const Shape& r = ctx.in(0);
  if (!r.has_rank()) return Unknown(ctx, 0, "the rank of the pairs is unknown");
  WEFT_CHECK(r.rank() == 2, kShapeMismatch, "{}: pairs of shape {}, expected [rows, {}]",
             ctx.node()->Describe(), r.ToString(), pairs);
  UnifyDims(ctx, r[1], SymInt(pairs), "the pairs of classes");
  ctx.set_out(0, Shape({r[0], SymInt(classes)}));
}
Tensors CouplingHost(const NodePtr& n, const Tensors& in) {
  const int64_t classes = ParamOf<PairwiseCouplingParam>(n).classes;
  const int64_t pairs = classes * (classes - 1) / 2, rows = in[0]->dims()[0];
  WEFT_CHECK(in[0]->dims()[1] == pairs, kShapeMismatch, "{}: {} pairs of {} classes", n->Describe(),
             in[0]->dims()[1], classes);
  auto p = NewTensor(DType::kF32, {rows, classes});
  Coupling coupling(classes);
  for (int64_t r = 0; r < rows; ++r) {
    RequestScope::Poll();
    coupling.Run(in[0]->data_as<float>() + r * pairs, p->mutable_data_as<float>() + r * classes);
  }
  return {p};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, TreeEnsemble)
    .describe(
        "Each row goes down every tree; the weights of the leaves where it ends are added up for "
        "each target, in the dtype of x and the order of the trees. A target without a weight is "
        "0.\nGradient: none, a step function. Source: ONNX ai.onnx.ml TreeEnsemble-5, whose "
        "leaves have one weight each and whose nodes compare in seven ways.")
    .input("x", TypeDoc(kTreeTypes), "[rows, features]")
    .output("y", "T", "[rows, targets]")
    .param<TreeEnsembleParam>()
    .example(
        {"f32[n, 3]"},
        "targets = 2, roots = tensor i32[2] [0, -4], features = tensor i32[2] [2, 0], splits = "
        "tensor f32[2] [0.25, -0.5], nan_true = tensor u8[2] [0, 1], true_children = tensor "
        "i32[2] [1, -1], false_children = tensor i32[2] [-3, -2], leaf_starts = tensor i32[5] "
        "[0, 1, 2, 4, 5], leaf_targets = tensor i32[5] [0, 1, 0, 1, 1], leaf_weights = tensor "
        "f32[5] [1.5, 2.0, -1.0, 0.5, 4.0]")
    .set_attr<FInferType>("FInferType", TreeEnsembleType)
    .set_attr<FInferShape>("FInferShape", TreeEnsembleShape)
    .set_attr<FHostEval>("FHostEval", TreeEnsembleHost)
    .set_attr<FFlops>("FFlops", TreeEnsembleFlops)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(weft, PairwiseCoupling)
    .describe(
        "Probabilities of the classes that agree best with those of their pairs. Gradient: none. "
        "Source: Wu, Lin and Weng (2004), as ONNX ai.onnx.ml SVMClassifier-1 asks for.")
    .input("pairs", "f32", "[rows, pairs]: for classes i < j, the probability of i")
    .output("y", "f32", "[rows, classes]")
    .param<PairwiseCouplingParam>()
    .example({"f32[n, 3]"}, "classes = 3")
    .set_attr<FInferType>("FInferType", SameType(DTypeSet{DType::kF32}))
    .set_attr<FInferShape>("FInferShape", CouplingShape)
    .set_attr<FHostEval>("FHostEval", CouplingHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
