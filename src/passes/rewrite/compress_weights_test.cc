/// compress_weights_test.cc: what CompressWeights stores is what the report says of it, no rounding
/// is worse than that of the largest weight of a block, and bad weights are errors.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

TensorPtr RandomWeight(DType t, int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.01, 0.1);
  std::vector<double> v;
  for (int64_t i = 0; i < rows * columns; ++i) v.push_back(normal(random));
  return Tensor::FromDoubles(t, {rows, columns}, v);
}

struct Compressed {
  Graph graph;
  PassRecord record;
};
Compressed Compress(const Graph& g, const std::string& options) {
  std::vector<PassRecord> records;
  PassOptions o;
  o.records = &records;
  Compressed c{
      ApplyPasses(g, Pipeline::Parse("CompressWeights{least_elements=1," + options + "}"), o), {}};
  c.record = records.back();
  return c;
}
NodePtr Only(const Graph& g, const char* op) {
  NodePtr found;
  for (NodePtr n : g.TopoOrder())
    if (IsOp(n, op)) found = n;
  return found;
}

TEST_CASE("the report is the difference of what DequantizeLinear gives") {
  for (const DType t : {DType::kF32, DType::kF16})
    for (const int64_t bits : {2, 4, 8})
      for (const bool zeros : {false, true})
        for (const bool turned : {false, true})
          for (const int64_t block : {0, 7, 16, 100}) {
            CAPTURE(bits);
            CAPTURE(zeros);
            CAPTURE(turned);
            CAPTURE(block);
            const int64_t k = 45, n = 13;  // an odd count of numbers of 4 bits
            const TensorPtr w = turned ? RandomWeight(t, n, k, 1) : RandomWeight(t, k, n, 1);
            Graph g;
            const NodeEntry a(g.AddInput("a", t, Shape({2, k})));
            g.outputs = {NodeEntry(g.AddNode("Gemm", {a, NodeEntry(g.AddParam("w", w))},
                                             {{"transB", int64_t(turned)}}, "product"))};
            const Compressed c =
                Compress(g, "bits=" + std::to_string(bits) + ",block=" + std::to_string(block) +
                                ",zeros=" + (zeros ? "true" : "false"));
            const NodePtr dq = Only(c.graph, "DequantizeLinear");
            REQUIRE(dq);
            CHECK(dq->num_inputs() == (zeros ? 3 : 2));
            std::vector<TensorPtr> in;
            for (const NodeEntry& e : dq->inputs) in.push_back(Graph::ConstantOf(e));
            CHECK(DTypeBits(in[0]->dtype()) == bits);
            CHECK(in[1]->dtype() == t);
            const TensorPtr stored = GetEvaluator()->EvalNode(dq, in, {})[0];
            REQUIRE(stored->dims() == w->dims());
            double most = 0, errors = 0, all = 0;
            for (int64_t i = 0; i < w->num_elements(); ++i) {
              const double d = stored->at(i) - w->at(i);
              most = std::max(most, std::abs(d));
              errors += d * d;
              all += w->at(i) * w->at(i);
            }
            // f16 results are rounded once more than the report counts.
            const double rounding = t == DType::kF16 ? 1e-3 : 1e-6;
            REQUIRE(c.record.report.size() == 1);
            const std::vector<OptionValue>& row = c.record.report[0];
            CHECK(std::get<std::string>(row[0]) == "w");
            CHECK(std::get<std::string>(row[1]).find("product") != std::string::npos);
            CHECK(std::abs(std::get<double>(row[5]) - most) < rounding);
            CHECK(std::abs(std::get<double>(row[6]) - std::sqrt(errors / all)) < rounding * 10);
            CHECK(c.record.statistics.at("weights") == 1);
            // Whatever the search finds is no worse than a grid from the least to the greatest.
            const double steps = double((int64_t{1} << bits) - 1);
            if (bits > 2) CHECK(std::sqrt(errors / all) < 12 / steps / std::sqrt(12.0));
          }
}

TEST_CASE("four bits of normal weights, in blocks of 32: about a tenth") {
  Graph g;
  const NodeEntry a(g.AddInput("a", DType::kF32, Shape({2, 512})));
  g.outputs = {NodeEntry(
      g.AddNode("MatMul", {a, NodeEntry(g.AddParam("w", RandomWeight(DType::kF32, 512, 64, 3)))}))};
  const auto rms = [&](const std::string& options) {
    return std::get<double>(Compress(g, options).record.report.at(0)[6]);
  };
  CHECK(rms("bits=4,block=32") < 0.09);
  CHECK(rms("bits=8,block=32") < 0.006);
  CHECK(rms("bits=4,block=16") < rms("bits=4,block=256"));
}

TEST_CASE("weights that cannot be stored, and options out of range, are errors with a place") {
  for (const double bad : {double(NAN), double(INFINITY)}) {
    Graph g;
    const NodeEntry a(g.AddInput("a", DType::kF32, Shape({2, 2})));
    const NodeEntry w(g.AddParam("w", Tensor::FromDoubles(DType::kF32, {2, 2}, {1, 2, bad, 4})));
    g.outputs = {NodeEntry(g.AddNode("MatMul", {a, w}))};
    try {
      Compress(g, "bits=4");
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kInvalidModel);
      CHECK(std::string(e.what()).find("'w'") != std::string::npos);
      CHECK(std::string(e.what()).find("[1, 0]") != std::string::npos);
    }
    CHECK(Compress(g, "except=w").record.report.empty());
  }
  Graph g;
  for (const char* options : {"bits=3", "bits=16", "block=-1"}) {
    CAPTURE(options);
    CHECK_THROWS_AS(Compress(g, options), Error);
  }
}

TEST_CASE("extreme weights: nothing, the least and the greatest numbers") {
  for (const std::vector<double>& v : std::vector<std::vector<double>>{
           {0, 0, 0, 0}, {1e-45, -1e-45, 0, 1e-45}, {3e38, -3e38, 1, 0}, {-5, -5, -5, -5}})
    for (const char* options : {"bits=4,block=2", "bits=8,block=4,zeros=true", "bits=2,block=4"}) {
      Graph g;
      const NodeEntry a(g.AddInput("a", DType::kF32, Shape({1, 4})));
      const NodeEntry w(g.AddParam("w", Tensor::FromDoubles(DType::kF32, {4, 1}, v)));
      g.outputs = {NodeEntry(g.AddNode("MatMul", {a, w}))};
      const Compressed c = Compress(g, options);
      const NodePtr dq = Only(c.graph, "DequantizeLinear");
      REQUIRE(dq);
      const TensorPtr scale = Graph::ConstantOf(dq->inputs[1]);
      for (int64_t i = 0; i < scale->num_elements(); ++i) {
        CHECK(std::isfinite(scale->at(i)));
        CHECK(scale->at(i) != 0);
      }
    }
}

}  // namespace
}  // namespace weft
