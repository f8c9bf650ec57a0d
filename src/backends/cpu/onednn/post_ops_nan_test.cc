/// post_ops_nan_test.cc: NaN, infinities, zeros of both signs, subnormal and extreme numbers
/// through every epilogue, and flags that others left behind.
///
/// Every result has at most one special operand, with weights of 1 and 0 elsewhere, so that it is a
/// function of that one number, whatever the order of the sums: nothing is left to reassociation,
/// and the comparison is strict.
#include <doctest/doctest.h>

#include <cfenv>
#include <limits>

#include "epilogue_test_util.h"
#include "keep_nan.h"

namespace weft::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInf = std::numeric_limits<float>::infinity();
const std::vector<float> kSpecials{kNan,      1,      -1,      kInf,   -kInf,    0,
                                   -0.f,      1e-40f, -1e-40f, 1e-45f, 1.2e-38f, 2.5f,
                                   -1.2e-38f, 3e38f,  -3e38f,  -kNan,  0.1f,     1e30f};

std::shared_ptr<Tensor> Filled(const Ns& dims, float value) {
  auto t = std::make_shared<Tensor>(DType::kF32, dims);
  std::fill_n(t->mutable_data_as<float>(), t->num_elements(), value);
  return t;
}
std::shared_ptr<Tensor> Cycle(const Ns& dims, const std::vector<float>& values) {
  auto t = std::make_shared<Tensor>(DType::kF32, dims);
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->mutable_data_as<float>()[i] = values[size_t(i) % values.size()];
  return t;
}

/// The worst difference relative to max(1, |want|). NaN is as good as NaN and nothing else, an
/// infinity as its like.
double Worst(const Tensor& got, const std::vector<double>& want) {
  REQUIRE(got.num_elements() == int64_t(want.size()));
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = got.data_as<float>()[i], w = double(float(want[i]));
    if (std::isnan(g) && std::isnan(w)) continue;
    if (g == w) continue;
    const double d = std::abs(g - w) / std::max(1.0, std::abs(w));
    if (!(d <= worst)) worst = std::isnan(d) ? INFINITY : d;
  }
  return worst;
}

/// Runs a call with the last operand aside and, where it may be, in the place of the result; first
/// when everything was quiet, then with the flag set already.
void Check(const Case& c, const std::vector<double>& want, Layout layout, bool in_place) {
  const auto call = c.Make();
  REQUIRE(call != nullptr);
  CAPTURE(call->description());
  for (int round = 0; round < 2; ++round) {
    if (round == 1) std::feraiseexcept(FE_INVALID);
    CHECK(Worst(*Plainly(*c.Run(*call), layout), want) < 1e-5);
    if (round == 1) CHECK(std::fetestexcept(FE_INVALID));
    std::feclearexcept(FE_ALL_EXCEPT);
    if (!in_place) continue;
    CHECK(Worst(*Plainly(*RunInPlace(c, *call), layout), want) < 1e-5);
  }
}

Step SpecialAddend(const Ns& dims, const std::vector<float>& values) {
  return {
      "Add", {}, {}, Cycle(dims, values), [](double x, double r) { return double(float(x + r)); }};
}

/// Each activation alone and with a factor and an offset behind it; with an addend of zeros, and
/// one that is special where the sums are zeros.
struct Chains {
  std::vector<std::vector<Step>> of_sums, of_addend;
};
Chains MakeChains(const Ns& y) {
  Chains all;
  const Step zeros = SpecialAddend(y, {0}), special = SpecialAddend(y, kSpecials);
  all.of_sums = {{}, {zeros}};
  all.of_addend = {{special}};
  for (const Step& a : Activations()) {
    all.of_sums.push_back({a});
    all.of_sums.push_back({zeros, a});
    all.of_addend.push_back({special, a});
    if (a.op != "Relu" && a.op != "Clip" && a.op != "HardSigmoid") continue;
    for (const std::vector<Step>& tail : Affine()) {
      all.of_sums.push_back({a});
      all.of_sums.back().insert(all.of_sums.back().end(), tail.begin(), tail.end());
      all.of_addend.push_back({special, a});
      all.of_addend.back().insert(all.of_addend.back().end(), tail.begin(), tail.end());
    }
  }
  return all;
}
bool Bounds(const std::vector<Step>& chain) {
  return std::any_of(chain.begin(), chain.end(), [](const Step& s) {
    return s.op == "Relu" || s.op == "Clip" || s.op == "HardSigmoid" || s.op == "Sigmoid";
  });
}
bool HasAddend(const std::vector<Step>& chain) { return !chain.empty() && chain[0].operand; }

