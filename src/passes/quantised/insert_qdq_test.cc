/// insert_qdq_test.cc: scales, codes and biases of InsertQdq are those that the formulas of the
/// standard give, computed here; what is not rounded, and why; bad ranges are errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/code_of.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/calibration.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

struct Inserted {
  Graph graph;
  PassRecord record;
};
Inserted Insert(const Graph& g, const std::string& options = "") {
  std::vector<PassRecord> records;
  PassOptions o;
  o.records = &records;
  Inserted i{ApplyPasses(g, Pipeline::Parse("InsertQdq{" + options + "}"), o), {}};
  i.record = records.back();
  return i;
}
NodePtr Named(const Graph& g, const std::string& name) {
  for (const NodePtr& n : g.TopoOrder())
    if (n->attrs.name == name) return n;
  return {};
}
TensorPtr Param(const Graph& g, const std::string& name) {
  const NodePtr n = Named(g, name);
  REQUIRE(n);
  return Graph::ConstantOf(NodeEntry(n));
}
TensorPtr Random(std::vector<int64_t> dims, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.1, 1);
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, normal(random));
  return t;
}
/// y = Conv(x, w, b), groups of filters, x from -1 to 3 with these means of its channels.
Graph Convolution(const TensorPtr& w, const TensorPtr& b, int64_t channels, int64_t group,
                  const std::vector<float>& means) {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({1, channels, 4, 4})));
  std::vector<NodeEntry> in{x, NodeEntry(g.AddParam("w", w))};
  if (b) in.push_back(NodeEntry(g.AddParam("b", b)));
  g.outputs = {NodeEntry(g.AddNode("Conv", in, {{"group", group}}, "y"))};
  RangeMap ranges;
  ranges.set(x, {-1, 3});
  g.SetAttr("range", ranges);
  ChannelMap stats;
  stats.set(x,
            {1, std::vector<float>(means.size(), -1), std::vector<float>(means.size(), 3), means});
  g.SetAttr("channels", stats);
  return g;
}

TEST_CASE("scales and codes are those of the formulas") {
  const TensorPtr w = Random({6, 2, 3, 3}, 1), b = Random({6}, 2);
  const Graph g = Convolution(w, b, 4, 2, {});
  for (const bool s8 : {false, true})
    for (const bool symmetric : {false, true})
      for (const bool per_channel : {false, true}) {
        CAPTURE(s8);
        CAPTURE(symmetric);
        CAPTURE(per_channel);
        const Inserted i = Insert(g, std::string("activations=") + (s8 ? "s8" : "u8") +
                                         ",symmetric=" + (symmetric ? "true" : "false") +
                                         ",per_channel=" + (per_channel ? "true" : "false"));
        const double scale = Param(i.graph, "x_scale")->at(0);
        const int64_t zero = Param(i.graph, "x_zero_point")->at_int(0);
        CHECK(Param(i.graph, "x_zero_point")->dtype() == (s8 ? DType::kI8 : DType::kU8));
        CHECK(scale == doctest::Approx(symmetric ? 3.0 / 127 : 4.0 / 255));
        CHECK(zero == (symmetric ? 0 : 64 - 128) + (s8 ? 0 : 128));
        const TensorPtr codes = Param(i.graph, "w_quantized"), scales = Param(i.graph, "w_scale");
        CHECK(codes->dtype() == DType::kI8);
        REQUIRE(scales->num_elements() == (per_channel ? 6 : 1));
        double most = 0;
        for (int64_t k = 0; k < w->num_elements(); ++k) most = std::max(most, std::abs(w->at(k)));
        for (int64_t f = 0; f < 6; ++f) {
          double of_filter = 0;
          for (int64_t k = 0; k < 18; ++k)
            of_filter = std::max(of_filter, std::abs(w->at(f * 18 + k)));
          const double s = scales->at(per_channel ? f : 0);
          CHECK(s == doctest::Approx((per_channel ? of_filter : most) / 127));
          for (int64_t k = 0; k < 18; ++k)
            CHECK(codes->at_int(f * 18 + k) == int64_t(std::nearbyint(w->at(f * 18 + k) / s)));
          const TensorPtr bias = Param(i.graph, "b_quantized"), unit = Param(i.graph, "b_scale");
          CHECK(bias->dtype() == DType::kI32);
          const double u = unit->at(per_channel ? f : 0);
          CHECK(u == doctest::Approx(scale * s));
          CHECK(std::abs(double(bias->at_int(f)) - b->at(f) / u) <= 0.51);
        }
        REQUIRE(i.record.report.size() == 1);
        CHECK(std::get<std::string>(i.record.report[0][2]) == "quantised");
        CHECK(std::get<int64_t>(i.record.report[0][7]) == 4 * (108 + 6));
        CHECK(std::get<int64_t>(i.record.report[0][8]) ==
              108 + 4 * 6 + 2 * 4 * (per_channel ? 6 : 1));
      }
}

