/// integer_table.cc: see integer_table.h.
#include "integer_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft::integers {
namespace {

using Unsigned = unsigned __int128;

int Bits(DType t) { return t == DType::kBool ? 1 : DTypeBits(t); }

Wide Multiply(Wide a, Wide b) { return Wide(Unsigned(a) * Unsigned(b)); }
Wide Divide(Wide a, Wide b) { return b == 0 ? 0 : a / b; }
Wide TruncatedRest(Wide a, Wide b) { return b == 0 ? 0 : a % b; }
Wide FlooredRest(Wide a, Wide b) {
  if (b == 0) return 0;
  const Wide r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
Wide Power(Wide a, Wide e, DType t) {
  if (e < 0) return a == 1 ? 1 : a == -1 ? (e % 2 == 0 ? 1 : -1) : 0;
  Wide y = 1;
  for (Wide square = a; e > 0; e /= 2) {
    if (e % 2 != 0) y = Wrap(t, Multiply(y, square));
    square = Wrap(t, Multiply(square, square));
  }
  return y;
}

}  // namespace

Wide Least(DType t) { return IsSigned(t) ? -(Wide(1) << (Bits(t) - 1)) : 0; }
Wide Most(DType t) { return (Wide(1) << (Bits(t) - (IsSigned(t) ? 1 : 0))) - 1; }

Wide Wrap(DType t, Wide v) {
  const Unsigned kept = Unsigned(v) & ((Unsigned(1) << Bits(t)) - 1);
  const Wide w = Wide(kept);
  return w > Most(t) ? w - (Wide(1) << Bits(t)) : w;
}

Column Corners(DType t) {
  Column c;
  const auto add = [&](Wide v) {
    if (v >= Least(t) && v <= Most(t)) c.push_back(v);
  };
  for (Wide v : {0, 1, 2, 3, 5, 7, 10}) add(v), add(-v);
  for (int k = 2; k <= Bits(t); k = k < 8 ? k + 2 : k + 8) {
    for (int d : {-1, 0, 1}) add((Wide(1) << k) + d), add(-(Wide(1) << k) + d);
  }
  for (Wide d : {0, 1}) add(Least(t) + d), add(Most(t) - d);
  add(Most(t) / 3);
  std::sort(c.begin(), c.end());
  c.erase(std::unique(c.begin(), c.end()), c.end());
  return c;
}

Column FewCorners(DType t) {
  Column c = {0, 1, 3, 8, Least(t), Most(t)};
  if (IsSigned(t)) c.insert(c.end(), {-1, -2, -8});
  if (t == DType::kBool) c = {0, 1};
  std::sort(c.begin(), c.end());
  c.erase(std::unique(c.begin(), c.end()), c.end());
  return c;
}

Column AllValues(DType t) {
  Column c;
  for (Wide v = Least(t); v <= Most(t); ++v) c.push_back(v);
  return c;
}

std::vector<BinaryRow> BinaryRows(DType t) {
  const std::vector<BinaryRow> bools = {
      {"And", {}, [](Wide a, Wide b, DType) { return a & b; }, true},
      {"Or", {}, [](Wide a, Wide b, DType) { return a | b; }, true},
      {"Xor", {}, [](Wide a, Wide b, DType) { return a ^ b; }, true},
      {"Equal", {}, [](Wide a, Wide b, DType) { return Wide(a == b); }, true}};
  if (t == DType::kBool) return bools;
  std::vector<BinaryRow> rows = {
      {"Add", {}, [](Wide a, Wide b, DType) { return a + b; }},
      {"Sub", {}, [](Wide a, Wide b, DType) { return a - b; }},
      {"Mul", {}, [](Wide a, Wide b, DType) { return Multiply(a, b); }},
      {"Div", {}, [](Wide a, Wide b, DType) { return Divide(a, b); }},
      {"Mod", {{"fmod", 0}}, [](Wide a, Wide b, DType) { return FlooredRest(a, b); }},
      {"Mod", {{"fmod", 1}}, [](Wide a, Wide b, DType) { return TruncatedRest(a, b); }},
      {"Min", {}, [](Wide a, Wide b, DType) { return std::min(a, b); }},
      {"Max", {}, [](Wide a, Wide b, DType) { return std::max(a, b); }},
      {"BitwiseAnd", {}, [](Wide a, Wide b, DType) { return a & b; }},
      {"BitwiseOr", {}, [](Wide a, Wide b, DType) { return a | b; }},
      {"BitwiseXor", {}, [](Wide a, Wide b, DType) { return a ^ b; }},
      {"Equal", {}, [](Wide a, Wide b, DType) { return Wide(a == b); }, true},
      {"Less", {}, [](Wide a, Wide b, DType) { return Wide(a < b); }, true},
      {"LessOrEqual", {}, [](Wide a, Wide b, DType) { return Wide(a <= b); }, true},
      {"Greater", {}, [](Wide a, Wide b, DType) { return Wide(a > b); }, true},
      {"GreaterOrEqual", {}, [](Wide a, Wide b, DType) { return Wide(a >= b); }, true}};
  if (!IsSigned(t)) {
    rows.push_back({"BitShift", {{"direction", std::string("LEFT")}}, [](Wide a, Wide b, DType u) {
                      return b >= Bits(u) ? Wide(0) : a << int(b);
                    }});
    rows.push_back({"BitShift", {{"direction", std::string("RIGHT")}}, [](Wide a, Wide b, DType u) {
                      return b >= Bits(u) ? Wide(0) : a >> int(b);
                    }});
  }
  if (t == DType::kI32 || t == DType::kI64) rows.push_back({"Pow", {}, Power});
  return rows;
}

std::vector<UnaryRow> UnaryRows(DType t) {
  if (t == DType::kBool) return {{"Not", {}, [](Wide a, DType) { return 1 - a; }}};
  std::vector<UnaryRow> rows = {
      {"Abs", {}, [](Wide a, DType) { return a < 0 ? -a : a; }},
      {"Sign", {}, [](Wide a, DType) { return Wide(a > 0) - Wide(a < 0); }},
      {"BitwiseNot", {}, [](Wide a, DType) { return ~a; }}};
  if (IsSigned(t)) {
    rows.push_back({"Neg", {}, [](Wide a, DType) { return -a; }});
    rows.push_back({"Relu", {}, [](Wide a, DType) { return a < 0 ? Wide(0) : a; }});
  }
  return rows;
}

namespace {

template <class F>
Column Folded(const Column& line, Wide first, F f) {
  Wide y = first;
  for (Wide v : line) y = f(y, v);
  return {y};
}
template <class F>
Column Running(const Column& line, DType t, Wide first, bool exclusive, bool reverse, F f) {
  Column out(line.size());
  Wide y = first;
  for (size_t k = 0; k < line.size(); ++k) {
    const size_t i = reverse ? line.size() - 1 - k : k;
    const Wide next = Wrap(t, f(y, line[i]));
    out[i] = exclusive ? y : next;
    y = next;
  }
  return out;
}
Wide Sum(Wide a, Wide b) { return a + b; }
/// The first place of what is better than all before it.
template <class F>
Column Place(const Column& line, F better) {
  size_t best = 0;
  for (size_t i = 1; i < line.size(); ++i)
    if (better(line[i], line[best])) best = i;
  return {Wide(best)};
}

}  // namespace

std::vector<LineRow> LineRows(DType t) {
  std::vector<LineRow> rows = {
      {"ReduceSum",
       {},
       [](const Column& x, DType u) { return Column{Wrap(u, Folded(x, 0, Sum)[0])}; }},
      {"ReduceProd",
       {},
       [](const Column& x, DType u) {
         return Folded(x, 1, [u](Wide a, Wide b) { return Wrap(u, Multiply(a, b)); });
       }},
      {"ReduceMin",
       {},
       [](const Column& x, DType u) {
         return Folded(x, Most(u), [](Wide a, Wide b) { return std::min(a, b); });
       }},
      {"ReduceMax",
       {},
       [](const Column& x, DType u) {
         return Folded(x, Least(u), [](Wide a, Wide b) { return std::max(a, b); });
       }},
      {"ReduceL1",
       {},
       [](const Column& x, DType u) {
         return Folded(x, 0, [u](Wide a, Wide b) { return Wrap(u, a + (b < 0 ? -b : b)); });
       }},
      {"ReduceSumSquare",
       {},
       [](const Column& x, DType u) {
         return Folded(x, 0, [u](Wide a, Wide b) { return Wrap(u, a + Wrap(u, Multiply(b, b))); });
       }},
      {"CumSum",
       {{"exclusive", 0}, {"reverse", 0}},
       [](const Column& x, DType u) { return Running(x, u, 0, false, false, Sum); },
       true},
      {"CumSum",
       {{"exclusive", 1}, {"reverse", 1}},
       [](const Column& x, DType u) { return Running(x, u, 0, true, true, Sum); },
       true},
      {"ArgMax",
       {},
       [](const Column& x, DType) { return Place(x, [](Wide a, Wide b) { return a > b; }); },
       false,
       DType::kI64},
      {"ArgMin",
       {},
       [](const Column& x, DType) { return Place(x, [](Wide a, Wide b) { return a < b; }); },
       false,
       DType::kI64}};
  if (DTypeBits(t) >= 32)
    rows.push_back(
        {"CumProd",
         {{"exclusive", 0}, {"reverse", 1}},
         [](const Column& x, DType u) { return Running(x, u, 1, false, true, Multiply); },
         true});
  return rows;
}

Wide CastInteger(Wide v, DType to) { return to == DType::kBool ? Wide(v != 0) : Wrap(to, v); }
Wide CastFloat(double v, DType to) {
  if (to == DType::kBool) return v != 0;
  if (std::isnan(v)) return 0;
  if (v >= double(Most(to))) return Most(to);
  if (v <= double(Least(to))) return Least(to);
  return Wide(v);
}
double CastToFloat(Wide v, DType to) {
  if (to == DType::kF64) return double(v);
  const float single = float(v);
  if (to == DType::kF16) return HalfToFloat(FloatToHalf(single));
  if (to == DType::kBF16) return BFloat16ToFloat(FloatToBFloat16(single));
  return single;
}

TensorPtr MakeTensor(DType t, std::vector<int64_t> dims, const Column& values) {
  auto tensor = std::make_shared<Tensor>(t, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) tensor->set_int(int64_t(i), int64_t(values[i]));
  return tensor;
}
TensorPtr ScalarOf(DType t, Wide v) { return MakeTensor(t, {}, {v}); }

std::string FirstDifference(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims())
    return std::string(DTypeName(got.dtype())) + got.shape().ToString() + " in place of " +
           std::string(DTypeName(want.dtype())) + want.shape().ToString();
  if (got.num_bytes() == 0 || std::memcmp(got.data(), want.data(), size_t(got.num_bytes())) == 0)
    return {};
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    if (IsFloat(want.dtype())) {
      const double a = got.at(i), b = want.at(i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      return "element " + std::to_string(i) + ": " + std::to_string(a) + ", expected " +
             std::to_string(b);
    }
    if (got.at_int(i) != want.at_int(i))
      return "element " + std::to_string(i) + ": " + std::to_string(got.at_int(i)) + ", expected " +
             std::to_string(want.at_int(i));
  }
  return {};
}

}  // namespace weft::integers
