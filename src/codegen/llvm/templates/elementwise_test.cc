#include <cmath>
#include <cstring>

#include "codegen/llvm/compiler/test_kernels.h"

namespace weft::llvmgen {
namespace {

constexpr DType kAllTypes[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
                               DType::kU8,   DType::kU16, DType::kU32, DType::kU64, DType::kF16,
                               DType::kBF16, DType::kF32, DType::kF64};
const SymInt kN = KernelSymbol(0);

Expr I(int k) { return Expr::Index(k); }

TEST_CASE("copies and sums of all types, all sizes") {
  for (DType t : kAllTypes) {
    const KernelPtr copy = Flat({t}, t, kN, [](const Exprs& x) { return x[0]; });
    const KernelPtr sum = t == DType::kBool ? copy : Flat({t, t}, t, kN, [&](const Exprs& x) {
      return Expr::Cast(t, x[0] + x[1] * x[0]);
    });
    for (int64_t n : {1, 7, 16, 65, 300}) {
      CheckKernel(copy, RandomInputs(*copy, {n}, 1), {n});
      CheckKernel(sum, RandomInputs(*sum, {n}, 2), {n});
    }
  }
}

TEST_CASE("casts between all types saturate, wrap and round") {
  const double special[] = {
      0.0,    -0.0,    0.5,          1.5,          2.5,           -1.5,         -0.7,
      127.9,  128,     255.5,        256,          -129,          32768,        65504,
      65520,  1e5,     2147483647.0, 2147483648.0, -2147483649.0, 4294967296.0, 9.3e18,
      1.9e19, -9.3e18, 1e38,         -1e38,        INFINITY,      -INFINITY,    NAN,
      1e-8,   6e-8,    3.1415927,    1.00390625,   1.01171875};
  for (DType from : kAllTypes) {
    for (DType to : kAllTypes) {
      if (from == to) continue;
      const KernelPtr k =
          Flat({from}, to, 33, [&](const Exprs& x) { return Expr::Cast(to, x[0]); });
      Bytes in(33 * size_t(ElementBytes(from)));
      for (size_t i = 0; i < 33; ++i) {
        Scalar s;
        s.f = special[i];
        s.i = IsFloat(from) ? 0 : scalar::DoubleToInt(from, special[i]);
        WriteElement(from, s, &in[i * size_t(ElementBytes(from))]);
      }
      CheckKernel(k, {in});
    }
  }
}

TEST_CASE("integer arithmetic at its corners") {
  for (DType t : kAllTypes) {
    if (!IsInt(t)) continue;
    std::vector<int64_t> values{0,  1,  2, 3, 7, -1, -2, -7, scalar::MinInt(t), scalar::MaxInt(t),
                                64, 31, 8};
    Bytes a, b;
    for (int64_t x : values) {
      for (int64_t y : values) {
        unsigned char bytes[8] = {};
        WriteElement(t, {0, x}, bytes);
        a.insert(a.end(), bytes, bytes + ElementBytes(t));
        WriteElement(t, {0, y}, bytes);
        b.insert(b.end(), bytes, bytes + ElementBytes(t));
      }
    }
    const int64_t n = int64_t(values.size() * values.size());
    for (BinOp op : {BinOp::kAdd,      BinOp::kSub,      BinOp::kMul, BinOp::kDiv, BinOp::kMod,
                     BinOp::kFloorDiv, BinOp::kFloorMod, BinOp::kMin, BinOp::kMax, BinOp::kAnd,
                     BinOp::kOr,       BinOp::kXor,      BinOp::kShl, BinOp::kShr, BinOp::kLt,
                     BinOp::kLe,       BinOp::kGt,       BinOp::kGe,  BinOp::kEq,  BinOp::kNe}) {
      const DType out = scalar::IsCompare(op) ? DType::kBool : t;
      const KernelPtr k =
          Flat({t, t}, out, n, [&](const Exprs& x) { return Expr::Binary(op, x[0], x[1]); });
      CheckKernel(k, {a, b});
    }
    for (UnOp op : {UnOp::kNeg, UnOp::kAbs, UnOp::kBitNot}) {
      if (op == UnOp::kNeg && !IsSigned(t)) continue;
      const KernelPtr k = Flat({t}, t, n, [&](const Exprs& x) { return Expr::Unary(op, x[0]); });
      CheckKernel(k, {a});
    }
  }
}

TEST_CASE("floating arithmetic with special values is exact") {
  const double values[] = {0.0,  -0.0, 1.0,   -1.0,  0.5,      1.5,       2.5, -2.5,     3.7,
                           -3.7, 1e30, -1e30, 1e-40, INFINITY, -INFINITY, NAN, 8388609.0};
  for (DType t : {DType::kF32, DType::kF64}) {
    Bytes a, b;
    for (double x : values) {
      for (double y : values) {
        unsigned char bytes[8] = {};
        WriteElement(t, {x, 0}, bytes);
        a.insert(a.end(), bytes, bytes + ElementBytes(t));
        WriteElement(t, {y, 0}, bytes);
        b.insert(b.end(), bytes, bytes + ElementBytes(t));
      }
    }
    const int64_t n = int64_t(std::size(values) * std::size(values));
    for (BinOp op :
         {BinOp::kAdd, BinOp::kSub, BinOp::kMul, BinOp::kDiv, BinOp::kMod, BinOp::kMin, BinOp::kMax,
          BinOp::kLt, BinOp::kLe, BinOp::kGt, BinOp::kGe, BinOp::kEq, BinOp::kNe}) {
      const DType out = scalar::IsCompare(op) ? DType::kBool : t;
      CheckKernel(
          Flat({t, t}, out, n, [&](const Exprs& x) { return Expr::Binary(op, x[0], x[1]); }),
          {a, b});
    }
    for (UnOp op : {UnOp::kNeg, UnOp::kAbs, UnOp::kFloor, UnOp::kCeil, UnOp::kRound, UnOp::kTrunc,
                    UnOp::kSqrt, UnOp::kIsNan, UnOp::kIsInf}) {
      const DType out = op == UnOp::kIsNan || op == UnOp::kIsInf ? DType::kBool : t;
      CheckKernel(Flat({t}, out, n, [&](const Exprs& x) { return Expr::Unary(op, x[0]); }), {a});
    }
    // A product and a sum stay two operations; kFma is one.
    CheckKernel(Flat({t, t}, t, n, [&](const Exprs& x) { return x[0] * x[1] + x[0]; }), {a, b});
    CheckKernel(Flat({t, t}, t, n, [&](const Exprs& x) { return Expr::Fma(x[0], x[1], x[0]); }),
                {a, b});
    const KernelPtr relu =
        Flat({t}, t, n, [&](const Exprs& x) { return Max(x[0], Expr::Const(t, 0)); });
    CheckKernel(relu, {a});
  }
}

TEST_CASE("math functions in both float types and through 16-bit storage") {
  for (DType t : {DType::kF32, DType::kF64}) {
    for (CallOp op : {CallOp::kExp, CallOp::kTanh, CallOp::kErf, CallOp::kSigmoid, CallOp::kSin,
                      CallOp::kAtan}) {
      const KernelPtr k = Flat({t}, t, kN, [&](const Exprs& x) { return Expr::Call(op, {x[0]}); });
      CheckKernel(k, RandomInputs(*k, {131}, 3), {131}, 4);
    }
  }
  for (DType t : {DType::kF16, DType::kBF16}) {
    const KernelPtr k = Flat({t, t}, t, kN, [&](const Exprs& x) {
      return Expr::Cast(t, Expr::Call(CallOp::kExp, {Expr::Cast(DType::kF32, x[0])}) *
                               Expr::Cast(DType::kF32, x[1]));
    });
    CheckKernel(k, RandomInputs(*k, {131}, 4), {131}, 1);
  }
}

/// `count` doubles, of which one in `every` is huge (0: none).
Bytes SomeHuge(int64_t count, int every) {
  std::mt19937_64 rng(11);
  std::uniform_real_distribution<double> small(-9, 9), exponent(51, 1023);
  Bytes b(size_t(count) * 8);
  for (int64_t i = 0; i < count; ++i) {
    const bool huge = every != 0 && rng() % uint64_t(every) == 0;
    const double v = huge ? std::copysign(std::exp2(exponent(rng)), small(rng)) : small(rng);
    std::memcpy(&b[size_t(i) * 8], &v, 8);
  }
  return b;
}

TEST_CASE("sines of huge numbers, in some lanes, in all, in none") {
  const DType t = DType::kF64;
  const auto call = [](CallOp op, const Expr& x) { return Expr::Call(op, {x}); };
  for (CallOp op : {CallOp::kSin, CallOp::kCos, CallOp::kTan}) {
    const KernelPtr k = Flat({t}, t, kN, [&](const Exprs& x) { return call(op, x[0]); });
    for (int64_t n : {1, 7, 131})
      for (int every : {0, 1, 40}) CheckKernel(k, {SomeHuge(n, every)}, {n}, 4);
  }
  // Two of one number, one of what another gave (a multiple that nothing rounds),
  // one of the position.
  const KernelPtr several = Flat({t}, t, kN, [&](const Exprs& x) {
    const Expr sin = call(CallOp::kSin, x[0]), cos = call(CallOp::kCos, x[0]);
    const Expr sign = Expr::Select(Lt(sin, cos), Expr::Const(t, 0x1p900), Expr::Const(t, 3));
    const Expr position = Expr::Cast(t, I(0)) * 0x1p70;
    return sin * cos + call(CallOp::kCos, sign) + call(CallOp::kSin, position);
  });
  for (int every : {0, 1, 40}) CheckKernel(several, {SomeHuge(131, every)}, {131}, 8);
}

TEST_CASE("sines of huge numbers in reductions, and of what a row gives") {
  const DType t = DType::kF64;
  const auto at = [&](const Expr& r) {
    return Expr::Call(CallOp::kSin, {Expr::Load(0, t, {I(0), r})});
  };
  const Expr most = Expr::Reduce(ReduceOp::kMax, {77}, [&](const Indices& r) {
    return Expr::Load(0, t, {I(0), r[0]});
  });
  const Expr sum = Expr::Reduce(ReduceOp::kSum, {77}, [&](const Indices& r) { return at(r[0]); });
  const KernelPtr row =
      Lower({{t, {9, 77}}}, {{t, {9, 77}}}, {at(I(1)) + sum + Expr::Call(CallOp::kCos, {most})});
  const KernelPtr total = Lower({{t, {9, 77}}}, {{t, {9}}}, {sum});
  for (int every : {0, 1, 40})
    for (const KernelPtr& k : {row, total}) CheckKernel(k, {SomeHuge(9 * 77, every)}, {}, 200);
}

TEST_CASE("Philox, bit casts, selects and several outputs") {
  auto k = std::make_shared<Kernel>();
  k->buffers = {{DType::kF32, false, kN},
                {DType::kU32, true, kN},
                {DType::kBool, true, kN},
                {DType::kI32, true, kN},
                {DType::kF32, true, kN}};
  k->num_inputs = 1;
  k->dims = {kN};
  k->num_outer = 1;
  k->vector_loop = 0;
  k->num_symbols = 1;
  const Expr x = Expr::Load(0, DType::kF32, {I(0)});
  const Expr seed = Expr::ConstInt(DType::kU64, 0x123456789abcdefLL);
  k->stores = {
      {1, I(0), Expr::Philox(seed, Expr::Cast(DType::kU64, I(0)))},
      {2, I(0),
       Expr::Binary(BinOp::kAnd, Lt(x, Expr::Const(DType::kF32, 1)),
                    Not(Lt(x, Expr::Const(DType::kF32, 0))))},
      {3, I(0), Expr::Bitcast(DType::kI32, x)},
      {4, I(0),
       Expr::Select(Lt(x, Expr::Const(DType::kF32, 0)), x * 2.0, Expr::Cast(DType::kF32, I(0)))}};
  k->Finish();
  CheckKernel(k, RandomInputs(*k, {500}, 5), {500});
}

TEST_CASE("broadcast, transposed, strided, reversed, guarded and gathered reads") {
  const SymInt h = SymInt::Symbol("h"), w = SymInt::Symbol("w");
  const auto L = [](int b, Indices at, Expr guard = {}) {
    return Expr::Load(b, DType::kF32, std::move(at), std::move(guard));
  };
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{5, 3}, {37, 19}, {4, 130}, {70, 45}}) {
    const KernelPtr bias =
        Lower({{DType::kF32, {rows, columns}}, {DType::kF32, {columns}}, {DType::kF32, {rows, 1}}},
              {{DType::kF32, {rows, columns}}},
              {L(0, {I(0), I(1)}) + L(1, {I(1)}) * L(2, {I(0), Expr::Int(0)})});
    CheckKernel(bias, RandomInputs(*bias, {}, 6));
    const KernelPtr transposed = Lower({{DType::kF32, {columns, rows}}},
                                       {{DType::kF32, {rows, columns}}}, {L(0, {I(1), I(0)})});
    CheckKernel(transposed, RandomInputs(*transposed, {}, 7));
    const KernelPtr strided =
        Lower({{DType::kF32, {rows, columns * 3}}}, {{DType::kF32, {rows, columns}}},
              {L(0, {I(0), I(1) * Expr::Int(3) + Expr::Int(1)})});
    CheckKernel(strided, RandomInputs(*strided, {}, 8));
    const KernelPtr reversed =
        Lower({{DType::kF32, {rows, columns}}}, {{DType::kF32, {rows, columns}}},
              {L(0, {I(0), Expr::Int(columns - 1) - I(1)})});
    CheckKernel(reversed, RandomInputs(*reversed, {}, 9));
    // Zero padding by 2 on both sides of the last axis.
    const Expr inside = And(Le(Expr::Int(2), I(1)), Lt(I(1), Expr::Int(columns + 2)));
    for (DType t : {DType::kF32, DType::kU8, DType::kBF16, DType::kF64}) {
      const KernelPtr padded = Lower({{t, {rows, columns}}}, {{t, {rows, columns + 4}}},
                                     {Expr::Load(0, t, {I(0), I(1) - Expr::Int(2)}, inside)});
      CheckKernel(padded, RandomInputs(*padded, {}, 10));
      const KernelPtr spread =
          Lower({{t, {rows * 2, columns * 2}}}, {{t, {rows, columns + 4}}},
                {Expr::Load(0, t, {I(0), (I(1) - Expr::Int(2)) * Expr::Int(2)}, inside)});
      CheckKernel(spread, RandomInputs(*spread, {}, 11));
      // Rows chosen by an index tensor; columns by a floor division.
      const Expr row = Expr::Cast(DType::kI64, Expr::Load(1, DType::kI32, {I(0)}));
      const KernelPtr gathered =
          Lower({{t, {8, columns}}, {DType::kI32, {rows}}}, {{t, {rows, columns}}},
                {Expr::Load(0, t, {row, Expr::Binary(BinOp::kFloorDiv, I(1), Expr::Int(3))})});
      std::mt19937 rng(12);
      CheckKernel(gathered,
                  {RandomInput(t, 8 * columns, rng), RandomInput(DType::kI32, rows, rng, 0, 7.5)});
      const Expr column = Expr::Cast(DType::kI64, Expr::Load(1, DType::kI32, {I(1)}));
      const KernelPtr taken = Lower({{t, {rows, 8}}, {DType::kI32, {columns}}},
                                    {{t, {rows, columns}}}, {Expr::Load(0, t, {I(0), column})});
      CheckKernel(taken,
                  {RandomInput(t, 8 * rows, rng), RandomInput(DType::kI32, columns, rng, 0, 7.5)});
    }
  }
  ComputeSpec spec;
  spec.inputs = {{DType::kF32, {h, w}}, {DType::kF32, {w}}};
  spec.outputs = {{DType::kF32, {h, w}}};
  spec.values = {L(0, {I(0), I(1)}) + L(1, {I(1)})};
  const KernelPtr channels_last = Lower({{DType::kF32, {3, 33, 50}}}, {{DType::kF32, {3, 50, 33}}},
                                        {L(0, {I(0), I(2), I(1)}) + 1.0});
  CheckKernel(channels_last, RandomInputs(*channels_last, {}, 15));
  const LoweredKernel symbolic = LowerKernel(spec, Facts());
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 70}, {50, 5}}) {
    std::vector<int64_t> symbols;
    for (SymInt s : symbolic.symbols) symbols.push_back(Evaluate(s, {{"h", rows}, {"w", columns}}));
    CheckKernel(symbolic.kernel, RandomInputs(*symbolic.kernel, symbols, 13), symbols);
  }
}

