/// check_inputs.cc: see check_inputs.h. What is computed with before it decides a size stays small.
#include "check_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "common.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/inputs/input_role.h"
#include "weft/support/check.h"

namespace weft::tool {
namespace {

using Dims = std::vector<int64_t>;
using Random = std::mt19937_64;

Type TypeOf(NodePtr input) {
  const Type declared = DeclaredType(input);
  return declared.known() ? declared : Type(DType::kF32);
}

/// The graph at these dimensions, or as it is where they do not fit; a run will say so.
Graph AtDimsOrOpen(const Graph& graph, const SymBindings& bind, const InputDims& dims) {
  try {
    return AtDims(graph, bind, dims);
  } catch (const UserError&) {
    return ProvideTypes(graph);
  }
}

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

void FillIntegers(CheckValues values, const InputRole& role, Random& rng, Tensor* t) {
  const auto [least, greatest] = RangeOf(t->dtype());
  const bool is_signed = !IsUnsigned(t->dtype());
  std::vector<int64_t> corners{0, 1, 2, greatest, greatest - 1, greatest / 2};
  if (is_signed) corners.insert(corners.end(), {-1, -2, least, least + 1});
  const int64_t reach = values == CheckValues::kLarge ? 10000 : 5;
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    int64_t v = int64_t(rng() % uint64_t(2 * reach + 1)) - reach;
    if (role.index) {
      const int64_t extent = std::max<int64_t>(role.extent, 1);
      v = int64_t(rng() % uint64_t(extent));
      // The ends are what is easily wrong.
      if (rng() % 4 == 0) v = rng() % 2 ? 0 : extent - 1;
      if (is_signed && role.negative_index && rng() % 2) v -= extent;
    } else if (!role.compared.empty() && rng() % 2) {
      v = Any(rng, role.compared);
    } else if (!role.free()) {
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
  const InputRoles roles(g);
  for (const NodePtr& p : g.AllInputs())
    if (roles.Of(p).shape) return true;
  return false;
}

NamedTensors CheckInputMaker::Make(CheckValues values, uint64_t seed, const SymBindings& bind,
                                   const InputDims& given, int shape_guess) const {
  const Graph g = AtDimsOrOpen(graph_, bind, given);
  const InputRoles roles(g);
  Random rng(seed * 0x9e3779b97f4a7c15ull + uint64_t(values));
  NamedTensors out;
  for (const NodePtr& p : g.AllInputs()) {
    const DType t = TypeOf(p).dtype;
    WEFT_CHECK(IsComputable(t), kUnsupported, "no values of dtype {} for input '{}'", DTypeName(t),
               p->attrs.name);
    Dims dims;
    if (const auto it = given.find(p->attrs.name); it != given.end())
      dims = it->second;
    else if (const std::optional<Shape> declared = DeclaredShape(graph_.at(p));
             declared && declared->has_rank())
      for (SymInt d : declared->dims())
        dims.push_back(d.known() ? Evaluate(d, bind) : 1 + int64_t(rng() % 3));
    auto tensor = std::make_shared<Tensor>(t, dims);
    const InputRole role = roles.Of(p);
    if (t == DType::kBool) {
      for (int64_t i = 0; i < tensor->num_elements(); ++i) tensor->set_int(i, int64_t(rng() & 1));
    } else if (!IsFloat(t)) {
      if (role.shape && !role.index) {
        FillShape(role.shaped, shape_guess, rng, tensor.get());
      } else {
        FillIntegers(values, role, rng, tensor.get());
      }
    } else if (role.sizes && tensor->rank() <= 1 && tensor->num_elements() <= 16) {
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
