/// normalization_test.cc: normalisations of data whose mean is large against its
/// deviation, against float64 computed from the same inputs. As the function bodies of
/// ONNX write them out: written_variance_test.cc.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "tests/support/large_mean.h"
#include "weft/core/graph/builtin_ops.h"

namespace {

using namespace weft;
using namespace weft::e2e;

struct Form {
  const char* name;
  std::string body;  ///< from %x, %s and %b to %y
  int64_t (*key)(int64_t);
  double epsilon = 1e-5;
};

std::vector<Form> Operators() {
  return {
      {"GroupNormalization", "  %y = GroupNormalization(%x, %s, %b) {num_groups = 2} : ?\n", Group},
      {"MeanVarianceNormalization", "  %y = MeanVarianceNormalization(%x) {axes = [0, 2]} : ?\n",
       Channel, 0},
      {"InstanceNormalization", "  %y = InstanceNormalization(%x, %s, %b) : ?\n", Row},
      {"LayerNormalization",
       "  %w = Constant() {value = tensor f32[1] [1.0]} : ?\n"
       "  %y, %lm, %li = LayerNormalization(%x, %w) : ?, ?, ?\n",
       Row},
      {"BatchNormalization in training",
       "  %y, %rm, %rv = BatchNormalization(%x, %s, %b, %b, %s) {training_mode = 1} : ?, ?, ?\n",
       Channel},
  };
}

Graph GraphOf(const Form& f, const std::string& images = "2", DType t = DType::kF32) {
  return FromText(
      InType(t, "graph (%x: f32[" + images +
                    ", 4, 96]) -> (%y) {\n"
                    "  %s = Constant() {value = tensor f32[4] [1.0, 1.0, 1.0, 1.0]} : ?\n"
                    "  %b = Constant() {value = tensor f32[4] [0.0, 0.0, 0.0, 0.0]} : ?\n" +
                    f.body + "}"));
}

void CheckNormal(const Tensor& y, const Tensor& x, const Form& f, double tolerance) {
  CHECK(FarthestFrom(Normalized(x, f.key, f.epsilon), y) <= tolerance);
}

TEST_CASE("normalisations at mean / deviation up to 1e6: cpu, cpu:no-fusion, ref") {
  struct Kind {
    DType type;
    const char* images;
    std::vector<double> ratios;
    double tolerance;
  };
  const std::vector<double> all{0, 1e2, 1e4, 1e6};
  const Kind kinds[] = {{DType::kF32, "2", all, 1e-5},
                        {DType::kF32, "n", all, 1e-5},
                        {DType::kF64, "2", all, 1e-8},
                        {DType::kF16, "2", {0, 1e2}, 2e-3},
                        {DType::kBF16, "2", {0, 1e1}, 2e-2}};
  for (const Form& f : Operators())
    for (const Kind& kind : kinds) {
      CAPTURE(std::string(f.name));
      CAPTURE(std::string(DTypeName(kind.type)));
      CAPTURE(std::string(kind.images));
      const Graph g = GraphOf(f, kind.images, kind.type);
      std::vector<std::shared_ptr<const Program>> programs;
      for (const EngineName& engine : Engines()) programs.push_back(CompileWith(g, engine));
      for (const double ratio : kind.ratios) {
        CAPTURE(ratio);
        const TensorPtr x = Around(0.6 * ratio, kind.type);
        // Sums in f64 over rows of unknown length lose 2^-53 of the ratio squared; else
        // nothing depends on it.
        const bool wide = kind.images[0] == 'n' && ratio > 1e5;
        for (size_t p = 0; p < programs.size(); ++p) {
          CAPTURE(p);
          CheckNormal(*Session(programs[p]).Run({x})[0], *x, f, wide ? 5e-3 : kind.tolerance);
        }
      }
    }
}

TEST_CASE("normalisations of one number that is far from all others") {
  if (!HasCpu()) return;
  for (const Form& f : Operators()) {
    CAPTURE(f.name);
    const auto program = CompileFor(GraphOf(f), "cpu");
    for (const int64_t at : {int64_t{0}, kPoints / 2, kPoints - 1}) {
      CAPTURE(at);
      auto x = std::make_shared<Tensor>(*Around(1e4));
      for (int64_t row = 0; row < kImages * kChannels; ++row) x->set(row * kPoints + at, 0);
      CheckNormal(*Session(program).Run({x})[0], *x, f, 2e-4);
    }
  }
}

TEST_CASE("one kernel: normalisations with what is before and behind them") {
  if (!HasCpu()) return;
  for (const Form& f : Operators()) {
    CAPTURE(f.name);
    std::string body = f.body;
    body.replace(body.find("(%x"), 3, "(%u");
    body.replace(body.find("%y"), 2, "%z");
    const Graph g = FromText(
        "graph (%x: f32[2, 4, 96]) -> (%y) {\n"
        "  %s = Constant() {value = tensor f32[4] [1.0, 1.0, 1.0, 1.0]} : ?\n"
        "  %b = Constant() {value = tensor f32[4] [0.0, 0.0, 0.0, 0.0]} : ?\n"
        "  %u = Exp(%x) : ?\n" +
        body + "  %y = Sigmoid(%z) : ?\n}");
    const auto program = CompileFor(g, "cpu");
    // A view lies between a group and what is before it.
    CHECK(program->stats().kernels <= (f.key == Group ? 2 : 1));
    const Reference want = RunReference(g, 5);
    CHECK(Difference(Session(program).Run(want.inputs), want.outputs, 1e-5, 1e-5) <= 1);
  }
}

}  // namespace
