/// memory_budget_test.cc: programs that keep a budget, as their callers see them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_networks.h"
#include "weft/core/graph/effects.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/program/memory.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/runtime/session/variable_store.h"

namespace weft::e2e {
namespace {

CompileOptions Within(const std::string& budget, const SymBindings& hints = {}) {
  CompileOptions options;
  options.memory = {MemoryBudget::Parse(budget, "test"), hints};
  return options;
}

void CheckSameBits(const std::vector<TensorPtr>& got, const std::vector<TensorPtr>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    REQUIRE(got[k]->dims() == want[k]->dims());
    CHECK(std::memcmp(got[k]->data(), want[k]->data(), size_t(want[k]->num_bytes())) == 0);
  }
}

/// The loss and the gradients of a residual network, for a batch of any size.
struct OpenNetwork {
  OpenNetwork() : network(SymInt::Symbol("batch"), 3, 16) {
    graph = network.Step(ResNet(&network, 1));
  }
  std::vector<TensorPtr> Inputs(int64_t batch) { return network.Inputs(batch, 3, 16); }
  Network network;
  Graph graph;
};

/// In the middle between what a run of 64 takes at the least, and without recomputation.
int64_t HalfWay(const Graph& graph) {
  const SymBindings at{{"batch", 64}};
  return (ReportMemory(*Compile(graph), at).peak_bytes +
          ReportMemory(*Compile(graph, Within("min", at)), at).peak_bytes) /
         2;
}

}  // namespace

TEST_CASE("a budget: a run takes the cheapest way that fits its extents") {
  if (!HasCpu()) return;
  OpenNetwork net;
  const auto plain = Compile(net.graph);
  const int64_t budget = HalfWay(net.graph);
  const auto program = Compile(net.graph, Within(std::to_string(budget), {{"batch", 64}}));
  Session session(program), reference(plain);
  for (const int64_t batch : {8, 64, 32, 64, 8}) {
    CAPTURE(batch);
    const std::vector<TensorPtr> in = net.Inputs(batch);
    CheckSameBits(session.Run(in), reference.Run(in));
    const SessionMemory m = session.memory();
    CHECK(m.budget_bytes == budget);
    CHECK(m.budget_met);
    CHECK(m.peak_bytes <= m.budget_bytes);
    CHECK((m.way > 0) == (batch == 64));
    CHECK((m.recompute_flops > 0) == (batch == 64));
    const MemoryReport r = ReportMemory(*program, {{"batch", batch}});
    CHECK(r.peak_bytes == m.peak_bytes);
    CHECK(r.way == m.way);
    CHECK(r.ways.size() >= 2);
  }
}

/// The scratch of calls is a large part of what small pictures take: plans that did not count it
/// would be beyond their budgets, and made again for less and less.
TEST_CASE("a budget: plans count the scratch of calls, to the byte, and are made once") {
  if (!HasCpu()) return;
  Network network(SymInt(64), 3, 16);
  const Graph graph = network.Step(ResNet(&network, 1));
  const std::vector<TensorPtr> in = network.Inputs(64, 3, 16);
  const auto plain = Compile(graph);
  Session reference(plain);
  const std::vector<TensorPtr> want = reference.Run(in);
  const MemoryReport whole = ReportMemory(*plain, {});
  CHECK(whole.scratch_bytes > whole.arena_bytes / 4);
  const int64_t least = ReportMemory(*Compile(graph, Within("min")), {}).peak_bytes;
  int planned_with_scratch = 0;
  for (int k = 0; k < 10; ++k) {
    const int64_t budget = least + (whole.peak_bytes - least) * k / 10;
    CAPTURE(budget);
    CompileOptions options = Within(std::to_string(budget));
    std::vector<PassRecord> records;
    options.passes.records = &records;
    const auto program = Compile(graph, options);
    Session session(program);
    CheckSameBits(session.Run(in), want);
    CHECK(session.memory().peak_bytes <= budget);
    const MemoryReport r = ReportMemory(*program, {});
    CHECK(r.peak_bytes == session.memory().peak_bytes);
    // None of them is below what the plan of the most memory, which comes first, was made for.
    if (k > 0) CHECK(r.ways.size() == 2);
    const auto planned = std::find_if(records.begin(), records.end(), [](const PassRecord& p) {
      return p.name == "Checkpoint" && p.statistics.count("copies");
    });
    REQUIRE(planned != records.end());
    // It rounds every block up to where the next one may begin.
    const int64_t counted = planned->statistics.at("bytes");
    CHECK(counted >= r.bound_bytes);
    CHECK(counted <= r.bound_bytes + r.bound_bytes / 50);
    int64_t tensors = 0;
    for (const MemoryHolder& h : r.Holders())
      if (h.kind == MemoryKind::kArena) tensors += h.bytes;
    planned_with_scratch += tensors < r.bound_bytes;
  }
  CHECK(planned_with_scratch > 0);
}

