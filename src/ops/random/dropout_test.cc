/// dropout_test.cc: Dropout in training.
#include "ops/util/op_test_util.h"

using namespace weft;
using namespace weft::ops;

namespace {

constexpr int64_t kCount = 1 << 14;

TensorPtr Ones(DType t, std::vector<int64_t> dims, double v = 1) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  for (int64_t i = 0; i < x->num_elements(); ++i) x->set(i, v);
  return x;
}
TensorPtr Ratio(double r, DType t = DType::kF32) { return T(t, {}, {r}); }
TensorPtr Mode(bool training) { return T(DType::kBool, {}, {training ? 1.0 : 0.0}); }
Tensors Drop(const TensorPtr& x, double ratio, int64_t seed, bool training = true) {
  return RunOp("Dropout", {x, Ratio(ratio), Mode(training)}, {{"seed", seed}});
}
int64_t Kept(const Tensor& mask) {
  int64_t n = 0;
  for (int64_t i = 0; i < mask.num_elements(); ++i) n += mask.at(i) != 0;
  return n;
}

/// Dropout of f32[64] with ratio and mode as the rows say ("" absent, "input", or a constant).
Graph GraphOf(const std::string& ratio, const std::string& mode, const std::string& attrs) {
  std::string header = "%x: f32[64]", body;
  const auto operand = [&](const char* name, const char* type, const std::string& what) {
    if (what.empty()) return std::string("_");
    if (what == "input")
      header += std::string(", %") + name + ": " + type;
    else
      body += std::string("  %") + name + " = Constant() {value = tensor " + type + " [" + what +
              "]} : ?\n";
    return std::string("%") + name;
  };
  const std::string r = operand("r", "f32[]", ratio), m = operand("m", "bool[]", mode);
  return Inferred(ParseGraph("weft 1\ngraph @g(" + header + ") -> (%y, %k) {\n" + body +
                             "  %y, %k = Dropout(%x, " + r + ", " + m + ")" +
                             (attrs.empty() ? "" : " {" + attrs + "}") + " : ?, ?\n}\n"));
}
bool HasInput(const Graph& g, const char* op) {
  for (NodePtr n : g.TopoOrder())
    if (IsOp(n, op)) return true;
  return false;
}

}  // namespace

TEST_CASE("Dropout in training keeps 1 - ratio of the elements and scales them") {
  for (double ratio : {0.1, 0.5, 0.9}) {
    CAPTURE(ratio);
    const Tensors y = Drop(Ones(DType::kF32, {64, kCount / 64}, 3), ratio, 1);
    const double scale = 1 / (1 - double(float(ratio)));
    for (int64_t i = 0; i < kCount; ++i)
      REQUIRE(y[0]->at(i) == doctest::Approx(y[1]->at(i) != 0 ? 3 * scale : 0).epsilon(1e-6));
    const double sigma = std::sqrt(ratio * (1 - ratio) / kCount);
    CHECK(std::fabs(double(Kept(*y[1])) / kCount - (1 - ratio)) < 5 * sigma);
  }
}

TEST_CASE("Dropout: ratio 0 keeps all, ratio 1 none") {
  const double kInf = INFINITY;
  const TensorPtr x = F32({1, -2, kInf, NAN});
  const Tensors all = Drop(x, 0, 3), none = Drop(x, 1, 3);
  CHECK(all[0]->at(1) == -2);
  CHECK(std::isnan(all[0]->at(3)));
  CHECK(Kept(*all[1]) == 4);
  for (int64_t i = 0; i < 4; ++i) CHECK(none[0]->at(i) == 0);
  CHECK(Kept(*none[1]) == 0);
  // Absent: half.
  const Tensors half =
      RunOp("Dropout", {Ones(DType::kF32, {kCount}), nullptr, Mode(true)}, {{"seed", 2}});
  CHECK(std::fabs(double(Kept(*half[1])) / kCount - 0.5) < 5 * 0.5 / std::sqrt(double(kCount)));
  CHECK(half[0]->at(0) == (half[1]->at(0) != 0 ? 2 : 0));
}

TEST_CASE("Dropout: a seed draws the same in every run, another seed another mask, none anew") {
  const TensorPtr x = Ones(DType::kF32, {256});
  CHECK(Values(*Drop(x, 0.5, 1)[1]) == Values(*Drop(x, 0.5, 1)[1]));
  CHECK(Values(*Drop(x, 0.5, 1)[1]) != Values(*Drop(x, 0.5, 2)[1]));
  const auto fresh = [&] { return Values(*RunOp("Dropout", {x, Ratio(0.5), Mode(true)})[1]); };
  CHECK(fresh() != fresh());
  // The mask does not depend on the dtype of x or of the ratio.
  const TensorPtr wide = Ones(DType::kF64, {256}), half = Ones(DType::kF16, {256});
  const auto mask = [&](const TensorPtr& t, DType ratio) {
    return Values(*RunOp("Dropout", {t, Ratio(0.25, ratio), Mode(true)}, {{"seed", 8}})[1]);
  };
  CHECK(mask(x, DType::kF32) == mask(wide, DType::kF64));
  CHECK(mask(x, DType::kF32) == mask(half, DType::kF16));
}

