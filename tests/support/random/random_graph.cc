/// random_graph.cc: the frame of the random graphs: leaves, extents, growth, outputs. The operators
/// are in the rules.
#include "random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "random_graph_vision.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft::fuzz {
namespace {

constexpr int64_t kMaxElements = 6000;

/// Values that a dtype is good for in these tests: far from overflow.
double Reach(DType t) {
  switch (t) {
    case DType::kF16:
      return 2000;
    case DType::kF64:
    case DType::kF32:
    case DType::kBF16:
      return 1e5;
    case DType::kI64:
    case DType::kI32:
      return 1e9;
    case DType::kI16:
      return 32767;
    case DType::kI8:
      return 127;
    case DType::kU8:
      return 255;
    default:
      return 1;
  }
}
double Lowest(DType t) { return t == DType::kU8 || t == DType::kBool ? 0 : -Reach(t); }

std::vector<SymBindings> RandomBindings(Builder& b, int symbols) {
  std::vector<SymBindings> out;
  static const std::vector<int64_t> kExtents = {0, 1, 2, 3, 5, 8, 13, 16, 17};
  const bool zero = b.Chance(0.3);
  const int count = symbols == 0 ? 1 : 3;
  for (int i = 0; i < count; ++i) {
    SymBindings bind;
    for (int s = 0; s < symbols; ++s) {
      int64_t v = b.Pick(kExtents);
      // The last symbol of a graph of images is an extent in space.
      if (b.out().vision) v = s + 1 == symbols ? b.Int(4, 13) : v % 4;
      if (!zero && v == 0) v = 4;
      if (i == 0) v = std::max<int64_t>(v, 2);  // a plain case first
      bind[s == 0 ? "n" : "m"] = v;
    }
    out.push_back(bind);
  }
  return out;
}

}  // namespace

double Item::magnitude() const { return std::max(std::fabs(v.lo), std::fabs(v.hi)); }

double Epsilon(DType t) {
  switch (t) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF32:
      return 0x1p-24;
    case DType::kF64:
      return 0x1p-50;  // our f64 functions promise a few ULP
    default:
      return 0;
  }
}

Builder::Builder(RandomGraph* out) : out_(*out), rng_(out->seed * 0x9e3779b97f4a7c15ull + 1) {
  out_.bindings = RandomBindings(*this, std::max(0, Int(-1, 2)));
}

const Item* Builder::Find(const std::function<bool(const Item&)>& ok) {
  for (int i = 0; i < 12 && !items_.empty(); ++i) {
    const size_t a = rng_() % items_.size(), b = rng_() % items_.size();
    const Item& item = items_[std::max(a, b)];
    if (ok(item)) return &item;
  }
  return nullptr;
}

int64_t Builder::Extreme(SymInt d, bool max) const {
  int64_t best = max ? 0 : std::numeric_limits<int64_t>::max();
  for (const SymBindings& bind : out_.bindings) {
    const int64_t v = Evaluate(d, bind);
    best = max ? std::max(best, v) : std::min(best, v);
  }
  return best;
}
int64_t Builder::MinElements(const std::vector<SymInt>& dims) const {
  int64_t n = 1;
  for (SymInt d : dims) n *= MinExtent(d);
  return n;
}
int64_t Builder::MaxElements(const std::vector<SymInt>& dims) const {
  int64_t n = 1;
  for (SymInt d : dims)
    n = std::min<int64_t>(n * std::max<int64_t>(MaxExtent(d), 1), int64_t{1} << 40);
  return n;
}

bool Builder::Broadcasts(const std::vector<SymInt>& a, const std::vector<SymInt>& b) const {
  for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
    const SymInt x = a[a.size() - k], y = b[b.size() - k];
    if (x == y) continue;
    for (const SymBindings& bind : out_.bindings) {
      const int64_t p = Evaluate(x, bind), q = Evaluate(y, bind);
      if (p != q && p != 1 && q != 1) return false;
    }
  }
  return true;
}

DType Builder::RandomFloat() {
  const int k = Int(0, 19);
  return k < 14 ? DType::kF32 : k < 16 ? DType::kF64 : k < 18 ? DType::kF16 : DType::kBF16;
}

