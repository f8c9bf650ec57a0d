/// products.cc: see products.h. The arithmetic is said at the head of quantised.cc.
#include "products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "codes.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft::quantised {
namespace {

constexpr const char* kConv = "weft::QuantizedConv";
constexpr const char* kMatMul = "weft::QuantizedMatMul";

/// One call, as it grows.
struct Call {
  const char* op = kMatMul;
  NodeEntry x, w, scale, x_zero, w_zero, bias, offset;
  AttrDict attrs;       ///< of the window
  int64_t filters = 0;  ///< or columns; -1: not known
  int64_t terms = -1;   ///< of a sum; -1: not known
};

class Maker {
 public:
  Maker(Graph& g, TypedEdit& edit, PassContext& ctx) : g_(g), edit_(edit), ctx_(ctx) {}

  bool Dequantised(const NodePtr& n);
  bool QLinear(const NodePtr& n);
  bool Integer(const NodePtr& n);

 private:
  static int64_t Extent(SymInt d) { return d.known() && d.is_const() ? d.value() : -1; }
  /// Filters and terms of the weights, as they lie in the call.
  void Measure(Call* c) const {
    const Shape& w = edit_.shape(c->w);
    c->filters = c->terms = -1;
    if (!w.has_rank() || w.rank() == 0) return;
    if (c->op == kConv) {
      c->filters = Extent(w[0]);
      int64_t terms = 1;
      for (int k = 1; k < w.rank(); ++k) {
        const int64_t d = Extent(w[k]);
        terms = d < 0 || terms < 0 || terms > INT32_MAX ? -1 : terms * d;
      }
      c->terms = terms;
      return;
    }
    c->filters = w.rank() > 1 ? Extent(w[w.rank() - 1]) : 1;
    c->terms = Extent(w[w.rank() > 1 ? w.rank() - 2 : 0]);
  }
  /// No sum, nor one with such a bias, leaves i32.
  static bool SumFits(const Call& c, const Tensor* bias) {
    int64_t most = 0;
    for (int64_t i = 0; bias && i < bias->num_elements(); ++i)
      most = std::max(most, std::abs(int64_t(bias->at(i))));
    return c.terms >= 0 && c.terms < INT32_MAX / (255 * 255) &&
           c.terms * 255 * 255 + most < INT32_MAX;
  }

  NodeEntry Floats(const std::vector<float>& v) {
    std::vector<double> wide(v.begin(), v.end());
    return edit_.AddConstant(Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, wide));
  }
  NodeEntry Transposed(const NodeEntry& e, bool turn) {
    if (!turn) return e;
    const Shape& s = edit_.shape(e);
    return edit_.Add("Transpose", {e}, {{"perm", Ints{1, 0}}},
                     {Shape({s[1], s[0]}), edit_.type(e), nullptr});
  }
  /// A constant f32 row of the filters in a tensor of `rank`, with `behind` axes behind theirs:
  /// [filters] with ones around it, or one number.
  std::optional<std::vector<float>> RowOf(const NodeEntry& e, int64_t filters, int rank,
                                          int behind) const;
  /// Axes behind that of the filters in the result of a call.
  static int Behind(const Call& c, int rank) { return c.op == kConv ? rank - 2 : 0; }
  /// The product's operator, its operands with their scales; nothing where it is none of 8 bits.
  struct Product {
    Call call;
    std::vector<float> scale;             ///< x_scale * w_scale, of all filters or one
    std::vector<float> added;             ///< floats to be added; empty: none
    TensorPtr bias;                       ///< in i32, in units of the scale
    bool turn_x = false, turn_w = false;  ///< read transposed
  };
  std::optional<Product> Operands(const NodePtr& n);
  bool AddBias(const NodeEntry& e, Product* p);
  NodePtr Emit(const Call& c, AttrDict finish, const NodePtr& last, DType to);
  bool Fuel(const NodePtr& n) { return ctx_.Fuel("quantised", n); }