TEST_CASE("a budget: what cannot be kept is refused before the run, and the session stays good") {
  if (!HasCpu()) return;
  OpenNetwork net;
  const auto program = Compile(net.graph, Within("2M", {{"batch", 8}}));
  Session session(program);
  const std::vector<TensorPtr> small = net.Inputs(4), large = net.Inputs(512);
  const std::vector<TensorPtr> want = session.Run(small);
  for (int k = 0; k < 2; ++k) {
    const auto why = Catch([&] { session.Run(large); });
    REQUIRE(why);
    CHECK(why->code == ErrorCode::kOutOfMemory);
    CHECK(why->says("held by"));
    const auto reported = Catch([&] { ReportMemory(*program, {{"batch", 512}}); });
    CHECK(reported);
    CheckSameBits(session.Run(small), want);
  }
}

TEST_CASE("a budget: shares are of what a run takes without, at its own extents") {
  if (!HasCpu()) return;
  OpenNetwork net;
  const auto plain = Compile(net.graph);
  Session session(Compile(net.graph, Within("80%", {{"batch", 64}})));
  for (const int64_t batch : {16, 64}) {
    CAPTURE(batch);
    session.Run(net.Inputs(batch));
    const int64_t whole = ReportMemory(*plain, {{"batch", batch}}).peak_bytes;
    CHECK(session.memory().budget_bytes == whole * 8 / 10);
    CHECK(session.memory().peak_bytes <= whole * 8 / 10);
  }
}

TEST_CASE("a budget: everything counts where it says so") {
  if (!HasCpu()) return;
  OpenNetwork net;
  const MemoryReport r = ReportMemory(*Compile(net.graph), {{"batch", 64}});
  const int64_t beside = r.input_bytes + r.variable_bytes + r.constant_bytes;
  CHECK(beside > 0);
  Session session(
      Compile(net.graph, Within("all:" + std::to_string(r.peak_bytes + beside), {{"batch", 64}})));
  session.Run(net.Inputs(64));
  CHECK(session.memory().way == 0);
  Session less(Compile(
      net.graph, Within("all:" + std::to_string(r.peak_bytes + beside - 1), {{"batch", 64}})));
  less.Run(net.Inputs(64));
  CHECK(less.memory().way > 0);
}

TEST_CASE("a budget: state is the session's, whichever way its runs take") {
  if (!HasCpu()) return;
  // w <- w + mean over rows of sigmoids of products with it.
  Graph g;
  auto start = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{32, 32});
  for (int64_t i = 0; i < start->num_elements(); ++i)
    start->mutable_data_as<float>()[i] = float(i % 7) * 0.01f;
  const NodeEntry w(AddState(g, "w", DType::kF32, Shape(), start));
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{SymInt::Symbol("n"), SymInt(32)}));
  NodeEntry y = x;
  for (int k = 0; k < 10; ++k) y = ApplyOp("Sigmoid", {ApplyOp("MatMul", {y, w})});
  const NodeEntry loss = ApplyOp("ReduceMean", {y}, {{"keepdims", 0}});
  const NodeEntry dw = Gradients(g, {loss}, {w})[0];
  g.outputs = {loss, Group({Assign(w, w - dw)})};
  const int64_t whole = ReportMemory(*Compile(g), {{"n", 64}}).peak_bytes;
  Session plain(Compile(g)), within(Compile(g, Within(std::to_string(whole * 3 / 4), {{"n", 64}})));
  std::vector<size_t> ways;
  for (const int64_t n : {64, 4, 64, 16, 64}) {
    const std::vector<TensorPtr> in = MakeRandomInputs(g, uint64_t(n), {{"n", n}}).tensors;
    CheckSameBits(within.Run(in), plain.Run(in));
    ways.push_back(within.memory().way);
  }
  CHECK(ways[0] > 0);
  CHECK(ways[1] == 0);
  CheckSameBits({within.store()->Get("w")}, {plain.store()->Get("w")});
}