TEST_CASE("Dropout: the rewritten form draws the mask of the operator") {
  struct Row {
    const char *ratio, *mode, *attrs;
    bool random;  ///< a generator is left
  };
  for (const Row& row :
       {Row{"", "", "seed = 4", false}, Row{"0.3", "false", "seed = 4", false},
        Row{"0.0", "true", "seed = 4", false}, Row{"0.3", "true", "seed = 4", true},
        Row{"", "true", "seed = 4", true}, Row{"1.0", "true", "seed = 4", true},
        Row{"input", "true", "seed = 4", true}, Row{"0.3", "input", "seed = 4", true},
        Row{"input", "input", "seed = 4", true}}) {
    CAPTURE(row.ratio);
    CAPTURE(row.mode);
    const Graph g = GraphOf(row.ratio, row.mode, row.attrs);
    const Graph h = ApplyPass(g, "Simplify");
    CHECK(!HasInput(h, "Dropout"));
    CHECK(HasInput(h, "weft::RandomUniform") == row.random);
    for (bool training : {false, true}) {
      Tensors in{Ones(DType::kF32, {64}, 2)};
      if (row.ratio == std::string("input")) in.push_back(Ratio(0.3));
      if (row.mode == std::string("input")) in.push_back(Mode(training));
      const Tensors want = Reference().Eval(g, in), got = Reference().Eval(h, in);
      CHECK(Values(*got[0]) == Values(*want[0]));
      CHECK(Values(*got[1]) == Values(*want[1]));
      if (row.mode == std::string("input")) CHECK((Kept(*got[1]) == 64) == !training);
    }
  }
}

TEST_CASE("Dropout without a seed: new in every run, never merged, y and mask of one draw") {
  Graph g = GraphOf("0.5", "true", "");
  // The same operator once more on the same operands.
  const NodePtr first = g.outputs[0].node;
  const NodePtr second =
      g.AddNode("Dropout", {first->inputs[0], first->inputs[1], first->inputs[2]});
  g.outputs = std::vector<NodeEntry>{{first, 0}, {first, 1}, {second, 1}};
  const Graph h = ApplyPasses(g, "Simplify,FoldConstants,Simplify");
  CHECK(HasInput(h, "weft::RandomState"));
  const TensorPtr x = Ones(DType::kF32, {64});
  const Tensors a = Reference().Eval(h, {x}), b = Reference().Eval(h, {x});
  CHECK(Values(*a[1]) != Values(*b[1]));
  CHECK(Values(*a[1]) != Values(*a[2]));
  for (int64_t i = 0; i < 64; ++i) CHECK(a[0]->at(i) == 2 * a[1]->at(i));
}

TEST_CASE("Dropout: gradient by the mask of the forward run") {
  const TensorPtr x = T(DType::kF64, {2, 6}, {1, -2, 3, 0.5, 4, 3, -1, 2, 7, -5, 0.25, 9});
  for (double ratio : {0.0, 0.3, 0.75, 1.0})
    for (bool training : {true, false})
      CheckGradient("Dropout", {x, Ratio(ratio), Mode(training)}, {{"seed", 6}});
  CheckGradient("Dropout", {x, nullptr, Mode(true)}, {{"seed", 6}});
  // Without a seed: the gradient asks for the mask that the run drew.
  Graph g = GraphOf("0.5", "true", "");
  const NodePtr n = g.outputs[0].node;
  const NodeEntry seed(g.AddInput("dy", DType::kF32, {64}));
  const auto grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, {seed, NodeEntry()});
  CHECK(!grads[1]);
  CHECK(!grads[2]);
  g.outputs = std::vector<NodeEntry>{{n, 1}, grads[0]};
  const Graph h = ApplyPasses(g, "Simplify,FoldConstants,Simplify");
  for (const Graph& graph : {g, h}) {
    const Tensors out =
        Reference().Eval(graph, {Ones(DType::kF32, {64}), Ones(DType::kF32, {64}, 3)});
    CHECK(Kept(*out[0]) > 0);
    for (int64_t i = 0; i < 64; ++i) CHECK(out[1]->at(i) == 6 * out[0]->at(i));
  }
}

TEST_CASE("Dropout: what is refused") {
  CHECK(CodeOf([&] {
          RunOp("Dropout", {F32({1}), F32({0.5, 0.5}), Mode(true)});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("Dropout", {F32({1}), Ratio(0.5), F32({1})});
        }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] {
          RunOp("Dropout", {T(DType::kI32, {1}, {1}), Ratio(0.5)});
        }) == ErrorCode::kTypeMismatch);
}