Bytes Int32s(const std::vector<int32_t>& v) {
  Bytes b(v.size() * 4);
  std::memcpy(b.data(), v.data(), b.size());
  return b;
}

TEST_CASE("quotients of what is not read, in lanes and in places that are not kept") {
  // Pad(AveragePool(x)) and Pad(a / b): zero by zero where a constant takes the place.
  for (const int64_t row : {2, 3, 4, 8, 17})
    for (const DType t : {DType::kF32, DType::kF64}) {
      CAPTURE(row);
      const Expr inside = Lt(I(1), Expr::ConstInt(DType::kI64, row - 1)),
                 at = I(0) * Expr::ConstInt(DType::kI64, row - 1) + I(1);
      const Expr a = Expr::Load(0, t, {at}, inside), b = Expr::Load(1, t, {at}, inside),
                 count = Expr::Cast(t, Expr::ConstInt(DType::kI64, row - 1) - I(1)),
                 zero = Expr::Const(t, 0);
      const SymInt given = 5 * (row - 1);
      const KernelPtr k =
          Lower({{t, {given}}, {t, {given}}}, {{t, {5, row}}, {t, {5, row}}},
                {Expr::Select(inside, a / count, zero), Expr::Select(inside, a / b, zero)});
      std::mt19937 rng(7);
      CheckKernel(k, {RandomInput(t, 5 * (row - 1), rng), RandomInput(t, 5 * (row - 1), rng)});
    }
}