  Graph& g_;
  TypedEdit& edit_;
  PassContext& ctx_;
};

std::optional<std::vector<float>> Maker::RowOf(const NodeEntry& e, int64_t filters, int rank,
                                               int behind) const {
  TensorPtr t = Graph::ConstantOf(e);
  const auto codes = t ? std::nullopt : CodesOf(edit_, e);
  if (codes) {
    t = Graph::ConstantOf(codes->codes);
    if (!codes->by.single()) return std::nullopt;
  }
  if (!t || (!codes && t->dtype() != DType::kF32)) return std::nullopt;
  const std::vector<int64_t>& dims = t->dims();
  if (int(dims.size()) > rank) return std::nullopt;
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[dims.size() - 1 - k] != 1 && k != size_t(behind)) return std::nullopt;
  const int64_t n = t->num_elements();
  if (n != 1 && n != filters) return std::nullopt;
  std::vector<float> row;
  for (int64_t i = 0; i < n; ++i) {
    float v = float(t->at(i));
    if (codes) v = (v - float(codes->by.zero[0])) * codes->by.scale[0];
    if (!std::isfinite(v)) return std::nullopt;
    row.push_back(v);
  }
  return row;
}

/// A bias operand of a Conv or Gemm: integers in units of the scale where it is that, else floats.
bool Maker::AddBias(const NodeEntry& e, Product* p) {
  const auto codes = CodesOf(edit_, e);
  const TensorPtr t = codes ? Graph::ConstantOf(codes->codes) : nullptr;
  if (t && codes->by.dtype == DType::kI32 && codes->by.zero == std::vector<int64_t>{0} &&
      t->rank() == 1 && t->num_elements() == p->call.filters &&
      (codes->by.single() || int64_t(codes->by.scale.size()) == p->call.filters)) {
    // Quantisers compute this scale in f32, in an order of their own.
    bool alike = true;
    for (size_t i = 0; i < std::max(codes->by.scale.size(), p->scale.size()); ++i) {
      const float a = codes->by.scale[codes->by.single() ? 0 : i],
                  b = p->scale[p->scale.size() == 1 ? 0 : i];
      alike = alike && std::fabs(a - b) <= 0x1p-21f * b;
    }
    if (alike && SumFits(p->call, t.get())) {
      p->bias = t;
      p->call.bias = codes->codes;
      return true;
    }
    p->added.clear();
    for (int64_t i = 0; i < t->num_elements(); ++i)
      p->added.push_back(float(t->at(i)) * codes->by.scale[codes->by.single() ? 0 : size_t(i)]);
    return std::all_of(p->added.begin(), p->added.end(), [](float v) { return std::isfinite(v); });
  }
  // C of a Gemm, or B of a Conv, in floats: B is [M] and has its axis in front.
  const auto row = RowOf(e, p->call.filters, 2, 0);
  if (!row) return false;
  p->added = *row;
  return true;
}

