/// insert_qdq.cc: InsertQdq. Post-training quantisation: puts QuantizeLinear and DequantizeLinear
/// around the operands of products and additions, with constants as they are stored then. What
/// comes out is plain ONNX; the pass Quantised makes integer calls of it.
///   needs      shape, dtype; range (and channels, for corrected biases), which calibration gives
///              (weft/runtime/quantise/calibrate.h)
///   provides   -
///   preserves  shape, dtype
///   never      touches what it has no range for, or what was always 0: these stay floats and are
///              in the report with the reason; rounds a result of the graph
///   changes    values: weights and activations are rounded
///   cost       two passes over the weights
///   errors     ranges that are none, NaN or infinite weights (kInvalidModel), options (kUsage)
///   source     integer-only inference (Jacob et al., arXiv:1712.05877); QDQ placement as
///              TensorRT's: on operands, so that Relu and Clip stay next to what they follow;
///              bias correction by Nagel et al., arXiv:1906.04721, with measured means
///
///   before  %y = Conv(%x, %w, %b)                            #range of %x = "0, 6.375"
///   after   %q = QuantizeLinear(%x, 0.025, u8 0)   %a = DequantizeLinear(%q, 0.025, u8 0)
///           %d = DequantizeLinear(i8 %w_quantized, %w_scale) {axis = 0}
///           %c = DequantizeLinear(i32 %b_quantized, 0.025 * %w_scale) {axis = 0}
///           %y = Conv(%a, %d, %c)
///
/// Operators that only move elements between such operands move 8-bit numbers: what they read and
/// what they give has one scale then, so that Quantised moves the codes themselves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/calibration.h"
#include "weft/core/op/quantized_operands.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Ranges of operands of a Concat that differ by more stay apart: the narrow one would keep fewer
/// than six of its eight bits. Of a sum the step of the wide operand is in the result anyway.
constexpr float kJoinedApart = 4, kAddendsApart = 16;

struct Form {
  DType activations = DType::kU8;
  bool symmetric = false, per_channel = true, correct_bias = false;
};

/// real = (code - zero) * scale.
struct Scaling {
  float scale = 1;
  int64_t zero = 0;
};

/// Of codes from `lowest` on, 256 of them. A range has a width.
Scaling ScalingOf(const ValueRange& r, const Form& form) {
  const double lowest = form.activations == DType::kU8 ? 0 : -128;
  if (form.symmetric) {
    const double most = std::max(-double(r.low), double(r.high));
    return {float(most / 127), int64_t(lowest + 128)};
  }
  Scaling s;
  s.scale = float((double(r.high) - double(r.low)) / 255);
  s.zero = int64_t(
      std::clamp(std::nearbyint(lowest - double(r.low) / double(s.scale)), lowest, lowest + 255));
  return s;
}

/// Weights as they are stored, one scale for each filter or one.
struct Stored {
  TensorPtr codes;
  std::vector<float> scale;
  std::vector<double> shift;  ///< of each filter's result, by the mean of what it reads
  double sqnr_db = 0;
};

class Inserter {
 public:
  Inserter(Graph& g, PassContext& ctx, const Form& form)
      : g_(g),
        ctx_(ctx),
        form_(form),
        ranges_(g.GetAttr<RangeMap>("range")),
        channels_(g.AttrOr<ChannelMap>("channels")),
        ops_(Split(ctx.option<std::string>("ops"), ';')),
        except_(';' + ctx.option<std::string>("except") + ';'),
        edit_(g) {}

  void Run() {
    const std::vector<NodePtr> order = g_.TopoOrder();
    for (const NodePtr& n : order) Choose(n);
    for (size_t i = order.size(); i-- > 0;) ChooseBetween(order[i]);
    for (const NodePtr& n : order) {
      const auto it = chosen_.find(n->id());
      if (it != chosen_.end()) Unite(n, it->second);
    }
    for (const NodePtr& n : order) {
      const auto it = chosen_.find(n->id());
      if (it == chosen_.end()) continue;
      ctx_.cancel().Check();
      if (!ctx_.Fuel("qdq", n)) break;
      Rewrite(n, it->second);
    }
    edit_.Finish();
    g_.EraseDead();
  }

