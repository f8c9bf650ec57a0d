/// kernel_call_test.cc: operators that a library runs, with extents that it does not take: kernels
/// are generated. Of halves it takes what it takes of floats, of doubles convolutions.
#include <doctest/doctest.h>

#include "tests/support/counting_device.h"
#include "tests/support/e2e_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// All steps are kernels or calls, and at least one call is made of generated kernels, or none; on
/// the host, and on a device of which recordings are made.
void Check(const Graph& graph, const std::vector<SymBindings>& binds = {{}},
           bool is_generated = true) {
  if (!StartCountingDevice()) return;
  for (const char* backend : {"cpu", "counting"}) {
    CAPTURE(std::string(backend));
    Session session(CompileFor(graph, backend));
    for (const SymBindings& bind : binds) {
      const Reference r = RunReference(graph, 7, bind);
      for (int run = 0; run < 4; ++run) CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
      int generated = 0;
      for (const StepTime& t : session.Profile(r.inputs)) {
        CHECK(t.kind != "interpreter");
        generated += t.how == "generated";
      }
      CHECK((generated > 0) == is_generated);
    }
  }
  CHECK(CountingDevice::Get().strangers == 0);
}

}  // namespace

/// Spatial axes that the library has not: a call of generated kernels.
constexpr const char* kFourAxes = "%x: f32[n, 2, 3, 4, 3, 2], %w: f32[3, 2, 2, 2, 2, 1]";

TEST_CASE("kernel call: convolutions of doubles and halves, and over more axes than there are") {
  Check(FromText("graph (" + std::string(kFourAxes) + ") -> (%y) {\n  %y = Conv(%x, %w) : ?\n}"),
        {{{"n", 2}}, {{"n", 1}}});
  for (const char* type : {"f64", "f16", "bf16"}) {
    CAPTURE(std::string(type));
    const std::string t = type;
    Check(FromText("graph (%x: " + t + "[2, 6, 9, 7], %w: " + t + "[8, 3, 3, 3], %b: " + t +
                   "[8]) -> (%y) {\n  %y = Conv(%x, %w, %b) {group = 2, pads = [1, 0, 1, 2], "
                   "strides = [2, 1]} : ?\n}"),
          {{}}, false);
  }
}

TEST_CASE("kernel call: products of halves, with what follows them") {
  Check(FromText("graph (%a: bf16[3, 1, 5, 4], %b: bf16[2, 4, 6], %r: bf16[6]) -> (%y) {\n"
                 "  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %r) : ?\n  %y = Relu(%s) : ?\n}"),
        {{}}, false);
  Check(FromText("graph (%a: f16[7, 5], %b: f16[6, 7], %c: f16[6]) -> (%y) {\n"
                 "  %y = Gemm(%a, %b, %c) {transA = 1, transB = 1, alpha = 0.5} : ?\n}"),
        {{}}, false);
}

TEST_CASE("kernel call: gradients whose extents are known when the program runs") {
  Graph g = FromText("graph (" + std::string(kFourAxes) +
                     ") -> (%y) {\n"
                     "  %y = Conv(%x, %w) {pads = [1, 1, 1, 1, 1, 1, 1, 1]} : ?\n}");
  const std::vector<NodeEntry> xs{NodeEntry(g.inputs()[0]), NodeEntry(g.inputs()[1])};
  const std::vector<NodeEntry> ys(g.outputs.begin(), g.outputs.end());
  g.outputs = Gradients(g, ys, xs);
  Check(g, {{{"n", 3}}, {{"n", 5}}, {{"n", 1}}});
}

TEST_CASE("kernel call: an addend that lies where the result goes") {
  for (const char* type : {"f64", "f16", "bf16"}) {
    CAPTURE(std::string(type));
    const std::string t = type;
    // The rest of the graph makes the addend, which nobody reads any more, and takes the result.
    for (const char* behind :
         {"  %s = Add(%p, %n) : ?\n", "  %s = Add(%n, %p) : ?\n", "  %s = Sub(%n, %p) : ?\n",
          "  %s = Mul(%p, %n) : ?\n", "  %z = Relu(%p) : ?\n  %s = Add(%z, %n) : ?\n"}) {
      CAPTURE(std::string(behind));
      if (t != "f64")  // products of doubles are kernels from the beginning
        Check(FromText("graph (%a: " + t + "[m, 40], %b: " + t + "[40, 24], %r: " + t +
                       "[m, 24]) -> (%y) {\n  %n = Tanh(%r) : ?\n  %p = MatMul(%a, %b) : ?\n" +
                       behind + "  %y = Softmax(%s) {axis = -1} : ?\n}"),
              {{{"m", 33}}, {{"m", 1}}, {{"m", 64}}}, false);
      Check(FromText("graph (%x: " + t + "[2, 6, 9, 7], %w: " + t + "[8, 6, 3, 3], %r: " + t +
                     "[2, 8, 9, 7]) -> (%y) {\n  %n = Tanh(%r) : ?\n"
                     "  %p = Conv(%x, %w) {pads = [1, 1, 1, 1]} : ?\n" +
                     behind + "  %y = Tanh(%s) : ?\n}"),
            {{}}, false);
    }
  }
}

TEST_CASE("kernel call: what there is nothing of") {
  Check(FromText("graph (%a: f16[m, k], %b: f16[k, 6], %r: f16[m, 6]) -> (%y) {\n"
                 "  %n = Tanh(%r) : ?\n  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %n) : ?\n"
                 "  %y = Relu(%s) : ?\n}"),
        {{{"m", 0}, {"k", 4}}, {{"m", 3}, {"k", 0}}, {{"m", 3}, {"k", 4}}}, false);
  Check(FromText("graph (%x: f64[n, c, 5, 5], %w: f64[4, c, 3, 3]) -> (%y) {\n"
                 "  %p = Conv(%x, %w) : ?\n  %y = Relu(%p) : ?\n}"),
        {{{"n", 0}, {"c", 2}}, {{"n", 3}, {"c", 0}}, {{"n", 2}, {"c", 2}}}, false);
}

TEST_CASE("kernel call: nothing is compiled for a product over nothing") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%a: f32[m, k], %b: f32[k, 6], %r: f32[m, 6]) -> (%y) {\n"
      "  %n = Tanh(%r) : ?\n  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %n) : ?\n"
      "  %y = Relu(%s) : ?\n}");
  Session session(CompileFor(g, "cpu"));
  const int64_t before = CountCompiled().kernels;
  for (const SymBindings& bind :
       {SymBindings{{"m", 3}, {"k", 0}}, {{"m", 0}, {"k", 4}}, {{"m", 7}, {"k", 0}}}) {
    const Reference r = RunReference(g, 7, bind);
    CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  }
  CHECK(CountCompiled().kernels == before);
}

TEST_CASE("kernel call: a run that is cancelled while kernels are made leaves none out") {
  if (!StartCountingDevice()) return;
  Session session(
      CompileFor(FromText("graph (%x: f32[2, 2, 3, 4, 3, 2], %w: f32[3, 2, 2, 2, 2, 1]) -> (%y) {\n"
                          "  %y = Conv(%x, %w) : ?\n}"),
                 "counting"));
  const auto inputs = RandomProgramInputs(session.program(), 1, {});
  CancelToken token;
  session.set_cancel(token);
  CountingDevice::Get().on_prepare = [&] { token.Cancel(); };
  const auto caught = Catch([&] { session.Run(inputs); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kCancelled);
  CountingDevice::Get().on_prepare = nullptr;
  session.set_cancel(CancelToken());
  for (const StepTime& t : session.Profile(inputs)) CHECK(t.how == "generated");
}
