/// post_ops_test.cc: convolutions and products with epilogues against double precision, and
/// which epilogues are taken.
#include <doctest/doctest.h>

#include "backends/shared/epilogue_test_util.h"
#include "epilogue_test_util.h"

namespace weft::cpu {
namespace {

/// Runs with the result in the place of the last operand as well.
void CheckBoth(const Case& c, const std::vector<double>& want, Layout layout, bool in_place) {
  const auto call = c.Make();
  REQUIRE(call != nullptr);
  CAPTURE(call->description());
  CHECK(Difference(*Plainly(*c.Run(*call), layout), want) < 1e-5);
  if (!in_place) return;
  CHECK(Difference(*Plainly(*RunInPlace(c, *call), layout), want) < 1e-5);
}

std::vector<ConvSetup> ConvSetups() {
  return {
      MakeSetup({2, 32, 7, 9}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 16, 8, 8}, {32, 16, 1, 1}),
      MakeSetup({1, 16, 9, 9}, {16, 1, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}, 16),
      MakeSetup({2, 3, 9, 9}, {7, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({2, 6, 11}, {8, 3, 3}, {}, {}, {}, {}, 2),
  };
}

TEST_CASE("convolutions with an addend and every activation, both algorithms and layouts") {
  int number = 0;
  for (const ConvSetup& s : ConvSetups()) {
    ++number;
    CAPTURE(number);
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), b = RandomTensor({s.w[0]}, 3);
    const auto y = ConvOracle(s, *x, *w, b.get());
    std::vector<std::vector<Step>> chains{{}, {Addend(s.out())}, {Addend(s.out(), 1)}};
    for (const Step& a : Activations()) {
      CAPTURE(a.op);
      chains.push_back({a});
      chains.push_back({Addend(s.out()), a});
      if (a.op == "Relu" || a.op == "HardSwish" || a.op == "HardSigmoid")
        for (const std::vector<Step>& tail : Affine()) {
          chains.push_back({Addend(s.out()), a});
          chains.back().insert(chains.back().end(), tail.begin(), tail.end());
        }
    }
    for (const auto& chain : chains)
      for (const char* algorithm : {"direct", "winograd"})
        for (const Layout in : {Layout::kPlain, Layout::kChannelsLast})
          for (const Layout out : {Layout::kPlain, Layout::kChannelsLast}) {
            const ForcedConv forced(algorithm);
            const std::string last = chain.empty() ? "none" : chain.back().op;
            CAPTURE(last);
            const bool addend = !chain.empty() && chain[0].operand != nullptr;
            for (const Layout r : {in, out}) {
              Case c("Conv", {x, w, b}, s.attrs(), s.out(), {false, true});
              WithLayouts(&c, {in}, out);
              layout_of_operands = r;
              Add(&c, chain);
              layout_of_operands = Layout::kPlain;
              CheckBoth(c, Apply(y, chain), out, addend && r == out);
              if (!addend) break;
            }
          }
  }
}

TEST_CASE("a batch in chunks takes the addend of each image") {
  const ConvSetup s = MakeSetup({6, 64, 8192}, {64, 64, 1});
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2);
  const auto y = Case("Conv", {x, w}, s.attrs(), s.out(), {false, true}).Run();
  const std::vector<Step> chain{Addend(s.out()), Activations()[0]};
  Case c("Conv", {x, w}, s.attrs(), s.out(), {false, true});
  Add(&c, chain);
  const float* values = y->data_as<float>();
  CheckBoth(c, Apply(std::vector<double>(values, values + y->num_elements()), chain),
            Layout::kPlain, true);
}

Step Row(const Ns& dims) {
  return {"Add", {}, {}, RandomTensor(dims, 8), [](double x, double r) { return x + r; }};
}
std::vector<Step> Factors() {
  return {
      {"Mul", {}, {0.25}, nullptr, [](double x, double) { return x * 0.25; }},
      {"Mul", {}, {-3.0}, nullptr, [](double x, double) { return x * -3; }, 1},
      {"Div", {}, {8.0}, nullptr, [](double x, double) { return x / 8; }},
  };
}

std::vector<double> Product(const Tensor& a, const Tensor& b, int64_t batch, int64_t m, int64_t n,
                            int64_t k, bool shared) {
  std::vector<double> y;
  for (int64_t g = 0; g < batch; ++g)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t q = 0; q < k; ++q)
          sum += a.at((g * m + i) * k + q) * b.at((shared ? 0 : g * k * n) + q * n + j);
        y.push_back(sum);
      }
  return y;
}

