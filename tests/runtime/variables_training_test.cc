/// variables_training_test.cc: a training step, from gradients to parameters written in place.
#include <doctest/doctest.h>

#include <random>

#include "tests/support/variables_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/runtime/session/variable_store.h"

using namespace weft;
using namespace weft::e2e;

namespace {

/// One step of momentum on a small network; outputs the loss and the group of all updates.
Graph TrainingStep() {
  Graph g;
  const auto random = [](std::vector<int64_t> dims, uint64_t seed) {
    std::mt19937_64 rng(seed);
    Values v(size_t(NumElements(dims)));
    for (double& d : v) d = (double(rng() % 2001) - 1000) / 4000;
    return Tensor::FromDoubles(DType::kF32, std::move(dims), v);
  };
  const auto zeros = [](std::vector<int64_t> dims) {
    return std::make_shared<const Tensor>(DType::kF32, std::move(dims));
  };
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({64, 96}))),
      y(g.AddInput("y", DType::kF32, Shape::OfInts({64, 32})));
  std::vector<NodeEntry> xs, updates;
  const auto parameter = [&](const char* name, std::vector<int64_t> dims) {
    xs.emplace_back(AddState(g, name, DType::kF32, Shape(), random(dims, xs.size() + 1)));
    return xs.back();
  };
  const NodeEntry w1 = parameter("w1", {96, 128}), b1 = parameter("b1", {128}),
                  w2 = parameter("w2", {128, 32}), b2 = parameter("b2", {32});
  const NodeEntry h = ApplyOp("Tanh", {ApplyOp("MatMul", {x, w1}) + b1});
  const NodeEntry e = ApplyOp("MatMul", {h, w2}) + b2 - y;
  const NodeEntry loss = ApplyOp("ReduceMean", {e * e}, {{"keepdims", 0}});
  const std::vector<NodeEntry> gradients = Gradients(g, {loss}, xs);
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string name = xs[i].node->attrs.name;
    const NodeEntry m(
        AddState(g, "m_" + name, DType::kF32, Shape(), zeros(DeclaredShape(xs[i].node)->ints())));
    const NodeEntry moved = Assign(m, m * ScalarLike(m, DType::kF32, 0.9) + gradients[i]);
    updates.push_back(Assign(xs[i], xs[i] - moved * ScalarLike(m, DType::kF32, 0.05)));
  }
  g.outputs = {loss, Group(updates)};
  return g;
}

}  // namespace

TEST_CASE("variables: a network trains, equally by every way, and updates cost no copies") {
  const Graph g = TrainingStep();
  const auto inputs = MakeRandomInputs(g, 3).tensors;
  std::vector<Values> losses;
  for (const Way& way : Ways()) {
    INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
    const auto program = CompileWay(g, way);
    CHECK(program->variables().size() == 8);
    CHECK(program->inputs().size() == 2);
    Session s(program);
    Values mine;
    for (int step = 0; step < 6; ++step) mine.push_back(s.Run(inputs)[0]->at(0));
    CHECK(mine.back() < mine.front());
    losses.push_back(mine);
    for (size_t i = 0; i < mine.size(); ++i)
      CHECK(mine[i] == doctest::Approx(losses[0][i]).epsilon(1e-4));
    if (std::string(way.backend) != "cpu") continue;
    CHECK(program->stats().interpreted == 0);
    CHECK(program->stats().host_steps == 0);
    CHECK(s.live_bytes() > 0);
    CHECK(double(s.arena_bytes()) <= 1.01 * double(s.live_bytes()) + 1024);
  }
}

TEST_CASE("variables: a gradient is of what the forward part read, also behind a write") {
  for (const Way& way : Ways()) {
    INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
    Graph g;
    const NodeEntry v(AddState(g, "v", DType::kF32, Shape{2}, Vector({3, 5})));
    const NodeEntry x(g.AddInput("x", DType::kF32, Shape{2}));
    const NodeEntry y = v * x * v;
    const NodeEntry first = Assign(v, v - ScalarLike(v, DType::kF32, 1));
    const NodeEntry later = v * x;  // reads what the first write left
    const NodeEntry second = Assign(v, v + v);
    const std::vector<NodeEntry> grads = Gradients(g, {y + later}, {x, v});
    g.outputs = {grads[0], grads[1], first, second};
    Session s(CompileWay(g, way));
    const auto out = s.Run({Vector({10, 100})});
    // d/dx (v0 x v0 + v1 x) = v0^2 + v1, d/dv = 2 v0 x + x, with v0 = (3, 5) and v1 = v0 - 1.
    CHECK(ValuesOf(*out[0]) == Values{11, 29});
    CHECK(ValuesOf(*out[1]) == Values{70, 1100});
    CHECK(ValuesOf(*s.store()->Get("v")) == Values{4, 8});
  }
}

TEST_CASE("variables: kernels with reductions write in place, for every width and split") {
  if (!HasCpu()) return;
  // Soft-max added to a matrix, sums over columns and over rows subtracted from vectors.
  const char* text =
      "graph (%x: f32[n, k], %a: f32[n, k] free {state = 1}, %c: f32[k] free {state = 1}, "
      "%r: f32[n, 1] free {state = 1}) -> (%done) {\n"
      "  %s = Softmax(%x) : ?\n  %p = Add(%a, %s) : ?\n  %wa = weft::Assign(%a, %p) : ?\n"
      "  %zero = Constant() {value = tensor i64[1] [0]} : ?\n"
      "  %one = Constant() {value = tensor i64[1] [1]} : ?\n"
      "  %t = ReduceSum(%x, %zero) {keepdims = 0} : ?\n  %q = Sub(%c, %t) : ?\n"
      "  %wc = weft::Assign(%c, %q) : ?\n"
      "  %u = ReduceSum(%x, %one) {keepdims = 1} : ?\n  %v = Sub(%r, %u) : ?\n"
      "  %wr = weft::Assign(%r, %v) : ?\n  %done = weft::Group(%wa, %wc, %wr) : ?\n}";
  const Graph g = FromText(text);
  const auto fast = CompileWay(g, {"cpu", true}), plain = CompileWay(g, {"ref", true});
  const auto tensor = [](std::vector<int64_t> dims, int seed) {
    Values v(size_t(NumElements(dims)));
    for (size_t i = 0; i < v.size(); ++i) v[i] = double((i * 31 + size_t(seed) * 17) % 97) / 16 - 3;
    return Tensor::FromDoubles(DType::kF32, std::move(dims), v);
  };
  std::vector<std::pair<int64_t, int64_t>> extents = {{1, 1}, {2, 40000}, {3000, 3}, {37, 129}};
  for (int64_t k = 1; k <= 40; k += 3) extents.emplace_back(5 + k % 7, k);
  for (const auto& extent : extents) {
    const int64_t n = extent.first, k = extent.second;
    INFO(n, " x ", k);
    auto mine = std::make_shared<VariableStore>(), theirs = std::make_shared<VariableStore>();
    for (const auto& store : {mine, theirs}) {
      store->Set("a", tensor({n, k}, 1));
      store->Set("c", tensor({k}, 2));
      store->Set("r", tensor({n, 1}, 3));
    }
    Session s(fast, mine), t(plain, theirs);
    for (int step = 0; step < 2; ++step) {
      s.Run({tensor({n, k}, 4 + step)});
      t.Run({tensor({n, k}, 4 + step)});
    }
    for (const char* name : {"a", "c", "r"})
      CHECK(CompareTensors(*mine->Get(name), *theirs->Get(name), 1e-4, 1e-2) <= 1);
  }
}
