// The expansions against libm: double for f32, long double for f64. Sampled here;
// math_exhaustive_test.cc is the rest.
#include "weft/codegen/expr/math.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cstdlib>
#include <limits>
#include <random>

#include "math_eval.h"
#include "weft/codegen/lower/lower.h"

using namespace weft;
using math_eval::kBlock;
using math_eval::Program;

namespace {

Expr CallOf(CallOp op, DType t) {
  Exprs args = {Expr::Variable("x", t)};
  if (op == CallOp::kPow) args.push_back(Expr::Variable("y", t));
  return Expr::Call(op, args);
}

/// The interval in which most of a function happens.
void Interesting(CallOp op, double* low, double* high) {
  *low = -10, *high = 10;
  switch (op) {
    case CallOp::kAsin:
    case CallOp::kAcos:
    case CallOp::kAtanh:
      *low = -1, *high = 1;
      break;
    case CallOp::kExp:
    case CallOp::kSinh:
    case CallOp::kCosh:
    case CallOp::kExpm1:
      *low = -90, *high = 90;
      break;
    case CallOp::kSigmoid:
      *low = -90, *high = 30;
      break;
    case CallOp::kAcosh:
      *low = 1;
      break;
    case CallOp::kLog:
    case CallOp::kRsqrt:
      *low = 0;
      break;
    case CallOp::kLog1p:
      *low = -1;
      break;
    case CallOp::kPow:
      *low = 0, *high = 4;
      break;
    default:
      break;
  }
}

template <class T>
struct Bits;
template <>
struct Bits<float> {
  using type = uint32_t;
  using wide = double;
  static constexpr DType kType = DType::kF32;
};
template <>
struct Bits<double> {
  using type = uint64_t;
  using wide = long double;
  static constexpr DType kType = DType::kF64;
};

template <class T>
struct Worst {
  double ulp = 0;
  T x = 0, y = 0, got = 0;
};

template <class T>
class Sampler {
 public:
  explicit Sampler(const MathFunction& f)
      : f_(f), program_(ExpandMath(CallOf(f.op, Bits<T>::kType))) {}
  int operations() const { return program_.operations(); }
  T One(T x, T y = 0) {
    Fill(x, y);
    program_.Run(x_, y_, out_);
    return out_[0];
  }
  Worst<T> Sample(int blocks) {
    double low, high;
    Interesting(f_.op, &low, &high);
    const bool f64 = sizeof(T) == 8;
    if (f64 && (f_.op == CallOp::kExp || f_.op == CallOp::kSinh || f_.op == CallOp::kCosh))
      low *= 7.9, high *= 7.9;
    std::uniform_real_distribution<double> in(low, high), near_zero(-50, 5), exponent(-8, 8);
    for (int b = 0; b < blocks; ++b) {
      for (int i = 0; i < kBlock; ++i) {
        switch (b % 3) {
          case 0:
            x_[i] = AnyBits();
            y_[i] = AnyBits();
            break;  // every magnitude
          case 1:
            x_[i] = T(in(random_));
            y_[i] = T(in(random_)*exponent(random_));
            break;  // where it bends
          default:  // towards 0, and towards 1 for pow
            x_[i] = T(std::copysign(std::exp2(near_zero(random_) * (f64 ? 1 : 0.5)),
                                    int64_t(random_()) < 0 ? -1.0 : 1.0));
            y_[i] = f_.op == CallOp::kPow ? T(in(random_)*100) : T(0);
            if (f_.op == CallOp::kPow)
              x_[i] = i % 2 ? T(1) + x_[i] : T(int(random_() % 64) - 32),
              y_[i] = i % 4 ? y_[i] : std::round(y_[i] / 16);
        }
      }
      program_.Run(x_, y_, out_);
      for (int i = 0; i < kBlock; ++i) Check(i);
    }
    return worst_;
  }

 private:
  using W = typename Bits<T>::wide;
  T AnyBits() {
    const auto bits = typename Bits<T>::type(random_());
    T v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
  }
  void Fill(T x, T y) {
    std::fill(x_, x_ + kBlock, x);
    std::fill(y_, y_ + kBlock, y);
  }
  void Check(int i) {
    const W exact = math_eval::Reference<W>(f_.op, W(x_[i]), W(y_[i]));
    const double ulp =
        math_eval::UlpError<T, W>(out_[i], exact, math_eval::Flushes(f_.op, sizeof(T) == 4));
    if (ulp > worst_.ulp) worst_ = {ulp, x_[i], y_[i], out_[i]};
  }