/// Every chain of the four stages, each there or not.
std::vector<std::vector<Step>> Chains(const Ns& y, bool every_activation) {
  std::vector<std::vector<Step>> chains;
  std::vector<Step> activations = Activations();
  if (!every_activation) activations.resize(1);
  for (const int row : {0, 1, 2})
    for (size_t f = 0; f <= Factors().size(); ++f)
      for (const bool addend : {false, true})
        for (size_t a = 0; a <= activations.size(); ++a) {
          std::vector<Step> chain;
          if (row == 1) chain.push_back(Row({y.back()}));
          if (row == 2) chain.push_back(Row({1, y.back()}));
          if (f > 0) chain.push_back(Factors()[f - 1]);
          if (addend) chain.push_back(Addend(y));
          if (a > 0) chain.push_back(activations[a - 1]);
          if (!chain.empty()) chains.push_back(chain);
        }
  return chains;
}

TEST_CASE("products with a row, a scale, an addend and an activation") {
  struct Extents {
    int64_t batch, m, n, k;
    bool shared;
  };
  for (const Extents& e : std::vector<Extents>{
           {1, 5, 7, 3, true}, {1, 64, 48, 32, true}, {3, 4, 16, 8, false}, {2, 1, 33, 17, true}})
    for (const bool constant : {false, true}) {
      const Ns ad = e.batch == 1 ? Ns{e.m, e.k} : Ns{e.batch, e.m, e.k},
               bd = e.shared ? Ns{e.k, e.n} : Ns{e.batch, e.k, e.n},
               yd = e.batch == 1 ? Ns{e.m, e.n} : Ns{e.batch, e.m, e.n};
      const auto a = RandomTensor(ad, 1), b = RandomTensor(bd, 2);
      const auto y = Product(*a, *b, e.batch, e.m, e.n, e.k, e.shared);
      for (const auto& chain : Chains(yd, e.m == 5)) {
        std::string names;
        for (const Step& s : chain) names += " " + s.op;
        CAPTURE(names);
        Case c("MatMul", {a, b}, {}, yd, {false, constant});
        Add(&c, chain);
        const bool in_place = c.operands.back()->dims() == yd && c.operands.size() > 2;
        CheckBoth(c, Apply(y, chain), Layout::kPlain, in_place);
      }
    }
}

TEST_CASE("gemm: what follows comes behind factors and C") {
  const int64_t m = 6, n = 9, k = 7;
  for (const double alpha : {1.0, 0.5})
    for (const double beta : {1.0, 2.0})
      for (const Ns& cd : std::vector<Ns>{{-1}, {n}, {m, n}})
        for (const auto& chain : Chains({m, n}, false)) {
          const bool has_c = cd != Ns{-1};
          if (has_c && chain[0].operand && chain[0].operand->dims() != Ns{m, n}) continue;
          const auto a = RandomTensor({m, k}, 1), b = RandomTensor({k, n}, 2);
          std::vector<TensorPtr> in{a, b};
          if (has_c) in.push_back(RandomTensor(cd, 3));
          auto y = Product(*a, *b, 1, m, n, k, true);
          for (size_t i = 0; i < y.size(); ++i)
            y[i] =
                alpha * y[i] + (has_c ? beta * in[2]->at(int64_t(i) % in[2]->num_elements()) : 0);
          Case c("Gemm", in, {{"alpha", alpha}, {"beta", beta}}, {m, n}, {false, true});
          Add(&c, chain);
          CheckBoth(c, Apply(y, chain), Layout::kPlain,
                    c.operands.size() > in.size() && c.operands.back()->dims() == Ns{m, n});
        }
}

