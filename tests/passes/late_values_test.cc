/// late_values_test.cc: what gradients read of a forward pass is kept in few tensors, and computed
/// again in their kernels with no bit changed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tests/support/sanitized.h"
#include "tests/support/variables_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/support/request.h"

namespace weft::e2e {
namespace {

std::shared_ptr<const Program> Compiled(const Graph& g, bool late) {
  CompileOptions options;
  options.backend = "cpu";
  options.threads = 2;
  Pipeline p = StandardPipeline();
  if (!late) p = WithPass(p, "Fusion", {{"Fusion", {{"late", 0}}}});
  options.pipeline = p.ToString();
  return Compile(g, options);
}

int64_t Copies(const Program& program) {
  for (const PassRecord& r : program.stats().passes)
    if (r.name == "Fusion")
      for (const auto& [name, count] : r.statistics)
        if (name == "late_copies") return count;
  return 0;
}

void CheckSameBits(const std::vector<TensorPtr>& a, const std::vector<TensorPtr>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i]->num_bytes() == b[i]->num_bytes());
    CHECK(std::memcmp(a[i]->data(), b[i]->data(), size_t(a[i]->num_bytes())) == 0);
  }
}

constexpr int64_t kRows = 128, kWidth = 256;
constexpr int64_t kTensor = kRows * kWidth * 4;

NodeEntry Scalar(const NodeEntry& like, double v) { return ScalarLike(like, DType::kF32, v); }

NodeEntry Activation(const std::string& name, const NodeEntry& x) {
  if (name == "gelu")
    return x * Scalar(x, 0.5) * (ApplyOp("Erf", {x * Scalar(x, 0.70710678)}) + Scalar(x, 1));
  if (name == "gelu by tanh")
    return x * Scalar(x, 0.5) *
           (ApplyOp("Tanh", {(x + x * x * x * Scalar(x, 0.044715)) * Scalar(x, 0.79788456)}) +
            Scalar(x, 1));
  if (name == "silu") return x * ApplyOp("Sigmoid", {x});
  WEFT_ICHECK(name == "mish", "no activation {}", name);
  return x * ApplyOp("Tanh", {ApplyOp("Softplus", {x})});
}

/// Layers of a matmul and an activation, and the gradients of all weights.
Graph Perceptron(const std::string& activation, int layers) {
  Graph g;
  NodeEntry y(g.AddInput("x", DType::kF32, Shape::OfInts({kRows, kWidth})));
  std::vector<NodeEntry> xs;
  for (int k = 0; k < layers; ++k) {
    xs.emplace_back(
        g.AddInput(fmt::format("w{}", k), DType::kF32, Shape::OfInts({kWidth, kWidth})));
    y = Activation(activation, ApplyOp("MatMul", {y, xs.back()}) * Scalar(y, 0.1));
  }
  std::vector<NodeEntry> outputs = Gradients(g, {y}, xs);
  outputs.insert(outputs.begin(), y);
  g.outputs = outputs;
  return g;
}

}  // namespace

TEST_CASE("late values: two tensors a layer are kept, whatever the activation is made of") {
  if (!HasCpu()) return;
  constexpr int kLayers = 6;
  for (const char* activation : {"gelu", "gelu by tanh", "silu", "mish"}) {
    INFO(std::string(activation));
    const Graph g = Perceptron(activation, kLayers);
    const auto late = Compiled(g, true), kept = Compiled(g, false);
    const Reference want = RunReference(g, 5);
    Session a(late), b(kept);
    const std::vector<TensorPtr> got = a.Run(want.inputs);
    CheckSameBits(got, b.Run(want.inputs));
    CHECK(Difference(got, want.outputs, 1e-3, 1e-4) <= 1);
    // Of each layer the product and what its activation makes of it, which a weight's gradient
    // reads; and what two steps work on.
    CHECK(a.live_bytes() <= (2 * kLayers + 3) * kTensor);
    CHECK(b.live_bytes() > (3 * kLayers - 1) * kTensor);
    CHECK(late->stats().kernels == kept->stats().kernels);
  }
}