TEST_CASE("indices out of tensors: memory is safe, and the flag is raised where one is outside") {
  std::mt19937 rng(5);
  const auto index = [](const Expr& at) {
    return Expr::Cast(DType::kI64, Expr::Load(1, DType::kI32, {at}));
  };
  for (const int64_t columns : {1, 3, 70}) {
    for (const int64_t rows : {1, 37}) {
      const KernelPtr by_row = Lower({{DType::kF32, {8, columns}}, {DType::kI32, {rows}}},
                                     {{DType::kF32, {rows, columns}}},
                                     {Expr::Load(0, DType::kF32, {index(I(0)), I(1)})});
      const KernelPtr by_lane = Lower({{DType::kF32, {rows, 8}}, {DType::kI32, {columns}}},
                                      {{DType::kF32, {rows, columns}}},
                                      {Expr::Load(0, DType::kF32, {I(0), index(I(1))})});
      for (const bool lanes : {false, true}) {
        const KernelPtr& k = lanes ? by_lane : by_row;
        const size_t n = size_t(lanes ? columns : rows);
        const Bytes data = RandomInput(DType::kF32, 8 * (lanes ? rows : columns), rng);
        std::vector<int32_t> good(n);
        for (size_t i = 0; i < n; ++i) good[i] = int32_t(i * 5 % 8);
        CheckKernel(k, {data, Int32s(good)});
        CHECK(!RunFlag(k, {data, Int32s(good)}));
        for (const int32_t bad : {8, -1, INT32_MAX, INT32_MIN}) {
          for (const size_t where : {size_t(0), n / 2, n - 1}) {
            std::vector<int32_t> wrong = good;
            wrong[where] = bad;
            CheckKernel(k, {data, Int32s(wrong)});
            CHECK(RunFlag(k, {data, Int32s(wrong)}));
          }
        }
      }
    }
  }
}

