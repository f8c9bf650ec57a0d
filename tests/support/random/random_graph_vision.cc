/// random_graph_vision.cc: rules of the random graphs for windows that slide over images:
/// convolutions and pooling. Bias is left out now and then; most weights are constants, so that the
/// passes that fold into them have work.
#include "random_graph_vision.h"

#include <algorithm>
#include <cmath>

namespace weft::fuzz {

bool IsImage(const Item& i) {
  return IsFloat(i.dtype) && (i.rank() == 3 || i.rank() == 4) && i.dims[1].is_const() &&
         i.dims[1].value() > 0;
}
const Item* FindImage(Builder& b) {
  const auto ok = [&](const Item& i) {
    if (!IsImage(i)) return false;
    for (size_t d = 2; d < i.dims.size(); ++d)
      if (b.MinExtent(i.dims[d]) < 1) return false;
    return true;
  };
  // Mostly the newest: networks are deep.
  if (b.Chance(0.6))
    for (size_t k = b.items().size(); k-- > 0;)
      if (!b.items()[k].entry.node->is_variable() && ok(b.items()[k])) return &b.items()[k];
  return b.Find(ok);
}
int64_t Channels(const Item& x) { return x.dims[1].value(); }
std::vector<SymInt> Spatial(const Item& x) { return {x.dims.begin() + 2, x.dims.end()}; }
double Count(const Builder& b, const std::vector<SymInt>& dims) {
  return double(b.MaxElements(dims));
}

/// Sum of `terms` products with weights up to `weight` in size.
Values SumOfProducts(const Item& x, double terms, double weight, double bias) {
  const double acc = AccumulatorEpsilon(x.dtype), eps = Epsilon(x.dtype);
  const double top = terms * weight * x.magnitude() + bias;
  // Folding an affine map rounds the weights again.
  return {-top, top, terms * weight * x.v.error + ((terms + 8) * acc + 3 * eps) * top};
}

/// A constant mostly, now and then an input, of positions or channels.
NodeEntry Weights(Builder& b, DType t, const std::vector<int64_t>& dims, double lo, double hi) {
  if (b.Chance(0.12)) return b.NewInput(t, Shape::OfInts(dims).dims(), lo, hi).entry;
  const NodeEntry w = b.NewParam(t, dims, lo, hi).entry;
  if (b.Chance(0.9)) b.items().pop_back();  // for this node alone
  return w;
}
void MaybeBias(Builder& b, DType t, int64_t channels, std::vector<NodeEntry>* in, double* size) {
  const int how = b.Int(0, 5);
  if (how == 0) in->push_back(NodeEntry());
  if (how <= 1) return;
  in->push_back(Weights(b, t, {channels}, -1, 1));
  *size = 1;
}

namespace {

/// Attributes of a window that fits the image under every binding, so that each position of it
/// covers an element.
struct Window {
  Ints kernel, strides, dilations, pads;
  std::string auto_pad;
  int64_t size = 1;  ///< positions in the kernel
  AttrDict Attrs(Builder& b, bool may_omit_kernel) const {
    AttrDict a;
    if (!may_omit_kernel || b.Chance(0.5)) a["kernel_shape"] = kernel;
    const auto all = [](const Ints& v, int64_t what) {
      return std::all_of(v.begin(), v.end(), [&](int64_t e) { return e == what; });
    };
    if (!all(strides, 1) || b.Chance(0.3)) a["strides"] = strides;
    if (!all(dilations, 1) || b.Chance(0.3)) a["dilations"] = dilations;
    if (!auto_pad.empty())
      a["auto_pad"] = auto_pad.c_str();
    else if (!all(pads, 0) || b.Chance(0.3))
      a["pads"] = pads;
    return a;
  }
};
/// `transposed`: the extents of the image do not bound the window.
Window RandomWindow(Builder& b, const Item& x, bool transposed = false) {
  Window w;
  const size_t rank = x.dims.size() - 2;
  w.pads.assign(2 * rank, 0);
  const int padding = b.Int(0, 5);  // 0, 1: none; 2, 3: as given; 4, 5: automatic
  if (padding >= 4) {
    static const std::vector<const char*> kModes = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    w.auto_pad = b.Pick(kModes);
  }
  for (size_t k = 0; k < rank; ++k) {
    const int64_t room = transposed ? 7 : b.MinExtent(x.dims[k + 2]);
    const int64_t kernel = b.Int(1, int(std::min<int64_t>(room, b.Chance(0.2) ? 5 : 3)));
    const int64_t most = kernel == 1 ? 2 : std::min<int64_t>((room - 1) / (kernel - 1), 3);
    const int64_t dilation = b.Chance(0.25) ? b.Int(1, int(most)) : 1;
    const int64_t reach = (kernel - 1) * dilation;
    w.kernel.push_back(kernel);
    w.dilations.push_back(dilation);
    w.strides.push_back(b.Chance(0.55) ? 1 : b.Int(1, 3));
    w.size *= kernel;
    if (padding == 2 || padding == 3) {
      const int64_t limit = transposed ? reach / 2 : reach;
      w.pads[k] = b.Int(0, int(std::min<int64_t>(limit, 2)));
      w.pads[k + rank] = padding == 2 ? w.pads[k] : b.Int(0, int(std::min<int64_t>(limit, 2)));
    }
  }
  return w;
}

bool ConvOf(Builder& b, const Item& x) {
  const int64_t c = Channels(x);
  const Window w = RandomWindow(b, x);
  std::vector<int64_t> groups = {1, 1, 1};
  for (int64_t g = 2; g <= c; ++g)
    if (c % g == 0) groups.push_back(g);
  const int64_t g = b.Pick(groups), filters = g * b.Int(1, g == 1 ? 8 : 3);
  const double terms = double(c / g * w.size);
  std::vector<SymInt> like = x.dims;
  like[1] = filters;
  if (Count(b, like) * terms > 60000) return false;
  const double weight = b.Chance(0.7) ? std::min(1.0, 2 / terms) : 1;
  std::vector<int64_t> dims = {filters, c / g};
  dims.insert(dims.end(), w.kernel.begin(), w.kernel.end());
  double bias = 0;
  std::vector<NodeEntry> in = {x.entry, Weights(b, x.dtype, dims, -weight, weight)};
  MaybeBias(b, x.dtype, filters, &in, &bias);
  AttrDict attrs = w.Attrs(b, true);
  if (g != 1) attrs["group"] = g;
  return b.Add("Conv", in, attrs, SumOfProducts(x, terms, weight, bias));
}
bool AddConv(Builder& b) {
  const Item* x = FindImage(b);
  return x && ConvOf(b, Item(*x));
}

bool AddConvTranspose(Builder& b) {
  const Item* found = FindImage(b);
  if (!found) return false;
  const Item x = *found;
  const int64_t c = Channels(x);
  const Window w = RandomWindow(b, x, true);
  const int64_t g = c % 2 == 0 && b.Chance(0.3) ? 2 : 1, per_group = b.Int(1, 4);
  const double terms = double(c / g * w.size);
  std::vector<SymInt> like = x.dims;
  like[1] = per_group * g;
  if (Count(b, like) * terms > 20000) return false;
  const double weight = b.Chance(0.7) ? std::min(1.0, 2 / terms) : 1;
  std::vector<int64_t> dims = {c, per_group};
  dims.insert(dims.end(), w.kernel.begin(), w.kernel.end());
  double bias = 0;
  std::vector<NodeEntry> in = {x.entry, Weights(b, x.dtype, dims, -weight, weight)};
  MaybeBias(b, x.dtype, per_group * g, &in, &bias);
  AttrDict attrs = w.Attrs(b, true);
  if (g != 1) attrs["group"] = g;
  if (b.Chance(0.3)) {
    Ints extra;
    for (int64_t s : w.strides) extra.push_back(b.Int(0, int(s - 1)));
    attrs["output_padding"] = extra;
  }
  return b.Add("ConvTranspose", in, attrs, SumOfProducts(x, terms, weight, bias));
}

bool PoolOf(Builder& b, const Item& x) {
  const Window w = RandomWindow(b, x);
  AttrDict attrs = w.Attrs(b, false);
  const double n = double(w.size), size = x.magnitude();
  const double acc = AccumulatorEpsilon(x.dtype), eps = Epsilon(x.dtype);
  if (Count(b, x.dims) * n > 60000) return false;
  if (b.Chance(0.3) && w.auto_pad.empty()) attrs["ceil_mode"] = 1;
  switch (b.Int(0, 4)) {
    case 0:
    case 1: {
      std::vector<Values> v = {x.v};
      if (b.Chance(0.2)) attrs["storage_order"] = 1;
      // Which of two equal elements is the greatest is a question for exact values only.
      if (x.exact()) v.push_back({0, Count(b, x.dims), 0});
      return b.Add("MaxPool", {x.entry}, attrs, v);
    }
    case 2:
    case 3:
      if (b.Chance(0.5)) attrs["count_include_pad"] = 1;
      return b.Add(
          "AveragePool", {x.entry}, attrs,
          {std::min(x.v.lo, 0.0), std::max(x.v.hi, 0.0), x.v.error + ((n + 8) * acc + eps) * size});
    default: {
      const int p = b.Int(1, 3);
      attrs["p"] = p;
      const double root = std::pow(n, 1.0 / p);
      // The root of a sum of roundings is steep near zero.
      if (!x.exact() && p > 1) return false;
      return b.Add("LpPool", {x.entry}, attrs,
                   {0, root * size, root * x.v.error + ((n + 24) * acc + eps) * root * size});
    }
  }
}
bool AddPool(Builder& b) {
  const Item* x = FindImage(b);
  return x && PoolOf(b, Item(*x));
}

bool AddGlobalPool(Builder& b) {
  const Item* x = FindImage(b);
  if (!x) return false;
  const double n = Count(b, Spatial(*x)), size = x->magnitude();
  const double acc = AccumulatorEpsilon(x->dtype), eps = Epsilon(x->dtype);
  switch (b.Int(0, 2)) {
    case 0:
      return b.Add("GlobalMaxPool", {x->entry}, {}, x->v);
    case 1:
      return b.Add("GlobalAveragePool", {x->entry}, {},
                   {x->v.lo, x->v.hi, x->v.error + ((n + 8) * acc + eps) * size});
    default:
      return x->exact() &&
             b.Add("GlobalLpPool", {x->entry}, {{"p", 2}},
                   {0, std::sqrt(n) * size, ((n + 24) * acc + eps) * std::sqrt(n) * size});
  }
}

/// Pad of the spatial axes, zeros or not, and what passes may take it into.
bool AddPaddedWindow(Builder& b) {
  const Item* found = FindImage(b);
  if (!found) return false;
  const Item x = *found;
  const int rank = x.rank(), spatial = rank - 2;
  const bool by_axes = b.Chance(0.4), filled = b.Chance(0.3);
  std::vector<int64_t> pads(size_t(by_axes ? 2 * spatial : 2 * rank), 0), axes;
  for (size_t k = 0; k < pads.size(); ++k)
    if (by_axes || int(k) % rank >= 2) pads[k] = b.Int(0, 2);
  std::vector<NodeEntry> in = {x.entry, b.Ints(pads)};
  Values v = {std::min(x.v.lo, 0.0), std::max(x.v.hi, filled ? 1.0 : 0.0), x.v.error};
  if (filled) in.push_back(b.Scalar(x.dtype, 1));
  if (by_axes) {
    for (int d = 2; d < rank; ++d) axes.push_back(b.Chance(0.5) ? d : d - rank);
    if (!filled) in.push_back(b.Chance(0.5) ? NodeEntry() : b.Scalar(x.dtype, 0));
    in.push_back(b.Ints(axes));
  }
  AttrDict attrs;
  if (b.Chance(0.5)) attrs["mode"] = "constant";
  if (!b.Add("Pad", in, attrs, v)) return false;
  const Item padded = b.items().back();
  b.Chance(0.6) ? ConvOf(b, padded) : PoolOf(b, padded);
  return true;
}

bool AddImage(Builder& b) {
  const Item* x = b.Find(IsImage);
  b.NewInput(x ? x->dtype : DType::kF32, RandomImageDims(b));
  return false;  // no node yet
}

}  // namespace

std::vector<SymInt> RandomImageDims(Builder& b) {
  static const std::vector<int> kChannels = {1, 2, 3, 4, 4, 6, 8};
  const SymBindings& symbols = b.out().bindings[0];
  const bool batch = !symbols.empty() && b.Chance(0.5), spatial = !symbols.empty() && b.Chance(0.5);
  std::vector<SymInt> dims = {batch ? SymInt::Symbol("n") : SymInt(b.Int(1, 3)), b.Pick(kChannels)};
  for (int d = b.Chance(0.8) ? 2 : 1; d-- > 0;)
    dims.push_back(spatial && b.Chance(0.6) ? SymInt::Symbol(symbols.size() > 1 ? "m" : "n")
                                            : SymInt(b.Int(4, 11)));
  return dims;
}

std::vector<std::pair<double, Rule>> VisionRules() {
  std::vector<std::pair<double, Rule>> rules = {{4, AddConv},           {1, AddConvTranspose},
                                                {3, AddPool},           {0.6, AddGlobalPool},
                                                {1.5, AddPaddedWindow}, {0.5, AddImage}};
  for (const auto& r : ImageRules()) rules.push_back(r);
  return rules;
}

}  // namespace weft::fuzz