TEST_CASE("bias correction takes away the mean error of the weights, group by group") {
  const TensorPtr w = Random({4, 2, 1, 1}, 3), b = Random({4}, 4);
  const std::vector<float> means{0.5f, -1, 2, 3};
  for (const bool has_bias : {true, false}) {
    const Graph g = Convolution(w, has_bias ? b : nullptr, 4, 2, means);
    // One scale for all makes errors large.
    const Inserted plain = Insert(g, "per_channel=false"),
                   corrected = Insert(g, "per_channel=false,bias_correction=true");
    CHECK(corrected.record.statistics.at("biases_corrected") == 1);
    const Graph& c = corrected.graph;
    const double scale = Param(c, "w_scale")->at(0);
    const std::string name = has_bias ? "b" : "y_bias";
    const double unit = Param(c, name + "_scale")->at(0);
    for (int64_t f = 0; f < 4; ++f) {
      double shift = 0;
      for (int64_t k = 0; k < 2; ++k)
        shift += (double(Param(c, "w_quantized")->at_int(f * 2 + k)) * scale - w->at(f * 2 + k)) *
                 double(means[size_t(f / 2 * 2 + k)]);
      const double bias = double(Param(c, name + "_quantized")->at_int(f)) * unit;
      CHECK(std::abs(bias - ((has_bias ? b->at(f) : 0) - shift)) <= 0.51 * unit);
    }
    if (!has_bias) CHECK(Named(plain.graph, "y")->num_inputs() == 2);
  }
}

TEST_CASE("a bias that is large beside its filter widens the scale, so that sums fit i32") {
  const TensorPtr w = Tensor::FromDoubles(DType::kF32, {2, 1, 1, 1}, {1e-9, 1}),
                  b = Tensor::FromDoubles(DType::kF32, {2}, {5000, 0.5});
  const Inserted i = Insert(Convolution(w, b, 1, 1, {}));
  const TensorPtr bias = Param(i.graph, "b_quantized");
  CHECK(std::abs(bias->at_int(0)) < INT32_MAX - 255 * 255);
  CHECK(double(bias->at_int(0)) * Param(i.graph, "b_scale")->at(0) == doctest::Approx(5000));
  CHECK(Param(i.graph, "w_scale")->at(1) == doctest::Approx(1.0 / 127));
}

