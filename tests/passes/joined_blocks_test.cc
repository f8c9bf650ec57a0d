/// joined_blocks_test.cc: programs whose blocks lie in one another, against the same programs where
/// none does: equal bits, no more memory, less that is moved.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/counting_device.h"
#include "tests/support/e2e_util.h"
#include "tests/support/random/random_graph.h"
#include "weft/core/plan/storage.h"
#include "weft/support/log.h"

namespace weft::e2e {
namespace {

/// `single`: one operator a kernel, so that more of them only move elements.
std::string Parts(bool taken, bool single = false) {
  Pipeline p =
      WithPass(StandardPipeline(), "PlanMemory", {{"PlanMemory", {{"parts", int64_t{taken}}}}});
  if (single) p = WithPass(p, "Fusion", {{"Fusion", {{"max_ops", 1}}}});
  return p.ToString();
}
bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), size_t(a.num_bytes())) == 0;
}

/// As sums of products are: by the largest element.
bool IsNear(const Tensor& got, const Tensor& want) {
  double most = 1;
  for (int64_t i = 0; i < want.num_elements(); ++i) most = std::max(most, std::abs(want.at(i)));
  return CompareTensors(got, want, 0, 1e-4 * most) <= 1;
}

/// Rows of 64 bytes: k * n - c of them.
struct Rows {
  std::string name;
  int64_t k, c;
};
Graph RowMoves(uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::string text =
      "graph (%x: f32[n, 2048], %w: f32[16, 16]) -> (%y, %z) {\n"
      "  %first = Constant() {value = tensor i64[1] [2]} : ?\n"
      "  %last = Constant() {value = tensor i64[1] [-1]} : ?\n"
      "  %zero = Constant() {value = tensor i64[1] [0]} : ?\n"
      "  %few = Constant() {value = tensor i64[1] [16]} : ?\n"
      "  %axis = Constant() {value = tensor i64[1] [1]} : ?\n"
      "  %at = Constant() {value = tensor i64[] [1]} : ?\n"
      // The most bytes are alive here.
      "  %l0 = Softmax(%x) : ?\n  %l1 = CumSum(%l0, %at) : ?\n"
      "  %l2 = Slice(%l1, %zero, %few, %axis) : ?\n  %p0 = MatMul(%l2, %w) : ?\n";
  std::vector<Rows> all{{"p0", 1, 0}};
  const auto some = [&]() -> Rows { return all[size_t(rng() % all.size())]; };
  int next = 1;
  const auto add = [&](const std::string& call, int64_t k, int64_t c) {
    const std::string name = "p" + std::to_string(next++);
    text += "  %" + name + " = " + call + " : ?\n";
    all.push_back({name, k, c});
  };
  for (int step = 0; step < 14; ++step) {
    const Rows a = some(), b = some();
    switch (rng() % 6) {
      case 0:
        if (a.k + b.k <= 24)
          add("Concat(%" + a.name + ", %" + b.name + ") {axis = 0}", a.k + b.k, a.c + b.c);
        break;
      case 1:
        if (a.c == 0 && a.k % 2 == 0) {
          const std::string l = "p" + std::to_string(next++), r = "p" + std::to_string(next++);
          text += "  %" + l + ", %" + r + " = Split(%" + a.name +
                  ") {axis = 0, num_outputs = 2} : ?, ?\n";
          all.push_back({l, a.k / 2, 0});
          all.push_back({r, a.k / 2, 0});
        }
        break;
      case 2:
        if (a.c == 0) add("Slice(%" + a.name + ", %first, %last)", a.k, 3);
        break;
      case 3:
        if (a.k == b.k && a.c == b.c) add("Add(%" + a.name + ", %" + b.name + ")", a.k, a.c);
        break;
      default:
        add("MatMul(%" + a.name + ", %w)", a.k, a.c);
    }
  }
  text += "  %y = MatMul(%" + all.back().name + ", %w) : ?\n  %z = MatMul(%" + some().name +
          ", %w) : ?\n}";
  return FromText(text);
}

struct Compared {
  int64_t arena[2], moved[2];  ///< with blocks in one another, without
};
Compared Compare(const Graph& g, const SymBindings& bind, const std::string& backend = "cpu") {
  Session joined(CompileFor(g, backend)), apart(CompileFor(g, backend, Parts(false)));
  for (uint64_t seed = 1; seed < 4; ++seed) {
    const Reference want = RunReference(g, seed, bind);
    const auto got = joined.Run(want.inputs), other = apart.Run(want.inputs);
    CHECK(IsNear(*got[0], *want.outputs[0]));
    for (size_t i = 0; i < got.size(); ++i) CHECK(SameBits(*got[i], *other[i]));
  }
  return {{joined.arena_bytes(), apart.arena_bytes()}, {joined.bytes_moved(), apart.bytes_moved()}};
}

