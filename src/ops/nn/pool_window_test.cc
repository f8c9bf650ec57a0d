// Windows of pooling against loops that follow the standard's text: every small extent,
// kernel, stride, dilation, padding and way of rounding, also where the kernel is larger than
// what it is over.
#include <cmath>
#include <random>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

struct Window1 {
  int64_t kernel, stride, dilation, begin, end;
  bool ceil;
};

/// Number of windows over `extent`; -1 where not even the first one has a place.
int64_t CountOf(const Window1& w, int64_t extent) {
  const int64_t reach = (w.kernel - 1) * w.dilation + 1;
  const double steps = double(extent + w.begin + w.end - reach) / double(w.stride);
  int64_t count = int64_t(w.ceil ? std::ceil(steps) : std::floor(steps)) + 1;
  if (w.ceil ? steps <= -1 : steps < 0) return -1;
  // Windows that would start in the padding at the end are ignored.
  while (w.ceil && (count - 1) * w.stride >= extent + w.begin) --count;
  return count;
}

enum Kind { kMax, kMean, kMeanWithPadding, kNorm };

std::vector<double> Pooled(const Window1& w, const std::vector<double>& x, Kind kind) {
  const int64_t extent = int64_t(x.size());
  std::vector<double> y;
  for (int64_t o = 0; o < CountOf(w, extent); ++o) {
    double best = -INFINITY, sum = 0, squares = 0;
    int inside = 0, counted = 0;
    for (int64_t k = 0; k < w.kernel; ++k) {
      const int64_t i = o * w.stride - w.begin + k * w.dilation;
      counted += i < extent + w.end;
      if (i < 0 || i >= extent) continue;
      ++inside;
      best = std::max(best, x[size_t(i)]);
      sum += x[size_t(i)];
      squares += x[size_t(i)] * x[size_t(i)];
    }
    y.push_back(kind == kMax    ? best
                : kind == kNorm ? std::sqrt(squares)
                : kind == kMean ? (inside ? sum / inside : 0)
                                : sum / counted);
  }
  return y;
}

AttrDict AttrsOf(const Window1& w, Kind kind) {
  AttrDict a{{"kernel_shape", Ints{w.kernel}},
             {"strides", Ints{w.stride}},
             {"dilations", Ints{w.dilation}},
             {"pads", Ints{w.begin, w.end}},
             {"ceil_mode", int64_t(w.ceil)}};
  if (kind == kMean || kind == kMeanWithPadding)
    a["count_include_pad"] = int64_t(kind == kMeanWithPadding);
  return a;
}
const char* OpOf(Kind kind) {
  return kind == kMax ? "MaxPool" : kind == kNorm ? "LpPool" : "AveragePool";
}
TensorPtr Ramp(int64_t extent) {
  std::vector<double> v;
  for (int64_t i = 0; i < extent; ++i) v.push_back(double((i * 5) % 7) - 2.5);
  return T(DType::kF32, {1, 1, extent}, v);
}

std::vector<Window1> SmallWindows() {
  std::vector<Window1> all;
  for (int64_t kernel = 1; kernel <= 4; ++kernel)
    for (int64_t stride = 1; stride <= 4; ++stride)
      for (int64_t dilation = 1; dilation <= 3; ++dilation)
        for (int64_t pads = 0; pads < 9; ++pads)
          for (const bool ceil : {false, true})
            all.push_back({kernel, stride, dilation, pads % 3, pads / 3, ceil});
  return all;
}

