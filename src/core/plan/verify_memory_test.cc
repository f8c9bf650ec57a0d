/// verify_memory_test.cc: plans with a fault in them are told from right ones.
#include "weft/core/plan/verify_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "weft/core/op/op.h"
#include "weft/support/error.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(VerifyMemoryTestAdd).describe("for tests").set_num_inputs(2);
WEFT_REGISTER_OP(VerifyMemoryTestNeg).describe("for tests").set_num_inputs(1);

/// a = -x, b = -x, c = a + b, d = -c, y = d + x; everything has 64 bytes.
struct Case {
  Graph g;
  Order order;
  StoragePlan plan;
  PlacedStorage placed;

  Case() {
    const NodePtr x = g.AddInput("x");
    const NodePtr a = g.AddNode("VerifyMemoryTestNeg", {x}, {}, "a");
    const NodePtr b = g.AddNode("VerifyMemoryTestNeg", {x}, {}, "b");
    const NodePtr c = g.AddNode("VerifyMemoryTestAdd", {a, b}, {}, "c");
    const NodePtr d = g.AddNode("VerifyMemoryTestNeg", {c}, {}, "d");
    const NodePtr y = g.AddNode("VerifyMemoryTestAdd", {d, x}, {}, "y");
    g.outputs = std::vector<NodeEntry>{NodeEntry(y)};
    const auto add = [&](NodePtr n, StorageKind kind, int begin, int end, int64_t offset) {
      Storage s;
      s.kind = kind;
      s.bytes = SymInt(64);
      s.begin = begin;
      s.end = end;
      plan.of.set(NodeEntry(n), int(plan.storages.size()));
      plan.storages.push_back(s);
      placed.bytes.push_back(64);
      placed.offsets.push_back(offset);
    };
    for (NodePtr n : {x, a, b, c, d, y}) order.nodes.push_back(n->id());
    add(x, StorageKind::kInput, 0, 6, 0);
    add(a, StorageKind::kArena, 1, 4, 0);
    add(b, StorageKind::kArena, 2, 4, 64);
    add(c, StorageKind::kArena, 3, 5, 128);
    add(d, StorageKind::kArena, 4, 6, 0);
    add(y, StorageKind::kOutput, 5, 6, 0);
    placed.arena_bytes = placed.live_bytes = 192;
  }
  void Verify() const { VerifyMemory(g, order, plan, placed); }
  /// The message of the error; empty: none.
  std::string Fault() const {
    try {
      Verify();
    } catch (const InternalError& e) {
      return e.what();
    }
    return "";
  }
};

bool Holds(const std::string& text, const char* part) { return text.find(part) != text.npos; }

TEST_CASE("verify memory: a right plan is left alone") { CHECK_NOTHROW(Case().Verify()); }

TEST_CASE("verify memory: steps that are missing, twice, or too early") {
  Case missing;
  missing.order.nodes.erase(missing.order.nodes.begin() + 2);
  CHECK(Holds(missing.Fault(), "before"));
  Case twice;
  twice.order.nodes.push_back(twice.order.nodes.back());
  CHECK(Holds(twice.Fault(), "twice"));
  Case early;
  std::swap(early.order.nodes[2], early.order.nodes[3]);
  CHECK(Holds(early.Fault(), "before"));
  Case cut;
  cut.order.nodes.pop_back();
  CHECK(Holds(cut.Fault(), "does not run"));
}

TEST_CASE("verify memory: blocks that overlap") {
  Case over_operand;  // c lies half over b, which it reads
  over_operand.placed.offsets[3] = 96;
  CHECK(Holds(over_operand.Fault(), "written for block 3"));
  Case over_waiting;  // b lies over a, which waits for c
  over_waiting.placed.offsets[2] = 32;
  CHECK(Holds(over_waiting.Fault(), "written for block 2"));
  Case outside;
  outside.placed.offsets[3] = 160;
  CHECK(Holds(outside.Fault(), "of an arena of 192"));
}

TEST_CASE("verify memory: blocks that are left too early") {
  Case shared;  // d has the block of a as well, but c that of b, which nobody reads any more
  shared.plan.of.set(NodeEntry(shared.g.node(shared.order.nodes[4])), 1);
  CHECK(Holds(shared.Fault(), "outside the life"));
  Case early;
  early.plan.storages[1].end = 2;
  CHECK(Holds(early.Fault(), "outside the life"));
}

TEST_CASE("verify memory: another number of bytes") {
  Case fewer;
  fewer.placed.live_bytes = 128;
  CHECK(Holds(fewer.Fault(), "192 bytes are alive at once, not 128"));
  Case more;
  more.placed.live_bytes = 256;
  CHECK(Holds(more.Fault(), "192 bytes are alive at once, not 256"));
}

}  // namespace
}  // namespace weft
