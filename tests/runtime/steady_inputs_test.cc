/// steady_inputs_test.cc: operands that rarely change are packed when they do, and results are
/// those of a program that knows of none.
#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/saved/saved_program.h"

namespace {

using namespace weft;
using namespace weft::e2e;

constexpr int kLayers = 3;

/// Relu(x w_k) one behind the other, w_k given as inputs.
Graph Layers(SymInt rows) {
  Graph g;
  NodeEntry x(g.AddInput("x", DType::kF32, Shape({rows, SymInt(64)})));
  std::vector<NodeEntry> weights, biases;
  for (int k = 0; k < kLayers; ++k) {
    weights.emplace_back(g.AddInput("w" + std::to_string(k), DType::kF32, {64, 64}));
    biases.emplace_back(g.AddInput("b" + std::to_string(k), DType::kF32, {64}));
  }
  for (int k = 0; k < kLayers; ++k)
    x = ApplyOp("Relu", {ApplyOp("Gemm", {x, weights[size_t(k)], biases[size_t(k)]})});
  g.outputs = std::vector<NodeEntry>{x};
  return g;
}
std::vector<std::string> Weights() {
  std::vector<std::string> names;
  for (int k = 0; k < kLayers; ++k) names.push_back("w" + std::to_string(k));
  return names;
}
std::shared_ptr<Tensor> Values(std::vector<int64_t> dims, int salt) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set(i, double((i * 37 + salt * 11) % 23 - 11) / 64);
  return t;
}
std::vector<std::shared_ptr<Tensor>> Inputs(int64_t rows) {
  std::vector<std::shared_ptr<Tensor>> in = {Values({rows, 64}, 0)};
  for (int k = 0; k < kLayers; ++k) {
    in.push_back(Values({64, 64}, 2 * k + 1));
    in.push_back(Values({64}, 2 * k + 2));
  }
  return in;
}
std::vector<TensorPtr> Shared(const std::vector<std::shared_ptr<Tensor>>& t) {
  return {t.begin(), t.end()};
}
std::shared_ptr<const Program> CompileSteady(const Graph& g, std::vector<std::string> names) {
  CompileOptions options;
  options.backend = "cpu";
  options.threads = 2;
  options.steady = std::move(names);
  return Compile(g, options);
}

}  // namespace

TEST_CASE("steady inputs: packed once per address and version") {
  if (!HasCpu()) return;
  const Graph g = Layers(32);
  Session plain(CompileSteady(g, {})), steady(CompileSteady(g, Weights()));
  REQUIRE(steady.program().stats().library_calls == kLayers);
  auto in = Inputs(32);
  const auto same = [&] { return Difference(steady.Run(Shared(in)), plain.Run(Shared(in))) <= 1; };
  CHECK(same());
  CHECK(steady.packs() == kLayers);
  for (int round = 0; round < 3; ++round) CHECK(same());
  CHECK(steady.packs() == kLayers);
  CHECK(plain.packs() == 0);
  // Other content at the same address: of another version.
  for (int64_t i = 0; i < 64; ++i) in[1]->set(i * 65, 3.0);
  in[1]->set_version(in[1]->version() + 1);
  CHECK(same());
  CHECK(steady.packs() == kLayers + 1);
  CHECK(same());
  CHECK(steady.packs() == kLayers + 1);
  // Another address.
  in[3] = Values({64, 64}, 77);
  CHECK(same());
  CHECK(steady.packs() == kLayers + 2);
  // What is not steady changes freely.
  in[0] = Values({32, 64}, 5);
  in[2]->set(0, 9.0);
  CHECK(same());
  CHECK(steady.packs() == kLayers + 2);
}

