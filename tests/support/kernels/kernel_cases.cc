/// kernel_cases.cc: the kernels of kernel_cases.h. Expected results are computed here in
/// double, never by a printer. Those that reduce are in kernel_cases_reduce.cc.
#include "tests/support/kernels/kernel_case_builder.h"

namespace weft::kernel_cases {
namespace {

void Pointwise(std::vector<Case>* all) {
  {
    Builder b("add_mul", {5000});
    const Values x = Ramp(5000), y = Ramp(5000, 2);
    auto rx = b.Input(DType::kF32, x), ry = b.Input(DType::kF32, y);
    b.Output(DType::kF32, I(0), rx(I(0)) * ry(I(0)) + rx(I(0)),
             Map(5000, [&](int64_t i) { return x[i] * y[i] + x[i]; }));
    all->push_back(b.Finish());
  }
  for (bool small : {true, false}) {
    const SymInt n = KernelSymbol(0);
    Builder b(small ? "exp_dynamic" : "exp_dynamic_64", {n});
    b.c.kernel->small_index = small;
    const Values x = Ramp(4099);
    auto rx = b.Input(DType::kF32, x, n);
    b.Output(DType::kF32, I(0), Expr::Call(CallOp::kExp, {rx(I(0))}),
             Map(4099, [&](int64_t i) { return std::exp(x[i]); }), false, n);
    all->push_back(b.Finish({4099}, 1e-6));
  }
  {
    // A bias along the last loop and a scale along the first; three storage types; bool beside
    // bf16.
    Builder b("broadcast_types", {37, 24});
    const Values x = Ramp(37 * 24), bias = Ramp(24, 3), scale = Ramp(37, 5);
    auto rx = b.Input(DType::kBF16, x), rb = b.Input(DType::kF32, bias),
         rs = b.Input(DType::kF16, scale);
    const Expr at = I(0) * N(24) + I(1);
    const Expr v = Expr::Cast(DType::kF32, rx(at)) * Expr::Cast(DType::kF32, rs(I(0))) + rb(I(1));
    const auto f = [&](int64_t i) { return x[i] * scale[i / 24] + bias[i % 24]; };
    b.Output(DType::kF32, at, v, Map(37 * 24, f));
    b.Output(DType::kF16, at, Expr::Cast(DType::kF16, v), Map(37 * 24, f));
    b.Output(DType::kBF16, at, Expr::Cast(DType::kBF16, v), Map(37 * 24, f));
    b.Output(DType::kBool, at, Lt(v, Expr::Const(DType::kF32, 0)),
             Map(37 * 24, [&](int64_t i) { return f(i) < 0; }));
    all->push_back(b.Finish());
  }
  for (bool small : {true, false}) {
    const SymInt m = KernelSymbol(0), n = KernelSymbol(1);
    Builder b("rows_dynamic", {m, n});
    b.c.kernel->small_index = small;
    const Values x = Ramp(50 * 64), bias = Ramp(64, 3);
    auto rx = b.Input(DType::kF32, x, m * n), rb = b.Input(DType::kF32, bias, n);
    const Expr at = I(0) * Expr::Dim(n) + I(1);
    b.Output(DType::kF32, at, rx(at) + rb(I(1)),
             Map(50 * 64, [&](int64_t i) { return x[i] + bias[i % 64]; }), false, m * n);
    all->push_back(b.Finish({50, 64}));
  }
  {
    Builder b("transpose", {33, 20});
    const Values x = Ramp(33 * 20);
    auto rx = b.Input(DType::kF32, x);
    b.Output(DType::kF32, I(0) * N(20) + I(1), rx(I(1) * N(33) + I(0)),
             Map(33 * 20, [&](int64_t i) { return x[i % 20 * 33 + i / 20]; }));
    all->push_back(b.Finish());
  }
  {
    // Division and modulo inside an offset: a space-to-depth.
    Builder b("index_division", {6, 64});
    const Values x = Ramp(6 * 64);
    auto rx = b.Input(DType::kI16, Map(6 * 64, [](int64_t i) { return double(i); }));
    const Expr q = Expr::Binary(BinOp::kFloorDiv, I(1), N(8)),
               r = Expr::Binary(BinOp::kFloorMod, I(1), N(8));
    b.Output(DType::kI16, I(0) * N(64) + I(1), rx(I(0) * N(64) + r * N(8) + q),
             Map(6 * 64, [](int64_t i) { return double(i / 64 * 64 + i % 8 * 8 + i % 64 / 8); }));
    all->push_back(b.Finish());
  }
  {
    Builder b("pad", {2, 40});
    const Values x = Ramp(2 * 32);
    b.Input(DType::kF32, x);
    const Expr inside = And(Le(N(3), I(1)), Lt(I(1), N(35)));
    b.Output(DType::kF32, I(0) * N(40) + I(1),
             Expr::Load(0, DType::kF32, {I(0) * N(32) + I(1) - N(3)}, inside),
             Map(80, [&](int64_t i) {
               return i % 40 >= 3 && i % 40 < 35 ? x[i / 40 * 32 + i % 40 - 3] : 0;
             }));
    all->push_back(b.Finish());
  }
  {
    Builder b("gather", {9, 32});
    const Values table = Ramp(5 * 32), idx = {0, 4, 2, 2, 1, 3, 0, 4, 4};
    auto rt = b.Input(DType::kF16, table), ri = b.Input(DType::kI64, idx);
    b.Output(DType::kF16, I(0) * N(32) + I(1), rt(ri(I(0)) * N(32) + I(1)),
             Map(9 * 32, [&](int64_t i) { return table[size_t(idx[i / 32]) * 32 + i % 32]; }));
    all->push_back(b.Finish());
  }
  {
    Builder b("scalar", {});
    auto rx = b.Input(DType::kF64, {3});
    b.Output(DType::kF64, N(0), Expr::Unary(UnOp::kSqrt, rx(N(0))), {std::sqrt(3.0)});
    all->push_back(b.Finish());
  }
}

void Semantics(std::vector<Case>* all) {
  for (DType t : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    Builder b(fmt::format("signed_{}", DTypeName(t)), {8});
    const double lo = -std::ldexp(1.0, DTypeBits(t) - 1);
    const Values x = {lo, 7, -7, -7, 100, -1, 5, lo}, y = {-1, 2, 2, -2, 0, 3, -3, 0};
    auto rx = b.Input(t, x), ry = b.Input(t, y);
    const Expr a = rx(I(0)), c = ry(I(0));
    const auto out = [&](BinOp op, Values v) {
      b.Output(t, I(0), Expr::Binary(op, a, c), std::move(v));
    };
    out(BinOp::kDiv, {lo, 3, -3, 3, 0, 0, -1, 0});
    out(BinOp::kMod, {0, 1, -1, -1, 0, -1, 2, 0});
    out(BinOp::kFloorDiv, {lo, 3, -4, 3, 0, -1, -2, 0});
    out(BinOp::kFloorMod, {0, 1, 1, -1, 0, 2, -1, 0});
    out(BinOp::kShl, {0, 28, -28, 0, 100, -8, 0, lo});
    out(BinOp::kShr, {0, 1, -2, 0, 100, -1, 0, lo});
    out(BinOp::kMin, {lo, 2, -7, -7, 0, -1, -3, lo});
    b.Output(t, I(0), Expr::Unary(UnOp::kAbs, a), {lo, 7, 7, 7, 100, 1, 5, lo});
    b.Output(t, I(0), Expr::Unary(UnOp::kNeg, a), {lo, -7, 7, 7, -100, 1, -5, lo});
    all->push_back(b.Finish());
  }
  for (DType t : {DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
    Builder b(fmt::format("unsigned_{}", DTypeName(t)), {4});
    const double top = t == DType::kU64 ? 0x1p63 : std::ldexp(1.0, DTypeBits(t)) - 1;
    auto rx = b.Input(t, {top, 9, 5, 1}), ry = b.Input(t, {2, 0, 7, 200});
    const Expr a = rx(I(0)), c = ry(I(0));
    b.Output(t, I(0), Expr::Binary(BinOp::kDiv, a, c), {std::floor(top / 2), 0, 0, 0});
    b.Output(t, I(0), Expr::Binary(BinOp::kMod, a, c), {t == DType::kU64 ? 0.0 : 1.0, 0, 5, 1});
    b.Output(t, I(0), Expr::Binary(BinOp::kShr, a, c), {std::floor(top / 4), 9, 0, 0});
    b.Output(DType::kBool, I(0), Lt(a, c), {0, 0, 1, 1});
    b.Output(DType::kF32, I(0), Expr::Cast(DType::kF32, a), {top, 9, 5, 1});
    all->push_back(b.Finish());
  }
  for (DType f : {DType::kF32, DType::kF64}) {
    Builder b(fmt::format("saturate_{}", DTypeName(f)), {8});
    auto rx = b.Input(f, {kNan, kInf, -kInf, 1e30, -1e30, -1.75, 130.5, 0});
    const auto out = [&](DType t, Values v) {
      b.Output(t, I(0), Expr::Cast(t, rx(I(0))), std::move(v));
    };
    out(DType::kI8, {0, 127, -128, 127, -128, -1, 127, 0});
    out(DType::kI32, {0, 2147483647, -2147483648.0, 2147483647, -2147483648.0, -1, 130, 0});
    out(DType::kU8, {0, 255, 0, 255, 0, 0, 130, 0});
    out(DType::kU32, {0, 4294967295.0, 0, 4294967295.0, 0, 0, 130, 0});
    out(DType::kBool, {1, 1, 1, 1, 1, 1, 1, 0});
    b.Output(DType::kBool, I(0),
             Expr::Binary(BinOp::kEq, Expr::Cast(DType::kI64, rx(I(0))),
                          Expr::ConstInt(DType::kI64, INT64_MAX)),
             {0, 1, 0, 1, 0, 0, 0, 0});
    b.Output(DType::kBool, I(0),
             Expr::Binary(BinOp::kEq, Expr::Cast(DType::kI64, rx(I(0))),
                          Expr::ConstInt(DType::kI64, INT64_MIN)),
             {0, 0, 1, 0, 1, 0, 0, 0});
    all->push_back(b.Finish());
  }
  {
    // Some lanes take the way of huge numbers, some do not.
    Builder b("sines of huge numbers", {9});
    const Values x = {1e22, 0.5, kInf, -1e22, 0x1p1023, 0, kNan, -0.5, 0x1p50};
    auto rx = b.Input(DType::kF64, x);
    const auto of = [&](CallOp op) { return Expr::Call(op, {rx(I(0))}); };
    const double sin = -0.8522008497671888, cos = 0.5232147853951389, half = 0.479425538604203,
                 cos_half = 0.8775825618903728;
    b.Output(DType::kF64, I(0), of(CallOp::kSin),
             {sin, half, kNan, -sin, 0.563127779850884, 0, kNan, -half, 0.49639651520894085});
    b.Output(DType::kF64, I(0), of(CallOp::kCos),
             {cos, cos_half, kNan, cos, -0.826369834614148, 1, kNan, cos_half, 0.8680959046605506});
    b.Output(DType::kF64, I(0), of(CallOp::kTan),
             {sin / cos, half / cos_half, kNan, -sin / cos, -0.6814476476066215, 0, kNan,
              -half / cos_half, 0.5718222059843094});
    all->push_back(b.Finish({}, 1e-14));
  }
  {
    Builder b("floats", {6});
    const Values x = {kNan, 2.5, -0.0, -kInf, 3.5, 1}, y = {1, kNan, 1, 2, -1, 1};
    auto rx = b.Input(DType::kF32, x), ry = b.Input(DType::kF32, y);
    const Expr a = rx(I(0)), c = ry(I(0));
    b.Output(DType::kF32, I(0), Min(a, c), {kNan, kNan, 0, -kInf, -1, 1});
    b.Output(DType::kF32, I(0), Max(a, c), {kNan, kNan, 1, 2, 3.5, 1});
    b.Output(DType::kF32, I(0), Expr::Unary(UnOp::kRound, a), {kNan, 2, 0, -kInf, 4, 1});
    b.Output(DType::kBool, I(0), Expr::Unary(UnOp::kIsNan, a), {1, 0, 0, 0, 0, 0});
    b.Output(DType::kBool, I(0), Expr::Unary(UnOp::kIsInf, a), {0, 0, 0, 1, 0, 0});
    b.Output(DType::kBool, I(0), Ne(a, c), {1, 1, 1, 1, 1, 0});
    b.Output(DType::kF32, I(0), Expr::Binary(BinOp::kMod, a, Expr::Const(DType::kF32, 2)),
             {kNan, 0.5, 0, kNan, 1.5, 1});
    b.Output(DType::kF32, I(0),
             Expr::Select(Lt(a, c), Expr::Const(DType::kF32, kInf), Expr::Const(DType::kF32, kNan)),
             {kNan, kNan, kInf, kInf, kNan, kNan});
    b.Output(DType::kF64, I(0), Expr::ConstBits(DType::kF64, 1),
             Map(6, [](int64_t) { return 0x1p-1074; }));
    b.Output(DType::kF32, I(0), Expr::Fma(a, a, Expr::Const(DType::kF32, 1e-8)),
             Map(6, [&](int64_t i) { return double(std::fma(float(x[i]), float(x[i]), 1e-8f)); }));
    b.Output(DType::kI32, I(0), Expr::Bitcast(DType::kI32, c),
             {1065353216, double(0x7fc00000), 1065353216, 1073741824, double(int32_t(0xbf800000)),
              1065353216});
    all->push_back(b.Finish());
  }
  {
    // Every half, through f32 and back; and floats that round to halves in every way.
    Builder b("half_bits", {65536});
    auto rx = b.Input(DType::kF16,
                      Map(65536, [](int64_t i) { return double(HalfToFloat(uint16_t(i))); }));
    b.Output(DType::kF32, I(0), Expr::Cast(DType::kF32, rx(I(0))),
             Map(65536, [](int64_t i) { return double(HalfToFloat(uint16_t(i))); }));
    const Expr nudged = Expr::Cast(DType::kF32, rx(I(0))) * Expr::Const(DType::kF32, 1.00048828125);
    const auto f = [](int64_t i) { return double(HalfToFloat(uint16_t(i)) * 1.00048828125f); };
    b.Output(DType::kF16, I(0), Expr::Cast(DType::kF16, nudged), Map(65536, f));
    b.Output(DType::kBF16, I(0), Expr::Cast(DType::kBF16, nudged), Map(65536, f));
    all->push_back(b.Finish());
  }
  {
    Builder b("philox", {6});
    b.Output(DType::kU32, I(0),
             Expr::Philox(Expr::ConstInt(DType::kU64, 0),
                          Expr::Cast(DType::kU64, I(0)) * Expr::ConstInt(DType::kU64, 0)),
             Map(6, [](int64_t) {
               return double(0x6627e8d5u);
             }));  // Random123's known answer for zero key and counter
    all->push_back(b.Finish());
  }
}

/// Elements chosen by an index tensor, cut to the axis, and the range flag.
void Flags(std::vector<Case>* all) {
  for (const double last : {6.0, 7.0, -1.0}) {
    for (const bool row : {false, true}) {
      Builder b(fmt::format("flag_{}_{}", row ? "row" : "points", last),
                row ? std::vector<SymInt>{4, 75} : std::vector<SymInt>{300}, row, row ? 1 : -1);
      const Values data = Ramp(7);
      Values index, expected, sums(4, 0);
      for (int i = 0; i < 300; ++i) index.push_back(i * 3 % 7);
      index.back() = last;
      for (int i = 0; i < 300; ++i) {
        expected.push_back(data[size_t(std::min(6.0, std::max(0.0, index[size_t(i)])))]);
        sums[size_t(i / 75)] += expected.back();
      }
      const auto x = b.Input(DType::kF32, data), at = b.Input(DType::kI64, index);
      const auto raw = [&](const Expr& i) { return at(row ? I(0) * N(75) + i : i); };
      const auto cut = [&](const Expr& i) { return Max(N(0), Min(raw(i), N(6))); };
      const Expr i = I(row ? 1 : 0);
      b.Output(DType::kF32, row ? I(0) * N(75) + i : i, x(cut(i)), expected);
      const Expr outside = Ne(raw(i), cut(i));
      if (row) {
        b.Output(DType::kF32, I(0),
                 Expr::Reduce(ReduceOp::kSum, {75}, [&](const Indices& r) { return x(cut(r[0])); }),
                 sums, true);
        b.Flag(outside, last != 6);
      } else {
        b.Flag(outside, last != 6);
      }
      all->push_back(b.Finish({}, 1e-5));
      if (!row) continue;
      // The same once a row, as a reduction.
      Builder r(fmt::format("flag_reduced_{}", last), {4, 75}, true, 1);
      const auto xr = r.Input(DType::kF32, data), ar = r.Input(DType::kI64, index);
      const auto value = [&](const Expr& j) { return ar(I(0) * N(75) + j); };
      const auto inside = [&](const Expr& j) { return Max(N(0), Min(value(j), N(6))); };
      r.Output(
          DType::kF32, I(0),
          Expr::Reduce(ReduceOp::kSum, {75}, [&](const Indices& v) { return xr(inside(v[0])); }),
          sums, true);
      r.Flag(Expr::Reduce(ReduceOp::kAny, {75},
                          [&](const Indices& v) { return Ne(value(v[0]), inside(v[0])); }),
             last != 6, true);
      all->push_back(r.Finish({}, 1e-5));
    }
  }
}

}  // namespace

std::vector<Case> AllCases() {
  std::vector<Case> all;
  Pointwise(&all);
  Semantics(&all);
  ReductionCases(&all);
  Flags(&all);
  return all;
}

}  // namespace weft::kernel_cases
