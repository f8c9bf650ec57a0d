/// random_graph_shape.cc: rules of the random graphs for data movement, reductions, normalisations
/// and products.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "random_graph_builder.h"

namespace weft::fuzz {
namespace {

bool Any(const Item&) { return true; }
bool HasRank(const Item& i) { return i.rank() > 0; }
bool IsFloatOfRank(const Item& i) { return IsFloat(i.dtype) && i.rank() > 0; }

bool AddTranspose(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() > 1; });
  if (!x) return false;
  weft::Ints perm(x->dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  for (size_t i = perm.size(); i-- > 1;) std::swap(perm[i], perm[size_t(b.Int(0, int(i)))]);
  if (b.Chance(0.15)) return b.Add("Transpose", {x->entry}, {}, x->v);
  return b.Add("Transpose", {x->entry}, {{"perm", perm}}, x->v);
}

bool AddReshape(Builder& b) {
  const Item* x = b.Find(Any);
  if (!x) return false;
  const int rank = x->rank();
  std::vector<int64_t> to;
  if (rank == 0) {
    to = b.Chance(0.5) ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 1};
  } else if (b.Chance(0.3)) {
    to = {-1};
  } else if (b.Chance(0.5)) {
    // [keep .., merged tail]: only where nothing is empty, because -1 beside 0 says nothing.
    if (b.MinElements(x->dims) == 0) return false;
    const int keep = b.Int(0, rank - 1);
    to.assign(size_t(keep), 0);
    to.push_back(-1);
  } else {
    // An extent split in two, a 1 put in.
    const int at = b.Int(0, rank - 1);
    if (b.MinElements(x->dims) == 0) return false;
    for (int d = 0; d < rank; ++d) {
      if (d == at) {
        to.push_back(x->dims[size_t(d)].is_const() && x->dims[size_t(d)].value() % 2 == 0 ? 2 : 1);
        to.push_back(-1);
      } else if (to.size() > size_t(d)) {
        if (!x->dims[size_t(d)].is_const()) return false;
        to.push_back(x->dims[size_t(d)].value());
      } else {
        to.push_back(0);
      }
    }
  }
  return b.Add("Reshape", {x->entry, b.Ints(to)}, {}, x->v);
}

bool AddSqueeze(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() < 4; });
  if (!x) return false;
  if (b.Chance(0.5))
    return b.Add("Unsqueeze", {x->entry, b.Ints({b.Int(-x->rank() - 1, x->rank())})}, {}, x->v);
  std::vector<int64_t> ones;
  for (int d = 0; d < x->rank(); ++d)
    if (x->dims[size_t(d)].is(1)) ones.push_back(b.Chance(0.5) ? d : d - x->rank());
  if (ones.empty()) return false;
  return b.Add("Squeeze", {x->entry, b.Ints(ones)}, {}, x->v);
}

bool AddConcat(Builder& b) {
  const Item* found = b.Find(HasRank);
  if (!found) return false;
  const Item x = *found;
  const int axis = b.Int(0, x.rank() - 1);
  std::vector<NodeEntry> in = {x.entry};
  Values v = x.v;
  for (int i = b.Int(0, 2); i-- > 0;) {
    const Item* y = b.Find([&](const Item& o) {
      if (o.dtype != x.dtype || o.rank() != x.rank()) return false;
      for (int d = 0; d < x.rank(); ++d)
        if (d != axis && o.dims[size_t(d)] != x.dims[size_t(d)]) return false;
      return true;
    });
    Item made;
    if (!y) {
      std::vector<SymInt> dims = x.dims;
      dims[size_t(axis)] = b.Int(1, 4);
      made = b.NewInput(x.dtype, dims);
      y = &made;
    }
    in.push_back(y->entry);
    v = {std::min(v.lo, y->v.lo), std::max(v.hi, y->v.hi), std::max(v.error, y->v.error)};
  }
  return b.Add("Concat", in, {{"axis", b.Chance(0.5) ? axis : axis - x.rank()}}, v);
}