/// Branches that are joined along the second axis, twice: one stretch for a batch of one. The most
/// bytes are alive before.
const char* const kBranches =
    "graph (%x: f32[n, 16, 512], %u: f32[512, 512], %t: f32[512, 32], %w: f32[32, 32]) -> (%y) {\n"
    "  %p = MatMul(%x, %u) : ?\n  %q = MatMul(%p, %u) : ?\n  %r = MatMul(%q, %t) : ?\n"
    "  %a = MatMul(%r, %w) : ?\n  %b = MatMul(%r, %w) : ?\n  %c = Neg(%b) : ?\n"
    "  %d = MatMul(%c, %w) : ?\n  %j = Concat(%a, %d) {axis = 1} : ?\n"
    "  %f = MatMul(%j, %w) : ?\n  %g = Neg(%j) : ?\n  %h = MatMul(%g, %w) : ?\n"
    "  %k = Concat(%f, %h) {axis = 1} : ?\n  %y = MatMul(%k, %w) : ?\n}";

}  // namespace

TEST_CASE("Concat of the second axis copies nothing for a batch of one, and runs for others") {
  if (!HasCpu()) return;
  const Graph g = FromText(kBranches);
  const Compared one = Compare(g, {{"n", 1}}), three = Compare(g, {{"n", 3}});
  CHECK(one.moved[0] < one.moved[1]);
  CHECK(one.arena[0] <= one.arena[1]);
  CHECK(three.moved[0] == three.moved[1]);
  CHECK(three.arena[0] == three.arena[1]);
}

TEST_CASE("parts of a tensor along its outermost axis are where it is") {
  if (!HasCpu()) return;
  const char* const graphs[] = {
      "graph (%x: f32[n, 512], %u: f32[512, 512], %v: f32[512, 64], %w: f32[64, 64]) -> (%y) {\n"
      "  %p = MatMul(%x, %u) : ?\n  %q = MatMul(%p, %u) : ?\n  %m = MatMul(%q, %v) : ?\n"
      "  %a, %b = Split(%m) {axis = 0, num_outputs = 2} : ?, ?\n"
      "  %c = MatMul(%a, %w) : ?\n  %d = MatMul(%b, %w) : ?\n"
      "  %j = Concat(%c, %d) {axis = 0} : ?\n  %y = MatMul(%j, %w) : ?\n}",
      "graph (%x: f32[n, 64], %w: f32[64, 64]) -> (%y) {\n  %m = MatMul(%x, %w) : ?\n"
      "  %s = Constant() {value = tensor i64[1] [2]} : ?\n"
      "  %e = Constant() {value = tensor i64[1] [-1]} : ?\n"
      "  %p = Slice(%m, %s, %e) : ?\n  %y = MatMul(%p, %w) : ?\n}",
  };
  for (const char* text : graphs) {
    INFO(std::string(text));
    for (const int64_t n : {4, 10, 16}) {
      CAPTURE(n);
      const Compared c = Compare(FromText(text), {{"n", n}});
      CHECK(c.moved[0] < c.moved[1]);
      CHECK(c.arena[0] <= c.arena[1]);
    }
  }
}

TEST_CASE("random graphs give the same bits with blocks in one another and without, in no more") {
  if (!HasCpu()) return;
  const bool device = StartCountingDevice();
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph g = fuzz::MakeRandomGraph(seed);
    const bool single = seed % 4 > 1;
    Session joined(CompileFor(g.graph, "cpu", Parts(true, single))),
        apart(CompileFor(g.graph, "cpu", Parts(false, single)));
    for (size_t b = 0; b < g.bindings.size(); ++b) {
      const std::vector<TensorPtr> in = fuzz::MakeInputs(g, b);
      const auto got = joined.Run(in), want = apart.Run(in);
      for (size_t i = 0; i < got.size(); ++i) CHECK(SameBits(*got[i], *want[i]));
      CHECK(joined.arena_bytes() <= apart.arena_bytes());
    }
    if (!device || seed > 20) continue;
    Session there(CompileFor(g.graph, "counting", Parts(true, single)));
    for (size_t b = 0; b < g.bindings.size(); ++b) {
      const std::vector<TensorPtr> in = fuzz::MakeInputs(g, b);
      const auto want = apart.Run(in);
      for (int run = 0; run < 4; ++run) {
        const auto got = there.Run(in);
        for (size_t i = 0; i < got.size(); ++i) CHECK(SameBits(*got[i], *want[i]));
      }
    }
  }
  SetLogLevel(before);
}