 private:
  bool TakesOp(const NodePtr& n) const {
    return std::find(ops_.begin(), ops_.end(), n->op()->name) != ops_.end();
  }
  /// A name may have a ';' itself.
  bool IsExcepted(const std::string& name) const {
    return !name.empty() && except_.find(';' + name + ';') != except_.npos;
  }
  static std::string NameOf(const NodePtr& n) {
    return n->attrs.name.empty() ? n->Describe() : n->attrs.name;
  }

  /// Why this value is not rounded; empty: it may be.
  std::string WhyNot(const NodeEntry& e) const {
    const std::string name = NameOf(e.node);
    if (edit_.dtype(e) != DType::kF32)
      return fmt::format("'{}' is of {}", name, DTypeName(edit_.dtype(e)));
    if (IsOp(e.node, "DequantizeLinear")) return fmt::format("'{}' is quantised already", name);
    const ValueRange* r = ranges_.find(e);
    if (!r) return fmt::format("there is no range of '{}'", name);
    if (!(std::isfinite(r->low) && std::isfinite(r->high) && r->low <= 0 && r->high >= 0))
      ThrowError(ErrorCode::kInvalidModel,
                 fmt::format("the range of a value is {} to {}, expected finite numbers with 0 "
                             "between them",
                             FormatFloat(r->low), FormatFloat(r->high)),
                 e.node->Describe(), "calibrate the model again, with other data");
    if ((r->high - r->low) / 255 < std::numeric_limits<float>::min())
      return fmt::format("'{}' was always 0", name);
    return {};
  }

  /// A product.
  void Choose(const NodePtr& n) {
    const auto q = QuantizedOperandsOf(n);
    if (!q || !q->weight || !TakesOp(n)) return;
    const NodeEntry &w = n->inputs[*q->weight], &x = n->inputs[q->activations[0]];
    std::string reason;
    if (IsExcepted(n->attrs.name)) reason = "excepted by name";
    if (reason.empty() && IsExcepted(w.node->attrs.name)) reason = "its weights are excepted";
    if (reason.empty()) reason = WhyNot(x);
    if (reason.empty()) return Take(n, *q);
    Skip(n, reason, Graph::ConstantOf(w)->num_bytes());
  }
  void Take(const NodePtr& n, const QuantizedOperands& q) {
    chosen_[n->id()] = q;
    for (const size_t slot : q.activations) wanted_.insert(n->inputs[slot].key());
  }
  void Skip(const NodePtr& n, const std::string& reason, int64_t bytes) {
    ctx_.Count("skipped");
    ctx_.Report({NameOf(n), std::string(n->op()->name), reason, std::string("-"), kNone, int64_t{0},
                 kNone, bytes, bytes});
  }

  /// Readers are chosen before: an addition is between products where its result is rounded,
  /// perhaps behind a Relu or Clip; elsewhere rounding it gains nothing.
  void ChooseBetween(const NodePtr& n) {
    if (n->is_variable() || !n->control_deps.empty()) return;
    if (!IsOp(n, "Add")) return ChooseMove(n);
    const auto q = QuantizedOperandsOf(n);
    if (!q || !TakesOp(n)) return;
    bool between = wanted_.count(NodeEntry(n).key()) != 0;
    for (const Use& u : n->uses()) {
      const NodePtr r(u.user);
      between = between || (!u.control && (IsOp(r, "Relu") || (IsOp(r, "Clip") && u.slot == 0)) &&
                            wanted_.count(NodeEntry(r).key()) != 0);
    }
    if (!between) return;
    std::string reason;
    if (IsExcepted(n->attrs.name)) reason = "excepted by name";
    for (const NodeEntry& e : n->inputs)
      if (reason.empty()) reason = WhyNot(e);
    if (reason.empty() && !AreClose(n->inputs[0], n->inputs[1], kAddendsApart))
      reason = "ranges of its operands are too different";
    if (reason.empty()) return Take(n, *q);
    Skip(n, reason, 0);
  }
  /// What moves elements and whose result only such nodes read that are chosen.
  void ChooseMove(const NodePtr& n) {
    size_t data = 0;
    if (!MovesElements(n, &data) || !wanted_.count(NodeEntry(n).key()) || g_.is_output(n) ||
        IsExcepted(n->attrs.name))
      return;
    for (const Use& u : n->uses())
      if (u.control || !ReadsRounded(NodePtr(u.user), u.slot)) return;
    QuantizedOperands q;
    for (size_t i = 0; i < data; ++i) {
      const NodeEntry& e = n->inputs[i];
      if (!e.node || Graph::ConstantOf(e) || IsOp(e.node, "DequantizeLinear") ||
          edit_.dtype(e) != DType::kF32)
        return;
      if (data > 1 && !AreClose(e, NodeEntry(n), kJoinedApart)) return;
      q.activations.push_back(i);
    }
    Take(n, q);
  }
  bool ReadsRounded(const NodePtr& n, size_t slot) const {
    const auto it = chosen_.find(n->id());
    if (it == chosen_.end()) return false;
    const std::vector<size_t>& a = it->second.activations;
    return std::find(a.begin(), a.end(), slot) != a.end();
  }
  bool AreClose(const NodeEntry& a, const NodeEntry& b, float most) const {
    const ValueRange *x = ranges_.find(a), *y = ranges_.find(b);
    if (!x || !y) return false;
    const float p = x->high - x->low, q = y->high - y->low;
    return std::min(p, q) > 0 && std::max(p, q) <= most * std::min(p, q);
  }