std::vector<SymInt> Builder::RandomDims(int max_rank) {
  static const std::vector<int> kExtents = {1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
  std::vector<SymInt> dims;
  const int rank = Chance(0.08) ? 0 : Int(1, max_rank);
  const bool symbols = !out_.bindings[0].empty();
  for (int d = 0; d < rank; ++d) {
    if (symbols && Chance(0.4))
      dims.push_back(SymInt::Symbol(out_.bindings[0].size() > 1 && Chance(0.4) ? "m" : "n"));
    else if (Chance(0.015))
      dims.push_back(0);
    else
      dims.push_back(Pick(kExtents));
  }
  while (MaxElements(dims) > kMaxElements / 4) dims.pop_back();
  return dims;
}

Item Builder::Remember(NodeEntry e, DType t, std::vector<SymInt> dims, Values v) {
  out_.values[{e.node->id(), e.index}] = v;
  items_.push_back({e, t, std::move(dims), v});
  return items_.back();
}

Item Builder::NewInput(DType t, std::vector<SymInt> dims, double lo, double hi) {
  const std::string name = "x" + std::to_string(out_.inputs.size());
  NodePtr n = graph().AddInput(name, t, Shape(dims));
  out_.inputs.push_back({name, t, dims, lo, hi});
  return Remember(NodeEntry(n), t, std::move(dims), {lo, hi, 0});
}
Item Builder::NewInput(DType t, std::vector<SymInt> dims) {
  if (t == DType::kBool) return NewInput(t, std::move(dims), 0, 1);
  if (t == DType::kU8) return NewInput(t, std::move(dims), 0, 10);
  if (IsInt(t))
    return Chance(0.4) ? NewInput(t, std::move(dims), 1, 6) : NewInput(t, std::move(dims), -9, 9);
  static const std::vector<std::pair<double, double>> kRanges = {
      {-2, 2}, {0.25, 2}, {-6, 6}, {0, 1}};
  const auto& [lo, hi] = Pick(kRanges);
  return NewInput(t, std::move(dims), lo, hi);
}

Item Builder::NewParam(DType t, const std::vector<int64_t>& dims, double lo, double hi) {
  auto value = std::make_shared<Tensor>(t, dims);
  for (int64_t i = 0; i < value->num_elements(); ++i) {
    const double u = double(rng_() >> 11) * 0x1p-53;
    if (IsFloat(t))
      value->set(i, lo + (hi - lo) * u);
    else
      value->set_int(i, int64_t(lo) + int64_t(u * (hi - lo + 1)));
  }
  const std::string name = "w" + std::to_string(next_name_++);
  const NodeEntry e =
      Chance(0.5) ? NodeEntry(graph().AddParam(name, value)) : graph().AddConstant(value, name);
  return Remember(e, t, Shape::OfInts(dims).dims(), {lo, hi, 0});
}

Item Builder::Partner(const Item& a, DType t) {
  if (Chance(0.65)) {
    const Item* b = Find([&](const Item& i) { return i.dtype == t && Broadcasts(i.dims, a.dims); });
    if (b) return *b;
  }
  std::vector<SymInt> dims = a.dims;
  if (Chance(0.5)) {
    for (SymInt& d : dims)
      if (Chance(0.35)) d = 1;
    while (!dims.empty() && Chance(0.25)) dims.erase(dims.begin());
  }
  const bool is_static = Shape(dims).is_static();
  if (is_static && Chance(0.4)) {
    const double lo = t == DType::kBool || t == DType::kU8 ? 0
                      : IsInt(t)                           ? -4
                                                           : -1,
                 hi = t == DType::kBool ? 1
                      : IsInt(t)        ? 4
                                        : 2;
    return NewParam(t, Shape(dims).ints(), Chance(0.3) ? hi : lo, hi);
  }
  return NewInput(t, std::move(dims));
}

bool Builder::Add(const char* op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
                  const std::vector<Values>& values) {
  NodePtr n = graph().AddNode(op, inputs, std::move(attrs), "v" + std::to_string(next_name_++));
  // Inference looks at what the outputs reach.
  const std::vector<NodeEntry> before = graph().outputs;
  for (uint32_t i = 0; i < n->num_outputs(); ++i) graph().outputs.push_back({n, i});
  graph() = ApplyPasses(std::move(graph()), {"InferType", "InferShape"});
  const ShapeMap& shapes = graph().GetAttr<ShapeMap>("shape");
  const TypeMap& types = graph().GetAttr<TypeMap>("dtype");
  bool good = true;
  const uint32_t used = std::min<uint32_t>(n->num_outputs(), uint32_t(values.size()));
  for (uint32_t i = 0; i < used && good; ++i) {
    const Shape& s = shapes[NodeEntry(n, i)];
    const DType t = types[NodeEntry(n, i)].dtype;
    const Values& v = values[i];
    const double magnitude = std::max(std::fabs(v.lo), std::fabs(v.hi));
    good = s.fully_known() && MaxElements(s.dims()) <= kMaxElements && s.rank() <= 5 &&
           v.hi <= Reach(t) && v.lo >= Lowest(t) && v.error <= 0.05 * std::max(magnitude, 0.25);
  }
  if (!good) {
    graph().outputs = before;
    graph().Erase(n);
    return false;
  }
  for (uint32_t i = 0; i < used; ++i)
    Remember({n, i}, types[NodeEntry(n, i)].dtype, shapes[NodeEntry(n, i)].dims(), values[i]);
  return true;
}

RandomGraph MakeRandomGraph(uint64_t seed, int max_nodes) {
  RandomGraph out;
  out.seed = seed;
  out.vision = seed % 2 == 1;
  Builder b(&out);
  const DType main = b.RandomFloat();
  for (int i = b.Int(1, 3); i-- > 0;) {
    if (out.vision && (i == 0 || b.Chance(0.6))) {
      b.NewInput(main, RandomImageDims(b), -2, 2);
      continue;
    }
    b.NewInput(
        b.Chance(0.85) ? main : b.Pick<DType>({DType::kI32, DType::kI64, DType::kU8, DType::kBool}),
        b.RandomDims());
  }
  std::vector<std::pair<double, Rule>> rules = MathRules();
  for (const auto& r : ShapeRules()) rules.push_back(r);
  if (out.vision) {
    for (auto& r : rules) r.first *= 0.2;
    for (const auto& r : VisionRules()) rules.push_back(r);
  }
  double total = 0;
  for (const auto& r : rules) total += r.first;
  const int nodes = b.Int(1, max_nodes);
  int added = 0;
  for (int tries = 0; added < nodes && tries < 6 * nodes + 20; ++tries) {
    double at = total * double(b.Int(0, 999999)) / 1e6;
    size_t k = 0;
    while (k + 1 < rules.size() && at >= rules[k].first) at -= rules[k++].first;
    added += rules[k].second(b);
  }
  // The last value, and some others: inner ones, inputs, one twice.
  std::vector<NodeEntry> outputs = {b.items().back().entry};
  for (int i = b.Int(0, 3); i-- > 0;) outputs.push_back(b.Pick(b.items()).entry);
  if (out.vision)
    if (const Item* x = FindImage(b)) outputs.push_back(x->entry);
  if (b.Chance(0.05)) outputs.push_back(outputs[0]);
  Graph& g = out.graph;
  g.outputs = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) g.SetOutputName(i, "o" + std::to_string(i));
  g.EraseDead();
  // Leaves that no rule took in the end; now and then one stays, as in real models.
  std::vector<NodePtr> kept;
  std::vector<RandomInput> inputs;
  std::vector<std::string> determined;
  for (size_t i = 0; i < out.inputs.size(); ++i) {
    NodePtr n = g.inputs()[i];
    // The first input with an extent that is a symbol and nothing else is what gives the symbol its
    // value.
    bool determines = false;
    for (SymInt d : out.inputs[i].dims) {
      if (!d.is_symbol() ||
          std::find(determined.begin(), determined.end(), d.symbol_name()) != determined.end())
        continue;
      determined.push_back(d.symbol_name());
      determines = true;
    }
    if (!determines && n->uses().empty() && !g.is_output(n) && !b.Chance(0.05)) continue;
    kept.push_back(n);
    inputs.push_back(out.inputs[i]);
  }
  g.SetInputs(kept);
  out.inputs = inputs;
  g.EraseDead();
  for (const char* a : {"shape", "dtype", "value", "unknown", "facts", "unbacked", "introduced",
                        "resolved", "shape_inferred", "dtype_inferred"})
    g.DropAttr(a);
  return out;
}

