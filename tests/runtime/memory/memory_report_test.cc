/// memory_report_test.cc: the account of who holds memory, beside what runs take.
#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "tests/support/random/random_control_flow.h"
#include "tests/support/random/random_graph.h"
#include "weft/runtime/program/memory.h"

namespace weft::e2e {
namespace {

/// What is told before the run is what it takes, whichever blocks add up to it.
void CheckReport(const Program& program, Session& session, const SymBindings& bindings,
                 const std::vector<TensorPtr>& inputs) {
  MemoryReport r;
  const auto why = Catch([&] { r = ReportMemory(program, bindings); });
  if (why && why->code == ErrorCode::kUnsupported) return;  // of unknown rank, or no tensor
  REQUIRE_MESSAGE(!why, why->text);
  const std::vector<TensorPtr> results = session.Run(inputs);
  const SessionMemory ran = session.memory();
  if (r.exact()) {
    CHECK(r.arena_bytes == ran.arena_bytes);
    CHECK(r.output_bytes == ran.output_bytes);
  } else if (r.unbounded.empty()) {
    CHECK(r.arena_bytes >= ran.arena_bytes);
  }
  CHECK(r.peak_bytes == r.arena_bytes + r.output_bytes);
  CHECK(r.live.size() == r.steps.size());
  int64_t input_bytes = 0;
  for (const TensorPtr& t : inputs)
    input_bytes += t->dtype() == DType::kString ? 0 : t->num_bytes();
  CHECK(r.input_bytes == input_bytes);
  // Blocks that are alive together are apart, and add up to the curve.
  std::vector<int64_t> live(r.live.size(), 0);
  for (const MemoryHolder& a : r.blocks) {
    CHECK(a.begin >= 0);
    CHECK(a.end <= int(live.size()));
    if (a.kind != MemoryKind::kArena && a.kind != MemoryKind::kScratch) continue;
    for (int k = a.begin; k < a.end; ++k) live[size_t(k)] += a.bytes;
    for (const MemoryHolder& b : r.blocks) {
      if (&a >= &b || a.offset < 0 || b.offset < 0 || a.bytes == 0 || b.bytes == 0) continue;
      if (a.begin >= b.end || b.begin >= a.end) continue;
      CHECK((a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
    }
  }
  CHECK(live == r.live);
}

}  // namespace

TEST_CASE("the account of random graphs is what their runs take") {
  if (!HasCpu()) return;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph g = fuzz::MakeRandomGraph(seed);
    const auto program = Compile(g.graph);
    Session session(program);
    for (size_t k = 0; k < g.bindings.size(); ++k)
      CheckReport(*program, session, g.bindings[k],
                  Ordered(*program, g.graph, fuzz::MakeInputs(g, k)));
  }
}

TEST_CASE("the account of random control flow is what runs take") {
  if (!HasCpu()) return;
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    CAPTURE(seed);
    const fuzz::ControlFlowGraph g = fuzz::MakeControlFlowGraph(seed, false);
    const auto program = Compile(g.graph);
    Session session(program);
    for (size_t k = 0; k < g.bindings.size(); ++k)
      CheckReport(*program, session, g.bindings[k],
                  Ordered(*program, g.graph, fuzz::MakeInputs(g, k, 0)));
  }
}

TEST_CASE("the account of regions: bounded sizes count at their most, others are named") {
  if (!HasCpu()) return;
  const Graph bounded = FromText(
      "graph (%x: f32[n]) -> (%y) {\n  %r = Relu(%x) : ?\n  %i = NonZero(%r) : ?\n"
      "  %t = Transpose(%i) : ?\n  %v = GatherND(%r, %t) : ?\n  %e = Exp(%v) : ?\n"
      "  %s = Softmax(%e) {axis = 0} : ?\n  %y = ReduceSum(%s) {keepdims = 0} : ?\n}");
  const MemoryReport most = ReportMemory(*Compile(bounded), {{"n", 300}});
  CHECK(most.at_most);
  CHECK(most.unbounded.empty());
  CHECK(most.arena_bytes >= 300 * 8);
  CHECK(!most.Holders().empty());
  const Graph open = FromText(
      "graph (%x: f32[n], %k: i64[1]) -> (%y) {\n  %e = Expand(%x, %k) : ?\n"
      "  %i = Tile(%e, %k) : ?\n  %s = Softmax(%i) {axis = 0} : ?\n"
      "  %y = ReduceSum(%s) {keepdims = 0} : ?\n}");
  const MemoryReport unknown = ReportMemory(*Compile(open), {{"n", 3}});
  CHECK(!unknown.unbounded.empty());
  CHECK(!unknown.exact());
}

TEST_CASE("the account names symbols without a value, and programs that plan nothing") {
  const Graph g = FromText("graph (%x: f32[n]) -> (%y) {\n  %y = Relu(%x)\n}");
  const auto of = [&](const char* backend, const SymBindings& bindings) {
    CompileOptions options;
    options.backend = backend;
    const auto program = Compile(g, options);
    const auto why = Catch([&] { ReportMemory(*program, bindings); });
    REQUIRE(why);
    return why->code;
  };
  CHECK(of("ref", {{"n", 3}}) == ErrorCode::kUnsupported);
  if (HasCpu()) CHECK(of("cpu", {}) == ErrorCode::kBadBinding);
}

}  // namespace weft::e2e