TEST_CASE("activations are as exact far from zero") {
  // One product a result, so that the argument is exact.
  const int64_t n = 4096;
  auto x = std::make_shared<Tensor>(DType::kF32, Ns{n, 1});
  for (int64_t i = 0; i < n; ++i)
    x->mutable_data_as<float>()[i] =
        i % 2 ? float(i - n / 2) * 0.01f : float(std::exp(double(i) * 0.025 - 90));
  auto one = std::make_shared<Tensor>(DType::kF32, Ns{1, 1});
  one->mutable_data_as<float>()[0] = 1;
  std::vector<double> exact;
  for (int64_t i = 0; i < n; ++i) exact.push_back(x->at(i));
  for (const Step& a : Activations()) {
    CAPTURE(a.op);
    Case c("MatMul", {x, one}, {}, {n, 1}, {false, true});
    Add(&c, {a});
    CHECK(Difference(*c.Run(), Apply(exact, {a})) < 1e-6);
  }
}

/// Does `op` behind the first node of `g` join it, behind the steps before?
class Taker {
 public:
  explicit Taker(const char* anchor, std::vector<Shape> inputs, Shape result) {
    std::vector<NodeEntry> entries;
    for (const Shape& s : inputs) entries.push_back(Given(s));
    anchor_ = graph_.AddNode(anchor, entries, {}, "anchor");
    last_ = NodeEntry(anchor_);
    Describe(last_, std::move(result));
  }
  NodeEntry Given(const Shape& s) {
    const NodeEntry e(graph_.AddInput("x", DType::kF32, s));
    Describe(e, s);
    return e;
  }
  NodeEntry Value(double v) { return ScalarLike(last_, DType::kF32, v); }
  NodeEntry last() const { return last_; }
  /// On success the step belongs to the chain.
  bool Takes(const char* op, const std::vector<NodeEntry>& inputs, int slot, int operand,
             AttrDict attrs = {}) {
    const EpilogueStep step{graph_.AddNode(op, inputs, std::move(attrs), "step"), slot, operand};
    const FEpilogue* f = Op::GetAttr<FEpilogue>("FEpilogue.cpu").find(anchor_->op());
    REQUIRE(f != nullptr);
    if (!(*f)({anchor_, steps_, step, shapes_, types_})) return false;
    steps_.push_back(step);
    last_ = NodeEntry(step.node);
    Describe(last_, shapes_[NodeEntry(anchor_)]);
    return true;
  }

 private:
  void Describe(const NodeEntry& e, Shape s) {
    shapes_.set(e, std::move(s));
    types_.set(e, DType::kF32);
  }
  Graph graph_;
  NodePtr anchor_;
  NodeEntry last_;
  ShapeMap shapes_;
  TypeMap types_;
  std::vector<EpilogueStep> steps_;
};

const SymInt kN = SymInt::Symbol("n"), kM = SymInt::Symbol("m");

TEST_CASE("which steps a convolution takes") {
  const Shape x{kN, 3, 8, 8}, w{4, 3, 1, 1}, y{kN, 4, 8, 8};
  Taker t("Conv", {x, w}, y);
  // Not: a factor, a row, another batch, what is not an addition, inexact functions, bounds
  // that are no constants.
  CHECK(!t.Takes("Mul", {t.last(), t.Value(2)}, 0, -1));
  CHECK(!t.Takes("Add", {t.last(), t.Given({8})}, 0, 1));
  CHECK(!t.Takes("Add", {t.last(), t.Given({kM, 4, 8, 8})}, 0, 1));
  CHECK(!t.Takes("Add", {t.last(), t.Given({SymInt(), 4, 8, 8})}, 0, 1));
  CHECK(!t.Takes("Sub", {t.last(), t.Given(y)}, 0, 1));
  CHECK(!t.Takes("Softplus", {t.last()}, 0, -1));
  CHECK(!t.Takes("Exp", {t.last()}, 0, -1));
  CHECK(!t.Takes("Clip", {t.last(), t.Given(Shape::Scalar())}, 0, 1));
  CHECK(!t.Takes("Clip", {t.last(), t.Value(2), t.Value(1)}, 0, -1));
  CHECK(!t.Takes("Clip", {t.Value(2), t.last()}, 1, -1));
  // Where oneDNN's function is another one at zeros and infinities.
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(!t.Takes("LeakyRelu", {t.last()}, 0, -1, {{"alpha", 0.0}}));
  for (const char* op : {"LeakyRelu", "Elu"})
    for (const double alpha : {kInf, -kInf, kInf - kInf})
      CHECK(!t.Takes(op, {t.last()}, 0, -1, {{"alpha", alpha}}));
  CHECK(t.Takes("Add", {t.Given(y), t.last()}, 1, 0));
  CHECK(!t.Takes("Add", {t.last(), t.Given(y)}, 0, 1));
  CHECK(t.Takes("Clip", {t.last(), t.Value(0), t.Value(6)}, 0, -1));
  CHECK(!t.Takes("Add", {t.last(), t.Given(y)}, 0, 1));
  CHECK(!t.Takes("Relu", {t.last()}, 0, -1));
}