TEST_CASE("rows are checked some hundreds at a time: every place raises the flag") {
  constexpr int64_t kRows = 1300;
  std::mt19937 rng(9);
  for (const int64_t columns : {4, 5, 90}) {
    const Expr row = Expr::Cast(DType::kI64, Expr::Load(1, DType::kI32, {I(0)}));
    const KernelPtr k =
        Lower({{DType::kF32, {8, columns}}, {DType::kI32, {kRows}}},
              {{DType::kF32, {kRows, columns}}}, {Expr::Load(0, DType::kF32, {row, I(1)})});
    const Bytes data = RandomInput(DType::kF32, 8 * columns, rng);
    std::vector<int32_t> index(kRows);
    for (size_t i = 0; i < index.size(); ++i) index[i] = int32_t(i * 3 % 8);
    CheckKernel(k, {data, Int32s(index)});
    CHECK(!RunFlag(k, {data, Int32s(index)}));
    for (const size_t where : {0, 1, 510, 511, 512, 513, 1023, 1024, 1298, 1299}) {
      std::vector<int32_t> wrong = index;
      wrong[where] = 8;
      CAPTURE(columns);
      CAPTURE(where);
      CHECK(RunFlag(k, {data, Int32s(wrong)}));
    }
  }
}

TEST_CASE("what is guarded away is not outside; nothing is read of an empty axis") {
  const Expr taken = Ne(Expr::Load(2, DType::kI32, {I(0)}), Expr::ConstInt(DType::kI32, 0));
  const Expr at = Expr::Cast(DType::kI64, Expr::Load(1, DType::kI32, {I(0)}));
  const KernelPtr guarded = Lower({{DType::kF32, {8}}, {DType::kI32, {40}}, {DType::kI32, {40}}},
                                  {{DType::kF32, {40}}}, {Expr::Load(0, DType::kF32, {at}, taken)});
  std::mt19937 rng(6);
  const Bytes data = RandomInput(DType::kF32, 8, rng);
  std::vector<int32_t> index(40, 3), use(40, 1);
  index[17] = 99;
  CHECK(RunFlag(guarded, {data, Int32s(index), Int32s(use)}));
  use[17] = 0;
  CHECK(!RunFlag(guarded, {data, Int32s(index), Int32s(use)}));
  CheckKernel(guarded, {data, Int32s(index), Int32s(use)});

  ComputeSpec spec;
  spec.inputs = {{DType::kF32, {SymInt::Symbol("n")}}, {DType::kI32, {5}}};
  spec.outputs = {{DType::kF32, {5}}};
  spec.values = {Expr::Load(0, DType::kF32, {at})};
  const KernelPtr any = LowerKernel(spec, Facts()).kernel;
  CHECK(!RunFlag(any, {data, Int32s({0, 7, 1, 2, 3})}, {8}));
  CHECK(RunFlag(any, {data, Int32s({0, 7, 1, 2, 3})}, {7}));
  CHECK(RunFlag(any, {Bytes(), Int32s({0, 0, 0, 0, 0})}, {0}));
  CheckKernel(any, {Bytes(), Int32s({0, 0, 0, 0, 0})}, {0});
}

