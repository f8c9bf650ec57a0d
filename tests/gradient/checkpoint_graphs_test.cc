/// checkpoint_graphs_test.cc: Checkpoint on graphs of training, run: not a bit of a result changes,
/// and what a run takes stays within the budget. The oracle is the same program without.
///
///   WEFT_TRAINING_SEED=7000 WEFT_TRAINING_COUNT=10000 training_graph_test -tc="checkpoint*"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <set>

#include "tests/gradient/training_graphs.h"
#include "tests/support/e2e_util.h"
#include "tests/support/training_networks.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/runtime/session/variable_store.h"

namespace weft::gradient {
namespace {

std::string Backend() { return e2e::HasCpu() ? "cpu" : "ref"; }

std::shared_ptr<const Program> CompileWithin(const Graph& g, const std::string& budget) {
  constexpr int64_t kWork = 1'000'000;  // of small graphs, many times
  const Pipeline pipeline =
      e2e::WithPass(StandardPipeline(), "Schedule",
                    {{"Checkpoint", {{"budget", budget}, {"work", kWork}}}, {"Schedule"}});
  return e2e::CompileFor(g, Backend(), pipeline.ToString());
}

int Copies(const Program& program) {
  int copies = 0;
  const Graph& g = program.graph();
  const auto rows = g.AttrOr<NodeMap<std::string>>("recompute_of");
  for (NodePtr n : g.TopoOrder()) copies += rows.find(n) != nullptr;
  return copies;
}

/// Those that have the content of a variable behind the write that their first run was read by.
int CopiesBehindStatistics(const Program& program) {
  int copies = 0;
  const Graph& g = program.graph();
  const auto rows = g.AttrOr<NodeMap<std::string>>("recompute_of");
  for (NodePtr n : g.TopoOrder())
    copies += rows.find(n) && std::any_of(n->inputs.begin(), n->inputs.end(), [](NodeEntry e) {
                return e.node && IsOp(e.node, builtin::kAssign);
              });
  return copies;
}

void CheckSameBits(const Tensors& got, const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    REQUIRE(got[k]->dims() == want[k]->dims());
    REQUIRE(got[k]->dtype() == want[k]->dtype());
    CHECK(std::memcmp(got[k]->data(), want[k]->data(), size_t(want[k]->num_bytes())) == 0);
  }
}

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

}  // namespace

