/// normalization_gradient_test.cc: gradients of normalisations of data whose mean is large against
/// its deviation, against closed forms in float64 of the same inputs.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tests/support/e2e_util.h"
#include "tests/support/large_mean.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"

namespace {

using namespace weft;
using namespace weft::e2e;

using Doubles = std::vector<double>;

struct Form {
  const char* name;
  const char* body;            ///< from %x, %s and %b to %y
  int64_t (*row)(int64_t);     ///< normalised together
  int64_t (*weight)(int64_t);  ///< of which scale and bias; null: there are none
  int64_t weights = 1;
  bool centered = true;              ///< less the mean
  double epsilon = 1e-5, outer = 0;  ///< added to the variance, to the deviation
};
int64_t Point(int64_t i) { return i % kPoints; }

std::vector<Form> Forms() {
  return {
      {"LayerNormalization", "%y, %m, %i = LayerNormalization(%x, %s, %b) : ?, ?, ?", Row, Point,
       kPoints},
      {"RMSNormalization", "%y = RMSNormalization(%x, %s) : ?", Row, Point, kPoints, false},
      {"GroupNormalization", "%y = GroupNormalization(%x, %s, %b) {num_groups = 2} : ?", Group,
       Channel, kChannels},
      {"InstanceNormalization", "%y = InstanceNormalization(%x, %s, %b) : ?", Row, Channel,
       kChannels},
      {"BatchNormalization in training",
       "%y, %m, %v = BatchNormalization(%x, %s, %b, %b, %s) {training_mode = 1} : ?, ?, ?", Channel,
       Channel, kChannels},
      {"MeanVarianceNormalization", "%y = MeanVarianceNormalization(%x) {axes = [0, 2]} : ?",
       Channel, nullptr, 1, true, 0, 1e-9},
  };
}

/// dx, dscale, dbias.
struct Gradient {
  Doubles x, scale, bias;
};
/// With h = (x - mean) q and e = dy scale: dx = q (e - mean(e) - h mean(e h) q' / q), where
/// q' = 1 / deviation.
Gradient InDouble(const Form& f, const Tensor& x, const Tensor& scale, const Tensor& dy) {
  const int64_t count = x.num_elements();
  const size_t rows = size_t(count);
  Doubles n(rows, 0.0), mean = n, rest = n, square = n, of_e = n, of_eh = n;
  const auto at = [&](Doubles& v, int64_t i) -> double& { return v[size_t(f.row(i))]; };
  for (int64_t i = 0; i < count; ++i) at(n, i) += 1;
  for (int64_t i = 0; i < count && f.centered; ++i) at(mean, i) += x.at(i) / at(n, i);
  for (int64_t i = 0; i < count && f.centered; ++i)
    at(rest, i) += (x.at(i) - at(mean, i)) / at(n, i);
  const auto centered = [&](int64_t i) { return (x.at(i) - at(mean, i)) - at(rest, i); };
  for (int64_t i = 0; i < count; ++i) at(square, i) += std::pow(centered(i), 2) / at(n, i);
  const auto deviation = [&](int64_t i) { return std::sqrt(at(square, i) + f.epsilon); };
  const auto h = [&](int64_t i) { return centered(i) / (deviation(i) + f.outer); };
  const auto e = [&](int64_t i) { return dy.at(i) * (f.weight ? scale.at(f.weight(i)) : 1); };
  for (int64_t i = 0; i < count; ++i) {
    if (f.centered) at(of_e, i) += e(i) / at(n, i);
    at(of_eh, i) += e(i) * h(i) / at(n, i);
  }
  Gradient d{Doubles(size_t(count)), Doubles(size_t(f.weights)), Doubles(size_t(f.weights))};
  for (int64_t i = 0; i < count; ++i) {
    const double q = deviation(i) + f.outer;
    d.x[size_t(i)] = (e(i) - at(of_e, i) - h(i) * at(of_eh, i) * q / deviation(i)) / q;
    if (!f.weight) continue;
    d.scale[size_t(f.weight(i))] += dy.at(i) * h(i);
    d.bias[size_t(f.weight(i))] += dy.at(i);
  }
  return d;
}

/// Off by how much of the largest.
double Off(const Tensor& got, const Doubles& want) {
  REQUIRE(got.num_elements() == int64_t(want.size()));
  double most = 0;
  for (const double w : want) most = std::max(most, std::fabs(w));
  return FarthestFrom(want, got) / most;
}

/// The gradient of <dy, y> by x, and scale and bias where there are any.
Graph GradientOf(const Form& f, const std::string& images, DType t) {
  const std::string type(DTypeName(t)), weights = std::to_string(f.weights);
  Graph g = FromText("graph (%x: " + type + "[" + images + ", 4, 96], %s: " + type + "[" + weights +
                     "], %b: " + type + "[" + weights + "], %dy: " + type + "[" + images +
                     ", 4, 96]) -> (%y) {\n  " + f.body + "\n}");
  const std::vector<NodePtr> in = g.inputs();
  std::vector<NodeEntry> by{NodeEntry(in[0])};
  if (f.weight) by.insert(by.end(), {NodeEntry(in[1]), NodeEntry(in[2])});
  const std::vector<NodeEntry> d = Gradients(g, {g.outputs[0]}, by, {NodeEntry(in[3])});
  g.outputs = d;
  return g;
}

}  // namespace

TEST_CASE("gradients of normalisations at mean / deviation up to 1e6: cpu, cpu:no-fusion, ref") {
  struct Kind {
    DType type;
    const char* images;
    double most, tolerance;  ///< of mean / deviation
  };
  const double least = std::sqrt(0.1);
  constexpr Kind kKinds[] = {{DType::kF32, "2", 1e6, 2e-6},
                             {DType::kF32, "n", 1e6, 2e-6},
                             {DType::kF64, "2", 1e6, 1e-9},
                             {DType::kF16, "2", 1e2, 2e-3},
                             {DType::kBF16, "2", 1e1, 1e-2}};
  for (const Form& f : Forms())
    for (const Kind& kind : kKinds) {
      CAPTURE(std::string(f.name));
      CAPTURE(std::string(DTypeName(kind.type)));
      CAPTURE(std::string(kind.images));
      const Graph g = GradientOf(f, kind.images, kind.type);
      std::vector<std::shared_ptr<const Program>> programs;
      for (const EngineName& engine : Engines()) programs.push_back(CompileWith(g, engine));
      const TensorPtr scale = Around(1, kind.type, {f.weights}, 77),
                      bias = Around(0, kind.type, {f.weights}, 78),
                      dy = Around(0.3, kind.type, {kImages, kChannels, kPoints}, 79);
      for (double ratio = least; ratio <= kind.most * 1.1; ratio *= std::sqrt(10.0)) {
        CAPTURE(ratio);
        const TensorPtr x = Around(0.6 * ratio, kind.type);
        const Gradient want = InDouble(f, *x, *scale, *dy);
        // Sums in f64 over rows of unknown length lose 2^-53 of the ratio squared.
        const bool wide = kind.images[0] == 'n' && ratio > 1e5;
        const double tolerance = wide ? 1e-3 : kind.tolerance;
        for (size_t p = 0; p < programs.size(); ++p) {
          CAPTURE(p);
          const auto got = Session(programs[p]).Run({x, scale, bias, dy});
          CHECK(Off(*got[0], want.x) <= tolerance);
          if (!f.weight) continue;
          CHECK(Off(*got[1], want.scale) <= tolerance);
          if (f.centered) CHECK(Off(*got[2], want.bias) <= tolerance);
        }
      }
    }
}