TEST_CASE("pooling of every small window over every small extent") {
  std::mt19937 random(1);
  for (const Window1& w : SmallWindows()) {
    for (int64_t extent = 1; extent <= 9; ++extent) {
      if (random() % 8 != 0) continue;
      CAPTURE(extent);
      CAPTURE(w.kernel);
      CAPTURE(w.stride);
      CAPTURE(w.dilation);
      CAPTURE(w.begin);
      CAPTURE(w.end);
      CAPTURE(w.ceil);
      const Kind kind = Kind(random() % 4);
      CAPTURE(OpOf(kind));
      const TensorPtr x = Ramp(extent);
      if (CountOf(w, extent) < 0) {
        CHECK(CodeOf([&] { RunOp(OpOf(kind), {x}, AttrsOf(w, kind)); }) ==
              ErrorCode::kShapeMismatch);
        continue;
      }
      const std::vector<double> want = Pooled(w, Values(*x), kind);
      const Tensors got = RunOp(OpOf(kind), {x}, AttrsOf(w, kind));
      REQUIRE(got[0]->num_elements() == int64_t(want.size()));
      for (size_t o = 0; o < want.size(); ++o) {
        CHECK(CompareTensors(*T(DType::kF32, {}, {got[0]->at(int64_t(o))}),
                             *T(DType::kF32, {}, {want[o]})) <= 1);
        if (kind == kMax && std::isfinite(want[o]))
          CHECK(x->at(got[1]->at_int(int64_t(o))) == want[o]);
      }
    }
  }
}

TEST_CASE("the number of windows over an extent with a name") {
  for (const Window1& w : SmallWindows()) {
    CAPTURE(w.kernel);
    CAPTURE(w.stride);
    CAPTURE(w.dilation);
    CAPTURE(w.begin);
    CAPTURE(w.end);
    CAPTURE(w.ceil);
    Graph g;
    const NodePtr x = g.AddInput("x", DType::kF32, Shape{1, 1, SymInt::Symbol("h")});
    g.outputs = {NodeEntry(g.AddNode("MaxPool", {x}, AttrsOf(w, kMax)))};
    g = Inferred(std::move(g));
    const SymInt count = g.GetAttr<ShapeMap>("shape")[g.outputs[0]][2];
    for (int64_t extent = 1; extent <= 9; ++extent)
      if (const int64_t want = CountOf(w, extent); want >= 0)
        CHECK(Evaluate(count, {{"h", extent}}) == want);
  }
}

TEST_CASE("gradients of pooling where the kernel hangs over its extent") {
  for (const Window1& w :
       {Window1{2, 2, 1, 0, 0, true}, Window1{3, 3, 1, 0, 1, true}, Window1{3, 2, 2, 1, 1, true},
        Window1{4, 4, 1, 0, 0, true}, Window1{2, 1, 3, 1, 1, false}})
    for (int64_t extent = 1; extent <= 3; ++extent) {
      if (CountOf(w, extent) < 0) continue;
      CAPTURE(extent);
      CAPTURE(w.kernel);
      std::vector<double> v;
      for (int64_t i = 0; i < 2 * extent; ++i)
        v.push_back(1.5 + double((i * 3) % 5) - 0.1 * double(i));
      for (const Kind kind : {kMax, kMean, kMeanWithPadding, kNorm}) {
        // The maximum of nothing is minus infinity: no difference of it means anything.
        const std::vector<double> half(v.begin(), v.begin() + extent);
        const std::vector<double> y = Pooled(w, half, kind);
        if (kind == kMax && std::count(y.begin(), y.end(), -INFINITY)) continue;
        CheckGradient(OpOf(kind), {T(DType::kF64, {2, 1, extent}, v)}, AttrsOf(w, kind));
      }
    }
}

TEST_CASE("a kernel that does not even hang over its extent is refused") {
  const AttrDict attrs{{"kernel_shape", Ints{4}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}};
  CHECK(CodeOf([&] { RunOp("MaxPool", {Ramp(2)}, attrs); }) == ErrorCode::kShapeMismatch);
  CHECK(RunOp("MaxPool", {Ramp(3)}, attrs)[0]->num_elements() == 1);
  Graph g;
  const NodePtr x = g.AddInput("x", DType::kF32, Shape{1, 1, SymInt::Symbol("h")});
  g.outputs = {NodeEntry(g.AddNode("MaxPool", {x}, attrs))};
  g = Inferred(std::move(g));
  const SymInt h = SymInt::Symbol("h");
  CHECK(g.GetAttr<Facts>("facts").LessEqual(3, h) == Proof::kYes);
  CHECK(g.GetAttr<Facts>("facts").LessEqual(4, h) != Proof::kYes);
}

}  // namespace
}  // namespace weft::ops
