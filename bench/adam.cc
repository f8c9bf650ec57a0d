/// adam.cc: one optimizer step over many parameters, written as a graph, against the copy
/// bandwidth of the machine.
///
///   build/bin/bench_adam [TENSORS] [MILLIONS OF PARAMETERS]      default 60 and 25
///
/// A copy of n bytes moves 2 n. A fused step reads the parameter, both moments and the gradient and
/// writes three of them: 28 bytes a parameter, whatever the rule computes. Times are the least of
/// several, taken in turn; all threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/runtime/program/program.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;

double Seconds(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Shapes as networks have them: a few large matrices, convolutions, many vectors.
std::vector<Shape> Shapes(int tensors, int64_t parameters) {
  std::vector<Shape> shapes;
  double total = 0;
  std::vector<double> weight;
  for (int i = 0; i < tensors; ++i) {
    weight.push_back(i % 2 ? 0 : 1.0 + i % 7);
    total += weight.back();
  }
  for (int i = 0; i < tensors; ++i) {
    const auto n = int64_t(double(parameters) * weight[size_t(i)] / total);
    if (n == 0)
      shapes.push_back({SymInt(int64_t{64 + 32 * (i % 9)})});
    else if (i % 4 == 0)
      shapes.push_back(
          {SymInt(n / 576), SymInt(int64_t{64}), SymInt(int64_t{3}), SymInt(int64_t{3})});
    else
      shapes.push_back({SymInt(n / 512), SymInt(int64_t{512})});
  }
  return shapes;
}

Graph Adam(const std::vector<Shape>& shapes) {
  Graph g;
  const DType t = DType::kF32;
  const NodeEntry rate(g.AddInput("rate", t, Shape::OfInts({})));
  std::vector<NodeEntry> done;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    const NodeEntry gradient(g.AddInput("g" + std::to_string(i), t, shapes[i]));
    std::vector<int64_t> dims;
    for (SymInt d : shapes[i].dims()) dims.push_back(d.value());
    const auto state = [&](const char* what) {
      return NodeEntry(AddState(g, name + what, t, shapes[i], std::make_shared<Tensor>(t, dims)));
    };
    const auto c = [&](double x) { return ScalarLike(gradient, t, x); };
    const NodeEntry m = state(".m"), v = state(".v"), p = state("");
    const NodeEntry m2 = m * c(0.9) + gradient * c(0.1);
    const NodeEntry v2 = v * c(0.999) + gradient * gradient * c(0.001);
    for (const NodeEntry& e : {Assign(m, m2), Assign(v, v2),
                               Assign(p, p - rate * m2 / (ApplyOp("Sqrt", {v2}) + c(1e-8)))})
      done.push_back(e);
  }
  g.outputs = {Group(done)};
  return g;
}

/// Copies on all threads, one piece each.
class Copier {
 public:
  Copier(int64_t bytes, int threads)
      : from_(size_t(bytes), 1), to_(size_t(bytes), 2), threads_(threads) {}
  double Run() {
    return Seconds([&] {
      std::vector<std::thread> team;
      const size_t each = from_.size() / size_t(threads_);
      for (int t = 0; t < threads_; ++t)
        team.emplace_back([&, t] {
          std::memcpy(to_.data() + size_t(t) * each, from_.data() + size_t(t) * each, each);
        });
      for (std::thread& t : team) t.join();
    });
  }

 private:
  std::vector<char> from_, to_;
  int threads_;
};

}  // namespace

int main(int argc, char** argv) {
  const int tensors = argc > 1 ? std::atoi(argv[1]) : 60;
  const double millions = argc > 2 ? std::atof(argv[2]) : 25;
  const std::vector<Shape> shapes = Shapes(tensors, int64_t(millions * 1e6));
  int64_t parameters = 0;
  for (const Shape& s : shapes) parameters += s.num_elements().value();
  const int threads = GetBackend("cpu")->threads();

  struct Way {
    const char* name;
    bool fusion;
    std::unique_ptr<Session> session;
    double best = 1e300;
    std::vector<std::shared_ptr<Tensor>> outputs;
    int kernels = 0;
  };
  Way ways[] = {{"fused", true, {}, 1e300, {}, 0}, {"unfused", false, {}, 1e300, {}, 0}};
  std::vector<TensorPtr> inputs;
  for (Way& way : ways) {
    CompileOptions options;
    options.backend = "cpu";
    options.fusion = way.fusion;
    std::shared_ptr<const Program> program;
    const double compile = Seconds([&] { program = Compile(Adam(shapes), options); });
    way.kernels = program->stats().kernels;
    way.session = std::make_unique<Session>(program, std::make_shared<VariableStore>());
    std::printf("%-8s %4d launches, %d distinct kernels, compiled in %.3f s\n", way.name,
                way.kernels, program->stats().distinct_kernels, compile);
    if (inputs.empty()) inputs = RandomProgramInputs(*program, 1, {});
  }
  Copier copier(parameters * 4 * 4, threads);
  double copy = 1e300;
  for (int round = 0; round < 12; ++round) {
    copy = std::min(copy, copier.Run());
    for (Way& way : ways)
      way.best = std::min(way.best, Seconds([&] { way.session->RunInto(inputs, &way.outputs); }));
  }
  const double bandwidth = double(parameters) * 32 / copy / 1e9;
  std::printf("%.1f million parameters in %d tensors, %d threads\n", double(parameters) / 1e6,
              tensors, threads);
  std::printf("copy     %8.2f ms  %6.1f GB/s\n", copy * 1e3, bandwidth);
  for (const Way& way : ways)
    std::printf("%-8s %8.2f ms  %6.1f GB/s of 28 bytes a parameter, %.2f of the copy\n", way.name,
                way.best * 1e3, double(parameters) * 28 / way.best / 1e9,
                double(parameters) * 28 / way.best / 1e9 / bandwidth);
  std::printf("unfused / fused %.2f\n", ways[1].best / ways[0].best);
}