std::vector<TensorPtr> MakeInputs(const RandomGraph& g, size_t binding) {
  std::mt19937_64 rng(g.seed * 31 + binding);
  std::vector<TensorPtr> out;
  for (const RandomInput& in : g.inputs) {
    std::vector<int64_t> dims;
    for (SymInt d : in.dims) dims.push_back(Evaluate(d, g.bindings[binding]));
    auto t = std::make_shared<Tensor>(in.dtype, dims);
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      const double u = double(rng() >> 11) * 0x1p-53;
      if (IsFloat(in.dtype))
        t->set(i, in.lo + (in.hi - in.lo) * u);
      else
        t->set_int(i, int64_t(in.lo) + int64_t(u * (in.hi - in.lo + 1)));
    }
    out.push_back(t);
  }
  return out;
}

namespace {

/// Inputs from which values come to places where a zero meets them or not, as each engine does its
/// work: filters beside padding, and what an interpolation weighs with 0.
std::set<NodeId> InputsForWeights(const Graph& g) {
  std::vector<NodePtr> open;
  for (NodePtr n : g.TopoOrder()) {
    if (n->is_variable()) continue;
    const std::string& op = n->op()->name;
    const bool interpolates =
        op == "Resize" && n->has_attr("mode") && n->attr<std::string>("mode") != "nearest";
    if (op == "Conv" || op == "ConvTranspose") open.push_back(n->inputs[1].node);
    if (interpolates) open.push_back(n->inputs[0].node);
  }
  std::set<NodeId> seen;
  while (!open.empty()) {
    const NodePtr n = open.back();
    open.pop_back();
    if (!n || !seen.insert(n->id()).second) continue;
    for (const NodeEntry& e : n->inputs) open.push_back(e.node);
  }
  return seen;
}

}  // namespace

