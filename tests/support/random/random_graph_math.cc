/// random_graph_math.cc: element-wise rules of the random graphs. Each keeps its operands inside
/// the operator's domain and says how far apart two devices may be: |f'| times the operand's error,
/// plus the rounding of the result.
#include <algorithm>
#include <cmath>

#include "random_graph_builder.h"

namespace weft::fuzz {
namespace {

bool IsFloatItem(const Item& i) { return IsFloat(i.dtype); }
bool IsNumeric(const Item& i) { return IsFloat(i.dtype) || IsInt(i.dtype); }
bool IsSignedItem(const Item& i) { return IsFloat(i.dtype) || IsSigned(i.dtype); }
double Magnitude(double lo, double hi) { return std::max(std::fabs(lo), std::fabs(hi)); }

/// Result of a rounded float operation; `units` roundings of the result.
Values Rounded(DType t, double lo, double hi, double error, double units = 1) {
  // What is computed in f32 rounds once more when it is stored in 16 bits.
  const double inner = IsFloat(t) ? Epsilon(AccumulatorOf(t)) * units : 0;
  return {lo, hi, error + (inner + Epsilon(t)) * std::max(Magnitude(lo, hi), 1e-30)};
}

/// A smooth function of bounded slope: name, slope, range over all reals, units of rounding.
struct Smooth {
  const char* op;
  double slope, lo, hi, units;
};
constexpr double kFree = 1e300;  // no bound of its own: that of the operand
const std::vector<Smooth> kSmooth = {{"Tanh", 1, -1, 1, 8},
                                     {"Sigmoid", 0.25, 0, 1, 8},
                                     {"Erf", 1.13, -1, 1, 8},
                                     {"Sin", 1, -1, 1, 8},
                                     {"Cos", 1, -1, 1, 8},
                                     {"Softsign", 1, -1, 1, 8},
                                     {"Atan", 1, -1.5708, 1.5708, 8},
                                     {"Softplus", 1, 0, kFree, 8},
                                     {"Gelu", 1.2, -0.2, kFree, 16},
                                     {"HardSwish", 1.5, -0.4, kFree, 8},
                                     {"HardSigmoid", 0.2, 0, 1, 4},
                                     {"Elu", 1, -1, kFree, 8},
                                     {"LeakyRelu", 1, -kFree, kFree, 2},
                                     {"Selu", 1.8, -1.8, kFree * 1.06, 8},
                                     {"Mish", 1.2, -0.4, kFree, 16},
                                     {"Swish", 1.2, -0.4, kFree, 16},
                                     {"Celu", 1, -1, kFree, 8}};

bool AddSmooth(Builder& b) {
  const Item* x = b.Find(IsFloatItem);
  if (!x) return false;
  const Smooth& f = b.Pick(kSmooth);
  const double reach = std::max(x->magnitude(), 1.0) * 1.1 + 0.7;
  AttrDict attrs;
  if (std::string(f.op) == "Gelu" && b.Chance(0.5)) attrs["approximate"] = "tanh";
  return b.Add(f.op, {x->entry}, attrs,
               Rounded(x->dtype, std::max(f.lo, -reach), std::min(f.hi, reach),
                       f.slope * x->v.error, f.units));
}

/// Functions that are exact on every value: results are bits of the operands.
bool AddExact(Builder& b) {
  const Item* x = b.Find(IsSignedItem);
  if (!x) return false;
  const Values& v = x->v;
  const double top = std::max(v.hi, 0.0), size = x->magnitude();
  switch (b.Int(0, 5)) {
    case 0:
      return b.Add("Relu", {x->entry}, {}, {std::max(v.lo, 0.0), top, v.error});
    case 1:
      return b.Add("Neg", {x->entry}, {}, {-v.hi, -v.lo, v.error});
    case 2:
      return b.Add("Abs", {x->entry}, {}, {v.lo > 0 ? v.lo : 0, size, v.error});
    case 3:
      return b.Add("Identity", {x->entry}, {}, v);
    case 4:
      return x->exact() && b.Add("Sign", {x->entry}, {}, {-1, 1, 0});
    default: {
      if (!x->exact() || !IsFloat(x->dtype)) return false;
      static const std::vector<const char*> kOps = {"Floor", "Ceil", "Round"};
      return b.Add(b.Pick(kOps), {x->entry}, {}, {std::floor(v.lo), std::ceil(v.hi), 0});
    }
  }
}

/// Functions with a domain of their own.
bool AddDomain(Builder& b) {
  switch (b.Int(0, 3)) {
    case 0: {
      const Item* x =
          b.Find([](const Item& i) { return IsFloatItem(i) && i.v.hi <= 5 && i.v.lo >= -40; });
      return x && b.Add("Exp", {x->entry}, {},
                        Rounded(x->dtype, std::exp(x->v.lo), std::exp(x->v.hi),
                                std::exp(x->v.hi) * x->v.error, 8));
    }
    case 1: {
      const Item* x =
          b.Find([](const Item& i) { return IsFloatItem(i) && i.v.lo - i.v.error >= 0.1; });
      return x && b.Add("Log", {x->entry}, {},
                        Rounded(x->dtype, std::log(x->v.lo), std::log(x->v.hi),
                                x->v.error / x->v.lo * 2, 8));
    }
    case 2: {
      const Item* x = b.Find([](const Item& i) {
        return IsFloatItem(i) && (i.exact() ? i.v.lo >= 0 : i.v.lo - i.v.error >= 0.05);
      });
      return x && b.Add("Sqrt", {x->entry}, {},
                        Rounded(x->dtype, std::sqrt(x->v.lo), std::sqrt(x->v.hi),
                                x->exact() ? 0 : x->v.error / std::sqrt(x->v.lo), 4));
    }
    default: {
      const Item* x =
          b.Find([](const Item& i) { return IsFloatItem(i) && i.v.lo - i.v.error >= 0.2; });
      return x && b.Add("Reciprocal", {x->entry}, {},
                        Rounded(x->dtype, 1 / x->v.hi, 1 / x->v.lo,
                                2 * x->v.error / (x->v.lo * x->v.lo), 2));
    }
  }
}

bool AddBinary(Builder& b) {
  const Item* found = b.Find(IsNumeric);
  if (!found) return false;
  const Item x = *found, y = b.Chance(0.08) ? x : b.Partner(x, x.dtype);
  const bool swap = b.Chance(0.4);
  const Item &p = swap ? y : x, &q = swap ? x : y;
  const std::vector<NodeEntry> in = {p.entry, q.entry};
  const double e = p.v.error + q.v.error;
  switch (b.Int(0, 6)) {
    case 0:
      return b.Add("Add", in, {}, Rounded(x.dtype, p.v.lo + q.v.lo, p.v.hi + q.v.hi, e));
    case 1:
      return b.Add("Sub", in, {}, Rounded(x.dtype, p.v.lo - q.v.hi, p.v.hi - q.v.lo, e));
    case 2:
    case 3: {
      const double corners[] = {p.v.lo * q.v.lo, p.v.lo * q.v.hi, p.v.hi * q.v.lo, p.v.hi * q.v.hi};
      return b.Add("Mul", in, {},
                   Rounded(x.dtype, *std::min_element(corners, corners + 4),
                           *std::max_element(corners, corners + 4),
                           1.1 * (p.v.error * q.magnitude() + q.v.error * p.magnitude())));
    }
    case 4: {
      const double low = q.v.lo - q.v.error;
      if (low < (IsFloat(x.dtype) ? 0.2 : 1)) return false;
      const double size = p.magnitude() / low;
      return b.Add("Div", in, {},
                   Rounded(x.dtype, p.v.lo < 0 ? -size : 0, size,
                           p.v.error / low + p.magnitude() * q.v.error / (low * low)));
    }
    case 5:
      return b.Add("Max", in, {}, {std::max(p.v.lo, q.v.lo), std::max(p.v.hi, q.v.hi), e});
    default:
      return b.Add("Min", in, {}, {std::min(p.v.lo, q.v.lo), std::min(p.v.hi, q.v.hi), e});
  }
}

bool AddVariadic(Builder& b) {
  const Item* found = b.Find(IsFloatItem);
  if (!found) return false;
  const Item x = *found;
  std::vector<NodeEntry> in = {x.entry};
  std::vector<std::vector<SymInt>> dims;
  double lo = x.v.lo, hi = x.v.hi, e = x.v.error;
  for (int i = b.Int(1, 3); i-- > 0;) {
    const Item y = b.Partner(x, x.dtype);
    // Each fits x; they must fit each other too.
    for (const std::vector<SymInt>& other : dims)
      if (!b.Broadcasts(y.dims, other)) return false;
    dims.push_back(y.dims);
    in.push_back(y.entry);
    lo += y.v.lo, hi += y.v.hi, e += y.v.error;
  }
  const double size = Magnitude(lo, hi) * 3;
  if (b.Chance(0.5))
    return b.Add("Sum", in, {}, Rounded(x.dtype, lo, hi, e + Epsilon(x.dtype) * size, 4));
  return b.Add("Mean", in, {}, Rounded(x.dtype, -size, size, e + Epsilon(x.dtype) * size, 4));
}

bool AddModOrPow(Builder& b) {
  if (b.Chance(0.5)) {
    const Item* x = b.Find([](const Item& i) { return IsInt(i.dtype); });
    if (!x) return false;
    const Item p = *x, q = b.Partner(p, p.dtype);
    if (q.v.lo < 1) return false;
    return b.Add("Mod", {p.entry, q.entry}, {}, {0, q.v.hi, 0});
  }
  const Item* x = b.Find(
      [](const Item& i) { return IsFloatItem(i) && i.v.lo - i.v.error >= 0.2 && i.v.hi <= 8; });
  if (!x) return false;
  const std::vector<double> exponents = {2, 3, 0.5, -1, 1, 0};
  const double k = b.Pick(exponents), size = std::max(std::pow(x->v.lo, k), std::pow(x->v.hi, k));
  return b.Add("Pow", {x->entry, b.Scalar(x->dtype, k)}, {},
               Rounded(x->dtype, 0, size, std::fabs(k) * size / x->v.lo * x->v.error * 2, 24));
}

bool AddClip(Builder& b) {
  const Item* x = b.Find(IsNumeric);
  if (!x) return false;
  const double lo = IsUnsigned(x->dtype) ? 1 : -1, hi = 3;
  const bool has_lo = b.Chance(0.7), has_hi = b.Chance(0.7);
  const NodeEntry low = has_lo ? b.Scalar(x->dtype, lo) : NodeEntry(),
                  high = has_hi ? b.Scalar(x->dtype, hi) : NodeEntry();
  Values v = x->v;
  if (has_lo) v.lo = std::max(v.lo, lo), v.hi = std::max(v.hi, lo);
  if (has_hi) v.lo = std::min(v.lo, hi), v.hi = std::min(v.hi, hi);
  std::vector<NodeEntry> in = {x->entry};
  if (has_lo || has_hi) in.push_back(low);
  if (has_hi) in.push_back(high);
  return b.Add("Clip", in, {}, v);
}

bool AddCast(Builder& b) {
  static const std::vector<DType> kTypes = {DType::kF32, DType::kF32,  DType::kF64,
                                            DType::kF16, DType::kBF16, DType::kI32,
                                            DType::kI64, DType::kU8,   DType::kBool};
  const Item* x = b.Find([](const Item&) { return true; });
  if (!x) return false;
  const DType to = b.Pick(kTypes);
  Values v = x->v;
  if (IsFloat(to)) {
    if (Epsilon(to) > (IsFloat(x->dtype) ? Epsilon(x->dtype) : 0)) {
      // Narrowing rounds; so does an integer above the mantissa. What it rounds to is the same
      // everywhere.
      const bool fits = !IsFloat(x->dtype) && x->magnitude() * Epsilon(to) <= 0.5;
      if (!fits) v.error += x->exact() ? 0 : 2 * Epsilon(to) * x->magnitude();
      if (!fits && IsInt(x->dtype)) v.error += Epsilon(to) * x->magnitude() * 2;
      // The double-precision reference does not round.
      if (!fits && x->exact() && IsFloat(x->dtype)) v.error += Epsilon(to) * x->magnitude();
    }
  } else {
    if (!x->exact()) return false;
    if (to == DType::kBool)
      v = {0, 1, 0};
    else if (to == DType::kU8 && (v.lo < 0 || v.hi > 255))
      return false;
    else
      v = {std::trunc(v.lo), std::trunc(v.hi), 0};
  }
  return b.Add("Cast", {x->entry}, {{"to", to}}, v);
}

bool AddComparison(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.exact() && i.dtype != DType::kBool; });
  if (!x) return false;
  const Item p = *x, q = b.Partner(p, p.dtype);
  if (!q.exact()) return false;
  static const std::vector<const char*> kOps = {"Equal", "Less", "LessOrEqual", "Greater",
                                                "GreaterOrEqual"};
  return b.Add(b.Pick(kOps), {p.entry, q.entry}, {}, {0, 1, 0});
}