  /// Values that have one scale: those of a node that moves elements.
  EntryKey Group(EntryKey e) const {
    for (auto it = same_as_.find(e); it != same_as_.end(); it = same_as_.find(e)) e = it->second;
    return e;
  }
  void Unite(const NodePtr& n, const QuantizedOperands& q) {
    size_t data = 0;
    const bool moves = MovesElements(n, &data);
    for (const size_t slot : q.activations) {
      const NodeEntry& e = n->inputs[slot];
      Widen(Group(e.key()), ranges_.find(e));
      if (!moves) continue;
      const EntryKey from = Group(NodeEntry(n).key()), to = Group(e.key());
      Widen(to, ranges_.find(NodeEntry(n)));
      if (from == to) continue;
      const auto it = group_range_.find(from);
      if (it != group_range_.end()) Widen(to, &it->second);
      same_as_[from] = to;
    }
  }
  void Widen(EntryKey group, const ValueRange* r) {
    if (!r) return;
    ValueRange& all = group_range_[group];
    all = {std::min(all.low, r->low), std::max(all.high, r->high)};
  }

  NodeEntry Scalar(const std::string& name, DType t, double v) {
    return edit_.AddParam(name, Tensor::FromDoubles(t, {}, {v}));
  }
  NodeEntry Row(const std::string& name, const std::vector<float>& v) {
    std::vector<double> wide(v.begin(), v.end());
    std::vector<int64_t> dims;
    if (v.size() != 1 || form_.per_channel) dims = {int64_t(v.size())};
    return edit_.AddParam(name, Tensor::FromDoubles(DType::kF32, dims, wide));
  }

  /// The value as it is behind its codes, for all that read it.
  NodeEntry Rounded(const NodeEntry& e) {
    const auto known = rounded_.find(e.key());
    if (known != rounded_.end()) return known->second;
    const Scaling s = ScalingOf(group_range_.at(Group(e.key())), form_);
    const std::string name = EntryName(e);
    const NodeEntry scale = Scalar(name + "_scale", DType::kF32, s.scale),
                    zero = Scalar(name + "_zero_point", form_.activations, double(s.zero));
    const NodeEntry codes =
        edit_.Add("QuantizeLinear", {e, scale, zero}, {},
                  {edit_.shape(e), Type(form_.activations), nullptr}, name + "_quantized");
    const NodeEntry back =
        edit_.Add("DequantizeLinear", {codes, scale, zero}, {}, e, name + "_dequantized");
    g_.MergeOrigin(codes.node, e.node);
    g_.MergeOrigin(back.node, e.node);
    return rounded_[e.key()] = back;
  }
  std::string EntryName(const NodeEntry& e) const {
    std::string name = e.node->attrs.name;
    if (name.empty()) name = fmt::format("value_{}", e.node->id());
    return e.index == 0 ? name : fmt::format("{}_{}", name, e.index);
  }

