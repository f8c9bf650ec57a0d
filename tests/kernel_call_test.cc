/// kernel_call_test.cc: operators that a library runs, with types and extents that it does not take: kernels are generated.
#include <doctest/doctest.h>

#include "e2e_util.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/gradient.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// All steps are kernels or calls, and at least one call is made of generated kernels.
void Check(const Graph& graph, const SymBindings& bind = {}) {
  if (!HasCpu()) return;
  const Reference r = RunReference(graph, 7, bind);
  Session session(CompileFor(graph, "cpu"));
  CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  int generated = 0;
  for (const StepTime& t : session.Profile(r.inputs)) {
    CHECK(t.kind != "interpreter");
    generated += t.how == "generated";
  }
  CHECK(generated > 0);
}

}  // namespace

TEST_CASE("kernel call: convolutions of types that the library has not") {
  for (const char* type : {"f64", "f16", "bf16"}) {
    CAPTURE(std::string(type));
    const std::string t = type;
    Check(FromText("graph (%x: " + t + "[2, 6, 9, 7], %w: " + t + "[8, 3, 3, 3], %b: " + t +
                   "[8]) -> (%y) {\n  %y = Conv(%x, %w, %b) {group = 2, pads = [1, 0, 1, 2], "
                   "strides = [2, 1]} : ?\n}"));
  }
}

TEST_CASE("kernel call: products of types that the library has not, with what follows them") {
  Check(
      FromText("graph (%a: f64[3, 1, 5, 4], %b: f64[2, 4, 6], %r: f64[6]) -> (%y) {\n"
               "  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %r) : ?\n  %y = Relu(%s) : ?\n}"));
  Check(
      FromText("graph (%a: f16[7, 5], %b: f16[6, 7], %c: f16[6]) -> (%y) {\n"
               "  %y = Gemm(%a, %b, %c) {transA = 1, transB = 1, alpha = 0.5} : ?\n}"));
}

TEST_CASE("kernel call: gradients whose extents are known when the program runs") {
  Graph g = FromText(
      "graph (%x: f64[n, 2, 6, 6], %w: f64[4, 2, 3, 3]) -> (%y) {\n"
      "  %y = Conv(%x, %w) {pads = [1, 1, 1, 1]} : ?\n}");
  const std::vector<NodeEntry> xs{NodeEntry(g.inputs()[0]), NodeEntry(g.inputs()[1])};
  const std::vector<NodeEntry> ys(g.outputs.begin(), g.outputs.end());
  g.outputs = Gradients(g, ys, xs);
  Check(g, {{"n", 3}});
}