namespace {

/// Products of random element-wise expressions over values of all times so far; with `sums` means
/// over rows and columns as well.
Graph RandomNetwork(uint64_t seed, bool sums) {
  std::mt19937_64 rng(seed);
  const auto pick = [&](size_t n) { return size_t(rng() % n); };
  Graph g;
  std::vector<NodeEntry> xs, values;
  values.emplace_back(g.AddInput("x", DType::kF32, Shape::OfInts({6, 8})));
  xs = values;
  const size_t products = 2 + pick(4);
  for (size_t k = 0; k < products; ++k) {
    xs.emplace_back(g.AddInput(fmt::format("w{}", k), DType::kF32, Shape::OfInts({8, 8})));
    values.push_back(ApplyOp("MatMul", {values.back(), xs.back()}));
    for (size_t ops = 1 + pick(7); ops > 0; --ops) {
      static const char* const kUnary[] = {"Tanh", "Sigmoid", "Relu", "Erf",
                                           "Neg",  "Abs",     "Sin",  "Softplus"};
      static const char* const kBinary[] = {"Add", "Sub", "Mul", "Max"};
      const NodeEntry last = values.back(), other = values[pick(values.size())];
      if (sums && pick(3) == 0) {
        const NodeEntry axis = g.AddConstant(Tensor::Ints({int64_t(pick(2))}));
        const NodeEntry mean = ApplyOp("ReduceMean", {pick(2) ? last : other, axis});
        values.push_back(ApplyOp(kBinary[pick(3)], {pick(2) ? last : other, mean}));
        continue;
      }
      values.push_back(pick(2) ? ApplyOp(kUnary[pick(8)], {pick(3) ? last : other})
                               : ApplyOp(kBinary[pick(4)], {last, other}));
    }
    values.push_back(ApplyOp("Tanh", {values.back()}));
  }
  std::vector<NodeEntry> outputs = Gradients(g, {values.back()}, xs);
  outputs.push_back(values.back());
  if (pick(2)) outputs.push_back(values[pick(values.size() - 1) + 1]);
  g.outputs = outputs;
  return g;
}

}  // namespace

TEST_CASE("late values: random networks and their gradients keep every bit") {
  if (!HasCpu()) return;
  int64_t copies = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO(seed);
    const Graph g = RandomNetwork(seed, false);
    const auto late = Compiled(g, true), kept = Compiled(g, false);
    const auto inputs = MakeRandomInputs(g, seed).tensors;
    Session a(late), b(kept);
    CheckSameBits(a.Run(inputs), b.Run(inputs));
    copies += Copies(*late);
  }
  CHECK(copies > 100);
}

TEST_CASE("late values: random networks with sums, their gradients beside the reference") {
  if (!HasCpu()) return;
  int64_t copies = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO(seed);
    const Graph g = RandomNetwork(seed, true);
    const auto late = Compiled(g, true);
    const Reference want = RunReference(g, seed);
    Session a(late);
    CHECK(Difference(a.Run(want.inputs), want.outputs, 2e-3, 2e-3) <= 1);
    copies += Copies(*late);
  }
  CHECK(copies > 100);
}

TEST_CASE("late values: normalised rows are normalised again by the kernels of their gradient") {
  if (!HasCpu()) return;
  Graph g;
  NodeEntry y(g.AddInput("x", DType::kF32, Shape::OfInts({kRows, kWidth})));
  std::vector<NodeEntry> xs;
  constexpr int kLayers = 4;
  for (int k = 0; k < kLayers; ++k) {
    const auto input = [&](const char* name, std::vector<int64_t> dims) {
      xs.emplace_back(g.AddInput(fmt::format("{}{}", name, k), DType::kF32, Shape::OfInts(dims)));
      return xs.back();
    };
    const NodeEntry scale = input("s", {kWidth}), bias = input("b", {kWidth}),
                    w = input("w", {kWidth, kWidth});
    const NodeEntry n = ApplyOp("LayerNormalization", {y, scale, bias});
    y = ApplyOp("MatMul", {n, w}) + y;
  }
  // Those of the last layer first, as they come: an order from the outputs would keep what sums
  // over rows until the end.
  std::reverse(xs.begin(), xs.end());
  g.outputs = Gradients(g, {y * y}, xs);
  const auto late = Compiled(g, true);
  const Reference want = RunReference(g, 9);
  Session a(late);
  CHECK(Difference(a.Run(want.inputs), want.outputs, 2e-3, 2e-3) <= 1);
  // What is normalised, and the result, which the product's gradient reads.
  CHECK(a.live_bytes() <= (2 * kLayers + 4) * kTensor);
}