bool AddSlice(Builder& b) {
  const Item* x = b.Find(HasRank);
  if (!x) return false;
  std::vector<int64_t> starts, ends, axes, steps;
  const int64_t end_of_axis =
      b.Chance(0.5) ? std::numeric_limits<int64_t>::max() : int64_t{1} << 31;
  for (int d = 0; d < x->rank(); ++d) {
    if (!b.Chance(0.6)) continue;
    axes.push_back(b.Chance(0.5) ? d : d - x->rank());
    switch (b.Int(0, 5)) {
      case 0:
        starts.push_back(1), ends.push_back(end_of_axis), steps.push_back(1);
        break;
      case 1:
        starts.push_back(0), ends.push_back(-1), steps.push_back(1);
        break;
      case 2:
        starts.push_back(b.Int(0, 1)), ends.push_back(end_of_axis), steps.push_back(2);
        break;
      case 3:
        starts.push_back(-1), ends.push_back(-end_of_axis), steps.push_back(-1);
        break;
      case 4:
        starts.push_back(-2), ends.push_back(end_of_axis), steps.push_back(1);
        break;
      default:
        starts.push_back(b.Int(-3, 3)), ends.push_back(b.Int(-3, 9)),
            steps.push_back(b.Chance(0.2) ? -2 : 1);
        break;
    }
  }
  if (axes.empty()) return false;
  return b.Add("Slice", {x->entry, b.Ints(starts), b.Ints(ends), b.Ints(axes), b.Ints(steps)}, {},
               x->v);
}

bool AddSplit(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() > 0; });
  if (!x) return false;
  const int axis = b.Int(0, x->rank() - 1);
  const SymInt d = x->dims[size_t(axis)];
  if (!d.is_const() || d.value() < 2) return false;
  const std::vector<Values> both = {x->v, x->v};
  if (b.Chance(0.5)) return b.Add("Split", {x->entry}, {{"axis", axis}, {"num_outputs", 2}}, both);
  const int first = b.Int(0, int(d.value()));
  return b.Add("Split", {x->entry, b.Ints({first, d.value() - first})},
               {{"axis", axis}, {"num_outputs", 2}}, both);
}

bool AddExpand(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() < 4; });
  if (!x) return false;
  std::vector<int64_t> to;
  for (SymInt d : x->dims) to.push_back(d.is(1) && b.Chance(0.6) ? b.Int(1, 4) : 1);
  if (b.Chance(0.4)) to.insert(to.begin(), b.Int(1, 3));
  return b.Add("Expand", {x->entry, b.Ints(to)}, {}, x->v);
}

bool AddGather(Builder& b) {
  const Item* found = b.Find(HasRank);
  if (!found) return false;
  const Item x = *found;
  const int axis = b.Int(0, x.rank() - 1);
  const int64_t extent = b.MinExtent(x.dims[size_t(axis)]);
  if (extent == 0) return false;
  const DType t = b.Chance(0.5) ? DType::kI64 : DType::kI32;
  const double lo = b.Chance(0.3) ? -double(extent) : 0, hi = double(extent - 1);
  std::vector<int64_t> dims(size_t(b.Int(0, 2)), b.Int(1, 3));
  const Item index = b.Chance(0.5) ? b.NewInput(t, Shape::OfInts(dims).dims(), lo, hi)
                                   : b.NewParam(t, dims, lo, hi);
  return b.Add("Gather", {x.entry, index.entry}, {{"axis", b.Chance(0.5) ? axis : axis - x.rank()}},
               x.v);
}

bool AddPad(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.rank() > 0 && i.dtype != DType::kBool; });
  if (!x) return false;
  std::vector<int64_t> pads;
  int64_t least = 1 << 20;
  for (SymInt d : x->dims) least = std::min(least, b.MinExtent(d));
  const int mode = least >= 3 ? b.Int(0, 2) : 0;
  for (int i = 0; i < 2 * x->rank(); ++i) pads.push_back(b.Chance(0.5) ? 0 : b.Int(1, 2));
  static const std::vector<const char*> kModes = {"constant", "edge", "reflect"};
  Values v = x->v;
  std::vector<NodeEntry> in = {x->entry, b.Ints(pads)};
  if (mode == 0) {
    const double fill = b.Chance(0.5) ? 0 : 1;
    v.lo = std::min(v.lo, fill), v.hi = std::max(v.hi, fill);
    if (fill != 0) in.push_back(b.Scalar(x->dtype, fill));
  }
  return b.Add("Pad", in, {{"mode", kModes[size_t(mode)]}}, v);
}

