/// columns.cc: generated kernels that reduce columns, channels or everything: statistics and
/// gradients of normalisations, gradients of biases, sums. Times are minima of ROUNDS; "GB/s"
/// counts every input and output once, which is the least that must move. Beside it, in the same
/// run: a copy that moves as many bytes in all, and loops that only read as many.
///
///   build/bin/bench_columns [ROUNDS [WORD]]      default 30; only cases with WORD in their name
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"
#include "weft/support/timer.h"

namespace {

using namespace weft;

struct Case {
  const char* name;
  std::string text;
};

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// $X: shape of the activations, $R: of row values, $C: channels.
std::string BatchNorm(bool forward, const std::string& shape, const std::string& c) {
  const char* const text = forward ? R"(graph (%x: f32$X, %s: f32[$C], %b: f32[$C], %m: f32[$C],
          %v: f32[$C]) -> (%out, %mean, %var) {
        %y, %mean, %var = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
        %out = Relu(%y) : ?
      })"
                                   : R"(graph (%x: f32$X, %y: f32$X, %g: f32$X, %s: f32[$C],
          %m: f32[1, $C, 1, 1], %v: f32[1, $C, 1, 1]) -> (%dx, %ds, %db) {
        %ax = Constant() {value = tensor i64[3] [0, 2, 3]} : ?
        %col = Constant() {value = tensor i64[4] [1, -1, 1, 1]} : ?
        %zero = Constant() {value = tensor f32[] [0.0]} : ?
        %n = Constant() {value = tensor f32[] [0.01]} : ?
        %on = Greater(%y, %zero) : ?
        %dy = Where(%on, %g, %zero) : ?
        %d = Sub(%x, %m) : ?
        %h = Mul(%d, %v) : ?
        %dyh = Mul(%dy, %h) : ?
        %db = ReduceSum(%dy, %ax) : ?
        %ds = ReduceSum(%dyh, %ax) : ?
        %sc = Reshape(%s, %col) : ?
        %k = Mul(%sc, %v) : ?
        %hs = Mul(%h, %ds) : ?
        %t = Add(%db, %hs) : ?
        %tn = Mul(%t, %n) : ?
        %u = Sub(%dy, %tn) : ?
        %dx = Mul(%k, %u) : ?
      })";
  return Replace(Replace(text, "$X", shape), "$C", c);
}

std::string Bias(const std::string& n, const std::string& c) {
  return Replace(Replace(R"(graph (%g: f32[$N, $C], %y: f32[$N, $C], %b: f32[$C]) -> (%dz, %db) {
        %zero = Constant() {value = tensor f32[] [0.0]} : ?
        %on = Greater(%y, %zero) : ?
        %dz = Where(%on, %g, %zero) : ?
        %db = weft::SumTo(%dz, %b) : ?
      })",
                         "$N", n),
                 "$C", c);
}

