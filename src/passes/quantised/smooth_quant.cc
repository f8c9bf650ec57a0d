/// smooth_quant.cc: SmoothQuant. Moves the difficulty of rounding from activations, a few channels
/// of which are far wider than the others in language models, to weights, which have a scale for
/// each column anyway.
///   needs      shape, dtype; channels, which calibration gives (weft/runtime/quantise/calibrate.h)
///   provides   -
///   preserves  shape, dtype; writes range of the new values
///   never      touches a value one of whose readers is something else than a matmul with constant
///              weights, or whose channels nobody has measured
///   changes    no value but by rounding of floats: X W = (X / s) (s W)
///   cost       one pass over the weights
///   errors     alpha out of range (kUsage)
///   source     Xiao et al., arXiv:2211.10438: s_k = max |X_k|^alpha / max |W_k|^(1 - alpha)
///
///   before  %y = MatMul(%x, %w)
///   after   %s = Mul(%x, [1 / s])   %y = MatMul(%s, [s * w])
///
/// Mul joins the kernel that makes %x.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/calibration.h"
#include "weft/core/op/quantized_operands.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// A factor beyond would only trade one overflow for another.
constexpr double kMostFactor = 1e4;

class Smoother {
 public:
  Smoother(Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        alpha_(ctx.option<double>("alpha")),
        channels_(g.GetAttr<ChannelMap>("channels")),
        ranges_(g.AttrOr<RangeMap>("range")),
        edit_(g) {}

  void Run() {
    std::map<EntryKey, std::vector<NodePtr>> readers;  // in the order of the nodes
    std::vector<NodeEntry> values;
    for (const NodePtr& n : g_.TopoOrder()) {
      const auto q = QuantizedOperandsOf(n);
      if (!q || !q->weight || IsOp(n, "Conv")) continue;
      auto& list = readers[n->inputs[0].key()];
      if (list.empty()) values.push_back(n->inputs[0]);
      list.push_back(n);
    }
    for (const NodeEntry& x : values) {
      ctx_.cancel().Check();
      if (!Smooth(x, readers[x.key()])) break;
    }
    edit_.Finish();
    g_.SetAttr("range", std::move(ranges_));
    g_.SetAttr("channels", std::move(channels_));
    g_.EraseDead();
  }

 private:
  /// The weights of a matmul whose rows are multiplied by the channels of x.
  static const TensorPtr WeightsOf(const NodePtr& n) { return Graph::ConstantOf(n->inputs[1]); }
  /// The channel that element i of the weights is multiplied by.
  static int64_t ChannelOf(const QuantizedOperands& q, const Tensor& w, int64_t i) {
    int64_t stride = 1;
    for (size_t k = size_t(q.summed_axis) + 1; k < w.dims().size(); ++k) stride *= w.dims()[k];
    return i / stride % w.dims()[size_t(q.summed_axis)];
  }

  /// False: there is no fuel left.
  bool Smooth(const NodeEntry& x, const std::vector<NodePtr>& readers) {
    const ChannelStats* c = channels_.find(x);
    const Shape& shape = edit_.shape(x);
    if (!c || !shape.has_rank() || edit_.dtype(x) != DType::kF32 || c->axis != shape.rank() - 1 ||
        x.node->uses().size() < readers.size())
      return true;
    const size_t count = c->low.size();
    std::vector<double> weights(count, 0);
    size_t uses = 0;
    for (const Use& u : x.node->uses())
      uses += u.control || u.user->inputs[u.slot].index == x.index;
    if (uses != readers.size() || g_.is_output(x.node)) return true;
    for (const NodePtr& n : readers) {
      const QuantizedOperands q = *QuantizedOperandsOf(n);
      const TensorPtr w = WeightsOf(n);
      if (q.channel_axis != -1 || w->dims()[size_t(q.summed_axis)] != int64_t(count)) return true;
      for (int64_t i = 0; i < w->num_elements(); ++i) {
        double& most = weights[size_t(ChannelOf(q, *w, i))];
        most = std::max(most, std::abs(double(w->data_as<float>()[i])));
      }
    }
    std::vector<double> factor(count, 1), inverse(count, 1);
    for (size_t k = 0; k < count; ++k) {
      const double most = std::max(-double(c->low[k]), double(c->high[k]));
      if (!(most > 0) || !(weights[k] > 0) || !std::isfinite(most) || !std::isfinite(weights[k]))
        continue;
      const double s = std::pow(most, alpha_) / std::pow(weights[k], 1 - alpha_);
      factor[k] = double(float(std::clamp(s, 1 / kMostFactor, kMostFactor)));
      inverse[k] = 1 / factor[k];
    }
    if (!ctx_.Fuel("smooth", x.node)) return false;
    const NodeEntry row =
        edit_.AddParam(x.node->attrs.name + "_smoothing",
                       Tensor::FromDoubles(DType::kF32, {int64_t(count)}, inverse));
    const NodeEntry smooth = edit_.Add("Mul", {x, row}, {}, x, x.node->attrs.name + "_smooth");
    g_.MergeOrigin(smooth.node, x.node);
    KnowChannels(smooth, *c, inverse);
    for (const NodePtr& n : readers) {
      const QuantizedOperands q = *QuantizedOperandsOf(n);
      const NodeEntry old = n->inputs[1];
      const TensorPtr w = WeightsOf(n);
      auto scaled = std::make_shared<Tensor>(DType::kF32, w->dims());
      auto* to = scaled->mutable_data_as<float>();
      for (int64_t i = 0; i < w->num_elements(); ++i)
        to[i] = float(double(w->data_as<float>()[i]) * factor[size_t(ChannelOf(q, *w, i))]);
      g_.SetInput(n, 1, edit_.AddParam(old.node->attrs.name + "_smooth", scaled));
      g_.SetInput(n, 0, smooth);
      ctx_.Count("products");
    }
    ctx_.Count("values");
    return true;
  }

  /// Of what was divided: as it was measured, divided.
  void KnowChannels(const NodeEntry& smooth, const ChannelStats& old,
                    const std::vector<double>& inverse) {
    ChannelStats c = old;
    ValueRange r;
    for (size_t k = 0; k < inverse.size(); ++k) {
      for (auto* list : {&c.low, &c.high, &c.mean})
        (*list)[k] = float(double((*list)[k]) * inverse[k]);
      r = {std::min(r.low, c.low[k]), std::max(r.high, c.high[k])};
    }
    channels_.set(smooth, std::move(c));
    ranges_.set(smooth, r);
  }

  Graph& g_;
  PassContext& ctx_;
  const double alpha_;
  ChannelMap channels_;
  RangeMap ranges_;
  TypedEdit edit_;
};

Graph SmoothQuant(Graph g, PassContext& ctx) {
  const auto alpha = ctx.option<double>("alpha");
  WEFT_CHECK(alpha >= 0 && alpha <= 1, kUsage,
             "SmoothQuant: alpha = {}, expected a number from 0 to 1", alpha);
  Smoother(g, ctx).Run();
  return g;
}

WEFT_REGISTER_PASS(SmoothQuant)
    .describe("lets weights of matmuls take over the wide channels of what they multiply")
    .set_body(SmoothQuant)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("channels")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .keeps_onnx()
    .option("alpha", 0.5, "how much weights take over: 0 as if weights, 1 as if activations rule")
    .statistic("values", "values that were smoothed")
    .statistic("products", "matmuls that read them")
    .rewrite("smooth", "one value divided, and the weights that it meets multiplied");

}  // namespace
}  // namespace weft