/// Random axes; empty for all.
std::vector<int64_t> Axes(Builder& b, const Item& x, std::vector<SymInt>* reduced) {
  std::vector<int64_t> axes;
  for (int d = 0; d < x.rank(); ++d)
    if (b.Chance(0.45)) {
      axes.push_back(b.Chance(0.3) ? d - x.rank() : d);
      reduced->push_back(x.dims[size_t(d)]);
    }
  if (axes.empty()) *reduced = x.dims;
  return axes;
}

bool AddReduction(Builder& b) {
  const Item* x =
      b.Find([](const Item& i) { return i.dtype != DType::kBool && i.dtype != DType::kU8; });
  if (!x) return false;
  std::vector<SymInt> reduced;
  const std::vector<int64_t> axes = Axes(b, *x, &reduced);
  const double n = double(b.MaxElements(reduced)), size = x->magnitude(), e = x->v.error;
  const bool may_be_empty = b.MinElements(reduced) == 0, real = IsFloat(x->dtype);
  const double acc = AccumulatorEpsilon(x->dtype), eps = Epsilon(x->dtype);
  std::vector<NodeEntry> in = {x->entry};
  if (!axes.empty()) in.push_back(b.Ints(axes));
  const AttrDict attrs = {{"keepdims", b.Chance(0.5) ? 1 : 0}};
  const double top = n * size;
  const auto sum = [&](double per_term, double error) {
    return n * error + (real ? (n + 4) * acc * per_term * n + eps * per_term * n : 0);
  };
  switch (b.Int(0, 6)) {
    case 0:
    case 1:
      return b.Add("ReduceSum", in, attrs,
                   {x->v.lo >= 0 ? 0 : -top, x->v.hi <= 0 ? 0 : top, sum(size, e)});
    case 2:
      if (may_be_empty || !real) return false;
      return b.Add("ReduceMean", in, attrs,
                   {x->v.lo, x->v.hi, e + (n + 4) * acc * size + eps * size});
    case 3:
      return !may_be_empty && b.Add("ReduceMax", in, attrs, x->v);
    case 4:
      return !may_be_empty && b.Add("ReduceMin", in, attrs, x->v);
    case 5:
      return b.Add("ReduceSumSquare", in, attrs,
                   {0, n * size * size, sum(size * size, 2 * size * e)});
    default:
      if (!real) return b.Add("ReduceL1", in, attrs, {0, top, 0});
      if (b.Chance(0.5))
        return b.Add("ReduceL2", in, attrs,
                     {0, std::sqrt(n) * size,
                      std::sqrt(n) * e + ((n + 8) * acc + eps) * std::sqrt(n) * size});
      if (may_be_empty || size > 12) return false;
      return b.Add(
          "ReduceLogSumExp", in, attrs,
          {-size, size + std::log(n), e + (n + 16) * acc + (8 * acc + eps) * (size + std::log(n))});
  }
}

bool AddArg(Builder& b) {
  const Item* x =
      b.Find([](const Item& i) { return i.exact() && i.rank() > 0 && i.dtype != DType::kBool; });
  if (!x) return false;
  const int axis = b.Int(0, x->rank() - 1);
  if (b.MinExtent(x->dims[size_t(axis)]) == 0) return false;
  return b.Add(b.Chance(0.5) ? "ArgMax" : "ArgMin", {x->entry},
               {{"axis", axis}, {"keepdims", b.Chance(0.5) ? 1 : 0}},
               {0, double(b.MaxExtent(x->dims[size_t(axis)])), 0});
}