TEST_CASE("places and weights of a grid that all channels share, inside and outside of the image") {
  // y[c, p] = x[c, i] (1 - f) + x[c, i + 1] f, where i + f = 12 g[p]; what lies outside counts 0.
  const SymInt channels = SymInt::Symbol("c"), many = SymInt::Symbol("p");
  constexpr int64_t kExtent = 40;
  for (const DType t : {DType::kF32, DType::kF64, DType::kI8}) {
    for (const SymInt points : {SymInt(77), many}) {
      for (const SymInt rows : {SymInt(21), channels}) {
        const Expr at = Expr::Load(1, DType::kF32, {I(1)}) * 12.0;
        const Expr floor = Expr::Unary(UnOp::kFloor, at), f = at - floor;
        const auto tap = [&](const Expr& position, const Expr& weight) {
          const Expr i = Expr::Cast(DType::kI64, position);
          const Expr inside = And(Le(Expr::Int(0), i), Lt(i, Expr::Int(kExtent)));
          const Expr x = Expr::Load(0, t, {I(0), i}, inside);
          return Expr::Cast(DType::kF32, x) * weight;
        };
        const Expr one = Expr::Const(DType::kF32, 1);
        const Expr y = tap(floor, one - f) + tap(floor + 1.0, f);
        const LoweredKernel k = LowerKernel(
            {{{t, {rows, kExtent}}, {DType::kF32, {points}}}, {{DType::kF32, {rows, points}}}, {y}},
            Facts());
        std::vector<int64_t> dims;
        for (const SymInt s : k.symbols) dims.push_back(s == many ? 77 : 21);
        CheckKernel(k.kernel, RandomInputs(*k.kernel, dims, 9), dims);
      }
    }
  }
}