TEST_CASE("specials through the epilogues of convolutions") {
  // Filters that read one channel, the middle of the window; 1 x 1, windows, depthwise,
  // odd channels, one axis.
  const std::vector<ConvSetup> setups{
      MakeSetup({2, 32, 7, 9}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 16, 8, 8}, {32, 16, 1, 1}),
      MakeSetup({1, 16, 9, 9}, {16, 1, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, 16),
      MakeSetup({2, 3, 9, 9}, {7, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({2, 6, 11}, {8, 3, 3}, {}, {}, {1}, {1}, 2),
  };
  int number = 0;
  for (const ConvSetup& s : setups) {
    CAPTURE(number);
    ++number;
    // Without other channels: a zero times an infinity is NaN.
    const auto zeros = Filled(s.x, 0), w = RandomTensor(s.w, 2), b = Cycle({s.w[0]}, kSpecials);
    const int64_t plane = CheckedProduct(s.out()) / s.x[0] / s.w[0];
    std::vector<double> of_bias(size_t(CheckedProduct(s.out())));
    for (size_t i = 0; i < of_bias.size(); ++i) of_bias[i] = b->at(int64_t(i) / plane % s.w[0]);
    const std::vector<double> none(of_bias.size(), 0);
    const Chains chains = MakeChains(s.out());
    int turn = 0;
    for (const char* algorithm : {"direct", number % 2 ? "winograd" : "model"}) {
      const ForcedConv forced(algorithm);
      const auto run = [&](const std::vector<Step>& chain, const TensorPtr& bias,
                           const std::vector<double>& sums) {
        const Layout layout = ++turn % 2 ? Layout::kPlain : Layout::kChannelsLast;
        if (algorithm != std::string("direct") && !Bounds(chain)) return;
        CAPTURE(algorithm);
        CAPTURE(chain.empty() ? std::string("none") : chain.back().op);
        Case c("Conv", {zeros, w, bias}, s.attrs(), s.out(), {false, true});
        WithLayouts(&c, {layout}, layout);
        layout_of_operands = layout;
        Add(&c, chain);
        layout_of_operands = Layout::kPlain;
        Check(c, Apply(sums, chain), layout, HasAddend(chain));
      };
      for (const auto& chain : chains.of_sums) run(chain, b, of_bias);
      for (const auto& chain : chains.of_addend) run(chain, Filled({s.w[0]}, 0), none);
    }
  }
}

TEST_CASE("specials in the source of a convolution go where its windows go") {
  for (const ConvSetup& s :
       {MakeSetup({1, 16, 8, 8}, {32, 16, 1, 1}),
        MakeSetup({1, 32, 12, 12}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
        MakeSetup({1, 16, 9, 9}, {16, 1, 3, 3}, {1, 1}, {}, {1, 1}, {1, 1}, 16)})
    for (const float special : {kNan, kInf, -kInf})
      for (const bool addend : {false, true})
        for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
          if (addend == (layout == Layout::kPlain)) continue;
          CAPTURE(special);
          CAPTURE(s.w[0]);
          const ForcedConv forced("direct");
          const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2);
          x->mutable_data_as<float>()[x->num_elements() / 2] = special;
          const std::vector<double> y = ConvOracle(s, *x, *w, nullptr);
          for (const Step& a : Activations()) {
            std::vector<Step> chain;
            if (addend) chain.push_back(Addend(s.out()));
            chain.push_back(a);
            Case c("Conv", {x, w}, s.attrs(), s.out(), {false, true});
            WithLayouts(&c, {layout}, layout);
            layout_of_operands = layout;
            Add(&c, chain);
            layout_of_operands = Layout::kPlain;
            Check(c, Apply(y, chain), layout, addend);
          }
        }
}

TEST_CASE("specials through the epilogues of products") {
  struct Kind {
    const char* op;
    int64_t m, n, k;
    bool constant;
  };
  for (const Kind& e : std::vector<Kind>{{"MatMul", 5, 7, 3, true},
                                         {"MatMul", 96, 72, 64, false},
                                         {"MatMul", 1, 33, 17, true},
                                         {"MatMul", 40, 1, 17, false},
                                         {"Gemm", 64, 48, 16, true},
                                         {"Gemm", 9, 21, 5, false}}) {
    CAPTURE(e.op);
    CAPTURE(e.m);
    const Ns y{e.m, e.n};
    const auto a = Filled({e.m, e.k}, 1), zeros = Filled({e.m, e.k}, 0), b = Filled({e.k, e.n}, 1);
    // One special number a row, and nothing else in it.
    for (int64_t i = 0; i < e.m; ++i)
      for (int64_t j = 0; j < e.k; ++j)
        a->mutable_data_as<float>()[i * e.k + j] =
            j == i % e.k ? kSpecials[size_t(i) % kSpecials.size()] : 0;
    std::vector<double> sums, none(size_t(e.m * e.n), 0);
    for (int64_t i = 0; i < e.m * e.n; ++i)
      sums.push_back(kSpecials[size_t(i / e.n) % kSpecials.size()]);
    const Chains chains = MakeChains(y);
    int turn = 0;
    const auto run = [&](const std::vector<Step>& chain, const TensorPtr& left,
                         const std::vector<double>& of) {
      CAPTURE(chain.empty() ? std::string("none") : chain.back().op);
      {
        Case c(e.op, {left, b}, {}, y, {false, e.constant});
        c.request.threads = 1 + turn++ % 2;
        Add(&c, chain);
        Check(c, Apply(of, chain), Layout::kPlain,
              c.operands.back()->dims() == y && HasAddend(chain));
      }
    };
    for (const auto& chain : chains.of_sums) run(chain, a, sums);
    for (const auto& chain : chains.of_addend) run(chain, zeros, none);
    // A row and a factor before them.
    const Step row{
        "Add", {}, {}, Cycle({e.n}, kSpecials), [](double x, double r) { return x + r; }},
        half{"Mul", {}, {0.5}, nullptr, [](double x, double) { return x * 0.5; }};
    if (e.n > 1)
      for (const Step& s : Activations()) {
        run({row, s}, zeros, none);
        run({row, half, s}, zeros, none);
      }
  }
}

TEST_CASE("infinities of either sign in one sum are NaN behind a bound") {
  Case c("MatMul", {Cycle({32, 64}, {kInf, -kInf}), Filled({64, 32}, 2)}, {}, {32, 32},
         {false, true});
  Add(&c, {Activations()[0]});
  Check(c, std::vector<double>(32 * 32, kNan), Layout::kPlain, false);
}

TEST_CASE("a call whose team comes with flags set gives the same, and again") {
  const ConvSetup s = MakeSetup({1, 32, 14, 14}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1});
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2);
  Case c("Conv", {x, w}, s.attrs(), s.out(), {false, true});
  Add(&c, {Activations()[0]});
  const auto call = c.Make();
  REQUIRE(call != nullptr);
  std::feclearexcept(FE_ALL_EXCEPT);
  const auto want = c.Run(*call);
  // Infinities of either sign in one sum raise the flag, in every thread that makes
  // such sums; nobody looks.
  const Case raiser("MatMul", {Cycle({256, 64}, {kInf, -kInf}), Filled({64, 256}, 1)}, {},
                    {256, 256}, {false, true});
  const auto raises = raiser.Make();
  REQUIRE(raises != nullptr);
  for (int k = 0; k < 3; ++k) {
    raiser.Run(*raises);
    CHECK(c.Run(*call)->Equals(*want));
  }
  std::feclearexcept(FE_ALL_EXCEPT);
}