TEST_CASE("what is not rounded, and why") {
  const Graph g = ParseGraph(R"(weft 1
graph (%a: f32[2, 2] #range = "-1, 1", %z: f32[2, 2] #range = "0, 0", %n: f32[2, 2], %q: u8[2, 2], %s: f32[] param = [0.5], %w: f32[2, 2] param = [1, 2, 3, 4], %v: f32[2, 2] param = [1, 2, 3, 4]) -> (%y0, %y1, %y2, %y3, %y4, %y5) {
  %d = DequantizeLinear(%q, %s) : f32[2, 2] #range = "-1, 1"
  %y0 = MatMul(%z, %w)
  %y1 = MatMul(%n, %w)
  %y2 = MatMul(%d, %w)
  %y3 = MatMul(%a, %v)
  %y4 = Gemm(%a, %w)
  %y5 = MatMul(%a, %w)
})");
  const Inserted i = Insert(g, "ops=\"MatMul\",except=\"v;other\"");
  std::map<std::string, std::string> states;
  for (const auto& row : i.record.report)
    states[std::get<std::string>(row[0])] = std::get<std::string>(row[2]);
  CHECK(states == std::map<std::string, std::string>{{"y0", "'z' was always 0"},
                                                     {"y1", "there is no range of 'n'"},
                                                     {"y2", "'d' is quantised already"},
                                                     {"y3", "its weights are excepted"},
                                                     {"y5", "quantised"}});
  CHECK(i.record.statistics.at("skipped") == 4);
  CHECK(IsOp(Named(i.graph, "y4")->inputs[0].node, "DequantizeLinear") == false);
}

TEST_CASE("names with separators are excepted, and operators that are not known are errors") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({2, 2})));
  const NodeEntry w(g.AddParam("w", Tensor::FromDoubles(DType::kF32, {2, 2}, {1, 2, 3, 4})));
  g.outputs = {NodeEntry(g.AddNode("MatMul", {x, w}, {}, "a;1")),
               NodeEntry(g.AddNode("MatMul", {x, w}, {}, "y"))};
  RangeMap ranges;
  ranges.set(x, {-1, 1});
  g.SetAttr("range", std::move(ranges));
  const Inserted i = Insert(g, "except=\"b;a;1\"");
  CHECK(IsOp(Named(i.graph, "a;1")->inputs[0].node, "DequantizeLinear") == false);
  CHECK(IsOp(Named(i.graph, "y")->inputs[0].node, "DequantizeLinear"));
  CHECK(CodeOf([&] { Insert(g, "ops=\"Conv,Gemm\""); }) == ErrorCode::kUsage);
}

TEST_CASE("an exception is one of a node, not of who reads its result") {
  const Graph g = ParseGraph(R"(weft 1
graph (%a: f32[2, 2] #range = "-1, 1", %w: f32[2, 2] param = [1, 2, 3, 4]) -> (%z) {
  %y = MatMul(%a, %w) : f32[2, 2] #range = "-5, 5"
  %z = MatMul(%y, %w) : f32[2, 2]
})");
  const Inserted i = Insert(g, "except=\"y\"");
  CHECK(!IsOp(Named(i.graph, "y")->inputs[1].node, "DequantizeLinear"));
  CHECK(IsOp(Named(i.graph, "z")->inputs[0].node, "DequantizeLinear"));
}

TEST_CASE("bad ranges, weights and options are errors") {
  const auto fails = [](const Graph& g, const std::string& options, ErrorCode code,
                        const std::string& message) {
    try {
      Insert(g, options);
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.code() == code);
      CHECK(std::string(e.what()).find(message) != std::string::npos);
    }
  };
  const TensorPtr w = Random({1, 1, 1, 1}, 1);
  const Graph g = Convolution(w, nullptr, 1, 1, {});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ValueRange& r : {ValueRange{1, 2}, ValueRange{-2, -1}, ValueRange{2, -2},
                              ValueRange{nan, 1}, ValueRange{0, INFINITY}}) {
    Graph bad = g;
    RangeMap ranges;
    ranges.set(NodeEntry(bad.inputs()[0]), r);
    bad.SetAttr("range", ranges);
    fails(bad, "", ErrorCode::kInvalidModel, "the range of a value is");
  }
  fails(
      Convolution(Tensor::FromDoubles(DType::kF32, {1, 1, 1, 1}, {double(nan)}), nullptr, 1, 1, {}),
      "", ErrorCode::kInvalidModel, "a weight is nan");
  fails(g, "activations=u4", ErrorCode::kUsage, "expected u8 or s8");
  Graph none = g;
  none.DropAttr("range");
  fails(none, "", ErrorCode::kDependency, "range");
}

}  // namespace
}  // namespace weft