TEST_CASE("a budget: saved programs keep it, and take another one") {
  if (!HasCpu()) return;
  OpenNetwork net;
  const TempFolder dir;
  const int64_t budget = HalfWay(net.graph);
  const auto program = Compile(net.graph, Within(std::to_string(budget), {{"batch", 64}}));
  SaveProgram(*program, dir / "m.weftx");
  const auto loaded = LoadProgram(dir / "m.weftx");
  Session a(program), b(loaded);
  for (const int64_t batch : {8, 64}) {
    const std::vector<TensorPtr> in = net.Inputs(batch);
    CheckSameBits(b.Run(in), a.Run(in));
    CHECK(b.memory().budget_bytes == budget);
    CHECK(b.memory().peak_bytes <= budget);
  }
  LoadOptions none;
  none.memory_budget = MemoryBudget::Parse("1K", "test");
  Session tight(LoadProgram(dir / "m.weftx", none));
  CHECK(Catch([&] { tight.Run(net.Inputs(64)); })->code == ErrorCode::kOutOfMemory);
}

TEST_CASE("a budget: results are born where the caller wants them") {
  if (!HasCpu()) return;
  OpenNetwork net;
  const auto program = Compile(net.graph, Within("75%", {{"batch", 32}}));
  Session session(program);
  int made = 0;
  session.set_result_allocator([&](size_t, DType dtype, const std::vector<int64_t>& dims) {
    ++made;
    return std::make_shared<Tensor>(dtype, dims);
  });
  const std::vector<TensorPtr> in = net.Inputs(32);
  const std::vector<TensorPtr> first = session.Run(in);
  CHECK(made == int(first.size()));
  std::vector<std::shared_ptr<Tensor>> outputs;
  session.set_result_allocator(nullptr);
  session.RunInto(in, &outputs);
  const std::vector<std::shared_ptr<Tensor>> kept = outputs;
  CheckSameBits({outputs.begin(), outputs.end()}, first);
  std::vector<const void*> at;
  for (const auto& t : outputs) at.push_back(t->data());
  const std::vector<std::shared_ptr<Tensor>> bound = session.RunBound(in, outputs);
  for (size_t k = 0; k < bound.size(); ++k) CHECK(bound[k]->data() == at[k]);
  CHECK(session.Profile(in).size() > 5);
}

TEST_CASE("a budget: hints are of symbols that there are") {
  if (!HasCpu()) return;
  OpenNetwork net;
  CHECK(Catch([&] {
          Compile(net.graph, Within("50%", {{"rows", 3}}));
        })->code == ErrorCode::kBadBinding);
  CHECK(Catch([&] {
          Compile(net.graph, Within("50%", {{"batch", -1}}));
        })->code == ErrorCode::kBadBinding);
  CompileOptions reference = Within("50%");
  reference.backend = "ref";
  CHECK(Catch([&] { Compile(net.graph, reference); })->code == ErrorCode::kUnsupported);
  CHECK(ParseBindings({"a=1,b=2", " c = 3 "}, "test") == SymBindings{{"a", 1}, {"b", 2}, {"c", 3}});
  for (const char* text : {"", "a", "a=", "=1", "a=-1", "a=1,a=2", "a=1.5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(ParseBindings({text}, "test"), UserError);
  }
}

}  // namespace weft::e2e
