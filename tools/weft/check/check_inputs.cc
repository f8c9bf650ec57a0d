/// check_inputs.cc: see check_inputs.h. What an input feeds is found by following it through
/// operators that only move elements; where it is computed with, or decides a size, it stays small.
#include "check_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "common.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

using Dims = std::vector<int64_t>;
using Random = std::mt19937_64;

/// What an input feeds.
struct Feeds {
  bool index = false, negative_index = true;
  int64_t extent = std::numeric_limits<int64_t>::max();  ///< least of the axes that it selects from
  bool shape = false;
  NodeEntry shaped;  ///< what gets the shape
  /// its values decide extents or iterations, or are computed with before they do
  bool sizes = false;
  bool free() const { return !index && !shape && !sizes; }
};

Type TypeOf(NodePtr input) {
  const Type declared = DeclaredType(input);
  return declared.known() ? declared : Type(DType::kF32);
}

/// The graph with the extents of `bind`, its shapes inferred as far as they can be.
Graph AtExtents(const Graph& graph, const SymBindings& bind) {
  Graph g = graph;
  for (const NodePtr& p : g.AllInputs()) {
    const std::optional<Shape> declared = DeclaredShape(p);
    if (!declared || !declared->has_rank()) continue;
    Shape s = *declared;
    for (int d = 0; d < s.rank(); ++d)
      if (s[d].known()) s.set(d, Evaluate(s[d], bind));
    g.SetAttr(p, "shape", s);
  }
  try {
    return ProvideTypes(g);
  } catch (const UserError&) {
    return ProvideTypes(graph);  // these extents do not fit; a run will say so
  }
}

class Follower {
 public:
  explicit Follower(const Graph& at_extents)
      : shapes_(at_extents.GetAttr<ShapeMap>("shape")),
        types_(at_extents.GetAttr<TypeMap>("dtype")) {}

  Feeds Follow(const NodePtr& input) {
    Feeds feeds;
    const bool whole = !IsFloat(TypeOf(input).dtype);
    std::set<std::pair<NodeId, bool>> seen;
    std::vector<std::pair<NodePtr, bool>> todo{{input, true}};  // and: only moved so far
    while (!todo.empty()) {
      const auto [n, moved] = todo.back();
      todo.pop_back();
      if (!seen.insert({n->id(), moved}).second) continue;
      for (const Use& u : n->uses()) {
        if (u.control) continue;
        const NodePtr user = u.user;
        if (Judge(user, u.slot, moved, &feeds)) continue;
        if (!whole && !moved) continue;
        const DType out = types_[NodeEntry(user)].dtype;
        // A comparison or a float ends what an integer can do to a size.
        if (out == DType::kBool || (whole && IsFloat(out))) continue;
        todo.emplace_back(user, moved && Moves(user, u.slot));
      }
    }
    return feeds;
  }

 private:
  static bool Moves(const NodePtr& n, uint32_t slot) {
    static const auto& views = Op::GetAttr<TIsView>("TIsView");
    static const auto& moves = Op::GetAttr<TMovesElements>("TMovesElements");
    if (IsOp(n, "Cast") || IsOp(n, "Concat") || IsOp(n, "Where")) return true;
    return slot == 0 && (views.get(n->op(), false) || moves.get(n->op(), false));
  }
  /// Notes what this operand is to its reader; true where nothing behind it depends on the values.
  bool Judge(const NodePtr& user, uint32_t slot, bool moved, Feeds* feeds) const {
    static const auto& domains = Op::GetAttr<FInputDomains>("FInputDomains");
    InputDomain domain;
    if (const FInputDomains* f = domains.find(user->op())) {
      const std::vector<InputDomain> list = (*f)(user);
      if (slot < list.size()) domain = list[slot];
    }
    if (domain.kind == InputDomain::kIndex || domain.kind == InputDomain::kShapeValue) {
      if (!moved)
        feeds->sizes = true;
      else if (domain.kind == InputDomain::kIndex)
        NoteIndex(user, domain, feeds);
      else
        feeds->shape = true, feeds->shaped = user->inputs[0];
      return true;
    }
    for (const auto& [name, value] : user->attrs.dict)
      if (value.is<GraphPtr>() && !(slot == 0 && IsOp(user, "If"))) feeds->sizes = true;
    for (uint32_t k = 0; k < user->num_outputs(); ++k)
      if (const Shape* s = shapes_.find(NodeEntry(user, k)); !s || !s->is_static())
        feeds->sizes = feeds->sizes || slot > 0;
    return false;
  }
  void NoteIndex(const NodePtr& user, const InputDomain& domain, Feeds* feeds) const {
    feeds->index = true;
    // Labels of a loss are not counted from the end.
    feeds->negative_index = feeds->negative_index && (StartsWith(user->op()->name, "Gather") ||
                                                      StartsWith(user->op()->name, "Scatter"));
    int64_t extent = 1;
    if (size_t(domain.of) < user->num_inputs() && user->inputs[size_t(domain.of)].node) {
      const Shape* s = shapes_.find(user->inputs[size_t(domain.of)]);
      const bool known = s && s->has_rank() && domain.axis < s->rank() && domain.axis >= -s->rank();
      const SymInt d =
          known ? (*s)[domain.axis < 0 ? domain.axis + s->rank() : domain.axis] : SymInt();
      if (d.known() && d.is_const()) extent = d.value();
      // Tuples of indices: of all axes the shortest.
      if (StartsWith(user->op()->name, "GatherND") || StartsWith(user->op()->name, "ScatterND"))
        for (int k = 0; known && k < s->rank(); ++k)
          extent = std::min(extent, (*s)[k].known() && (*s)[k].is_const() ? (*s)[k].value() : 1);
    }
    feeds->extent = std::min(feeds->extent, extent);
  }