TEST_CASE("steady inputs: every set of extents and every session has its own") {
  if (!HasCpu()) return;
  const Graph g = Layers(SymInt::Symbol("n"));
  const auto program = CompileSteady(g, Weights());
  Session steady(program), second(program), plain(CompileSteady(g, {}));
  auto in = Inputs(8);
  const auto at = [&](Session& session, int64_t rows) {
    in[0] = Values({rows, 64}, int(rows));
    return Difference(session.Run(Shared(in)), plain.Run(Shared(in))) <= 1;
  };
  CHECK(at(steady, 8));
  CHECK(at(steady, 24));
  CHECK(steady.packs() == 2 * kLayers);
  for (int64_t rows : {8, 24, 8}) CHECK(at(steady, rows));
  CHECK(steady.packs() == 2 * kLayers);
  CHECK(at(second, 8));
  CHECK(second.packs() == kLayers);
  in[5]->set(0, 4.0);
  in[5]->set_version(7);
  CHECK(at(steady, 8));
  CHECK(at(steady, 24));
  CHECK(steady.packs() == 2 * kLayers + 2);
  // More sets of extents than are kept.
  for (int64_t rows = 1; rows < 9; ++rows) CHECK(at(steady, rows));
  CHECK(at(steady, 8));
}

TEST_CASE("steady inputs: a saved program keeps the declaration; a name that is none is an error") {
  if (!HasCpu()) return;
  const Graph g = Layers(16);
  const TempFolder dir;
  SaveProgram(*CompileSteady(g, Weights()), dir / "a.weftx");
  Session session(LoadProgram(dir / "a.weftx")), plain(CompileSteady(g, {}));
  const auto in = Shared(Inputs(16));
  for (int round = 0; round < 2; ++round) CHECK(Difference(session.Run(in), plain.Run(in)) <= 1);
  CHECK(session.packs() == kLayers);
  const auto bad = Catch([&] { CompileSteady(g, {"w0", "w9"}); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kBadBinding);
  CHECK(bad->says("'w9'"));
}

TEST_CASE("steady inputs: convolutions, products of views, and what the library does not take") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      R"(graph (%x: f32[2, 8, 12, 12], %k: f32[16, 8, 3, 3], %m: f32[144], %s: f32[1]) -> (%y, %z, %t) {
  %c = Conv(%x, %k) {pads = [1, 1, 1, 1]} : ?
  %y = Relu(%c) : ?
  %d = Constant() {value = tensor i64[2] [12, 12]} : ?
  %v = Reshape(%m, %d) : ?
  %z = MatMul(%x, %v) : ?
  %t = Mul(%z, %s) : ?
})");
  Session steady(CompileSteady(g, {"k", "m", "s"})), plain(CompileSteady(g, {}));
  std::vector<std::shared_ptr<Tensor>> in = {Values({2, 8, 12, 12}, 0), Values({16, 8, 3, 3}, 1),
                                             Values({144}, 2), Values({1}, 3)};
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    CHECK(Difference(steady.Run(Shared(in)), plain.Run(Shared(in))) <= 1);
    for (size_t i = 1; i < in.size(); ++i) {
      in[i]->set(0, round + 0.5);
      in[i]->set_version(in[i]->version() + 1);
    }
  }
}

TEST_CASE("steady inputs: where sizes choose among graphs, what has changed is read") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[n, 64], %w: f32[64, 64]) -> (%z) {
    %0 = Constant() {value = tensor i64[] [0]} : ?
    %5 = Constant() {value = tensor i64[] [5]} : ?
    %s = Shape(%x) : ?
    %n = Gather(%s, %0) : ?
    %c = Greater(%n, %5) : ?
    %h = MatMul(%x, %w) : ?
    %z = If(%c, %h) {
      num_captures = 1,
      then_branch = graph (%a: f32[n, 64]) -> (%r) { %r = Tanh(%a) : ? },
      else_branch = graph (%a: f32[n, 64]) -> (%r) { %r = Neg(%a) : ? }
    } : ?
  })");
  Session plain(CompileSteady(g, {})), steady(CompileSteady(g, {"w"}));
  const auto w = Values({64, 64}, 1);
  for (int round = 0; round < 3; ++round)
    for (int64_t n : {3, 8}) {
      const std::vector<TensorPtr> in = {Values({n, 64}, round), w};
      CHECK(Difference(steady.Run(in), plain.Run(in)) <= 1);
      for (int64_t i = 0; i < w->num_elements(); ++i) w->set(i, w->at(i) + 0.25);
      w->set_version(w->version() + 1);
    }
}