std::optional<Maker::Product> Maker::Operands(const NodePtr& n) {
  const bool conv = IsOp(n, "Conv"), gemm = IsOp(n, "Gemm");
  if ((!conv && !gemm && !IsOp(n, "MatMul")) || !n->control_deps.empty()) return std::nullopt;
  auto x = CodesOf(edit_, n->inputs[0]), w = CodesOf(edit_, n->inputs[1]);
  if (!x || !w || !x->by.single() || x->by.dtype == DType::kI32 || w->by.dtype == DType::kI32)
    return std::nullopt;
  const int rank = edit_.shape(w->codes).rank();
  Product p;
  Call& c = p.call;
  c.op = conv ? kConv : kMatMul;
  c.x = x->codes;
  c.w = w->codes;
  float alpha = 1;
  if (gemm) {
    p.turn_x = n->attr<int64_t>("transA") != 0;
    p.turn_w = n->attr<int64_t>("transB") != 0;
    alpha = float(n->attr<double>("alpha"));
    if ((InputOf(n, 2).node && n->attr<double>("beta") != 1) || !(alpha > 0) ||
        !std::isfinite(alpha))
      return std::nullopt;
  }
  if (!w->by.single() && w->by.axis != (conv || p.turn_w ? 0 : rank - 1)) return std::nullopt;
  if (!conv && rank == 1 && !w->by.single()) return std::nullopt;
  if (conv) c.attrs = n->attrs.dict;
  Measure(&c);
  if (p.turn_w) std::swap(c.filters, c.terms);
  if (!SumFits(c, nullptr) || (!w->by.single() && c.filters != int64_t(w->by.scale.size())))
    return std::nullopt;
  c.x_zero = x->by.zero_entry;
  c.w_zero = w->by.zero_entry;
  for (float s : w->by.scale) p.scale.push_back(x->by.scale[0] * s * alpha);
  if (InputOf(n, 2).node && !AddBias(n->inputs[2], &p)) return std::nullopt;
  return p;
}

NodePtr Maker::Emit(const Call& c, AttrDict finish, const NodePtr& last, DType to) {
  AttrDict attrs = c.attrs;
  for (const auto& [name, value] : finish) attrs[name] = value;
  attrs["to"] = to;
  std::vector<NodeEntry> inputs{c.x, c.w, c.scale, c.x_zero, c.w_zero, c.bias, c.offset};
  while (!inputs.back().node) inputs.pop_back();
  const NodeEntry old(last);
  const NodeEntry y = edit_.Add(c.op, inputs, std::move(attrs),
                                {edit_.shape(old), Type(to), nullptr}, last->attrs.name);
  return y.node;
}

bool Maker::Dequantised(const NodePtr& n) {
  std::optional<Product> p = Operands(n);
  if (!p) return false;
  Call& c = p->call;
  const int rank = edit_.shape(NodeEntry(n)).has_rank() ? edit_.shape(NodeEntry(n)).rank() : 0;
  if (rank < 1) return false;
  // What follows, as far as it alone reads what is before it.
  std::vector<NodePtr> chain{n};
  std::vector<float> added = p->added;
  float low = -std::numeric_limits<float>::infinity(), high = -low;
  bool bounded = false;
  NodePtr last = n, take = n;
  std::optional<Rounded> rounded;
  for (NodePtr r = OnlyReader(g_, n); r; r = OnlyReader(g_, r)) {
    if (IsOp(r, "QuantizeLinear") && r->inputs[0] == NodeEntry(last)) {
      rounded = RoundedBy(edit_, r);
      if (rounded && rounded->by.single()) take = r;
      if (rounded && !rounded->by.single()) rounded.reset();
      break;
    }
    if (IsOp(r, "Add") && !bounded && added.empty()) {
      const size_t other = r->inputs[0] == NodeEntry(last) ? 1 : 0;
      const auto row = RowOf(r->inputs[other], c.filters, rank, Behind(c, rank));
      if (!row || !edit_.shape(NodeEntry(r)).same(edit_.shape(NodeEntry(last)))) break;
      added = *row;
    } else if (IsOp(r, "Relu")) {
      low = std::max(low, 0.f);
      high = std::max(high, 0.f);
      bounded = true;
    } else if (IsOp(r, "Clip") && r->inputs[0] == NodeEntry(last)) {
      const auto limit = [&](size_t i, float otherwise) -> std::optional<float> {
        if (!InputOf(r, i).node) return otherwise;
        const auto v = ScalarConstant(r->inputs[uint32_t(i)]);
        if (!v || std::isnan(*v)) return std::nullopt;
        return float(*v);
      };
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      const auto least = limit(1, -kInfinity), most = limit(2, kInfinity);
      if (!least || !most) break;
      low = std::min(std::max(low, *least), *most);
      high = std::min(std::max(high, *least), *most);
      bounded = true;
    } else {
      break;
    }
    chain.push_back(r);
    last = r;
  }
  if (!rounded) {  // the product alone, in floats
    chain = {n};
    added = p->added;
  }
  AttrDict finish;
  DType to = DType::kF32;
  if (rounded) {
    const Scaling& y = rounded->by;
    to = y.dtype;
    for (float& s : p->scale) s /= y.scale[0];
    for (float& v : added) v /= y.scale[0];
    Bounds b = BoundsOf(to);
    if (bounded) b = {Quantise(low, y), Quantise(high, y)};
    finish["zero"] = y.zero[0];
    finish["low"] = b.low;
    finish["high"] = b.high;
    chain.push_back(take);
  }
  const auto usable = [](float v) { return std::isfinite(v); };
  if (!std::all_of(p->scale.begin(), p->scale.end(), usable) ||
      !std::all_of(added.begin(), added.end(), usable) || !Fuel(n))
    return false;
  c.x = Transposed(c.x, p->turn_x);
  c.w = Transposed(c.w, p->turn_w);
  c.scale = Floats(p->scale);
  if (!added.empty()) c.offset = Floats(added);
  const NodePtr y = Emit(c, finish, take, to);
  for (const NodePtr& part : chain) g_.MergeOrigin(y, part);
  edit_.Replace(take, {NodeEntry(y)});
  ctx_.Count(c.op == kConv ? "convolutions" : "products");
  if (rounded) ctx_.Count("requantised");
  return true;
}

