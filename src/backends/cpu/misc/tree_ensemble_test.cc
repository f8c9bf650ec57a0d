/// tree_ensemble_test.cc: random trees against the definition in the interpreter.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "weft/core/graph/graph.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace weft::cpu {
namespace {

struct Lists {
  std::vector<double> roots, features, splits, nan_true, yes, no, starts{0}, targets, weights;
};

TensorPtr ListOf(DType t, const std::vector<double>& v) {
  return Tensor::FromDoubles(t, {int64_t(v.size())}, v);
}

/// Trees of different depths whose leaves have `each` weights (0: as many as they draw).
AttrDict RandomTrees(std::mt19937* random, DType t, int trees, int features, int targets, int each,
                     bool nan_true) {
  Lists l;
  const auto draw = [&](int n) { return int((*random)() % unsigned(n)); };
  const auto leaf = [&] {
    const int count = each > 0 ? each : draw(3);
    for (int i = 0; i < count; ++i) {
      l.targets.push_back(each > 0 ? i : draw(targets));
      l.weights.push_back((draw(64) - 32) / 16.0);
    }
    l.starts.push_back(double(l.targets.size()));
    return ~(int(l.starts.size()) - 2);
  };
  std::function<int(int)> grow = [&](int depth) -> int {
    if (depth == 0 || draw(6) == 0) return leaf();
    const size_t at = l.features.size();
    l.features.push_back(draw(features));
    l.splits.push_back(draw(9) == 0 ? std::nan("") : (draw(32) - 16) / 8.0);
    l.nan_true.push_back(nan_true ? draw(2) : 0);
    l.yes.push_back(0);
    l.no.push_back(0);
    l.yes[at] = grow(depth - 1);
    l.no[at] = grow(depth - 1);
    return int(at);
  };
  for (int i = 0; i < trees; ++i) l.roots.push_back(grow(draw(7)));
  const DType i32 = DType::kI32;
  return {{"targets", int64_t{targets}},
          {"roots", ListOf(i32, l.roots)},
          {"features", ListOf(i32, l.features)},
          {"splits", ListOf(t, l.splits)},
          {"nan_true", ListOf(DType::kU8, l.nan_true)},
          {"true_children", ListOf(i32, l.yes)},
          {"false_children", ListOf(i32, l.no)},
          {"leaf_starts", ListOf(i32, l.starts)},
          {"leaf_targets", ListOf(i32, l.targets)},
          {"leaf_weights", ListOf(t, l.weights)}};
}

Graph GraphOf(DType t, const AttrDict& attrs) {
  Graph g;
  const NodePtr x = g.AddInput("x", t, Shape({SymInt::Symbol("n"), SymInt(5)}));
  g.outputs = {NodeEntry(g.AddNode("weft::TreeEnsemble", {x}, attrs, "y"))};
  return g;
}

TensorPtr Rows(std::mt19937* random, DType t, int64_t rows) {
  auto x = std::make_shared<Tensor>(t, std::vector<int64_t>{rows, 5});
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    const unsigned v = (*random)() % 40;
    x->set(i, v == 39   ? std::nan("")
              : v == 38 ? std::numeric_limits<double>::infinity()
                        : (double(v) - 19) / 8);
  }
  return x;
}

}  // namespace

TEST_CASE("every aggregate, dtype and form of leaves, for any number of rows and threads") {
  std::mt19937 random(7);
  for (const DType t : {DType::kF32, DType::kF64}) {
    for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"}) {
      for (const int each : {0, 1, 3}) {
        AttrDict attrs =
            RandomTrees(&random, t, 1 + int(random() % 20), 5, each == 1 ? 1 : 3, each, each != 1);
        attrs["aggregate"] = aggregate;
        for (const int threads : {1, 3}) {
          CompileOptions options;
          options.threads = threads;
          const auto program = Compile(GraphOf(t, attrs), options);
          CHECK(program->stats().library_calls == 1);
          Session session(program);
          for (const int64_t rows : {1, 0, 7, 8, 9, 130, 1000}) {
            const TensorPtr x = Rows(&random, t, rows);
            const TensorPtr want = GetEvaluator()->Eval(GraphOf(t, attrs), {x})[0];
            // Sums of multiples of 1/16 are exact in any order; an average is divided once.
            CHECK(CompareTensors(*session.Run({x})[0], *want) <= 1);
          }
        }
      }
    }
  }
}

TEST_CASE("weights that are not finite are aggregated as the definition does") {
  std::mt19937 random(3);
  AttrDict attrs = RandomTrees(&random, DType::kF32, 4, 5, 1, 1, false);
  auto weights = std::make_shared<Tensor>(*attrs.at("leaf_weights").get<TensorPtr>());
  for (int64_t i = 0; i < weights->num_elements(); i += 2)
    weights->set(i, std::numeric_limits<double>::infinity());
  attrs["leaf_weights"] = TensorPtr(weights);
  attrs["aggregate"] = "MIN";
  const TensorPtr x = Rows(&random, DType::kF32, 20);
  const TensorPtr want = GetEvaluator()->Eval(GraphOf(DType::kF32, attrs), {x})[0];
  CHECK(CompareTensors(*Session(Compile(GraphOf(DType::kF32, attrs))).Run({x})[0], *want) <= 1);
}

TEST_CASE("a feature that x lacks is refused before a run") {
  std::mt19937 random(5);
  AttrDict attrs = RandomTrees(&random, DType::kF32, 4, 5, 1, 1, false);
  auto features = std::make_shared<Tensor>(*attrs.at("features").get<TensorPtr>());
  REQUIRE(features->num_elements() > 0);
  features->set_int(0, 5);
  attrs["features"] = TensorPtr(features);
  CHECK_THROWS_AS(Compile(GraphOf(DType::kF32, attrs)), UserError);
}

}  // namespace weft::cpu