std::vector<TensorPtr> MakeSpecialInputs(const RandomGraph& g, size_t binding) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  std::mt19937_64 rng(g.seed * 37 + binding);
  const uint64_t kind = rng() % 5;
  const std::set<NodeId> barred = InputsForWeights(g.graph);
  std::vector<TensorPtr> out;
  for (const TensorPtr& plain : MakeInputs(g, binding)) {
    const NodeId id = g.graph.inputs()[out.size()]->id();
    out.push_back(plain);
    if (!IsFloat(plain->dtype()) || plain->num_elements() == 0 || barred.count(id)) continue;
    if (rng() % 5 == 0) continue;
    const bool narrow = plain->dtype() == DType::kF16, wide = plain->dtype() == DType::kF64;
    // Sums of them stay below the largest number, so that only products overflow, in any order. One
    // sign a tensor: where huge numbers cancel in a sum, what is left is what came after them,
    // which both oracles take in one order and a device in another. In f64 smaller ones: a last bit
    // of a huge number decides over its sine.
    const double size = narrow ? 100 : wide ? 1e7 : 1e30, huge = rng() % 2 ? size : -size;
    const double tiny = narrow ? 0x1p-20 : 1e-40;
    const std::vector<std::vector<double>> kinds{
        {nan}, {inf, -inf}, {-0.0, 0.0, tiny, -tiny}, {huge, 1 / huge}, {}};
    std::vector<double> values = kinds[kind];
    if (values.empty())
      for (const auto& k : kinds) values.insert(values.end(), k.begin(), k.end());
    auto t = std::make_shared<Tensor>(*plain);
    const int64_t n = t->num_elements();
    for (int64_t k = 1 + n / 64; k-- > 0;)
      t->set(int64_t(rng() % uint64_t(n)), values[rng() % values.size()]);
    out.back() = t;
  }
  return out;
}

}  // namespace weft::fuzz