  const ShapeMap& shapes_;
  const TypeMap& types_;
};

double Unit(Random& rng) { return double(rng() >> 11) * 0x1p-52 - 1; }  // [-1, 1)

template <class T>
const T& Any(Random& rng, const std::vector<T>& of) {
  return of[size_t(rng() % of.size())];
}

void FillFloats(CheckValues values, Random& rng, Tensor* t) {
  const double scale = values == CheckValues::kSmall   ? 1e-3
                       : values == CheckValues::kLarge ? 1e4
                                                       : 2;
  const int64_t n = t->num_elements();
  for (int64_t i = 0; i < n; ++i) t->set(i, Unit(rng) * scale);
  if (n == 0) return;
  const FloatLimits lim = LimitsOf(t->dtype());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> special;
  int64_t count = 1 + n / 64;  // few, so that what they do not reach is compared as well
  switch (values) {
    case CheckValues::kNaN:
      special = {std::numeric_limits<double>::quiet_NaN()};
      break;
    case CheckValues::kInfinity:
      special = {kInf, -kInf};
      break;
    case CheckValues::kNegativeZero:
      special = {-0.0, 0.0, -0.0};
      count = (n + 1) / 2;
      break;
    case CheckValues::kSubnormal:
      special = {lim.least, -lim.least, lim.least_normal / 2, -lim.least_normal * 0.75,
                 lim.least_normal};
      count = (n + 1) / 2;
      break;
    case CheckValues::kExtreme:
      special = {lim.greatest,
                 -lim.greatest,
                 lim.greatest / 4,
                 std::sqrt(lim.greatest),
                 -std::sqrt(lim.greatest),
                 lim.least_normal,
                 std::sqrt(lim.least_normal)};
      break;
    default:
      return;
  }
  for (int64_t k = 0; k < count; ++k)
    t->set(int64_t(rng() % uint64_t(n)), special[size_t(k) % special.size()]);
}

/// Extremes of an integer dtype.
std::pair<int64_t, int64_t> RangeOf(DType t) {
  const int bits = DTypeBits(t);
  if (IsUnsigned(t)) return {0, bits >= 64 ? -1 : (int64_t{1} << bits) - 1};
  if (bits >= 64) return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

void FillIntegers(CheckValues values, const Feeds& feeds, Random& rng, Tensor* t) {
  const auto [least, greatest] = RangeOf(t->dtype());
  const bool is_signed = !IsUnsigned(t->dtype());
  std::vector<int64_t> corners{0, 1, 2, greatest, greatest - 1, greatest / 2};
  if (is_signed) corners.insert(corners.end(), {-1, -2, least, least + 1});
  const int64_t reach = values == CheckValues::kLarge ? 10000 : 5;
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    int64_t v = int64_t(rng() % uint64_t(2 * reach + 1)) - reach;
    if (feeds.index) {
      const int64_t extent = std::max<int64_t>(feeds.extent, 1);
      v = int64_t(rng() % uint64_t(extent));
      // The ends are what is easily wrong.
      if (rng() % 4 == 0) v = rng() % 2 ? 0 : extent - 1;
      if (is_signed && feeds.negative_index && rng() % 2) v -= extent;
    } else if (!feeds.free()) {
      v = int64_t(rng() % 3);
    } else if (values == CheckValues::kCorners) {
      v = Any(rng, corners);
    } else if (DTypeBits(t->dtype()) < 64) {
      const int64_t low = least, high = greatest;
      v = std::clamp(is_signed ? v : std::abs(v), low, high);
    } else if (!is_signed) {
      v = std::abs(v);
    }
    t->set_int(i, v);
  }
}