TEST_CASE("random graphs of products and what joins and cuts rows, at several sizes") {
  if (!HasCpu()) return;
  const bool device = StartCountingDevice();
  int moved_less = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Graph g = RowMoves(seed);
    Session joined(CompileFor(g, "cpu", Parts(true, seed % 2 == 0))),
        apart(CompileFor(g, "cpu", Parts(false, seed % 2 == 0)));
    std::unique_ptr<Session> there;
    if (device) there = std::make_unique<Session>(CompileFor(g, "counting"));
    for (const int64_t n : {4, 7, 12, 4}) {
      CAPTURE(n);
      const Reference want = RunReference(g, seed, {{"n", n}});
      const auto got = joined.Run(want.inputs), other = apart.Run(want.inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(SameBits(*got[i], *other[i]));
        CHECK(IsNear(*got[i], *want.outputs[i]));
      }
      CHECK(joined.arena_bytes() <= apart.arena_bytes());
      moved_less += joined.bytes_moved() < apart.bytes_moved();
      for (int run = 0; there && run < 4; ++run) {
        const auto on_device = there->Run(want.inputs);
        for (size_t i = 0; i < got.size(); ++i) CHECK(IsNear(*on_device[i], *want.outputs[i]));
      }
    }
  }
  CHECK(moved_less > 50);
}

TEST_CASE("seeded faults of a plan: blocks that are freed early, or taken while they are read") {
  int freed = 0, taken = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    CAPTURE(seed);
    const Graph g = ApplyPasses(fuzz::MakeRandomGraph(seed).graph, "Schedule,PlanMemory");
    const StoragePlan& plan = g.GetAttr<StoragePlan>("storage");
    const std::vector<NodeId>& order = g.GetAttr<Order>("order").nodes;
    const auto refused = [&](const StoragePlan& bad) {
      const auto why = Catch([&] { VerifyStorage(g, order, bad); });
      return why && why->code == ErrorCode::kInternal;
    };
    REQUIRE(!refused(plan));
    for (size_t b = 0; b < plan.storages.size(); ++b) {
      const Storage& s = plan.storages[b];
      if (s.kind != StorageKind::kArena || s.end - s.begin < 2 || s.end == int(order.size()))
        continue;
      StoragePlan early = plan;
      --early.storages[b].end;
      CHECK(refused(early));
      ++freed;
      // Another result goes there before it is read last.
      for (int step = s.begin + 1; step < s.end - 1; ++step) {
        const NodeEntry e(g.node(order[size_t(step)]));
        const int* other = plan.of.find(e);
        if (!other || *other == int(b) || plan.storages[size_t(*other)].begin != step ||
            plan.storages[size_t(*other)].kind != StorageKind::kArena)
          continue;
        StoragePlan shared = plan;
        shared.of.set(e, int(b));
        CHECK(refused(shared));
        ++taken;
      }
    }
  }
  CHECK(freed > 50);
  CHECK(taken > 20);
}

TEST_CASE("sums of gradients take over the block of one of them, in kernels and fused calls") {
  for (const char* pipeline :
       {"Schedule,PlanMemory", "Epilogue,Fusion,CodeGen,Schedule,PlanMemory"}) {
    CAPTURE(pipeline);
    const Graph g = ApplyPasses(
        FromText("graph (%x: f32[n, 64], %v: f32[64, 64], %w: f32[64, 64], %u: f32[64, 64]) -> "
                 "(%y) {\n"
                 "  %a = MatMul(%x, %v) : ?\n  %b = MatMul(%x, %w) : ?\n  %c = MatMul(%x, %u) : ?\n"
                 "  %s = Sum(%a, %b, %c) : ?\n  %y = MatMul(%s, %v) : ?\n}"),
        pipeline);
    const StoragePlan& plan = g.GetAttr<StoragePlan>("storage");
    int blocks = 0;
    for (const Storage& s : plan.storages) blocks += s.kind == StorageKind::kArena;
    CHECK(blocks == 3);  // three products; the sum is in one of them
  }
}

}  // namespace weft::e2e
