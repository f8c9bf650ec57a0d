/// quantise_test.cc: calibration against numbers computed here; quantised networks against the
/// floats, in the interpreter and as integer calls; the type of real files by a trained network.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "tests/support/e2e_util.h"
#include "weft/api/model.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/calibration.h"
#include "weft/runtime/quantise/quantise_model.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::e2e {
namespace {

TensorPtr Random(std::vector<int64_t> dims, uint32_t seed, float width = 1) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  uint64_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    t->set(i, (double(state >> 40) / double(1 << 24) - 0.5) * 2 * double(width));
  }
  return t;
}
Samples Of(std::vector<NamedInputs> all) {
  return {all.size(), [all](size_t k) { return all[k]; }};
}
CompileOptions OnRef() {
  CompileOptions o;
  o.backend = "ref";
  return o;
}
NodePtr Named(const Graph& g, const std::string& name) {
  for (const NodePtr& n : g.TopoOrder())
    if (n->attrs.name == name) return n;
  return {};
}

/// A convolution network: 1 image of 2 channels, residual addition, pooling, a classifier.
Graph Network() {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({1, 2, 8, 8})));
  const auto conv = [&](const NodeEntry& in, int64_t from, int64_t to, const std::string& name) {
    return NodeEntry(g.AddNode(
        "Conv",
        {in,
         NodeEntry(g.AddParam(name + "_w", Random({to, from, 3, 3}, uint32_t(from + to), 0.4f))),
         NodeEntry(g.AddParam(name + "_b", Random({to}, 9, 0.2f)))},
        {{"pads", Ints{1, 1, 1, 1}}}, name));
  };
  const auto relu = [&](const NodeEntry& in, const std::string& name) {
    return NodeEntry(g.AddNode("Relu", {in}, {}, name));
  };
  const NodeEntry a = relu(conv(x, 2, 8, "c1"), "r1");
  const NodeEntry b =
      relu(NodeEntry(g.AddNode("Add", {conv(a, 8, 8, "c2"), a}, {}, "residual")), "r2");
  const NodeEntry p(
      g.AddNode("MaxPool", {b}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, "pool"));
  const NodeEntry f(g.AddNode("Flatten", {p}, {}, "flat"));
  g.outputs = {NodeEntry(g.AddNode("Gemm",
                                   {f, NodeEntry(g.AddParam("fc_w", Random({128, 5}, 21, 0.2f))),
                                    NodeEntry(g.AddParam("fc_b", Random({5}, 22)))},
                                   {}, "fc"))};
  return g;
}
Samples NetworkSamples(size_t count) {
  std::vector<NamedInputs> all;
  for (size_t k = 0; k < count; ++k)
    all.push_back({{"x", Random({1, 2, 8, 8}, uint32_t(100 + k))}});
  return Of(all);
}

TEST_CASE("calibration: ranges and channels are those of the values") {
  const Graph g =
      FromText(R"(graph (%x: f32[2, 3], %w: f32[3, 2] param = [1, 0, 0, 1, 1, -1]) -> (%y) {
  %y = MatMul(%x, %w)
  })");
  const Samples samples =
      Of({{{"x", Tensor::FromDoubles(DType::kF32, {2, 3}, {1, -2, 3, 4, 5, 0.5})}},
          {{"x", Tensor::FromDoubles(DType::kF32, {2, 3}, {0, -7, 1, 2, 0, 0.5})}}});
  CalibrateOptions options;
  options.compile = OnRef();
  const Graph c = Calibrate(g, samples, options);
  const NodeEntry x(c.inputs()[0]);
  CHECK(c.GetAttr<RangeMap>("range")[x] == ValueRange{-7, 5});
  const ChannelStats& s = c.GetAttr<ChannelMap>("channels")[x];
  CHECK(s.axis == 1);
  CHECK(s.low == std::vector<float>{0, -7, 0});
  CHECK(s.high == std::vector<float>{4, 5, 3});
  CHECK(s.mean == std::vector<float>{1.75, -1, 1.25});
  // What nothing rounds has no range; text keeps what there is.
  CHECK(!c.GetAttr<RangeMap>("range").find(c.outputs[0]));
  CHECK(PrintGraph(ParseGraph(PrintGraph(c))) == PrintGraph(c));
}