  const MathFunction& f_;
  Program program_;
  std::mt19937_64 random_{20240917};
  T x_[kBlock], y_[kBlock], out_[kBlock];
  Worst<T> worst_;
};

const MathFunction& Function(CallOp op) { return MathFunctions()[size_t(op)]; }

template <class T>
void CheckBounds(int blocks, double MathFunction::*bound) {
  for (const MathFunction& f : MathFunctions()) {
    Sampler<T> sampler(f);
    const Worst<T> w = sampler.Sample(blocks);
    INFO(f.name, ": x = ", w.x, ", y = ", w.y, ", got ", w.got);
    CHECK(w.ulp <= f.*bound);
    if (std::getenv("WEFT_MATH_REPORT"))
      std::printf("%s %-8s %3d operations, %.3f ulp (stated %.1f) at %.17g %.17g -> %.17g\n",
                  DTypeName(Bits<T>::kType).data(), f.name, sampler.operations(), w.ulp, f.*bound,
                  double(w.x), double(w.y), double(w.got));
  }
}

/// Every function at every special argument agrees with libm: NaN, infinity, sign of zero, and the
/// ulp bound.
template <class T>
void CheckSpecialValues(double MathFunction::*bound) {
  using W = typename Bits<T>::wide;
  using L = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           T(0.5),
                           1,
                           T(1.5),
                           2,
                           3,
                           T(1) + L::epsilon(),
                           T(1) - L::epsilon() / 2,
                           T(1e-3),
                           10,
                           100,
                           T(0x1p20) + 1,
                           T(0x1p24) - 1,
                           L::denorm_min(),
                           L::min(),
                           L::min() - L::denorm_min(),
                           L::min() * 3,
                           L::max(),
                           L::infinity(),
                           L::quiet_NaN()};
  for (size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  for (const MathFunction& f : MathFunctions()) {
    Sampler<T> sampler(f);
    for (T x : values) {
      for (T y : f.op == CallOp::kPow ? values : std::vector<T>{0}) {
        const W exact = math_eval::Reference<W>(f.op, W(x), W(y));
        const T got = sampler.One(x, y);
        INFO(f.name, "(", x, ", ", y, ") = ", got, ", exact ", double(exact));
        CHECK(math_eval::UlpError<T, W>(got, exact, math_eval::Flushes(f.op, sizeof(T) == 4)) <=
              f.*bound);
      }
    }
  }
}

}  // namespace

TEST_CASE("math: the table has every function in the order of CallOp") {
  REQUIRE(MathFunctions().size() == size_t(CallOp::kPow) + 1);
  for (size_t i = 0; i < MathFunctions().size(); ++i) CHECK(size_t(MathFunctions()[i].op) == i);
}

TEST_CASE("math: f32 functions keep their bounds") {
  CheckBounds<float>(2000, &MathFunction::f32_ulp);
}
TEST_CASE("math: f64 functions keep their bounds") {
  CheckBounds<double>(300, &MathFunction::f64_ulp);
}
TEST_CASE("math: f32 special values") { CheckSpecialValues<float>(&MathFunction::f32_ulp); }
TEST_CASE("math: f64 special values") { CheckSpecialValues<double>(&MathFunction::f64_ulp); }