bool Maker::QLinear(const NodePtr& n) {
  const bool conv = IsOp(n, "QLinearConv");
  if ((!conv && !IsOp(n, "QLinearMatMul")) || !n->control_deps.empty()) return false;
  const DType to = edit_.dtype(NodeEntry(n));
  if (!edit_.shape(n->inputs[3]).has_rank() || !edit_.shape(NodeEntry(n)).has_rank()) return false;
  const auto scaling = [&](size_t scale, size_t zero, const NodeEntry& of) {
    return ScalingOf(n->inputs[uint32_t(scale)], n->inputs[uint32_t(zero)], edit_.dtype(of), 0);
  };
  const auto x = scaling(1, 2, n->inputs[0]), w = scaling(4, 5, n->inputs[3]),
             y = scaling(6, 7, NodeEntry(n));
  Call c;
  c.op = conv ? kConv : kMatMul;
  c.x = n->inputs[0];
  c.w = n->inputs[3];
  Measure(&c);
  if (!x || !w || !y || !x->single() || !y->single() ||
      (!w->single() && int64_t(w->scale.size()) != c.filters))
    return false;
  std::vector<float> scale;
  for (float s : w->scale) scale.push_back(x->scale[0] * s / y->scale[0]);
  if (!std::all_of(scale.begin(), scale.end(), [](float v) { return std::isfinite(v); }) ||
      !Fuel(n))
    return false;
  if (conv) c.attrs = n->attrs.dict;
  c.scale = Floats(scale);
  c.x_zero = x->zero_entry;
  c.w_zero = w->zero_entry;
  if (conv) c.bias = InputOf(n, 8);
  const Bounds b = BoundsOf(to);
  const NodePtr call = Emit(c, {{"zero", y->zero[0]}, {"low", b.low}, {"high", b.high}}, n, to);
  g_.MergeOrigin(call, n);
  edit_.Replace(n, {NodeEntry(call)});
  ctx_.Count(conv ? "convolutions" : "products");
  ctx_.Count("requantised");
  return true;
}