TEST_CASE("calibration: a sample without elements adds nothing") {
  const Graph g = FromText(R"(graph (%x: f32[2, n], %w: f32[2, 2] param = [1, 0, 0, 1]) -> (%y) {
  %y = Gemm(%x, %w) {transA = 1}
  })");
  const Samples samples = Of({{{"x", Tensor::FromDoubles(DType::kF32, {2, 0}, {})}},
                              {{"x", Tensor::FromDoubles(DType::kF32, {2, 2}, {1, -2, 3, 4})}}});
  CalibrateOptions options;
  options.compile = OnRef();
  const Graph c = Calibrate(g, samples, options);
  const NodeEntry x(c.inputs()[0]);
  CHECK(c.GetAttr<RangeMap>("range")[x] == ValueRange{-2, 4});
  CHECK(c.GetAttr<ChannelMap>("channels")[x].mean == std::vector<float>{-0.5, 3.5});
}

TEST_CASE("calibration: bad data are errors with a place") {
  const Graph g = FromText(R"(graph (%x: f32[2], %w: f32[2, 2] param = [1, 0, 0, 1]) -> (%y) {
    %s = Sqrt(%x)
    %y = MatMul(%s, %w)
  })");
  CalibrateOptions options;
  options.compile = OnRef();
  const auto run = [&](std::vector<double> v) {
    return Catch([&] {
      Calibrate(g, Of({{{"x", Tensor::FromDoubles(DType::kF32, {2}, v)}}}), options);
    });
  };
  CHECK(!run({1, 4}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto e = run({1, nan});
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadInput);
  CHECK(e->says("input 'x' of sample 0: element 1 is NaN"));
  e = run({1, -4});
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadInput);
  CHECK(e->says("'s' (Sqrt): element 1 is NaN in sample 0"));
  e = Catch([&] { Calibrate(g, {}, options); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadInput);
  CHECK(e->says("there are no samples"));
  options.percentile = 20;
  e = Catch([&] { Calibrate(g, {}, options); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kUsage);
  e = Catch([&] { ParseRangeMethod("minmx"); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kUsage);
  options.percentile = 99;
  // An infinity is a mask: it gets no range, and its reader stays in floats.
  const Graph c =
      Calibrate(g, Of({{{"x", Tensor::FromDoubles(DType::kF32, {2}, {1, INFINITY})}}}), options);
  CHECK(!c.GetAttr<RangeMap>("range").find(NodeEntry(Named(c, "s"))));
  QuantiseOptions quantise;
  quantise.calibrate = options;
  e = Catch([&] {
    QuantiseModel(g, Of({{{"x", Tensor::FromDoubles(DType::kF32, {2}, {1, INFINITY})}}}), quantise);
  });
  REQUIRE(e);
  CHECK(e->says("nothing in the model can be quantised"));
  CHECK(e->says("there is no range of 's'"));
}

TEST_CASE("a network: every method and form, near the floats; sizes; wholly integers on the cpu") {
  const Samples samples = NetworkSamples(12);
  for (const RangeMethod method :
       {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse})
    for (const bool per_channel : {true, false})
      for (const char* activations : {"u8", "s8"}) {
        QuantiseOptions options;
        options.calibrate.compile = OnRef();
        options.calibrate.method = method;
        options.per_channel = per_channel;
        options.symmetric = per_channel;
        options.activations = activations;
        options.bias_correction = per_channel;
        const QuantisedModel m = QuantiseModel(Network(), samples, options);
        CAPTURE(int(method));
        CAPTURE(activations);
        CAPTURE(per_channel);
        CHECK(m.samples == 12);
        REQUIRE(m.outputs.size() == 1);
        // Entropy cuts off more: these values are spread evenly.
        CHECK(m.outputs[0].db > (method == RangeMethod::kEntropy ? 15 : 24));
        CHECK(m.bytes_after < m.bytes_before * 0.45);
        int64_t quantised = 0;
        for (const QuantisedLayer& l : m.layers) {
          CAPTURE(l.name);
          CHECK(l.quantised());
          quantised += l.quantised();
          if (l.op == "Conv" || l.op == "Gemm") CHECK(l.own_db > 20);
        }
        CHECK(quantised == 6);  // c1, c2, fc; residual; pool, flat
      }
  QuantiseOptions options;
  const QuantisedModel m = QuantiseModel(Network(), samples, options);
  CHECK(m.outputs[0].db > 28);
  CHECK(m.integer_calls == 3);
  CHECK(m.requantised == 2);
  CHECK(m.moved == 2);
}

TEST_CASE("what is measured is what the interpreter makes of the two graphs") {
  const Samples samples = NetworkSamples(3);
  QuantiseOptions options;
  options.calibrate.compile = OnRef();
  const QuantisedModel m = QuantiseModel(Network(), samples, options);
  double signal = 0, noise = 0, most = 0;
  EvalOptions exact;
  exact.typed = false;
  for (size_t k = 0; k < samples.count; ++k) {
    const std::vector<TensorPtr> in = {samples.get(k).at("x")};
    const TensorPtr want = GetEvaluator()->Eval(Network(), in, exact)[0],
                    got = GetEvaluator()->Eval(m.graph, in, exact)[0];
    for (int64_t i = 0; i < want->num_elements(); ++i) {
      const double d = got->at(i) - want->at(i);
      signal += want->at(i) * want->at(i);
      noise += d * d;
      most = std::max(most, std::abs(d));
    }
  }
  // A code may be the next one where f32 and f64 round differently.
  CHECK(std::abs(10 * std::log10(signal / noise) - m.outputs[0].db) < 1);
  CHECK(m.outputs[0].max_error < 1.3 * most);
  CHECK(m.outputs[0].max_error > most / 1.3);
}

TEST_CASE("a layer that loses too much stays in floats, and says so") {
  QuantiseOptions options;
  options.calibrate.compile = OnRef();
  options.least_sqnr_db = 200;
  auto e = Catch([&] { QuantiseModel(Network(), NetworkSamples(2), options); });
  REQUIRE(e);
  CHECK(e->says("nothing in the model can be quantised"));
  // One filter's numbers hide those of the others where all weights share a scale.
  Graph g = FromText(
      R"(graph (%x: f32[4, 2], %w: f32[2, 2] param = [1000, 0.3, 1000, 0.4], %v: f32[2, 2] param = [1, 2, 3, 4]) -> (%y, %z) {
    %y = MatMul(%x, %w)
    %z = MatMul(%x, %v)
  })");
  const Samples samples = Of({{{"x", Random({4, 2}, 3)}}, {{"x", Random({4, 2}, 4)}}});
  options.per_channel = false;
  options.least_sqnr_db = 15;
  options.except = "z";
  e = Catch([&] { QuantiseModel(g, samples, options); });
  CHECK(!e);  // the large ones alone count
  options.except = "";
  options.least_sqnr_db = 60;
  options.per_channel = true;
  e = Catch([&] { QuantiseModel(g, samples, options); });
  REQUIRE(e);
  CHECK(e->says("excepted by name"));
  QuantisedModel twice;
  options.least_sqnr_db = 15;
  twice = QuantiseModel(g, samples, options);
  e = Catch([&] { QuantiseModel(twice.graph, samples, options); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kInvalidModel);
  CHECK(e->says("is quantised already"));
}

TEST_CASE("a target for the outputs: products are given up until they reach it") {
  QuantiseOptions options;
  options.calibrate.compile = OnRef();
  const Samples samples = NetworkSamples(4);
  const QuantisedModel all = QuantiseModel(Network(), samples, options);
  options.target_db = all.outputs[0].db - 1;
  CHECK(QuantiseModel(Network(), samples, options).bytes_after == all.bytes_after);
  options.target_db = all.outputs[0].db + 1;
  const QuantisedModel some = QuantiseModel(Network(), samples, options);
  CHECK(some.outputs[0].db >= options.target_db);
  int64_t given_up = 0, kept = 0;
  for (const QuantisedLayer& l : some.layers) {
    given_up += StartsWith(l.state, "loses accuracy: alone it leaves the outputs");
    kept += l.quantised();
  }
  CHECK(given_up > 0);
  CHECK(kept > 0);
  options.target_db = 1000;
  const auto e = Catch([&] { QuantiseModel(Network(), samples, options); });
  REQUIRE(e);
  CHECK(e->says("outputs do not keep 1000 dB with any product quantised"));
}

TEST_CASE("SmoothQuant: a channel a hundred times as wide costs less") {
  const int64_t channels = 16;
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({32, channels})));
  g.outputs = {NodeEntry(
      g.AddNode("MatMul", {x, NodeEntry(g.AddParam("w", Random({channels, 8}, 5)))}, {}, "y"))};
  std::vector<NamedInputs> all;
  for (uint32_t k = 0; k < 4; ++k) {
    auto t = std::const_pointer_cast<Tensor>(Random({32, channels}, 50 + k));
    for (int64_t r = 0; r < 32; ++r) t->set(r * channels + 3, t->at(r * channels + 3) * 100);
    all.push_back({{"x", t}});
  }
  QuantiseOptions options;
  options.calibrate.compile = OnRef();
  const double plain = QuantiseModel(g, Of(all), options).outputs[0].db;
  const auto noise = [&](double smooth) {
    options.smooth = smooth;
    const QuantisedModel m = QuantiseModel(g, Of(all), options);
    REQUIRE(m.outputs.size() == 1);
    return m.outputs[0].db;
  };
  CHECK(noise(0.5) > plain + 3);
}