TEST_CASE("which steps a product takes") {
  const Shape a{kM, 3}, b{3, 4}, y{kM, 4};
  Taker t("MatMul", {a, b}, y);
  CHECK(!t.Takes("Div", {t.Value(2), t.last()}, 1, -1));
  CHECK(!t.Takes("Div", {t.last(), t.Value(0)}, 0, -1));
  CHECK(!t.Takes("Div", {t.last(), t.Value(1e-45)}, 0, -1));
  CHECK(!t.Takes("Add", {t.last(), t.Given({kM, 1})}, 0, 1));
  CHECK(!t.Takes("Add", {t.last(), t.Value(1)}, 0, -1));
  CHECK(t.Takes("Add", {t.last(), t.Given({4})}, 0, 1));
  CHECK(!t.Takes("Add", {t.last(), t.Given({4})}, 0, 1));
  CHECK(t.Takes("Mul", {t.last(), t.Value(2)}, 0, -1));
  CHECK(!t.Takes("Mul", {t.last(), t.Value(2)}, 0, -1));
  CHECK(t.Takes("Add", {t.last(), t.Given(y)}, 0, 1));
  CHECK(t.Takes("Gelu", {t.last()}, 0, -1));
  // A vector on the right: the last axis of the result are the rows.
  Taker v("MatMul", {Shape{kN, kM, 3}, Shape{3}}, Shape{kN, kM});
  CHECK(!v.Takes("Add", {v.last(), v.Given({kM})}, 0, 1));
  // C is the row already.
  Taker g("Gemm", {a, b, Shape{4}}, y);
  CHECK(!g.Takes("Add", {g.last(), g.Given({4})}, 0, 1));
  CHECK(g.Takes("Add", {g.last(), g.Given(y)}, 0, 1));
  CHECK(g.Takes("Relu", {g.last()}, 0, -1));
}

TEST_CASE("a call is prepared with what its library takes on the graph, and with nothing else") {
  std::mt19937 random(3);
  const Shape product{kN, 4}, conv{kN, 4, 6, 5};
  int taken = 0;
  for (int round = 0; round < 90; ++round) {
    const Shape& result = round % 3 == 2 ? conv : product;
    EpilogueChain chain = round % 3 == 0 ? EpilogueChain("MatMul", {{kN, 3}, {3, 4}}, result)
                          : round % 3 == 1
                              ? EpilogueChain("Gemm", {{kN, 3}, {3, 4}, {4}}, result)
                              : EpilogueChain("Conv", {{kN, 3, 6, 5}, {4, 3, 1, 1}}, result);
    AddRandomSteps(&chain, result, &random);
    const Op* op = chain.anchor()->op();
    const FEpilogue* takes = Op::GetAttr<FEpilogue>("FEpilogue.cpu").find(op);
    const FCompute* prepare = Op::GetAttr<FCompute>("FCompute.cpu").find(op);
    REQUIRE(takes != nullptr);
    REQUIRE(prepare != nullptr);
    CAPTURE(op->name + chain.Names());
    for (size_t i = 0; i < chain.size(); ++i) {
      CAPTURE(i);
      const bool on_graph = chain.TakenOnGraph(*takes, i);
      CHECK(((*prepare)(chain.Request(i + 1, {{"n", 7}})) != nullptr) == on_graph);
      if (on_graph) CHECK((*prepare)(chain.Request(i + 1, {{"n", 1}})) != nullptr);
      taken += on_graph;
    }
  }
  CHECK(taken > 60);
}

}  // namespace
}  // namespace weft::cpu
