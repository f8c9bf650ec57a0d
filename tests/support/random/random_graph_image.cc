/// random_graph_image.cc: rules of the random graphs for what surrounds windows in networks for
/// images: resizing, normalisation by channels, the head of a classifier, moves of elements, and
/// operators with operands left out.
#include <algorithm>
#include <cmath>

#include "random_graph_vision.h"
#include "weft/core/op/op.h"

namespace weft::fuzz {
namespace {

bool IsConvolution(const Item& i) {
  if (i.entry.node->is_variable()) return false;
  const std::string& op = i.entry.node->op()->name;
  return op == "Conv" || op == "ConvTranspose";
}
/// An image, a convolution's result where there is one: what passes fold into its weights.
const Item* FindFoldable(Builder& b) {
  const Item* x = b.Chance(0.7)
                      ? b.Find([](const Item& i) { return IsImage(i) && IsConvolution(i); })
                      : nullptr;
  return x ? x : FindImage(b);
}
bool AddResize(Builder& b) {
  const Item* found = FindImage(b);
  if (!found) return false;
  const Item x = *found;
  const int rank = x.rank(), first = b.Chance(0.4) ? 2 : 0;
  static const std::vector<const char*> kModes = {"nearest", "nearest", "linear", "linear",
                                                  "cubic"};
  static const std::vector<const char*> kCoordinates = {
      "half_pixel",         "half_pixel", "asymmetric",          "align_corners",
      "pytorch_half_pixel", "asymmetric", "half_pixel_symmetric"};
  static const std::vector<const char*> kRounding = {"round_prefer_floor", "round_prefer_ceil",
                                                     "floor", "ceil"};
  static const std::vector<double> kScales = {0.5, 1, 1.5, 2, 2, 3, 0.7, 1.25, 2.6};
  const std::string mode = b.Pick(kModes);
  AttrDict attrs = {{"mode", mode.c_str()}};
  if (b.Chance(0.8)) attrs["coordinate_transformation_mode"] = b.Pick(kCoordinates);
  if (mode == "nearest" && b.Chance(0.6)) attrs["nearest_mode"] = b.Pick(kRounding);
  double spread = mode == "cubic" ? 3 : 1;  // sum of |weight|
  if (mode == "cubic" && b.Chance(0.3)) attrs["exclude_outside"] = 1, spread = 12;
  if (mode == "linear" && b.Chance(0.15)) attrs["antialias"] = 1;
  Ints axes;
  for (int d = first; d < rank; ++d) axes.push_back(d);
  if (first > 0) attrs["axes"] = axes;
  std::vector<NodeEntry> in = {x.entry, NodeEntry()};
  const int how = b.Int(0, 3);
  if (how <= 1) {
    std::vector<double> scales;
    for (int64_t d : axes) {
      double s = d < 2 ? 1 : b.Pick(kScales);
      if (double(b.MinExtent(x.dims[size_t(d)])) * s < 1) s = 1;
      scales.push_back(s);
    }
    in.push_back(
        b.graph().AddConstant(Tensor::FromDoubles(DType::kF32, {int64_t(scales.size())}, scales)));
  } else if (how == 2) {
    std::vector<int64_t> sizes;
    for (int64_t d : axes) {
      if (d < 2 && !x.dims[size_t(d)].is_const()) return false;
      sizes.push_back(d < 2 ? x.dims[size_t(d)].value() : b.Int(1, 9));
    }
    if (first > 0 && b.Chance(0.3))
      attrs["keep_aspect_ratio_policy"] = b.Chance(0.5) ? "not_larger" : "not_smaller";
    in.push_back(NodeEntry());
    in.push_back(b.Ints(sizes));
  } else {
    // The extents of x itself, computed.
    std::vector<int64_t> factors;
    for (int64_t d : axes) factors.push_back(d < 2 ? 1 : b.Int(1, 3));
    AttrDict part;
    if (first > 0) part["start"] = first;
    const NodePtr shape = b.graph().AddNode("Shape", {x.entry}, part);
    in.push_back(NodeEntry());
    in.push_back(NodeEntry(b.graph().AddNode("Mul", {NodeEntry(shape), b.Ints(factors)})));
  }
  Values v = x.v;
  if (mode != "nearest") {
    const double size = x.magnitude(),
                 grow = std::pow(spread, double(rank - 2));  // one factor a spatial axis
    const double top = grow * size;
    if (mode == "cubic") v = {-top, top, 0};
    v.error = grow * x.v.error + (64 * AccumulatorEpsilon(x.dtype) + Epsilon(x.dtype)) * top;
  }
  return b.Add("Resize", in, attrs, v);
}

bool AddBatchNorm(Builder& b) {
  const Item* found = FindFoldable(b);
  if (!found) return false;
  const Item x = *found;
  const int64_t c = Channels(x);
  const double epsilon = b.Chance(0.5) ? 0x1p-7 : 0x1p-10;  // f32 holds them
  const double acc = AccumulatorEpsilon(x.dtype), eps = Epsilon(x.dtype), size = x.magnitude();
  const NodeEntry scale = Weights(b, x.dtype, {c}, 0.5, 1.5),
                  shift = Weights(b, x.dtype, {c}, -1, 1), mean = Weights(b, x.dtype, {c}, -1, 1),
                  var = Weights(b, x.dtype, {c}, 0.25, 2);
  AttrDict attrs = {{"epsilon", epsilon}};
  if (b.Chance(0.15)) {
    std::vector<SymInt> reduced = x.dims;
    reduced[1] = 1;
    if (b.MinElements(reduced) == 0 || size > 100) return false;
    attrs["training_mode"] = 1;
    const double n = Count(b, reduced), gain = 1 / std::sqrt(epsilon), top = 1.5 * std::sqrt(n) + 1;
    const double error = 1.5 * gain * (4 * x.v.error + (n + 8) * acc * size) * (1 + top) +
                         2 * eps * (top + 2) + 16 * acc * (top + 2);
    const double wide = std::max(size, 2.0), mean_error = x.v.error + ((n + 16) * acc + eps) * wide;
    return b.Add("BatchNormalization", {x.entry, scale, shift, mean, var}, attrs,
                 std::vector<Values>{{-top, top, error},
                                     {-wide, wide, mean_error},
                                     {0, wide * wide, 4 * wide * mean_error}});
  }
  const double gain = 1.5 / 0.5, top = gain * (size + 1) + 1;
  return b.Add("BatchNormalization", {x.entry, scale, shift, mean, var}, attrs,
               {-top, top, gain * x.v.error + (16 * acc + 4 * eps) * top});
}

/// y = x k or x + k, k of one element a channel.
bool AddPerChannel(Builder& b) {
  const Item* found = FindFoldable(b);
  if (!found) return false;
  const Item x = *found;
  std::vector<int64_t> dims = {Channels(x)};
  dims.resize(size_t(x.rank() - 1), 1);
  if (b.Chance(0.2)) dims.insert(dims.begin(), 1);
  const NodeEntry k = Weights(b, x.dtype, dims, 0.5, 1.5);
  const double acc = AccumulatorEpsilon(x.dtype), eps = 3 * Epsilon(x.dtype);
  const double size = x.magnitude();
  const auto with = [&](double slope, double top) {
    return Values{-top, top, slope * x.v.error + (8 * acc + eps) * top};
  };
  switch (b.Int(0, 3)) {
    case 0:
      return b.Add(
          "Mul",
          b.Chance(0.5) ? std::vector<NodeEntry>{x.entry, k} : std::vector<NodeEntry>{k, x.entry},
          {}, with(1.5, 1.5 * size));
    case 1:
      return b.Add("Add", {x.entry, k}, {}, with(1, size + 1.5));
    case 2:
      return b.Add(
          "Sub",
          b.Chance(0.7) ? std::vector<NodeEntry>{x.entry, k} : std::vector<NodeEntry>{k, x.entry},
          {}, with(1, size + 1.5));
    default:
      return b.Add("Div", {x.entry, k}, {}, with(2, 2 * size));
  }
}

/// What follows a convolution.
bool AddActivation(Builder& b) {
  const Item* x = FindFoldable(b);
  if (!x) return false;
  const double size = x->magnitude(), e = x->v.error;
  const double round = 8 * AccumulatorEpsilon(x->dtype) + Epsilon(x->dtype);
  switch (b.Int(0, 5)) {
    case 0:
    case 1:
      return b.Add("Relu", {x->entry}, {}, {std::max(x->v.lo, 0.0), std::max(x->v.hi, 0.0), e});
    case 2:
      return b.Add("LeakyRelu", {x->entry}, {{"alpha", 0.125}}, {-size, size, e + round * size});
    case 3:
      return b.Add("HardSwish", {x->entry}, {},
                   {-0.5, std::max(size, 1.0), 1.5 * e + round * std::max(size, 1.0)});
    case 4:
      return b.Add("HardSigmoid", {x->entry}, {{"alpha", 0.25}}, {0, 1, 0.25 * e + round});
    default:
      return b.Add("Sigmoid", {x->entry}, {}, {0, 1, 0.25 * e + round});
  }
}

/// x + y of equal extents: a way round.
bool AddResidual(Builder& b) {
  const Item* found = FindImage(b);
  if (!found) return false;
  const Item x = *found;
  const Item* y = b.Find(
      [&](const Item& i) { return i.dtype == x.dtype && i.dims == x.dims && i.entry != x.entry; });
  if (!y) return false;
  const double top = x.magnitude() + y->magnitude();
  return b.Add("Add", {x.entry, y->entry}, {},
               {x.v.lo + y->v.lo, x.v.hi + y->v.hi,
                x.v.error + y->v.error + (AccumulatorEpsilon(x.dtype) + Epsilon(x.dtype)) * top});
}

/// Values of (x - mean) / deviation scale + shift over n elements, |scale| <= 1, |shift| <= 1.
Values Normalised(const Item& x, double n, double epsilon) {
  const double gain = 1 / std::sqrt(epsilon), top = std::sqrt(n) + 1;
  const double acc = AccumulatorEpsilon(x.dtype), eps = Epsilon(x.dtype);
  return {-top, top,
          gain * (4 * x.v.error + (n + 8) * acc * x.magnitude()) * (1 + top) + 2 * eps * (top + 2)};
}
bool AddInstanceNorm(Builder& b) {
  const Item* found = FindImage(b);
  if (!found || found->magnitude() > 100) return false;
  const Item x = *found;
  const int64_t c = Channels(x);
  const double epsilon = b.Chance(0.5) ? 0.125 : 0x1p-7;
  return b.Add("InstanceNormalization",
               {x.entry, Weights(b, x.dtype, {c}, 0.5, 1), Weights(b, x.dtype, {c}, -1, 1)},
               {{"epsilon", epsilon}}, Normalised(x, Count(b, Spatial(x)), epsilon));
}
/// GroupNormalization as ONNX defines it: groups beside each other, normalised, put back.
bool AddGroupNorm(Builder& b) {
  const Item* found = FindImage(b);
  if (!found || found->magnitude() > 100 || b.MinElements(found->dims) == 0) return false;
  const Item x = *found;
  const int64_t c = Channels(x), groups = c % 2 == 0 && b.Chance(0.6) ? 2 : b.Chance(0.5) ? c : 1;
  const double n = Count(b, Spatial(x)) * double(c / groups), epsilon = 0.125;
  if (!b.Add("Reshape", {x.entry, b.Ints({0, groups, -1})}, {}, x.v)) return false;
  const auto filled = [&](double value) {
    return b.graph().AddConstant(
        Tensor::FromDoubles(x.dtype, {groups}, std::vector<double>(size_t(groups), value)));
  };
  const Values v = Normalised(x, n, epsilon);
  if (!b.Add("InstanceNormalization", {b.items().back().entry, filled(1), filled(0)},
             {{"epsilon", epsilon}}, v))
    return true;
  const NodeEntry shape(b.graph().AddNode("Shape", {x.entry}));
  if (!b.Add("Reshape", {b.items().back().entry, shape}, {}, v)) return true;
  std::vector<int64_t> dims = {c};
  dims.resize(size_t(x.rank() - 1), 1);
  b.Add("Mul", {b.items().back().entry, Weights(b, x.dtype, dims, 0.5, 1)}, {},
        {v.lo, v.hi, v.error + 2 * Epsilon(x.dtype) * v.hi});
  return true;
}
bool AddLrn(Builder& b) {
  const Item* x = FindImage(b);
  if (!x || x->magnitude() > 30) return false;
  const int size = b.Int(1, 5);
  const double alpha = b.Chance(0.5) ? 0x1p-6 : 0.25, beta = b.Chance(0.5) ? 0.75 : 0.5;
  const double m = x->magnitude(), acc = AccumulatorEpsilon(x->dtype), eps = Epsilon(x->dtype);
  return b.Add("LRN", {x->entry}, {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", 1.0}},
               {x->v.lo > 0 ? 0 : x->v.lo, x->v.hi < 0 ? 0 : x->v.hi,
                x->v.error * (1 + 2 * beta * alpha * m * m) + ((size + 32) * acc + eps) * m});
}

bool AddSpaceDepth(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() == 4; });
  if (!x) return false;
  const int block = b.Chance(0.8) ? 2 : 3;
  const auto divides = [&](size_t d) {
    return x->dims[d].is_const() && x->dims[d].value() % block == 0;
  };
  if (x->dims[1].is_const() && x->dims[1].value() % (block * block) == 0)
    return b.Add("DepthToSpace", {x->entry},
                 {{"blocksize", block}, {"mode", b.Chance(0.5) ? "DCR" : "CRD"}}, x->v);
  return divides(2) && divides(3) &&
         b.Add("SpaceToDepth", {x->entry}, {{"blocksize", block}}, x->v);
}
bool AddTile(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() > 0; });
  if (!x) return false;
  std::vector<int64_t> repeats;
  for (int d = 0; d < x->rank(); ++d) repeats.push_back(b.Chance(0.6) ? 1 : b.Int(1, 3));
  return b.Add("Tile", {x->entry, b.Ints(repeats)}, {}, x->v);
}
/// Slices with operands left out.
bool AddPartialSlice(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() > 0; });
  if (!x) return false;
  std::vector<int64_t> starts, ends, steps;
  for (int d = b.Int(1, x->rank()); d-- > 0;) {
    starts.push_back(b.Int(-3, 2));
    ends.push_back(b.Chance(0.5) ? 1000 : b.Int(-1, 6));
    steps.push_back(b.Chance(0.2) ? -1 : b.Int(1, 2));
    if (steps.back() < 0) std::swap(starts.back(), ends.back());
  }
  std::vector<NodeEntry> in = {x->entry, b.Ints(starts), b.Ints(ends)};
  if (b.Chance(0.5)) {
    in.push_back(NodeEntry());
    in.push_back(b.Ints(steps));
  }
  return b.Add("Slice", in, {}, x->v);
}
bool AddClip(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return IsFloat(i.dtype) || i.dtype == DType::kI32; });
  if (!x) return false;
  const bool low = b.Chance(0.6), high = b.Chance(0.6);
  const double lo = b.Int(-2, 0), hi = b.Int(1, 6);
  std::vector<NodeEntry> in = {x->entry};
  if (low || high || b.Chance(0.5)) in.push_back(low ? b.Scalar(x->dtype, lo) : NodeEntry());
  if (high) in.push_back(b.Scalar(x->dtype, hi));
  const auto clip = [&](double v) {
    if (low) v = std::max(v, lo);
    return high ? std::min(v, hi) : v;
  };
  return b.Add("Clip", in, {}, {clip(x->v.lo), clip(x->v.hi), x->v.error});
}