/// Magika's features: the first and last 1024 bytes without blanks around them, 256 behind.
TensorPtr Features(const std::string& bytes) {
  auto t = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{1, 2048});
  const std::string first(Trim(bytes.substr(0, 4096))),
      last(Trim(bytes.size() > 4096 ? bytes.substr(bytes.size() - 4096) : bytes));
  auto* v = t->mutable_data_as<int32_t>();
  std::fill(v, v + 2048, 256);
  for (size_t i = 0; i < std::min<size_t>(1024, first.size()); ++i) v[i] = uint8_t(first[i]);
  const size_t count = std::min<size_t>(1024, last.size());
  for (size_t i = 0; i < count; ++i) v[2048 - count + i] = uint8_t(last[last.size() - count + i]);
  return t;
}

TEST_CASE("a trained network, quantised, tells the type of this tree's files as the floats do") {
  const char* data = std::getenv("WEFT_DATA_DIR");
  const std::string path = std::string(data ? data : "build/data") + "/magika/model.onnx";
  if (!FileExists(path)) {
    MESSAGE("skipped: there is no " << path);
    return;
  }
  std::vector<std::string> files;
  for (const char* room :
       {"src/core", "src/onnx", "tools", "docs", "python", "cmake", "tests/passes"})
    for (const auto& f : std::filesystem::recursive_directory_iterator(room))
      if (f.is_regular_file() && f.file_size() > 64) files.push_back(f.path().string());
  std::sort(files.begin(), files.end());
  std::vector<NamedInputs> seen, unseen;
  const size_t step = std::max<size_t>(1, files.size() / 150);
  for (size_t i = 0; i < files.size(); i += step)
    (unseen.size() > 2 * seen.size() ? seen : unseen)
        .push_back({{"bytes", Features(ReadFile(files[i]))}});
  const Graph g = LoadModel(path);
  QuantiseOptions options;
  options.calibrate.method = RangeMethod::kMse;
  const QuantisedModel m = QuantiseModel(g, Of(seen), options);
  CHECK(m.bytes_after < m.bytes_before * 0.8);
  Session floats(Compile(g)), rounded(Compile(m.graph));
  int64_t same = 0;
  for (const NamedInputs& in : unseen) {
    const TensorPtr a = floats.Run(in)[0], b = rounded.Run(in)[0];
    const auto top = [](const TensorPtr& t) {
      const float* v = t->data_as<float>();
      return std::max_element(v, v + t->num_elements()) - v;
    };
    same += top(a) == top(b);
  }
  CAPTURE(same);
  CAPTURE(unseen.size());
  CHECK(double(same) >= 0.97 * double(unseen.size()));
}

}  // namespace
}  // namespace weft::e2e
