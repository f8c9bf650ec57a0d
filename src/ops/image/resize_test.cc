/// resize_test.cc: Resize against a separable resize by dense matrices, written from the standard's
/// definition and sharing no code with the operator; extents; gradients.
#include <algorithm>
#include <numeric>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

using Ns = std::vector<int64_t>;
using Matrix = std::vector<std::vector<double>>;

TensorPtr Ramp(Ns dims, double phase = 0.3) {
  auto t = std::make_shared<Tensor>(DType::kF64, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set(i, std::sin(1.7 * double(i) + phase) + 0.05 * double(i % 5));
  return t;
}

struct Spec {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor";
  bool antialias = false, exclude = false, by_sizes = false;
  double cubic = -0.75, begin = 0, end = 1;
};

/// Where a coordinate is a quotient by the scale; T as ONNX Runtime has it where
/// the scale is given.
template <class T>
double Quotient(const Spec& s, T i, T scale, T in, T out) {
  const T half = T(0.5), centered = (i + half) / scale - half;
  if (s.coordinates == "half_pixel") return double(centered);
  if (s.coordinates == "half_pixel_symmetric")
    return double(
        T(double(in / 2 * (1 - out / (scale * in))) + (double(i) + 0.5) / double(scale) - 0.5));
  if (s.coordinates == "pytorch_half_pixel") return out == 1 ? 0 : double(centered);
  if (s.coordinates == "tf_half_pixel_for_nn") return double((i + half) / scale);
  REQUIRE(s.coordinates == "asymmetric");
  return double(i / scale);
}
double Coordinate(const Spec& s, double i, double scale, int64_t in, int64_t out) {
  const double length = scale * double(in), last = double(in) - 1;
  if (s.coordinates == "align_corners") return length == 1 ? 0 : i * last / (length - 1);
  if (s.coordinates == "tf_crop_and_resize")
    return length == 1 ? (s.begin + s.end) * last / 2
                       : s.begin * last + i * (s.end - s.begin) * last / (length - 1);
  if (s.mode == "nearest" && !s.by_sizes)
    return Quotient<float>(s, float(i), float(scale), float(in), float(out));
  return Quotient<double>(s, i, scale, double(in), double(out));
}

double Filter(const Spec& s, double d) {
  d = std::fabs(d);
  if (s.mode == "linear") return std::max(0.0, 1 - d);
  const double a = s.cubic;
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

/// Row i: what each input position weighs in output i. A row of NaN lies outside (crop).
Matrix Weights(const Spec& s, int64_t in, int64_t out, double scale) {
  Matrix m(size_t(out), std::vector<double>(size_t(in), 0));
  const bool crop = s.coordinates == "tf_crop_and_resize";
  for (int64_t i = 0; i < out; ++i) {
    if (scale == 1 && !crop) {  // nothing happens on such an axis
      m[size_t(i)][size_t(i)] = 1;
      continue;
    }
    const double x = Coordinate(s, double(i), scale, in, out);
    auto& row = m[size_t(i)];
    if (crop && (x < 0 || x > double(in) - 1)) {
      row[0] = NAN;
      continue;
    }
    const auto clamped = [&](double p) { return size_t(std::clamp(p, 0.0, double(in) - 1)); };
    if (s.mode == "nearest") {
      const double low = std::floor(x), part = x - low;
      const bool up = s.nearest == "ceil"                ? part > 0
                      : s.nearest == "round_prefer_ceil" ? part >= 0.5
                                                         : s.nearest != "floor" && part > 0.5;
      row[clamped(low + up)] = 1;
      continue;
    }
    const double shrink = s.antialias ? std::min(1.0, scale) : 1;
    double sum = 0;
    for (double p = std::floor(x) - 40; p <= std::floor(x) + 40; ++p) {
      const double w = Filter(s, (p - x) * shrink);
      if (w == 0 || (s.exclude && (p < 0 || p >= double(in)))) continue;
      row[clamped(p)] += w;
      sum += w;
    }
    if (s.antialias || s.exclude)
      for (double& w : row) w /= sum;
  }
  return m;
}

/// [a, b] resized on both axes.
std::vector<double> Oracle(const Spec& s, const Tensor& x, const Ns& out, double sa, double sb,
                           double outside) {
  const int64_t a = x.dims()[0], b = x.dims()[1];
  const Matrix rows = Weights(s, a, out[0], sa), columns = Weights(s, b, out[1], sb);
  std::vector<double> y;
  for (const auto& r : rows)
    for (const auto& c : columns) {
      double sum = 0;
      for (size_t i = 0; i < r.size(); ++i)
        for (size_t j = 0; j < c.size(); ++j)
          sum += r[i] * c[j] * x.at(int64_t(i) * b + int64_t(j));
      y.push_back(std::isnan(sum) ? outside : sum);
    }
  return y;
}

AttrDict Attrs(const Spec& s) {
  return {{"mode", s.mode},
          {"coordinate_transformation_mode", s.coordinates},
          {"nearest_mode", s.nearest},
          {"antialias", int(s.antialias)},
          {"exclude_outside", int(s.exclude)},
          {"cubic_coeff_a", s.cubic},
          {"extrapolation_value", 7.0}};
}

std::vector<Spec> AllSpecs() {
  std::vector<Spec> all;
  for (const char* c : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"}) {
    Spec s;
    s.coordinates = c;
    if (s.coordinates == "tf_crop_and_resize") s.begin = 0.1, s.end = 1.3;
    for (const char* n : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      s.nearest = n;
      all.push_back(s);
    }
    for (const char* mode : {"linear", "cubic"})
      for (const bool antialias : {false, true})
        for (const bool exclude : {false, true}) {
          s.mode = mode, s.antialias = antialias, s.exclude = exclude;
          s.cubic = exclude ? -0.5 : -0.75;
          all.push_back(s);
        }
  }
  return all;
}

std::vector<TensorPtr> Inputs(const Spec& s, const TensorPtr& x, const TensorPtr& scales,
                              const TensorPtr& sizes) {
  const bool crop = s.coordinates == "tf_crop_and_resize";
  std::vector<TensorPtr> in{x, crop ? F32({s.begin, s.begin, s.end, s.end}) : nullptr, scales,
                            sizes};
  while (!in.back()) in.pop_back();
  return in;
}

/// A graph of Resize whose scales, sizes and region are constants.
Tensors RunResize(const std::vector<TensorPtr>& in, const AttrDict& attrs) {
  Graph g;
  std::vector<NodeEntry> entries{NodeEntry(g.AddInput("x", in[0]->dtype(), in[0]->shape()))};
  for (size_t i = 1; i < in.size(); ++i)
    entries.push_back(in[i] ? NodeEntry(g.AddNode("Constant", {}, {{"value", in[i]}}))
                            : NodeEntry());
  g.outputs = std::vector<NodeEntry>{NodeEntry(g.AddNode("Resize", entries, attrs, "y"))};
  EvalOptions options;
  options.typed = true;
  return Reference().Eval(g, {in[0]}, options);
}

}  // namespace

TEST_CASE("Resize in every mode equals dense matrices") {
  struct Row {
    Ns dims;
    double a, b;  ///< scales, or sizes where `sizes`
    bool sizes;
  };
  const Ns few{5, 4}, many{12, 9};
  for (const Row& row :
       {Row{few, 2, 3, false}, Row{few, 0.6, 1.7, false}, Row{few, 0.4, 0.5, false},
        Row{few, 7, 3, true}, Row{few, 1, 9, true}, Row{few, 5, 1, true},
        Row{few, 0.5, 0.25, false}, Row{many, 0.25, 0.5, false}, Row{many, 4, 3, true},
        Row{many, 6, 2, true}, Row{many, 2, 9, true}}) {
    const Ns& dims = row.dims;
    for (const Spec& s : AllSpecs()) {
      const double sa = row.sizes ? row.a / double(dims[0]) : double(float(row.a)),
                   sb = row.sizes ? row.b / double(dims[1]) : double(float(row.b));
      const Ns out = row.sizes ? Ns{int64_t(row.a), int64_t(row.b)}
                               : Ns{int64_t(double(dims[0]) * row.a + 1e-6),
                                    int64_t(double(dims[1]) * row.b + 1e-6)};
      CAPTURE(s.mode);
      CAPTURE(s.coordinates);
      CAPTURE(s.nearest);
      CAPTURE(s.antialias);
      CAPTURE(s.exclude);
      CAPTURE(row.a);
      CAPTURE(row.b);
      Spec with = s;
      with.by_sizes = row.sizes;
      with.begin = double(float(s.begin)), with.end = double(float(s.end));
      const TensorPtr x = Ramp(dims);
      const TensorPtr scales = row.sizes ? nullptr : F32({row.a, row.b});
      const TensorPtr sizes = row.sizes ? Tensor::Ints({int64_t(row.a), int64_t(row.b)}) : nullptr;
      const TensorPtr y = RunResize(Inputs(s, x, scales, sizes), Attrs(s))[0];
      REQUIRE(y->dims() == out);
      const std::vector<double> want = Oracle(with, *x, out, sa, sb, 7.0);
      for (size_t i = 0; i < want.size(); ++i) {
        CAPTURE(i);
        CHECK(y->at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("Resize of integers, of chosen axes, of other ranks") {
  const TensorPtr u = T(DType::kU8, {1, 4}, {10, 20, 250, 255});
  const AttrDict linear{{"mode", "linear"}};
  // Positions -0.25, 0.25, 0.75 ...: rounded to even.
  const TensorPtr y = RunResize({u, nullptr, F32({1, 2})}, linear)[0];
  CHECK(y->dtype() == DType::kU8);
  CHECK(Values(*y) == std::vector<double>{10, 12, 18, 78, 192, 251, 254, 255});
  const AttrDict cubic{{"mode", "cubic"}};
  const TensorPtr steep = T(DType::kU8, {4}, {0, 0, 255, 255});
  for (const double v : Values(*RunResize({steep, nullptr, F32({3})}, cubic)[0])) {
    CHECK(v >= 0);
    CHECK(v <= 255);
  }
  // Axes in any order, negative too.
  const TensorPtr x = Ramp({2, 3, 4});
  const auto of = [&](Ints axes, std::vector<double> scales) {
    return RunResize({x, nullptr, F32(scales)}, {{"mode", "linear"}, {"axes", axes}})[0];
  };
  const TensorPtr want = RunResize({x, nullptr, F32({1, 2, 0.5})}, linear)[0];
  CHECK(of({2, 1}, {0.5, 2})->Equals(*want));
  CHECK(of({-2, -1}, {2, 0.5})->Equals(*want));
  // Empty tensors stand for absent ones, as some exporters write them.
  const TensorPtr empty = F32({});
  CHECK(RunResize({x, empty, empty, Tensor::Ints({2, 6, 2})}, linear)[0]->Equals(*want));
  const TensorPtr b = T(DType::kBool, {2}, {0, 1});
  CHECK(Values(*RunResize({b, nullptr, F32({2})}, {})[0]) == std::vector<double>{0, 0, 1, 1});
}

TEST_CASE("the extents of Resize") {
  const auto shape = [](const std::string& x, const std::string& scales, const std::string& sizes,
                        const std::string& attrs = "") {
    const Graph g =
        Inferred(GraphOfRow(*Op::Get("Resize"),
                            sizes.empty() ? std::vector<std::string>{x, "_", scales}
                                          : std::vector<std::string>{x, "_", "_", sizes},
                            attrs));
    return g.GetAttr<ShapeMap>("shape")[g.outputs[0]].ToString();
  };
  CHECK(shape("f32[b, 3, h, w]", "f32[4] = [1, 1, 2, 0.5]", "") == "[b, 3, 2*h, w//2]");
  // 0.7 in f32 is less than 7 / 10, and 10 * 0.7 is 7 all the same.
  CHECK(shape("f32[10]", "f32[1] = [0.7]", "") == "[7]");
  CHECK(shape("f32[h]", "f32[1] = [0.7]", "") == "[(7*h)//10]");
  CHECK(shape("f32[h, w]", "", "i64[2] = [5, 6]") == "[5, 6]");
  CHECK(shape("f32[2, 4]", "", "i64[2] = [7, 8]", "keep_aspect_ratio_policy = \"not_larger\"") ==
        "[4, 8]");
  CHECK(shape("f32[2, 4]", "", "i64[2] = [7, 8]", "keep_aspect_ratio_policy = \"not_smaller\"") ==
        "[7, 14]");
  CHECK(shape("f32[4, 5]", "", "i64[1] = [3]", "axes = [1]") == "[4, 3]");
  // Sizes that are computed from extents are followed.
  const Graph g = Inferred(ParseGraph(R"(weft 1
graph @g<h, w>(%x: f32[1, h, w], %like: f32[3, w, h]) -> (%y) {
  %s = Shape(%like) {start = 1} : ?
  %y = Resize(%x, _, _, %s) {axes = [1, 2]} : ?
})"));
  CHECK(g.GetAttr<ShapeMap>("shape")[g.outputs[0]].ToString() == "[1, w, h]");

  const TensorPtr x = Ramp({4});
  const auto code = [&](std::vector<TensorPtr> in, AttrDict attrs = {}) {
    return CodeOf([&] { RunResize(in, attrs); });
  };
  CHECK(code({x}) == ErrorCode::kArity);
  CHECK(code({x, nullptr, F32({2}), Tensor::Ints({8})}) == ErrorCode::kArity);
  CHECK(code({x, nullptr, F32({2, 2})}) == ErrorCode::kShapeMismatch);
  CHECK(code({x, nullptr, F32({-1})}) == ErrorCode::kShapeMismatch);
  CHECK(code({x, nullptr, F32({2})}, {{"mode", "bilinear"}}) == ErrorCode::kBadAttribute);
  CHECK(code({x, nullptr, F32({2})}, {{"antialias", 1}}) == ErrorCode::kBadAttribute);
  CHECK(code({x, nullptr, F32({2})}, {{"axes", Ints{1}}}) == ErrorCode::kBadAttribute);
  CHECK(code({x, nullptr, F32({2})}, {{"coordinate_transformation_mode", "tf_crop_and_resize"}}) ==
        ErrorCode::kArity);
}

TEST_CASE("Resize that keeps the aspect ratio") {
  // 4 x 5 to at most 7 x 20: scale 7 / 4 on both axes.
  const TensorPtr x = Ramp({4, 5});
  Spec s;
  s.mode = "linear";
  AttrDict attrs = Attrs(s);
  attrs["keep_aspect_ratio_policy"] = "not_larger";
  const TensorPtr y = RunResize({x, nullptr, nullptr, Tensor::Ints({7, 20})}, attrs)[0];
  REQUIRE(y->dims() == Ns{7, 9});
  const std::vector<double> want = Oracle(s, *x, {7, 9}, 1.75, 1.75, 0);
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(y->at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-9));
  CheckGradient("Resize", {x, nullptr, nullptr, Tensor::Ints({7, 20})}, attrs);
}

TEST_CASE("Resize with antialias reaches as far as its scale says, not as its extents do") {
  // 10 x 4 to at most 2 x 4: scale 1 / 5, so 0.8 columns are one, of five elements and not of four.
  const TensorPtr x = Ramp({10, 4});
  for (const std::string mode : {"linear", "cubic"}) {
    Spec s;
    s.mode = mode;
    s.antialias = true;
    AttrDict attrs = Attrs(s);
    attrs["keep_aspect_ratio_policy"] = "not_larger";
    const Tensors in{x, nullptr, nullptr, Tensor::Ints({2, 4})};
    const TensorPtr y = RunResize(in, attrs)[0];
    REQUIRE(y->dims() == Ns{2, 1});
    const std::vector<double> want = Oracle(s, *x, {2, 1}, 0.2, 0.2, 0);
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(y->at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-9));
    CheckGradient("Resize", in, attrs);
  }
}

TEST_CASE("nearest Resize reads what a rounded scale means") {
  std::vector<double> tens;
  for (int i = 0; i < 10; ++i) tens.push_back(i);
  const TensorPtr x = T(DType::kF32, {10}, tens);
  const AttrDict floor{{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}};
  // 3 / 0.6f is below 5 in f64, and 5 in f32.
  CHECK(Values(*RunResize({x, nullptr, F32({0.6})}, floor)[0]) ==
        std::vector<double>{0, 1, 3, 5, 6, 8});
  // In double precision as well, for it is what backends are compared with.
  Graph g;
  const NodeEntry in(g.AddInput("x", DType::kF32, x->shape()));
  const NodeEntry scales = g.AddConstant(F32({0.6}));
  g.outputs =
      std::vector<NodeEntry>{NodeEntry(g.AddNode("Resize", {in, NodeEntry(), scales}, floor, "y"))};
  EvalOptions options;
  options.typed = false;
  CHECK(Values(*Reference().Eval(g, {x}, options)[0]) == std::vector<double>{0, 1, 3, 5, 6, 8});
  // 21 / 49 rounds, 35 * 21 / 49 does not.
  const TensorPtr y = RunResize({Ramp({21}), nullptr, nullptr, Tensor::Ints({49})}, floor)[0];
  for (int64_t i = 0; i < 49; ++i) CHECK(y->at(i) == Ramp({21})->at(i * 21 / 49));
}

TEST_CASE("gradients of Resize") {
  for (const Spec& s : AllSpecs()) {
    if (s.mode == "nearest" && s.nearest != "floor") continue;
    const TensorPtr x = Ramp({3, 4});
    CheckGradient("Resize", Inputs(s, x, F32({2, 0.6}), nullptr), Attrs(s));
  }
  CheckGradient("weft::ResizeGrad", {Ramp({1, 6}), Tensor::Ints({1, 3}), nullptr, F32({1, 2})},
                {{"mode", "linear"}});
}

}  // namespace weft::ops
