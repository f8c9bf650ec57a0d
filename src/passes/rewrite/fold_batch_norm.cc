/// fold_batch_norm.cc: FoldBatchNorm. Takes what is affine per channel into the weights of the
/// Conv, ConvTranspose or Gemm before it.
///   needs      shape, dtype
///   provides   -
///   preserves  shape, dtype
///   never      touches a product with a second reader, weights that are no constants,
///              statistics of a batch (training), or an affine map that is not finite; a
///              product is never computed twice; a weight never loses what the factor behind it
///              would have kept (below)
///   changes    rounding: one product of the weights instead of one per element of the result
///   cost       linear in the nodes and in the weights that change
///   source     ONNX Runtime ConvBNFusion, ConvMulFusion, ConvAddFusion; onnxoptimizer
///              fuse_bn_into_conv
///
///   %c = Conv(%x, %w, %b)  %y = BatchNormalization(%c, %s, %t, %m, %v)
///     ->  %y = Conv(%x, %w a, %b a + d)             a = s / sqrt(v + epsilon), d = t - m a
///   %c = Conv(%x, %w)  %y = Mul(%c, %k)
///     ->  %y = Conv(%x, %w k)                       %k: f32[C, 1, 1]; Div the same with 1 / k
///   %c = Conv(%x, %w)  %r = Relu(%c)  %y = Mul(%r, %k)
///     ->  %d = Conv(%x, %w k)  %y = Relu(%d)        where every k > 0
///   %c = Gemm(%x, %w)  %y = Add(%c, %k)
///     ->  %y = Gemm(%x, %w, %k)                     %k: f32[C]; Sub the same with -k
///
/// The weights are computed here, in double precision and rounded once: FoldConstants would do the
/// same element by element through the interpreter.
///
/// What may be folded: f16 and bf16 only where nothing is rounded (factors that are powers of
/// two, offsets of a product without bias), because a weight of 8 or 11 bits has none to spare,
/// and a factor of 1e-7 behind a product of f16 is no reason to lose weights. f32 and f64 where
/// the weights stay normal numbers, and do not become so large that a partial sum may overflow.
/// A weight that is next to nothing before may become nothing: training leaves many of them,
/// and oneDNN drops them.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

/// y[.., c, ..] = scale[c] x[.., c, ..] + shift[c]; c is axis 1. One element
/// each: for every channel.
struct Affine {
  NodeEntry x;
  std::vector<double> scale, shift;
};

bool AllFinite(const std::vector<double>& v) {
  return std::all_of(v.begin(), v.end(), [](double e) { return std::isfinite(e); });
}
bool AllOnes(const std::vector<double>& v) {
  return std::all_of(v.begin(), v.end(), [](double e) { return e == 1; });
}

bool AllZeros(const Tensor& t) {
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (t.at(i) != 0) return false;
  return true;
}