/// Shapes that an operand of extents `data` may be given, of as many extents as `t` holds.
void FillShape(const std::optional<Dims>& data, int guess, Random& rng, Tensor* t) {
  const int64_t n = t->num_elements();
  int64_t count = 1;
  for (int64_t i = 0; i < n; ++i) t->set_int(i, 1 + int64_t(rng() % 3));
  if (!data || guess == CheckInputMaker::kShapeGuesses - 1) return;
  for (int64_t d : *data) count *= d;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t k = int64_t(data->size()) - n + i;
    // Its own extents, aligned to the right; everything last; everything last, left to be computed.
    t->set_int(i, guess == 0   ? (k >= 0 ? (*data)[size_t(k)] : 1)
                  : i + 1 < n  ? 1
                  : guess == 1 ? count
                               : -1);
  }
}

}  // namespace

const char* NameOf(CheckValues values) {
  static constexpr const char* kNames[] = {"unit",      "small",    "large",
                                           "nan",       "infinity", "negative-zero",
                                           "subnormal", "extreme",  "corner-integers"};
  return kNames[int(values)];
}

std::vector<CheckValues> CheckInputMaker::Kinds() const {
  bool floats = false, integers = false;
  for (const NodePtr& p : graph_.AllInputs()) {
    const DType t = TypeOf(p).dtype;
    floats = floats || IsFloat(t);
    integers = integers || IsInt(t);
  }
  std::vector<CheckValues> kinds{CheckValues::kUnit};
  if (floats)
    for (CheckValues v :
         {CheckValues::kNaN, CheckValues::kInfinity, CheckValues::kExtreme, CheckValues::kSmall,
          CheckValues::kNegativeZero, CheckValues::kSubnormal, CheckValues::kLarge})
      kinds.push_back(v);
  if (integers) kinds.push_back(CheckValues::kCorners);
  return kinds;
}

bool CheckInputMaker::GuessesShapes() const {
  const Graph g = ProvideTypes(graph_);
  Follower follower(g);
  for (const NodePtr& p : g.AllInputs())
    if (follower.Follow(p).shape) return true;
  return false;
}

NamedTensors CheckInputMaker::Make(CheckValues values, uint64_t seed, const SymBindings& bind,
                                   int shape_guess) const {
  const Graph g = AtExtents(graph_, bind);
  Follower follower(g);
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  Random rng(seed * 0x9e3779b97f4a7c15ull + uint64_t(values));
  NamedTensors out;
  for (const NodePtr& p : g.AllInputs()) {
    const DType t = TypeOf(p).dtype;
    WEFT_CHECK(IsComputable(t), kUnsupported, "no values of dtype {} for input '{}'", DTypeName(t),
               p->attrs.name);
    Dims dims;
    if (const std::optional<Shape> declared = DeclaredShape(graph_.at(p));
        declared && declared->has_rank())
      for (SymInt d : declared->dims())
        dims.push_back(d.known() ? Evaluate(d, bind) : 1 + int64_t(rng() % 3));
    auto tensor = std::make_shared<Tensor>(t, dims);
    const Feeds feeds = follower.Follow(p);
    if (t == DType::kBool) {
      for (int64_t i = 0; i < tensor->num_elements(); ++i) tensor->set_int(i, int64_t(rng() & 1));
    } else if (!IsFloat(t)) {
      if (feeds.shape && !feeds.index) {
        std::optional<Dims> data;
        const Shape* s = feeds.shaped.node ? shapes.find(feeds.shaped) : nullptr;
        if (s && s->is_static()) data = s->ints();
        FillShape(data, shape_guess, rng, tensor.get());
      } else {
        FillIntegers(values, feeds, rng, tensor.get());
      }
    } else if (feeds.sizes && tensor->rank() <= 1 && tensor->num_elements() <= 16) {
      for (int64_t i = 0; i < tensor->num_elements(); ++i)
        tensor->set(i, double(1 + rng() % 2));  // scales
    } else {
      FillFloats(values, rng, tensor.get());
    }
    out[p->attrs.name] = tensor;
  }
  return out;
}

}  // namespace weft::tool