bool AddLogic(Builder& b) {
  const Item* x = b.Find([](const Item& i) { return i.dtype == DType::kBool; });
  if (!x) return false;
  if (b.Chance(0.3)) return b.Add("Not", {x->entry}, {}, {0, 1, 0});
  const Item p = *x, q = b.Partner(p, DType::kBool);
  static const std::vector<const char*> kOps = {"And", "Or", "Xor", "Equal"};
  return b.Add(b.Pick(kOps), {p.entry, q.entry}, {}, {0, 1, 0});
}

bool AddWhere(Builder& b) {
  const Item* x = b.Find([](const Item&) { return true; });
  if (!x) return false;
  const Item p = *x, q = b.Partner(p, p.dtype), c = b.Partner(p, DType::kBool);
  // Each broadcasts against p; q and c against each other as well.
  if (!b.Broadcasts(c.dims, q.dims)) return false;
  const bool swap = b.Chance(0.5);
  return b.Add(
      "Where", {c.entry, (swap ? q : p).entry, (swap ? p : q).entry}, {},
      {std::min(p.v.lo, q.v.lo), std::max(p.v.hi, q.v.hi), std::max(p.v.error, q.v.error)});
}

}  // namespace

std::vector<std::pair<double, Rule>> MathRules() {
  return {{4, AddSmooth},     {2, AddExact},      {2, AddDomain}, {7, AddBinary},
          {0.7, AddVariadic}, {0.7, AddModOrPow}, {0.7, AddClip}, {1.5, AddCast},
          {1, AddComparison}, {0.7, AddLogic},    {1.2, AddWhere}};
}

}  // namespace weft::fuzz