  void Rewrite(const NodePtr& n, const QuantizedOperands& q) {
    const NodeEntry x = n->inputs[q.activations[0]];
    const Scaling by = ScalingOf(group_range_.at(Group(x.key())), form_);
    const ValueRange range = group_range_.at(Group(x.key()));
    int64_t before = 0, after = 0;
    double sqnr_db = kNone;
    if (q.weight) RewriteWeights(n, q, x, by, &before, &after, &sqnr_db);
    for (const size_t slot : q.activations) g_.SetInput(n, slot, Rounded(n->inputs[slot]));
    ctx_.Count(q.weight ? "products" : IsOp(n, "Add") ? "additions" : "moves");
    ctx_.Report({NameOf(n), std::string(n->op()->name), std::string("quantised"),
                 fmt::format("[{:.4g}, {:.4g}]", range.low, range.high), double(by.scale), by.zero,
                 sqnr_db, before, after});
  }

  /// The bias of each filter in floats; nothing: it stays as it is.
  std::optional<std::vector<double>> Bias(const NodePtr& n, const QuantizedOperands& q,
                                          int64_t filters) const {
    if (IsOp(n, "Gemm") && (n->attr<double>("alpha") != 1 || n->attr<double>("beta") != 1))
      return std::nullopt;
    if (!q.bias) {
      if (IsOp(n, "MatMul") || !form_.correct_bias) return std::nullopt;
      return std::vector<double>(size_t(filters), 0);
    }
    const TensorPtr t = Graph::ConstantOf(n->inputs[*q.bias]);
    if (!t || t->dtype() != DType::kF32 || t->rank() != 1 || t->num_elements() != filters)
      return std::nullopt;
    std::vector<double> v;
    for (int64_t i = 0; i < filters; ++i) v.push_back(t->at(i));
    if (std::all_of(v.begin(), v.end(), [](double b) { return std::isfinite(b); })) return v;
    return std::nullopt;
  }

  void RewriteWeights(const NodePtr& n, const QuantizedOperands& q, const NodeEntry& x,
                      const Scaling& by, int64_t* before, int64_t* after, double* sqnr_db) {
    const NodeEntry w = n->inputs[*q.weight];
    const TensorPtr t = Graph::ConstantOf(w);
    const int64_t filters = t->dims()[size_t(q.weight_axis)];
    auto bias = Bias(n, q, filters);
    // Sums of 8-bit numbers and the bias have to fit i32.
    const double room = double(INT32_MAX) / 2 - double(t->num_elements() / filters) * 255 * 255;
    std::vector<float> scale = LeastScales(n, *t, q.weight_axis);
    if (bias && room < 1) bias.reset();
    for (size_t f = 0; bias && f < bias->size(); ++f) {
      float& s = scale[scale.size() == 1 ? 0 : f];
      s = std::max(s, float(std::abs((*bias)[f]) / (double(by.scale) * room)));
    }
    for (const float s : scale)
      if (by.scale * s < std::numeric_limits<float>::min()) bias.reset();  // it would have none
    const Stored stored = Store(*t, q, scale, MeansOf(x, q));
    *sqnr_db = stored.sqnr_db;
    *before = t->num_bytes();
    *after = stored.codes->num_bytes() + int64_t(stored.scale.size() * sizeof(float));
    const NodeEntry weights = Dequantized(w, q.weight_axis, stored);
    g_.MergeOrigin(weights.node, n);
    g_.SetInput(n, *q.weight, weights);
    if (bias) RewriteBias(n, q, by, stored, *bias, before, after);
  }

  /// Products that share weights share their codes, unless a bias asks for other scales.
  NodeEntry Dequantized(const NodeEntry& w, int64_t weight_axis, const Stored& stored) {
    auto& known = weights_[{w.key(), weight_axis}];
    for (const auto& [scale, made] : known)
      if (scale == stored.scale) return made;
    const std::string name = EntryName(w);
    const NodeEntry made = edit_.Add(
        "DequantizeLinear",
        {edit_.AddParam(name + "_quantized", stored.codes), Row(name + "_scale", stored.scale)},
        Axis(weight_axis), w, name + "_dequantized");
    known.emplace_back(stored.scale, made);
    return made;
  }
  AttrDict Axis(int64_t axis) const {
    return form_.per_channel ? AttrDict{{"axis", axis}} : AttrDict();
  }