/// The head of a classifier.
bool AddGemm(Builder& b) {
  const Item* found = FindImage(b);
  if (!found) return false;
  const Item image = *found;
  if (!Shape(Spatial(image)).is_static()) return false;
  if (!b.Add("Flatten", {image.entry}, {}, image.v)) return false;
  const Item x = b.items().back();
  const int64_t k = b.MaxExtent(x.dims.back()), n = b.Int(1, 9);
  if (k > 1000) return true;
  const bool transposed = b.Chance(0.5);
  const double weight = std::min(1.0, 2 / double(k));
  std::vector<NodeEntry> in = {
      x.entry,
      Weights(b, x.dtype, transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n},
              -weight, weight)};
  double bias = 0;
  MaybeBias(b, x.dtype, n, &in, &bias);
  AttrDict attrs;
  if (transposed) attrs["transB"] = 1;
  b.Add("Gemm", in, attrs, SumOfProducts(x, double(k), weight, bias));
  return true;
}

}  // namespace

std::vector<std::pair<double, Rule>> ImageRules() {
  return {{2, AddResize},       {2, AddBatchNorm},      {2, AddPerChannel},
          {2.5, AddActivation}, {1.2, AddResidual},     {0.8, AddInstanceNorm},
          {0.5, AddGroupNorm},  {0.6, AddLrn},          {0.8, AddSpaceDepth},
          {0.7, AddTile},       {0.8, AddPartialSlice}, {1, AddClip},
          {1.2, AddGemm}};
}

}  // namespace weft::fuzz