std::vector<Case> Cases() {
  const char* const column_sum = R"(graph (%g: f32[$N, $C]) -> (%db) {
        %ax = Constant() {value = tensor i64[1] [0]} : ?
        %db = ReduceSum(%g, %ax) : ?
      })";
  const auto columns = [&](const char* n, const char* c) {
    return Replace(Replace(column_sum, "$N", n), "$C", c);
  };
  return {
      {"BN forward 64x16x32x32", BatchNorm(true, "[64, 16, 32, 32]", "16")},
      {"BN forward 64x64x8x8", BatchNorm(true, "[64, 64, 8, 8]", "64")},
      {"BN forward 256x64x56x56", BatchNorm(true, "[256, 64, 56, 56]", "64")},
      {"BN backward 64x16x32x32", BatchNorm(false, "[64, 16, 32, 32]", "16")},
      {"BN backward 64x64x8x8", BatchNorm(false, "[64, 64, 8, 8]", "64")},
      {"column sum 64x500", columns("64", "500")},
      {"column sum 65536x16", columns("65536", "16")},
      {"column sum 4096x1024", columns("4096", "1024")},
      {"dz and db 64x500", Bias("64", "500")},
      {"dz and db 65536x16", Bias("65536", "16")},
      {"layer-norm dgamma dbeta 4096x768",
       R"(graph (%x: f32[4096, 768], %dy: f32[4096, 768], %gamma: f32[768], %mean: f32[4096, 1],
                 %inv: f32[4096, 1]) -> (%dgamma, %dbeta) {
        %d = Sub(%x, %mean) : ?
        %h = Mul(%d, %inv) : ?
        %dyh = Mul(%dy, %h) : ?
        %dgamma = weft::SumTo(%dyh, %gamma) : ?
        %dbeta = weft::SumTo(%dy, %gamma) : ?
      })"},
      {"layer-norm backward 4096x768",
       R"(graph (%x: f32[4096, 768], %dy: f32[4096, 768], %gamma: f32[768], %mean: f32[4096, 1],
                 %inv: f32[4096, 1]) -> (%dx, %dgamma, %dbeta) {
        %ax = Constant() {value = tensor i64[1] [-1]} : ?
        %d = Sub(%x, %mean) : ?
        %h = Mul(%d, %inv) : ?
        %dyh = Mul(%dy, %h) : ?
        %dgamma = weft::SumTo(%dyh, %gamma) : ?
        %dbeta = weft::SumTo(%dy, %gamma) : ?
        %dh = Mul(%dy, %gamma) : ?
        %m1 = ReduceMean(%dh, %ax) : ?
        %dhh = Mul(%dh, %h) : ?
        %m2 = ReduceMean(%dhh, %ax) : ?
        %hm = Mul(%h, %m2) : ?
        %u = Sub(%dh, %m1) : ?
        %w = Sub(%u, %hm) : ?
        %dx = Mul(%w, %inv) : ?
      })"},
      {"sum of 25M", R"(graph (%x: f32[25000000]) -> (%y) {
        %y = ReduceSum(%x) {keepdims = 0} : ?
      })"},
      {"argmax of 25M", R"(graph (%x: f32[25000000]) -> (%y) {
        %y = ArgMax(%x) {axis = 0} : ?
      })"},
  };
}

/// Least milliseconds of one call.
double Least(int rounds, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < rounds + 3; ++i) {
    const Timer timer;
    work();
    if (i >= 3) best = std::min(best, timer.milliseconds());
  }
  return best;
}

struct Running {
  std::shared_ptr<const Program> program;
  std::vector<TensorPtr> inputs;
  std::vector<std::shared_ptr<Tensor>> outputs;
  int64_t bytes = 0;
  double milliseconds = 0;

  Running(const std::string& text, int rounds) {
    program = Compile(ParseGraph("weft 1\n" + text));
    inputs = RandomProgramInputs(*program, /*seed=*/1, {});
    Session session(program);
    milliseconds = Least(rounds, [&] { session.RunInto(inputs, &outputs); });
    for (const auto& t : inputs) bytes += t->num_bytes();
    for (const auto& t : outputs) bytes += t->num_bytes();
  }
};

void Measure(int rounds, const std::string& word) {
  std::printf("%-34s %8s %9s %8s %8s %8s %8s\n", "", "kernels", "us", "GB/s", "of copy", "of read",
              "compile");
  for (const Case& c : Cases()) {
    if (std::string(c.name).find(word) == std::string::npos) continue;
    const Running run(c.text, rounds);
    const std::string half = std::to_string(std::max<int64_t>(1, run.bytes / 8));
    const Running copy("graph (%x: f32[" + half + "]) -> (%y) {\n %y = Neg(%x) : ?\n}", rounds);
    const std::string all = std::to_string(std::max<int64_t>(1, run.bytes / 4 / 256));
    // Rows enough for every thread: nothing but reading.
    const Running read("graph (%x: f32[" + all +
                           ", 256]) -> (%y) {\n"
                           " %ax = Constant() {value = tensor i64[1] [1]} : ?\n"
                           " %y = ReduceMax(%x, %ax) : ?\n}",
                       rounds);
    std::printf(
        "%-34s %8d %9.1f %8.1f %7.0f%% %7.0f%% %6.1fms\n", c.name, run.program->stats().kernels,
        run.milliseconds * 1e3, double(run.bytes) / run.milliseconds * 1e-6,
        100 * copy.milliseconds / run.milliseconds, 100 * read.milliseconds / run.milliseconds,
        run.program->stats().compile_seconds * 1e3);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 30, argc > 2 ? argv[2] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