TEST_CASE("checkpoint: random training graphs give the same bits") {
  const int64_t first = FromEnvironment("WEFT_TRAINING_SEED", 1),
                count = FromEnvironment("WEFT_TRAINING_COUNT", 500);
  int graphs = 0, changed = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    std::string why;
    const auto t = MakeTraining(uint64_t(seed), &why);
    if (!t) continue;
    ++graphs;
    try {
      Session plain(e2e::CompileFor(t->graph, Backend()));
      const auto program = CompileWithin(t->graph, "min");
      const int copies = Copies(*program);
      changed += copies > 0;
      if (copies == 0) continue;
      Session least(program);
      CheckSameBits(least.Run(t->inputs), plain.Run(t->inputs));
    } catch (const Error& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
  MESSAGE(graphs << " graphs, " << changed << " with copies");
  if (count < 500) return;
  CHECK(graphs >= count * 6 / 10);
  CHECK(changed >= graphs / 10);
}

TEST_CASE("checkpoint: twenty budgets of networks: met as run, monotone, the same bits") {
  struct Case {
    const char* name;
    std::function<NodeEntry(e2e::Network*)> build;
    int64_t channels, size, batch;
  };
  const std::vector<Case> cases{
      {"LeNet", [](e2e::Network* n) { return e2e::LeNet(n); }, 1, 28, 16},
      {"ResNet", [](e2e::Network* n) { return e2e::ResNet(n, 1); }, 3, 32, 4},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    e2e::Network network(SymInt(c.batch), c.channels, c.size);
    const Graph g = network.Step(c.build(&network));
    const Tensors in = network.Inputs(c.batch, c.channels, c.size);
    Session plain(e2e::CompileFor(g, Backend()));
    const Tensors want = plain.Run(in);
    Session least(CompileWithin(g, "min"));
    CheckSameBits(least.Run(in), want);
    // What calls take while they run is known when they are bound, not to a pass (that budgets hold
    // with it is in tests/runtime/memory/memory_budget_test.cc).
    const int64_t low = least.memory().tensor_bytes, high = plain.memory().tensor_bytes;
    CHECK(low < high);
    int64_t before = 0;
    int copies_before = INT32_MAX;
    for (int k = 0; k <= 20; ++k) {
      // Bytes are those of the plan, which rounds each block up.
      const int64_t budget = low + (high - low) * k / 20 + (k == 0 ? 4096 : 0);
      CAPTURE(budget);
      const auto program = CompileWithin(g, std::to_string(budget));
      Session session(program);
      CheckSameBits(session.Run(in), want);
      CHECK(session.memory().tensor_bytes <= budget);
      if (k > 0) CHECK(session.memory().tensor_bytes >= before - before / 50);
      before = session.memory().tensor_bytes;
      copies_before = std::min(copies_before, Copies(*program));
    }
    CHECK(copies_before <= Copies(least.program()));
  }
}

/// Three steps of a network with dropout, normalisation whose running statistics are variables, and
/// weights that are updated in place, within a budget and without: losses, statistics, weights.
TEST_CASE("checkpoint: masks are not drawn anew, statistics move once, weights are those of then") {
  Graph g;
  const auto normal = [](std::vector<int64_t> dims, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> of(0, 0.2f);
    auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
    for (int64_t i = 0; i < t->num_elements(); ++i) t->mutable_data_as<float>()[i] = of(random);
    return t;
  };
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({64, 16, 8, 8})));
  std::vector<NodeEntry> weights, updates;
  NodeEntry y = x;
  for (int layer = 0; layer < 4; ++layer) {
    const std::string at = std::to_string(layer);
    const NodeEntry w(AddState(g, "w" + at, DType::kF32, Shape(), normal({16, 16, 3, 3}, 1)));
    weights.push_back(w);
    y = ApplyOp("Conv", {y, w}, {{"pads", Ints{1, 1, 1, 1}}});
    auto ones = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{16});
    for (int64_t i = 0; i < 16; ++i) ones->mutable_data_as<float>()[i] = 1;
    const NodeEntry mean(AddState(g, "mean" + at, DType::kF32, Shape(), ones)),
        var(AddState(g, "var" + at, DType::kF32, Shape(), ones));
    const NodePtr norm = g.AddNode("BatchNormalization",
                                   {y, ConstantLike(y, ones), ConstantLike(y, ones), mean, var},
                                   {{"training_mode", 1}});
    updates.push_back(Assign(mean, NodeEntry(norm, 1)));
    updates.push_back(Assign(var, NodeEntry(norm, 2)));
    y = ApplyOp("Dropout",
                {ApplyOp("Tanh", {NodeEntry(norm, 0)}), ScalarLike(y, DType::kF32, 0.3),
                 ConstantLike(y, Tensor::FromDoubles(DType::kBool, {}, {1}))},
                {{"seed", int64_t{7 + layer}}});
  }
  const NodeEntry loss = ApplyOp("ReduceMean", {y * y}, {{"keepdims", 0}});
  const std::vector<NodeEntry> gradients = Gradients(g, {loss}, weights);
  for (size_t k = 0; k < weights.size(); ++k)
    updates.push_back(
        Assign(weights[k], weights[k] - gradients[k] * ScalarLike(loss, DType::kF32, 0.1)));
  g.outputs = {loss, Group(updates)};
  const Tensors in{normal({64, 16, 8, 8}, 3)};
  Session plain(e2e::CompileFor(g, Backend()));
  const auto program = CompileWithin(g, "min");
  CHECK(Copies(*program) > 0);
  CHECK(CopiesBehindStatistics(*program) > 0);
  Session least(program);
  for (int step = 0; step < 4; ++step) CheckSameBits(least.Run(in), plain.Run(in));
  CHECK(least.memory().tensor_bytes < plain.memory().tensor_bytes);
  for (const char* name : {"w0", "w3", "mean0", "var2"}) {
    CAPTURE(name);
    CheckSameBits({least.store()->Get(name)}, {plain.store()->Get(name)});
  }
}

}  // namespace weft::gradient