std::vector<double> Doubles(const Tensor& t) {
  std::vector<double> v(static_cast<size_t>(t.num_elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = t.at(int64_t(i));
  return v;
}

/// Scaled weights stay below it, unless they were above: sums of products with numbers up to
/// 1e18 do not overflow.
constexpr double kLargestScaled = 0x1p64;
/// Weights below some 2^26 of the least normal number may vanish under factors that
/// are not extreme themselves.
constexpr double kNextToNothing = 0x1p26, kMildFactor = 0x1p-20;

double LeastNormal(DType t) { return t == DType::kF64 ? DBL_MIN : FLT_MIN; }
/// Weights from here on must not become smaller than normal numbers.
double LeastKept(DType t, double factor) {
  if (factor == 0) return std::numeric_limits<double>::infinity();
  return std::fabs(factor) < kMildFactor ? 0 : kNextToNothing * LeastNormal(t);
}

/// Is `now` as good a weight as `was` with the factor behind the product?
bool Keeps(DType t, double was, double factor, double now) {
  if (!std::isfinite(now)) return false;
  if (was == 0 || factor == 0) return true;
  const bool normal = std::fabs(now) >= LeastNormal(t);
  if (IsNarrowFloat(t)) return normal && now == was * factor;
  const double most = std::fabs(factor) > 1 ? std::max(kLargestScaled, std::fabs(was))
                                            : std::numeric_limits<double>::infinity();
  return std::fabs(now) <= most && (normal || std::fabs(was) < LeastKept(t, factor));
}

/// to = from f; false where a result is not Kept. In blocks, which compilers turn into
/// vector code at -O2.
bool ScaleFloats(const float* from, float* to, int64_t count, double f) {
  constexpr int64_t kBlock = 16;
  constexpr uint32_t kExponent = 0x7f800000;
  const uint32_t large = std::fabs(f) > 1 ? uint32_t{127 + 64} << 23 : kExponent;
  // 0 is kept by every factor.
  const double least = LeastKept(DType::kF32, f);
  const float kept = least == 0 ? FLT_TRUE_MIN : float(least);
  uint32_t worst[kBlock] = {};
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    float block[kBlock];
    uint32_t bits[kBlock];
    for (int64_t k = 0; k < kBlock; ++k) block[k] = float(double(from[i + k]) * f);
    std::memcpy(bits, block, sizeof(bits));
    std::memcpy(to + i, block, sizeof(block));
    for (int64_t k = 0; k < kBlock; ++k) {
      const uint32_t exponent = bits[k] & kExponent;
      worst[k] |= uint32_t(exponent >= large) |
                  (uint32_t(exponent == 0) & uint32_t(std::fabs(from[i + k]) >= kept));
    }
  }
  bool all = true;
  for (uint32_t w : worst) all &= w == 0;
  for (int64_t k = all ? i : 0; k < count; ++k) {  // what looked large may have been so before
    to[k] = float(double(from[k]) * f);
    if (!Keeps(DType::kF32, from[k], f, to[k])) return false;
  }
  return true;
}

class Folder {
 public:
  Folder(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), edit_(g) {}

  void Run() {
    std::vector<NodePtr> order = g_.TopoOrder();
    std::vector<uint8_t> taken(g_.id_bound(), 0);
    // The last of several maps in a row first: they are composed, and the weights change once.
    for (auto it = order.rbegin(); it != order.rend() && !out_of_fuel_; ++it) {
      const NodePtr n = *it;
      if (taken[n->id()]) continue;
      std::optional<Affine> map = MapOf(n);
      if (!map) continue;
      std::vector<NodePtr> chain{n};
      ExtendDown(&*map, &chain);
      std::optional<Rectified> rectified = AcrossRelu(*map);
      if (rectified) {
        chain.push_back(map->x.node);
        map = rectified->scaled;
        ExtendDown(&*map, &chain);
      }
      if (!CanAbsorb(map->x)) {  // nor can it from inside the row: rows are walked once
        for (const NodePtr& link : chain) taken[link->id()] = 1;
        continue;
      }
      if (!AllFinite(map->scale) || !AllFinite(map->shift)) continue;
      if (rectified && !Holds(edit_.dtype(NodeEntry(n)), rectified->shift)) continue;
      const NodePtr product = map->x.node;
      const NodePtr named = rectified ? product : n;  // the result of the row is the user's
      NodeEntry folded = IsOp(product, "Gemm") ? IntoGemm(*map, named) : IntoConv(*map, named);
      if (!folded.node) continue;
      edit_.KnowAs(folded, NodeEntry(n));
      g_.MergeOrigin(folded.node, product);
      if (rectified) folded = Rectify(folded, *rectified, n);
      for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
        g_.MergeOrigin(folded.node, *link);
        taken[(*link)->id()] = 1;
        if (MapOf(*link)) ctx_.Count(IsOp(*link, "BatchNormalization") ? "batch-norm" : "affine");
      }
      edit_.Replace(n, {folded});
    }
  }

 private:
  // ---- what is affine ----

  std::optional<Affine> MapOf(const NodePtr& n) const {
    if (n->is_variable() || n->num_outputs() != 1) return {};
    return IsOp(n, "BatchNormalization") ? OfBatchNorm(n) : OfArithmetic(n);
  }
  static double Of(const std::vector<double>& v, size_t c) { return v[v.size() == 1 ? 0 : c]; }
  /// outer after inner.
  static Affine Compose(const Affine& outer, const Affine& inner) {
    Affine both{inner.x, {}, {}};
    const size_t channels = std::max(outer.scale.size(), inner.scale.size());
    for (size_t c = 0; c < channels; ++c) {
      both.scale.push_back(Of(outer.scale, c) * Of(inner.scale, c));
      both.shift.push_back(Of(outer.scale, c) * Of(inner.shift, c) + Of(outer.shift, c));
    }
    return both;
  }

  std::optional<Affine> OfBatchNorm(const NodePtr& n) const {
    const Shape& x = edit_.shape(n->inputs[0]);
    if (n->attr<int64_t>("training_mode") != 0 || !x.has_rank() || x.rank() < 2) return {};
    std::vector<double> v[4];
    for (size_t i = 0; i < 4; ++i) {
      const TensorPtr t = Graph::ConstantOf(n->inputs[i + 1]);
      if (!t || t->rank() != 1) return {};
      v[i] = Doubles(*t);
      if (v[i].size() != v[0].size()) return {};
    }
    const double epsilon = n->attr<double>("epsilon");
    Affine map{n->inputs[0], {}, {}};
    for (size_t c = 0; c < v[0].size(); ++c) {
      map.scale.push_back(v[0][c] / std::sqrt(v[3][c] + epsilon));
      map.shift.push_back(v[1][c] - v[2][c] * map.scale[c]);
    }
    return map;
  }

  /// One operand is constant and differs only from channel to channel; the other one has the
  /// shape of the result.
  std::optional<Affine> OfArithmetic(const NodePtr& n) const {
    const bool add = IsOp(n, "Add"), sub = IsOp(n, "Sub"), mul = IsOp(n, "Mul"),
               div = IsOp(n, "Div");
    if (!add && !sub && !mul && !div) return {};
    const Shape& out = edit_.shape(NodeEntry(n));
    if (!out.fully_known() || out.rank() < 2) return {};
    for (size_t side : {1, 0}) {
      const TensorPtr t = Graph::ConstantOf(n->inputs[side]);
      const NodeEntry x = n->inputs[1 - side];
      if (!t || !IsFloat(t->dtype()) || (div && side == 0) || !edit_.shape(x).same(out) ||
          !PerChannel(*t, out.rank()))
        continue;
      const std::vector<double> k = Doubles(*t);
      Affine map{x, std::vector<double>(k.size(), 1), std::vector<double>(k.size(), 0)};
      for (size_t c = 0; c < k.size(); ++c) {
        if (mul) map.scale[c] = k[c];
        if (div) map.scale[c] = 1 / k[c];
        if (add) map.shift[c] = k[c];
        if (sub) map.shift[c] = side == 1 ? -k[c] : k[c];
        if (sub && side == 0) map.scale[c] = -1;
      }
      return map;
    }
    return {};
  }
  /// Against `rank` axes, every extent of `t` but that of axis 1 is 1.
  static bool PerChannel(const Tensor& t, int rank) {
    if (t.rank() > rank) return false;
    for (int d = 0; d < t.rank(); ++d)
      if (t.dims()[size_t(d)] != 1 && d + rank - t.rank() != 1) return false;
    return true;
  }

  /// Maps below the last of `chain` join `map`.
  void ExtendDown(Affine* map, std::vector<NodePtr>* chain) const {
    while (OnlyReader(g_, map->x.node)) {
      const std::optional<Affine> inner = MapOf(map->x.node);
      if (!inner) return;
      Affine both = Compose(*map, *inner);
      if (!AllFinite(both.scale) || !AllFinite(both.shift)) return;
      chain->push_back(map->x.node);
      *map = std::move(both);
    }
  }

  // ---- across a rectifier ----

  /// Offsets that stay behind a rectifier of f16 or bf16 are constants of that dtype.
  static bool Holds(DType t, const std::vector<double>& values) {
    if (!IsNarrowFloat(t)) return true;
    Tensor one(t, {});
    for (double v : values) {
      one.set(0, v);
      if (one.at(0) != v) return false;
    }
    return true;
  }

  /// s relu(x) + d = relu(s x) + d where s > 0, for LeakyRelu as well.
  struct Rectified {
    NodePtr relu;
    Affine scaled;              ///< s x
    std::vector<double> shift;  ///< d
  };
  std::optional<Rectified> AcrossRelu(const Affine& map) const {
    const NodePtr relu = map.x.node;
    if ((!IsOp(relu, "Relu") && !IsOp(relu, "LeakyRelu")) || !OnlyReader(g_, relu)) return {};
    for (double s : map.scale)
      if (!(s > 0)) return {};
    if (AllOnes(map.scale)) return {};
    return Rectified{relu, {relu->inputs[0], map.scale, {0}}, map.shift};
  }
  NodeEntry Rectify(const NodeEntry& product, const Rectified& r, const NodePtr& n) {
    const auto like_n = [&](const NodePtr& made) {
      g_.MergeOrigin(made, n);
      return edit_.KnowAs(NodeEntry(made), NodeEntry(n));
    };
    const NodeEntry y = like_n(g_.AddNode(r.relu->op(), {product}, r.relu->attrs.dict));
    if (std::all_of(r.shift.begin(), r.shift.end(), [](double d) { return d == 0; })) return y;
    std::vector<int64_t> dims(size_t(edit_.shape(NodeEntry(n)).rank() - 1), 1);
    dims[0] = int64_t(r.shift.size());
    auto d = std::make_shared<Tensor>(edit_.dtype(NodeEntry(n)), dims);
    for (size_t c = 0; c < r.shift.size(); ++c) d->set(int64_t(c), r.shift[c]);
    return like_n(g_.AddNode("Add", {y, edit_.AddParam(n->attrs.name + ".shift", d)}));
  }

  // ---- where it goes ----

  bool CanAbsorb(const NodeEntry& e) const {
    const NodePtr n = e.node;
    if (!IsOp(n, "Conv") && !IsOp(n, "ConvTranspose") && !IsOp(n, "Gemm")) return false;
    if (!OnlyReader(g_, n)) return false;
    const TensorPtr w = Graph::ConstantOf(n->inputs[1]);
    if (!w || w->num_bytes() > ctx_.limits().folded_bytes_each) return false;
    return !HasBias(n) || Graph::ConstantOf(n->inputs[2]);
  }
  static bool HasBias(const NodePtr& n) { return n->num_inputs() > 2 && n->inputs[2].node; }

  /// `t` as [outer, channels, inner], each channel times its factor; null where a
  /// product is not Kept.
  static TensorPtr Scaled(const TensorPtr& t, int64_t outer, int64_t channels, int64_t inner,
                          const std::vector<double>& factor) {
    if (AllOnes(factor)) return t;
    auto out = std::make_shared<Tensor>(t->dtype(), t->dims());
    int64_t i = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        const double f = Of(factor, size_t(c));
        if (t->dtype() == DType::kF32) {
          if (!ScaleFloats(t->data_as<float>() + i, out->mutable_data_as<float>() + i, inner, f))
            return nullptr;
          i += inner;
          continue;
        }
        for (const int64_t end = i + inner; i < end; ++i) {
          out->set(i, t->at(i) * f);
          if (!Keeps(t->dtype(), t->at(i), f, out->at(i))) return nullptr;
        }
      }
    }
    return out;
  }

  /// [before.., channels]: scale (times `old`, where there is one) plus shift; null where one is
  /// not finite, or rounded in f16 or bf16.
  static TensorPtr Bias(const Tensor* old, double old_factor, int64_t channels, DType dtype,
                        const Affine& map) {
    std::vector<int64_t> dims = old && old->rank() > 0 ? old->dims() : std::vector<int64_t>{1};
    const int64_t step = dims.back();  // channels, or 1: the same for all
    const int64_t rows = old && step > 0 ? old->num_elements() / step : 1;
    dims.back() = channels;
    auto out = std::make_shared<Tensor>(dtype, dims);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < channels; ++c) {
        const double was = old ? old_factor * old->at(r * step + (step == 1 ? 0 : c)) : 0;
        const double now = was * Of(map.scale, size_t(c)) + Of(map.shift, size_t(c));
        out->set(r * channels + c, now);
        const double kept = out->at(r * channels + c);
        if (!std::isfinite(kept) || (IsNarrowFloat(dtype) && kept != now)) return nullptr;
      }
    }
    return out;
  }

  NodeEntry IntoConv(const Affine& map, const NodePtr& n) {
    const NodePtr conv = map.x.node;
    const TensorPtr w = Graph::ConstantOf(conv->inputs[1]);
    const bool transposed = IsOp(conv, "ConvTranspose");
    if (w->rank() < 3) return {};
    const std::vector<int64_t>& d = w->dims();
    int64_t inner = 1;
    for (size_t k = 2; k < d.size(); ++k) inner *= d[k];
    // W of Conv is [M, C / group, ..]; of ConvTranspose [C, M / group, ..], a group's channels
    // one after the other.
    const int64_t group = conv->attr<int64_t>("group");
    const int64_t channels = transposed ? d[1] * group : d[0];
    if (!Fits(map, channels)) return {};
    TensorPtr scaled;
    if (!transposed) {
      scaled = Scaled(w, 1, channels, d[1] * inner, map.scale);
    } else if (d[0] % group == 0) {
      scaled = ScaledGroups(w, group, d[0] / group, d[1], inner, map.scale);
    }
    const TensorPtr old = HasBias(conv) ? Graph::ConstantOf(conv->inputs[2]) : nullptr;
    const TensorPtr bias = Bias(old.get(), 1, channels, w->dtype(), map);
    return Rebuilt(conv, n, scaled, bias, conv->attrs.dict);
  }
  /// [group, in, out, inner]: the channel is (group, out).
  static TensorPtr ScaledGroups(const TensorPtr& w, int64_t group, int64_t in, int64_t out,
                                int64_t inner, const std::vector<double>& factor) {
    if (group == 1 || factor.size() == 1) return Scaled(w, in * group, out, inner, factor);
    std::vector<double> each;
    for (int64_t g = 0; g < group; ++g)
      for (int64_t i = 0; i < in; ++i)
        each.insert(each.end(), factor.begin() + g * out, factor.begin() + (g + 1) * out);
    return Scaled(w, 1, group * in * out, inner, each);
  }

  NodeEntry IntoGemm(const Affine& map, const NodePtr& n) {
    const NodePtr gemm = map.x.node;
    const TensorPtr w = Graph::ConstantOf(gemm->inputs[1]);
    if (w->rank() != 2) return {};
    const bool rows = gemm->attr<int64_t>("transB") != 0;
    const int64_t channels = w->dims()[rows ? 0 : 1], inner = w->dims()[rows ? 1 : 0];
    if (!Fits(map, channels)) return {};
    const TensorPtr scaled =
        rows ? Scaled(w, 1, channels, inner, map.scale) : Scaled(w, inner, channels, 1, map.scale);
    const TensorPtr old = HasBias(gemm) ? Graph::ConstantOf(gemm->inputs[2]) : nullptr;
    const TensorPtr bias = Bias(old.get(), gemm->attr<double>("beta"), channels, w->dtype(), map);
    AttrDict attrs = gemm->attrs.dict;
    attrs["beta"] = 1.0;
    return Rebuilt(gemm, n, scaled, bias, std::move(attrs));
  }

  static bool Fits(const Affine& map, int64_t channels) {
    return channels > 0 && (map.scale.size() == 1 || int64_t(map.scale.size()) == channels);
  }
  NodeEntry Rebuilt(const NodePtr& product, const NodePtr& n, const TensorPtr& weights,
                    const TensorPtr& bias, AttrDict attrs) {
    if (!weights || !bias) return {};
    const bool adds = HasBias(product) || !AllZeros(*bias);
    out_of_fuel_ = !ctx_.Fuel("fold-affine", n);
    if (out_of_fuel_) return {};
    const NodeEntry w = product->inputs[1];
    const NodeEntry fresh =
        weights == Graph::ConstantOf(w) ? w : edit_.AddParam(w.node->attrs.name, weights);
    const std::string name = HasBias(product)        ? product->inputs[2].node->attrs.name
                             : n->attrs.name.empty() ? std::string()
                                                     : n->attrs.name + ".bias";
    std::vector<NodeEntry> inputs{product->inputs[0], fresh};
    if (adds) inputs.push_back(edit_.AddParam(name, bias));
    return NodeEntry(g_.AddNode(product->op(), inputs, std::move(attrs)));
  }

  Graph& g_;
  PassContext& ctx_;
  TypedEdit edit_;
  bool out_of_fuel_ = false;
};

Graph FoldBatchNorm(Graph g, PassContext& ctx) {
  Folder(g, ctx).Run();
  ctx.Count("dead", g.EraseDead());
  return g;
}

WEFT_REGISTER_PASS(FoldBatchNorm)
    .describe(
        "takes BatchNormalization and arithmetic with a constant per channel into the weights of "
        "the Conv, ConvTranspose or Gemm before it")
    .set_body(FoldBatchNorm)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .statistic("batch-norm", "BatchNormalization that became weights")
    .statistic("affine", "Add, Sub, Mul, Div that became weights")
    .rewrite("fold-affine", "a chain of both taken into one product")
    .statistic("dead", "nodes that nothing uses any more");

}  // namespace
}  // namespace weft