TEST_CASE("a contraction over gathered elements raises the flag of what it reads") {
  const KernelPtr k =
      Lower({{DType::kF32, {6, 8}}, {DType::kI32, {3, 4}}}, {{DType::kF32, {6, 3}}},
            {Expr::Reduce(ReduceOp::kSum, {4}, [](const Indices& r) {
              const Expr at = Expr::Cast(DType::kI64, Expr::Load(1, DType::kI32, {I(1), r[0]}));
              return Expr::Load(0, DType::kF32, {I(0), at});
            })});
  std::mt19937 rng(8);
  const Bytes data = RandomInput(DType::kF32, 48, rng);
  std::vector<int32_t> index{0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6};
  CheckKernel(k, {data, Int32s(index)}, {}, 4);
  CHECK(!RunFlag(k, {data, Int32s(index)}));
  index[11] = 8;
  CHECK(RunFlag(k, {data, Int32s(index)}));
  CheckKernel(k, {data, Int32s(index)}, {}, 4);
}

TEST_CASE("stores that scatter, and a kernel of one point") {
  auto k = std::make_shared<Kernel>();
  k->buffers = {{DType::kI16, false, 50}, {DType::kI16, true, 150}};
  k->num_inputs = 1;
  k->dims = {50};
  k->num_outer = 1;
  k->vector_loop = 0;
  k->stores = {{1, I(0) * Expr::Int(3), Expr::Load(0, DType::kI16, {I(0)})}};
  k->Finish();
  for (int c = 0; c < kNumCompilers; ++c) {
    const CpuKernel code = LoadCpuKernel(*k, CompileOne(Compiler(c), k));
    std::vector<int16_t> in(50), out(150, -1);
    for (int i = 0; i < 50; ++i) in[size_t(i)] = int16_t(i * 7);
    void* buffers[] = {in.data(), out.data()};
    code.fn(buffers, nullptr, 3, 41, nullptr);
    for (int i = 0; i < 150; ++i)
      CHECK(out[size_t(i)] == (i % 3 == 0 && i >= 9 && i < 123 ? i / 3 * 7 : -1));
  }
  const KernelPtr point =
      Lower({{DType::kF32, {}}}, {{DType::kF32, {}}}, {Expr::Load(0, DType::kF32, {}) + 1.0});
  CheckKernel(point, RandomInputs(*point, {}, 14));
}