TEST_CASE("math: circular functions of doubles of any size") {
  // Nearest doubles of the exact values, computed in 1200 bits.
  struct Row {
    double x, sin, cos;
  };
  const Row rows[] = {
      {0x1.0f0cf064dd592p+73, -0.8522008497671888, 0.523214785395139},
      {0x1.0000000000001p+50, 0.6957351135054769, 0.7182984420389071},
      {0x1p+51, 0.8618395638813006, 0.5071809993768396},
      {0x1.249ad2594c37dp+332, -0.3806377310050287, 0.9247242387519338},
      {0x1.fffffffffffffp+1023, 0.004961954789184062, -0.9999876894265599},
      {0x1.6ac5b262ca1ffp+849, 1.0, -4.687165924254628e-19},
      {0x1.6ac5b262ca1ffp+849, 1.0, -4.687165924254628e-19},
      {0x1p+1023, 0.563127779850884, -0.826369834614148},
      {0x1.b69b4ba630f35p+56, 0.4592114411816471, 0.8883269962620041},
  };
  Sampler<double> sin(Function(CallOp::kSin)), cos(Function(CallOp::kCos)),
      tan(Function(CallOp::kTan));
  const auto ulps = [](double got, double want) {
    return math_eval::UlpError<double, long double>(got, want, false);
  };
  for (const Row& r : rows) {
    CAPTURE(r.x);
    CHECK(ulps(sin.One(r.x), r.sin) <= 2);
    CHECK(sin.One(-r.x) == -sin.One(r.x));
    CHECK(ulps(cos.One(r.x), r.cos) <= 2);
    CHECK(cos.One(-r.x) == cos.One(r.x));
    CHECK(ulps(tan.One(r.x), double((long double)r.sin / r.cos)) <= 4);
    CHECK(tan.One(-r.x) == -tan.One(r.x));
  }
  for (const double x : {double(INFINITY), -double(INFINITY), double(NAN)})
    for (Sampler<double>* f : {&sin, &cos, &tan}) CHECK(std::isnan(f->One(x)));
}

TEST_CASE("math: an odd function is odd and saturates exactly") {
  for (CallOp op : {CallOp::kTanh, CallOp::kErf}) {
    Sampler<float> f(Function(op));
    CHECK(f.One(9.5f) == 1);
    CHECK(f.One(-9.5f) == -1);
    CHECK(f.One(1e30f) == 1);
    Sampler<double> d(Function(op));
    CHECK(d.One(25) == 1);
    CHECK(d.One(-1e300) == -1);
  }
  Sampler<float> sigmoid(Function(CallOp::kSigmoid));
  CHECK(sigmoid.One(0) == 0.5f);
  CHECK(sigmoid.One(100) == 1);
  CHECK(sigmoid.One(-200) == 0);
}

TEST_CASE("math: integer powers of small integers are exact") {
  Sampler<float> f(Function(CallOp::kPow));
  Sampler<double> d(Function(CallOp::kPow));
  for (int x = -9; x <= 9; ++x) {
    double power = 1;
    for (int y = 0; y <= 7; ++y, power *= x) {
      CHECK(f.One(float(x), float(y)) == float(power));
      CHECK(d.One(x, y) == power);
    }
  }
  CHECK(f.One(-2, 3) == -8);
  CHECK(std::isnan(f.One(-2, 0.5f)));
}

TEST_CASE("math: calls are replaced everywhere, and nothing else changes") {
  const Expr x = Expr::Load(0, DType::kF32, {Expr::Index(0)});
  const Expr plain = x * x + Expr::Const(DType::kF32, 2);
  CHECK(ExpandMath(plain) == plain);

  // A reduction keeps its variable: sum_k exp(x[k]) with the call expanded by hand is the same
  // node.
  const auto sum = [](const std::function<Expr(const Expr&)>& f) {
    return Expr::Reduce(ReduceOp::kSum, {SymInt::Symbol("n")},
                        [&](const Indices& k) { return f(Expr::Load(0, DType::kF32, {k[0]})); });
  };
  const Expr before = sum([](const Expr& v) { return Expr::Call(CallOp::kExp, {v}); });
  const Expr after = sum([](const Expr& v) { return ExpandMath(Expr::Call(CallOp::kExp, {v})); });
  CHECK(ExpandMath(before) == after);

  // Calls of calls, shared: linear, not exponential.
  Expr nest = Expr::Variable("x");
  for (int i = 0; i < 20; ++i) nest = Expr::Call(CallOp::kTanh, {nest}) + nest;
  const Expr expanded = ExpandMath(nest);
  const auto order = PostOrder({expanded});
  CHECK(order.size() < 20 * 60);
  CHECK(std::none_of(order.begin(), order.end(),
                     [](const ExprNode* n) { return n->kind() == ExprKind::kCall; }));
}
