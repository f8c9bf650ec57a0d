/// storage_test.cc: which entries share a block of memory, seen through the attribute that
/// PlanMemory provides.
#include "weft/core/plan/storage.h"

#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"

namespace {

using namespace weft;

struct Planned {
  Graph g;
  explicit Planned(const std::string& text, const char* pipeline = "PlanMemory")
      : g(ApplyPasses(e2e::FromText(text), pipeline)) {}
  const StoragePlan& plan() const { return g.GetAttr<StoragePlan>("storage"); }
  int block(const std::string& name, uint32_t index = 0) const {
    for (NodePtr n : g.TopoOrder())
      if (n->attrs.name == name) {
        const int* s = plan().of.find(NodeEntry(n, index));
        return s ? *s : -1;
      }
    return -2;
  }
};

}  // namespace

TEST_CASE("storage: a chain of in-place operators lives in one block, views included") {
  const Planned p(R"(graph (%x: f32[4, n]) -> (%y) {
    %a = Tanh(%x) : ?
    %to = Constant() {value = tensor i64[1] [-1]} : ?
    %r = Reshape(%a, %to) : ?
    %b = Exp(%r) : ?
    %y = Neg(%b) : ?
  })");
  CHECK(p.block("a") == p.block("r"));
  CHECK(p.block("r") == p.block("b"));
  CHECK(p.block("b") == p.block("y"));
  CHECK(p.plan().aliased == 1);
  CHECK(p.plan().in_place == 2);
  CHECK(p.plan().storages[size_t(p.block("y"))].kind == StorageKind::kOutput);
  CHECK(p.plan().storages[size_t(p.block("x"))].kind == StorageKind::kInput);
  CHECK(p.plan().storages[size_t(p.block("y"))].bytes == SymInt::Symbol("n") * SymInt(16));
  CHECK(p.plan().copies.empty());
}

TEST_CASE("storage: no block is taken while somebody will read it: the operand, or a view of it") {
  const Planned later(R"(graph (%x: f32[n]) -> (%y) {
    %a = Tanh(%x) : ?
    %b = Exp(%a) : ?
    %y = Add(%b, %a) : ?
  })");
  CHECK(later.block("a") != later.block("b"));
  const Planned view(R"(graph (%x: f32[4, 2]) -> (%y) {
    %a = Tanh(%x) : ?
    %to = Constant() {value = tensor i64[2] [4, 2]} : ?
    %r = Reshape(%a, %to) : ?
    %b = Exp(%a) : ?
    %y = Add(%b, %r) : ?
  })");
  CHECK(view.block("a") == view.block("r"));
  CHECK(view.block("b") != view.block("r"));
}

TEST_CASE("storage: extents that may differ, and other dtypes, share no block") {
  const Planned p(R"(graph (%x: f32[n], %z: f32[m]) -> (%y, %h) {
    %a = Tanh(%x) : ?
    %y = Add(%a, %z) : ?
    %b = Exp(%z) : ?
    %h = Cast(%b) {to = f16} : ?
  })");
  CHECK(p.block("a") != p.block("y"));
  CHECK(p.block("b") != p.block("h"));
}

TEST_CASE(
    "storage: inputs are never written; outputs that are inputs, or asked for twice, are copied") {
  const Planned p(R"(graph (%x: f32[n]) -> (%x, %a, %a as "again", %b) {
    %a = Tanh(%x) : ?
    %b = Exp(%x) : ?
  })");
  CHECK(p.block("a") != p.block("x"));
  CHECK(p.block("b") != p.block("x"));
  CHECK(p.plan().copies == std::vector<int>{0, 2});
}

TEST_CASE("storage: a kernel may write over an operand only where it reads it at the same place") {
  const Planned same(R"(graph (%x: f32[8, 8], %w: f32[8, 8]) -> (%y) {
    %m = MatMul(%x, %w) : ?
    %a = Tanh(%m) : ?
    %y = Neg(%a) : ?
  })",
                     "Fusion,CodeGen,Schedule,PlanMemory");
  CHECK(same.block("m") == same.block("y"));
  const Planned moved(R"(graph (%x: f32[8, 8], %w: f32[8, 8]) -> (%y) {
    %m = MatMul(%x, %w) : ?
    %t = Transpose(%m) {perm = [1, 0]} : ?
    %y = Neg(%t) : ?
  })",
                      "Fusion,CodeGen,Schedule,PlanMemory");
  CHECK(moved.block("m") != moved.block("y"));
}