TEST_CASE("weights below the normal range count where all are so small") {
  const int64_t k = 10;
  for (const float w : {1e-39f, -1e-39f, 1e-44f, 2e-38f})
    for (const bool constant : {false, true}) {
      CAPTURE(w);
      const double sum = double(k) * double(w) * double(1e38f);
      const Case product("MatMul", {Filled({4, k}, 1e38f), Filled({k, 8}, w)}, {}, {4, 8},
                         {false, constant});
      CHECK(Difference(*product.Run(), std::vector<double>(32, sum)) < 1e-5);
      const ConvSetup s = MakeSetup({1, k, 5, 5}, {16, k, 1, 1});
      const Case conv("Conv", {Filled(s.x, 1e38f), Filled(s.w, w)}, s.attrs(), s.out(),
                      {false, constant});
      CHECK(Difference(*conv.Run(), std::vector<double>(size_t(16 * 25), sum)) < 1e-5);
    }
}

TEST_CASE("bounds keep NaN, at every length") {
  for (const int64_t n : {1, 3, 15, 16, 17, 100, 5000, 40000}) {
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = kSpecials[i % kSpecials.size()];
    BoundFloats(v.data(), n, -0.5, 2);
    for (size_t i = 0; i < v.size(); ++i) {
      const float x = kSpecials[i % kSpecials.size()];
      if (std::isnan(x))
        CHECK(std::isnan(v[i]));
      else
        CHECK(v[i] == std::min(std::max(x, -0.5f), 2.f));
    }
  }
}

}  // namespace
}  // namespace weft::cpu