  void RewriteBias(const NodePtr& n, const QuantizedOperands& q, const Scaling& by,
                   const Stored& stored, std::vector<double> bias, int64_t* before,
                   int64_t* after) {
    if (form_.correct_bias && !stored.shift.empty()) {
      for (size_t f = 0; f < bias.size(); ++f) bias[f] -= stored.shift[f];
      ctx_.Count("biases_corrected");
    }
    std::vector<float> scale;
    for (const float s : stored.scale) scale.push_back(by.scale * s);
    auto codes = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{int64_t(bias.size())});
    for (size_t f = 0; f < bias.size(); ++f)
      codes->set_int(int64_t(f),
                     int64_t(std::clamp(std::nearbyint(bias[f] / scale[scale.size() == 1 ? 0 : f]),
                                        -double(INT32_MAX), double(INT32_MAX))));
    const std::string name = q.bias ? EntryName(n->inputs[2]) : EntryName(NodeEntry(n)) + "_bias";
    if (q.bias) *before += Graph::ConstantOf(n->inputs[2])->num_bytes();
    *after += codes->num_bytes() + int64_t(scale.size() * sizeof(float));
    const NodeEntry rounded = edit_.Add(
        "DequantizeLinear",
        {edit_.AddParam(name + "_quantized", codes), Row(name + "_scale", scale)}, Axis(0),
        {Shape::OfInts(codes->dims()), Type(DType::kF32), nullptr}, name + "_dequantized");
    g_.MergeOrigin(rounded.node, n);
    if (n->num_inputs() > 2)
      g_.SetInput(n, 2, rounded);
    else
      n->inputs.push_back(rounded);
  }

  /// That give the greatest weight of each filter, or of all, the code 127.
  std::vector<float> LeastScales(const NodePtr& n, const Tensor& w, int64_t axis) const {
    const int64_t filters = w.dims()[size_t(axis)];
    int64_t behind = 1;
    for (size_t k = size_t(axis) + 1; k < w.dims().size(); ++k) behind *= w.dims()[k];
    std::vector<float> most(form_.per_channel ? size_t(filters) : 1, 0);
    const float* v = w.data_as<float>();
    for (int64_t i = 0; i < w.num_elements(); ++i) {
      if (!std::isfinite(v[i]))
        ThrowError(ErrorCode::kInvalidModel, fmt::format("a weight is {}", FormatFloat(v[i])),
                   n->Describe(), "leave the node out with except=NAME");
      float& m = most[form_.per_channel ? size_t(i / behind % filters) : 0];
      m = std::max(m, std::abs(v[i]));
    }
    for (float& m : most) m = m / 127 < std::numeric_limits<float>::min() ? 1 : m / 127;
    return most;
  }

  /// Mean of each channel that the weights sum over; empty: not known.
  std::vector<float> MeansOf(const NodeEntry& x, const QuantizedOperands& q) const {
    const ChannelStats* c = form_.correct_bias ? channels_.find(x) : nullptr;
    if (!c || !edit_.shape(x).has_rank()) return {};
    const int64_t axis = q.channel_axis + (q.channel_axis < 0 ? edit_.shape(x).rank() : 0);
    return c->axis == axis ? c->mean : std::vector<float>();
  }

  Stored Store(const Tensor& w, const QuantizedOperands& q, const std::vector<float>& scale,
               const std::vector<float>& means) const {
    const std::vector<int64_t>& dims = w.dims();
    const auto stride = [&](int64_t axis) {
      int64_t s = 1;
      for (size_t k = size_t(axis) + 1; k < dims.size(); ++k) s *= dims[k];
      return s;
    };
    const int64_t filters = dims[size_t(q.weight_axis)], summed = dims[size_t(q.summed_axis)];
    const int64_t filter_stride = stride(q.weight_axis), summed_stride = stride(q.summed_axis);
    // Filters of a group read the channels of their group.
    const int64_t groups = summed > 0 && int64_t(means.size()) % summed == 0
                               ? std::max<int64_t>(1, int64_t(means.size()) / summed)
                               : 0;
    const bool shifts = !means.empty() && groups > 0 && filters % groups == 0 &&
                        (dims.size() == 2 || q.weight_axis == 0);
    Stored s;
    s.scale = scale;
    if (shifts) s.shift.assign(size_t(filters), 0);
    auto codes = std::make_shared<Tensor>(DType::kI8, dims);
    auto* to = codes->mutable_data_as<int8_t>();
    const float* from = w.data_as<float>();
    double of_errors = 0, of_weights = 0;
    for (int64_t i = 0; i < w.num_elements(); ++i) {
      const int64_t f = i / filter_stride % filters;
      const double by = scale[scale.size() == 1 ? 0 : size_t(f)], v = from[i];
      const double code = std::clamp(std::nearbyint(v / by), -127.0, 127.0);
      to[i] = int8_t(code);
      const double error = code * by - v;
      of_errors += error * error;
      of_weights += v * v;
      if (!shifts) continue;
      const int64_t channel = f / (filters / groups) * summed + i / summed_stride % summed;
      s.shift[size_t(f)] += error * double(means[size_t(channel)]);
    }
    s.codes = codes;
    s.sqnr_db = of_errors > 0 ? 10 * std::log10(of_weights / of_errors)
                              : std::numeric_limits<double>::infinity();
    return s;
  }

  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  Graph& g_;
  PassContext& ctx_;
  const Form form_;
  const RangeMap ranges_;
  const ChannelMap channels_;
  const std::vector<std::string> ops_;
  const std::string except_;  ///< with a separator at both ends
  std::map<NodeId, QuantizedOperands> chosen_;
  std::set<EntryKey> wanted_;
  std::map<EntryKey, EntryKey> same_as_;
  std::map<EntryKey, ValueRange> group_range_;
  std::map<EntryKey, NodeEntry> rounded_;
  std::map<std::pair<EntryKey, int64_t>, std::vector<std::pair<std::vector<float>, NodeEntry>>>
      weights_;
  TypedEdit edit_;
};