TEST_CASE("late values: a variable that is written meanwhile is read with its old content") {
  if (!HasCpu()) return;
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({4, 8})));
  const auto state = [&](const char* name, std::vector<int64_t> dims, uint64_t seed) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(0.1 * double((i * 7 + int64_t(seed)) % 11) - 0.5);
    return NodeEntry(
        AddState(g, name, DType::kF32, Shape(), Tensor::FromDoubles(DType::kF32, dims, v)));
  };
  const NodeEntry scale = state("scale", {8}, 1), w = state("w", {8, 8}, 2),
                  u = state("u", {8, 8}, 3);
  const NodeEntry h = ApplyOp("MatMul", {x, w});
  const NodeEntry t = ApplyOp("Tanh", {h * scale});
  const NodeEntry y = ApplyOp("MatMul", {t, u});
  const NodeEntry loss =
      ApplyOp("ReduceSum", {y * y * ApplyOp("Sigmoid", {h * scale})}, {{"keepdims", 0}});
  const std::vector<NodeEntry> d = Gradients(g, {loss}, {scale, w, u});
  std::vector<NodeEntry> updates;
  const std::vector<NodeEntry> variables = {scale, w, u};
  for (size_t i = 0; i < variables.size(); ++i)
    updates.push_back(Assign(variables[i], variables[i] - d[i] * Scalar(d[i], 0.01)));
  g.outputs = {loss, Group(updates)};
  const auto inputs = MakeRandomInputs(g, 3).tensors;
  std::vector<double> want;
  CompileOptions options;
  options.backend = "ref";
  Session ref(Compile(g, options));
  for (int k = 0; k < 5; ++k) want.push_back(ref.Run(inputs)[0]->at(0));
  const auto late = Compiled(g, true);
  CHECK(Copies(*late) > 0);
  Session s(late);
  for (int k = 0; k < 5; ++k)
    CHECK(s.Run(inputs)[0]->at(0) == doctest::Approx(want[size_t(k)]).epsilon(1e-4));
}

namespace {

/// a(k) = exp(a(k - 1)), b(k) = b(k - 1) * a(k), and b(0) waits for a product: every kernel of the
/// second chain reads the first, of which it could compute all again.
Graph TwoChains(int length) {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({64, 64}))),
      w(g.AddInput("w", DType::kF32, Shape::OfInts({64, 64})));
  std::vector<NodeEntry> a;
  for (int k = 0; k < length; ++k) a.push_back(ApplyOp("Exp", {k ? a.back() : x}));
  NodeEntry b = ApplyOp("MatMul", {x, w});
  for (const NodeEntry& e : a) b = b * e;
  g.outputs = {ApplyOp("Neg", {b})};
  return ApplyPasses(std::move(g), "InferType,InferShape");
}

}  // namespace

TEST_CASE("late values: of a chain that all kernels read no kernel gets all") {
  constexpr int kLength = 10000;
  const Graph g = TwoChains(kLength);
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  const Graph fused = ApplyPass(g, "Fusion", options);
  ApplyPass(g, "Fusion", options);
  REQUIRE(records.size() == 2);
  if (!kSanitized) CHECK(std::min(records[0].seconds, records[1].seconds) < 1);
  CHECK(fused.id_bound() < 3 * g.id_bound());  // copies that are gone have had ids
  CHECK(records[0].statistics.at("late_copies") <= 2 * kLength);
  CHECK(records[0].statistics.at("fused_ops") <= 3 * kLength);
}

TEST_CASE("late values: no more lies in memory where copies do not fit") {
  if (!HasCpu()) return;
  const Graph g = TwoChains(1000);
  const auto late = Compiled(g, true), kept = Compiled(g, false);
  const auto inputs = MakeRandomInputs(g, 3).tensors;
  Session a(late), b(kept);
  CheckSameBits(a.Run(inputs), b.Run(inputs));
  CHECK(a.live_bytes() <= b.live_bytes());
  CHECK(b.live_bytes() <= 4 * 64 * 64 * 4);
}