TEST_CASE("reductions inside a point: windows and contractions") {
  const auto L = [](int b, Indices at, Expr guard = {}) {
    return Expr::Load(b, DType::kF32, std::move(at), std::move(guard));
  };
  const int64_t m = 9, n = 37, d = 21;
  const KernelPtr product =
      Lower({{DType::kF32, {m, d}}, {DType::kF32, {d, n}}}, {{DType::kF32, {m, n}}},
            {Expr::Reduce(ReduceOp::kSum, {SymInt(d)}, [&](const Indices& r) {
              return L(0, {I(0), r[0]}) * L(1, {r[0], I(1)});
            })});
  CheckKernel(product, RandomInputs(*product, {}, 20), {}, 100);
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum, ReduceOp::kProd,
                      ReduceOp::kArgMax, ReduceOp::kArgMin}) {
    for (int64_t window : {2, 5}) {
      const DType out =
          op == ReduceOp::kArgMax || op == ReduceOp::kArgMin ? DType::kI64 : DType::kF32;
      const KernelPtr pool =
          Lower({{DType::kF32, {3, 20 + window, 40 + window}}}, {{out, {3, 20, 20}}},
                {Expr::Reduce(op, {SymInt(window), SymInt(window)}, [&](const Indices& r) {
                  return L(0, {I(0), I(1) + r[0], I(2) * Expr::Int(2) + r[1]});
                })});
      CheckKernel(pool, RandomInputs(*pool, {}, 21), {}, 100);
    }
  }
}

}  // namespace
}  // namespace weft::llvmgen