Graph InsertQdq(Graph g, PassContext& ctx) {
  Form form;
  const auto activations = ctx.option<std::string>("activations");
  WEFT_CHECK(activations == "u8" || activations == "s8", kUsage,
             "InsertQdq: activations = {}, expected u8 or s8", activations);
  for (const std::string& op : Split(ctx.option<std::string>("ops"), ';'))
    WEFT_CHECK(op == "Conv" || op == "Gemm" || op == "MatMul" || op == "Add", kUsage,
               "InsertQdq: ops has '{}', expected some of Conv, Gemm, MatMul and Add", op);
  form.activations = activations == "u8" ? DType::kU8 : DType::kI8;
  form.symmetric = ctx.option<bool>("symmetric");
  form.per_channel = ctx.option<bool>("per_channel");
  form.correct_bias = ctx.option<bool>("bias_correction");
  Inserter(g, ctx, form).Run();
  return g;
}

WEFT_REGISTER_PASS(InsertQdq)
    .describe("quantises after training: QuantizeLinear and DequantizeLinear by measured ranges")
    .set_body(InsertQdq)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("range")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .result(PassResult::kDiffers)
    .keeps_onnx()
    .option("activations", "u8", "8-bit numbers of activations: u8 or s8")
    .option("symmetric", false, "of activations the zero point is the middle, as of weights")
    .option("per_channel", true, "a scale for each filter or column of weights, else one for all")
    .option("ops", "Conv;Gemm;MatMul;Add", "operators whose operands are rounded, of these four")
    .option("bias_correction", false,
            "take from biases of Conv and Gemm what rounded weights add on average")
    .option("except", "", "names of nodes or of weights that stay, separated by ';'")
    .statistic("products", "convolutions and matmuls of 8-bit numbers")
    .statistic("additions", "additions of 8-bit numbers")
    .statistic("moves", "operators that move 8-bit numbers")
    .statistic("skipped", "nodes that stay in floats, each with its reason in the report")
    .statistic("biases_corrected", "biases that took over the mean error of weights")
    .report("node", "its name")
    .report("op", "its operator")
    .report("state", "quantised, or why not")
    .report("range", "of its first operand, that of all that share its scale")
    .report("scale", "of its first operand")
    .report("zero", "the code that is 0")
    .report("weights_db", "signal to quantisation noise of its weights, in dB")
    .report("bytes_before", "of weights and bias")
    .report("bytes_after", "with scales")
    .rewrite("qdq", "operands of one node rounded");

}  // namespace
}  // namespace weft