TEST_CASE(
    "late values: where little fits in a kernel, variables are read before they are written") {
  if (!HasCpu()) return;
  int64_t copies = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO(seed);
    std::mt19937_64 rng(seed);
    const auto pick = [&](size_t n) { return size_t(rng() % n); };
    Graph g;
    std::vector<NodeEntry> values = {
        NodeEntry(g.AddInput("x", DType::kF32, Shape::OfInts({8, 8})))};
    std::vector<NodeEntry> states;
    const size_t products = 2 + pick(3);
    for (size_t k = 0; k < 2 * products; ++k) {
      std::vector<double> v;
      for (int i = 0; i < 64; ++i) v.push_back(0.05 * double(pick(17)) - 0.4);
      states.emplace_back(AddState(g, fmt::format("s{}", k), DType::kF32, Shape(),
                                   Tensor::FromDoubles(DType::kF32, {8, 8}, v)));
    }
    for (size_t k = 0; k < products; ++k) {
      values.push_back(ApplyOp("MatMul", {values.back(), states[2 * k]}));
      for (size_t ops = 2 + pick(8); ops > 0; --ops) {
        static const char* const kUnary[] = {"Tanh", "Sigmoid", "Erf", "Sin"};
        const NodeEntry other = pick(2) ? values[pick(values.size())] : states[2 * pick(k + 1) + 1];
        values.push_back(pick(2) ? ApplyOp(kUnary[pick(4)], {pick(3) ? values.back() : other})
                                 : ApplyOp(pick(2) ? "Mul" : "Add", {values.back(), other}));
      }
    }
    const NodeEntry loss =
        ApplyOp("ReduceSum", {ApplyOp("Tanh", {values.back()})}, {{"keepdims", 0}});
    const std::vector<NodeEntry> d = Gradients(g, {loss}, states);
    std::vector<NodeEntry> updates;
    for (size_t i = 0; i < states.size(); ++i)
      if (d[i].node) updates.push_back(Assign(states[i], states[i] - d[i] * Scalar(d[i], 0.02)));
    g.outputs = {loss, Group(updates)};
    const auto inputs = MakeRandomInputs(g, seed).tensors;
    const int64_t max_ops = int64_t(3 + pick(10));
    const auto compiled = [&](int64_t is_late) {
      CompileOptions options;
      options.backend = "cpu";
      options.pipeline = WithPass(StandardPipeline(), "Fusion",
                                  {{"Fusion", {{"max_ops", max_ops}, {"late", is_late}}}})
                             .ToString();
      return Compile(g, options);
    };
    CompileOptions plain;
    plain.backend = "ref";
    const auto late = compiled(1);
    copies += Copies(*late);
    Session a(late), b(compiled(0)), ref(Compile(g, plain));
    for (int k = 0; k < 4; ++k) {
      const double x = a.Run(inputs)[0]->at(0), y = b.Run(inputs)[0]->at(0),
                   want = ref.Run(inputs)[0]->at(0);
      CHECK(x == doctest::Approx(y).epsilon(1e-4));
      CHECK(x == doctest::Approx(want).epsilon(1e-4));
    }
  }
  CHECK(copies > 50);
}

TEST_CASE("late values: a deadline holds while they are looked for") {
  const Graph g = TwoChains(10000);
  PassOptions options;
  using Clock = std::chrono::steady_clock;
  double share = 1;  // of the time of the pass, the longest between two polls
  for (int tries = 0; tries < 3; ++tries) {
    Clock::duration longest{};
    const auto begin = Clock::now();
    auto last = begin;
    const PollCallback watch(
        [&] {
          const auto now = Clock::now();
          longest = std::max(longest, now - last);
          last = now;
        },
        0.0);
    ApplyPass(g, "Fusion", options);
    share = std::min(share, double(longest.count()) / double((Clock::now() - begin).count()));
  }
  CHECK(share < 0.5);
  options.limits.deadline_s = 0.001;
  const PollCallback stall([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }, 0.0);
  const auto error = Catch([&] { ApplyPass(g, "Fusion", options); });
  REQUIRE(error);
  CHECK(error->code == ErrorCode::kLimit);
}

}  // namespace weft::e2e