bool AddSoftmax(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return IsFloatOfRank(i) && i.magnitude() < 60; });
  if (!x) return false;
  const int axis = b.Int(-1, x->rank() - 1);
  const double n = double(
      std::max<int64_t>(b.MaxExtent(x->dims[size_t(axis < 0 ? axis + x->rank() : axis)]), 1));
  const double acc = AccumulatorEpsilon(x->dtype), eps = Epsilon(x->dtype),
               spread = x->v.hi - x->v.lo;
  if (b.Chance(0.6))
    return b.Add("Softmax", {x->entry}, {{"axis", axis}},
                 {0, 1, 2 * x->v.error + (n + 16 + 2 * spread) * acc + eps});
  const double size = spread + std::log(n);
  return b.Add("LogSoftmax", {x->entry}, {{"axis", axis}},
               {-size - x->v.error, 0, 2 * x->v.error + (n + 16) * acc + (acc * 8 + eps) * size});
}

bool AddLayerNorm(Builder& b) {
  const Item* found = b.Find([](const Item& i) { return IsFloatOfRank(i) && i.magnitude() < 100; });
  if (!found) return false;
  const Item x = *found;
  const SymInt d = x.dims.back();
  const int64_t n = b.MaxExtent(d);
  if (!d.is_const() || n == 0) return false;
  const double epsilon = b.Chance(0.5) ? 0x1p-7 : 0x1p-10, gain = 1 / std::sqrt(epsilon),
               top = std::sqrt(double(n));
  const double acc = AccumulatorEpsilon(x.dtype), eps = Epsilon(x.dtype);
  const double error = gain * (4 * x.v.error + double(n + 8) * acc * x.magnitude()) * (1 + top) +
                       eps * (top + 2) * 2;
  const Item scale = b.NewParam(x.dtype, {n}, 0.5, 1);
  if (b.Chance(0.3)) {
    if (x.v.error != 0 && x.v.lo <= 0) return false;
    return b.Add("RMSNormalization", {x.entry, scale.entry}, {{"epsilon", epsilon}},
                 {-top, top, error});
  }
  std::vector<NodeEntry> in = {x.entry, scale.entry};
  if (b.Chance(0.7)) in.push_back(b.NewParam(x.dtype, {n}, -1, 1).entry);
  // The mean and the inverse standard deviation are outputs too.
  const Values y = {-top - 1, top + 1, error}, mean = {x.v.lo, x.v.hi, error};
  const Values inverse = {0, gain, error * gain * gain};
  return b.Add("LayerNormalization", in, {{"axis", -1}, {"epsilon", epsilon}},
               std::vector<Values>{y, mean, inverse});
}

bool AddMatMul(Builder& b) {
  const Item* found = b.Find(
      [](const Item& i) { return i.dtype == DType::kF32 && i.rank() >= 2 && i.rank() <= 3; });
  if (!found) return false;
  const Item x = *found;
  const int64_t k = b.MaxExtent(x.dims.back());
  if (!x.dims.back().is_const()) return false;
  const Item w = b.NewParam(DType::kF32, {k, b.Int(1, 9)}, -1, 1);
  const double top = double(k) * x.magnitude();
  return b.Add("MatMul", {x.entry, w.entry}, {},
               {-top, top, double(k) * x.v.error + double(k + 4) * Epsilon(DType::kF32) * top});
}

bool AddLeaf(Builder& b) {
  const Item* x = b.Find(Any);
  b.NewInput(x ? x->dtype : DType::kF32, b.RandomDims());
  return false;  // no node yet
}

}  // namespace

std::vector<std::pair<double, Rule>> ShapeRules() {
  return {{1.2, AddTranspose}, {1.2, AddReshape}, {1, AddSqueeze},  {1.2, AddConcat},
          {1.4, AddSlice},     {0.7, AddSplit},   {0.8, AddExpand}, {0.8, AddGather},
          {0.8, AddPad},       {3, AddReduction}, {0.5, AddArg},    {1.2, AddSoftmax},
          {0.7, AddLayerNorm}, {0.4, AddMatMul},  {0.6, AddLeaf}};
}

}  // namespace weft::fuzz
