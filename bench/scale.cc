/// scale.cc: how the core scales: build, index, copy, inference, text, JSON, fusion. Each time is
/// printed beside a calibration loop run just before it (a dependent chain of 10^7 integer
/// multiply-adds), since machines differ and are shared.
///
///   build/bin/bench_scale [NODES]      default 100000
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/graph.h"
#include "weft/core/json/json.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"

namespace {

using namespace weft;

double Milliseconds(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}
volatile uint64_t g_sink;
double Calibrate() {
  return Milliseconds([] {
    uint64_t x = 1;
    for (int i = 0; i < 10'000'000; ++i) x = x * 6364136223846793005ull + 1442695040888963407ull;
    g_sink = x;
  });
}

/// A layered graph of n binary nodes over symbolic shapes.
Graph Build(int n) {
  Graph g;
  std::vector<NodeEntry> last;
  for (int i = 0; i < 4; ++i)
    last.push_back(NodeEntry(
        g.AddInput("x" + std::to_string(i), DType::kF32, Shape{SymInt::Symbol("n"), 64})));
  const Op* ops[] = {Op::Get("Add"), Op::Get("Mul"), Op::Get("Sub")};
  for (int i = 0; i < n; ++i)
    last[size_t(i) % 4] =
        NodeEntry(g.AddNode(ops[i % 3], {last[size_t(i) % 4], last[size_t(i + 1) % 4]}));
  g.outputs = last;
  return g;
}

void Row(const char* what, double limit_ms, int runs, const std::function<double()>& run) {
  double best = 1e300, calibration = 1e300;
  for (int i = 0; i < runs; ++i) {
    calibration = std::min(calibration, Calibrate());
    best = std::min(best, run());
  }
  std::printf("%-28s %9.2f ms   calibration %6.2f ms   ", what, best, calibration);
  if (limit_ms > 0) std::printf("bound %7.1f ms  %s", limit_ms, best <= limit_ms ? "ok" : "OVER");
  std::printf("\n");
  std::fflush(stdout);
}

double FusionSeconds(int n) {
  Graph g = ApplyPasses(Build(n), {"InferType", "InferShape"});
  double seconds = 0;
  PassOptions options;
  options.verify = false;
  options.on_pass = [&](const PassRecord& r) { seconds += r.name == "Fusion" ? r.seconds : 0; };
  g = ApplyPasses(std::move(g), {"Fusion"}, options);
  return seconds;
}

/// Matmuls and activations made of six operators, with the gradients of all weights: about n nodes.
Graph Training(int n) {
  constexpr int kNodesALayer = 33;
  Graph g;
  NodeEntry y(g.AddInput("x", DType::kF32, Shape{SymInt::Symbol("n"), 64}));
  std::vector<NodeEntry> xs;
  for (int k = 0; k < n / kNodesALayer; ++k) {
    xs.emplace_back(g.AddInput("w" + std::to_string(k), DType::kF32, Shape::OfInts({64, 64})));
    const NodeEntry x(g.AddNode("MatMul", {y, xs.back()}));
    const NodeEntry u(g.AddNode("Mul", {x, x})), e(g.AddNode("Erf", {u}));
    const NodeEntry t(g.AddNode("Tanh", {x})), m(g.AddNode("Mul", {e, t}));
    y = NodeEntry(g.AddNode("Add", {m, y}));
  }
  SetGradient(g, {y}, xs);
  return ApplyPasses(std::move(g), {"Gradient", "Simplify", "InferType", "InferShape"});
}

/// Fusion of a training graph, with `late` and without.
double TrainingSeconds(const Graph& g, int64_t late) {
  double seconds = 0;
  PassOptions options;
  options.verify = false;
  options.on_pass = [&](const PassRecord& r) { seconds += r.name == "Fusion" ? r.seconds : 0; };
  ApplyPasses(g, {{"Fusion", {{"late", late}}}}, options);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 100000;
  const double k = n / 100000.0;
  std::printf("%d binary nodes\n", n);
  Row("build", 25 * k, 5, [&] {
    return Milliseconds([&] {
      Graph g = Build(n);
      g_sink = g.num_nodes();
    });
  });
  const Graph g = Build(n);
  Row("index", 25 * k, 5, [&] {
    Graph h = g;
    return Milliseconds([&] { g_sink = h.indexed_graph().num_nodes(); });
  });
  Row("copy", 25 * k, 5, [&] {
    Graph copy;
    return Milliseconds([&] { copy = g; });
  });
  Row("symbolic shape inference", 100 * k, 3, [&] {
    double ms = 0;
    PassOptions options;
    options.on_pass = [&](const PassRecord& r) {
      ms += r.name == "InferShape" ? r.seconds * 1e3 : 0;
    };
    ApplyPasses(g, {"InferType", "InferShape"}, options);
    return ms;
  });
  Row("text print + parse", 400 * k, 3,
      [&] { return Milliseconds([&] { g_sink = ParseGraph(PrintGraph(g)).num_nodes(); }); });
  Row("JSON save", 232 * k, 5, [&] { return Milliseconds([&] { g_sink = SaveJson(g).size(); }); });
  const std::string json = SaveJson(g);
  Row("JSON load", 755 * k, 5,
      [&] { return Milliseconds([&] { g_sink = LoadJson(json).num_nodes(); }); });
  const auto gradient_ms = [](int m) {
    Graph h = ApplyPasses(Build(m), {"InferType", "InferShape"});
    SetGradient(h, {h.outputs[0]}, {NodeEntry(h.inputs()[0]), NodeEntry(h.inputs()[1])});
    double ms = 0;
    PassOptions options;
    options.verify = false;
    options.limits.nodes = 100'000'000;
    options.on_pass = [&](const PassRecord& r) {
      ms += r.name == "Gradient" ? r.seconds * 1e3 : 0;
    };
    g_sink = ApplyPasses(std::move(h), {"Gradient"}, options).num_nodes();
    return ms;
  };
  Row("Gradient", 90 * k, 5, [&] { return gradient_ms(n); });
  Row("Gradient, ten times as many", 900 * k, 2, [&] { return gradient_ms(10 * n); });
  double previous = 0;
  for (int m : {n / 8, n / 4, n / 2, n, 2 * n, 4 * n, 8 * n}) {
    double best = 1e300;
    for (int i = 0; i < 7; ++i) best = std::min(best, FusionSeconds(m));
    std::printf("Fusion %8d nodes  %8.2f ms  %6.3f us a node", m, best * 1e3, best * 1e6 / m);
    if (previous > 0) std::printf("   ratio to the row above %.2f", best / previous);
    std::printf("\n");
    std::fflush(stdout);
    previous = best;
  }
  previous = 0;
  for (int m : {n / 8, n / 4, n / 2, n, 2 * n}) {
    const Graph training = Training(m);
    double best = 1e300, kept = 1e300;
    for (int i = 0; i < 3; ++i) {
      best = std::min(best, TrainingSeconds(training, 1));
      kept = std::min(kept, TrainingSeconds(training, 0));
    }
    const double nodes = double(training.num_nodes());
    std::printf("Fusion of training %8.0f nodes  %8.2f ms  %6.3f us a node, all kept %8.2f ms",
                nodes, best * 1e3, best * 1e6 / nodes, kept * 1e3);
    if (previous > 0) std::printf("   ratio to the row above %.2f", best / previous);
    std::printf("\n");
    std::fflush(stdout);
    previous = best;
  }
}