bool Maker::Integer(const NodePtr& n) {
  const bool conv = IsOp(n, "ConvInteger");
  if ((!conv && !IsOp(n, "MatMulInteger")) || !n->control_deps.empty()) return false;
  Call c;
  c.op = conv ? kConv : kMatMul;
  c.x = n->inputs[0];
  c.w = n->inputs[1];
  c.x_zero = InputOf(n, 2);
  c.w_zero = InputOf(n, 3);
  Measure(&c);
  const int rank = edit_.shape(NodeEntry(n)).has_rank() ? edit_.shape(NodeEntry(n)).rank() : 0;
  const auto is_row = [&](const NodeEntry& e, bool only_one) {
    if (!e.node) return true;
    const Shape& s = edit_.shape(e);
    if (!s.has_rank() || s.rank() > 1) return false;
    const int64_t count = s.rank() == 0 ? 1 : Extent(s[0]);
    return count == 1 || (!only_one && count == c.filters && count > 0);
  };
  if (rank < 1 || !is_row(c.x_zero, true) || !is_row(c.w_zero, false)) return false;
  // Rows behind a convolution lie along its axis of filters: [1, M, 1..]; as [M] for the call.
  const auto as_row = [&](const NodeEntry& e) -> std::optional<NodeEntry> {
    const Shape& s = edit_.shape(e);
    if (!s.has_rank() || s.rank() > rank) return std::nullopt;
    const int behind = conv ? rank - 2 : 0;
    int64_t count = 1;
    for (int k = 0; k < s.rank(); ++k) {
      const int64_t d = Extent(s[s.rank() - 1 - k]);
      if (d != 1 && (k != behind || d != c.filters || d < 0)) return std::nullopt;
      if (k == behind) count = d;
    }
    return s.rank() <= 1 ? e : edit_.AddReshape(e, Shape({SymInt(count)}));
  };
  std::vector<NodePtr> chain{n};
  DType to = DType::kI32;
  const auto next = [&](const char* op) -> NodePtr {
    const NodePtr r = OnlyReader(g_, chain.back());
    if (!r || !IsOp(r, op) || !edit_.shape(NodeEntry(r)).same(edit_.shape(NodeEntry(chain.back()))))
      return {};
    return r;
  };
  const auto other = [&](const NodePtr& r) {
    return r->inputs[0] == NodeEntry(chain.back()) ? r->inputs[1] : r->inputs[0];
  };
  if (!Fuel(n)) return false;
  if (const NodePtr add = next("Add"))
    if (const auto row = as_row(other(add))) {
      c.bias = *row;
      chain.push_back(add);
    }
  NodePtr cast = next("Cast");
  if (!cast) cast = next("CastLike");
  if (cast && cast->inputs[0] == NodeEntry(chain.back()) &&
      edit_.dtype(NodeEntry(cast)) == DType::kF32) {
    chain.push_back(cast);
    const NodePtr mul = next("Mul");
    const auto scale = mul ? as_row(other(mul)) : std::nullopt;
    if (scale) {
      c.scale = *scale;
      to = DType::kF32;
      chain.push_back(mul);
      if (const NodePtr add = next("Add"))
        if (const auto row = as_row(other(add))) {
          c.offset = *row;
          chain.push_back(add);
        }
    } else {
      chain.pop_back();
    }
  }
  if (conv) c.attrs = n->attrs.dict;
  const NodePtr y = Emit(c, {}, chain.back(), to);
  for (const NodePtr& part : chain) g_.MergeOrigin(y, part);
  edit_.Replace(chain.back(), {NodeEntry(y)});
  ctx_.Count(conv ? "convolutions" : "products");
  return true;
}

}  // namespace

bool RewriteDequantised(Graph& g, TypedEdit& edit, PassContext& ctx, const NodePtr& n) {
  return Maker(g, edit, ctx).Dequantised(n);
}
bool RewriteQLinear(Graph& g, TypedEdit& edit, PassContext& ctx, const NodePtr& n) {
  return Maker(g, edit, ctx).QLinear(n);
}
bool RewriteInteger(Graph& g, TypedEdit& edit, PassContext& ctx, const NodePtr& n) {
  return Maker(g, edit, ctx).Integer(n);
}

}  // namespace weft::quantised
