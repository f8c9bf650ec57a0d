/// layout_networks_test.cc: networks and their gradients with tensors in every layout: as the pass
/// Layout chooses, all with their channels last, every second one so. The oracle is the plain
/// program or the interpreter.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "tests/support/training_networks.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/layout.h"
#include "weft/core/tensor/tensor.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/saved/saved_program.h"

namespace {

using namespace weft;
using namespace weft::e2e;

std::string Forced(const std::string& layout) {
  return WithPass(StandardPipeline(), "Layout", Pipeline::Parse(layout)).ToString();
}
const char* const kForms[] = {"Layout", "Layout{force=last}", "Layout{force=odd}"};

void CheckTraining(const Graph& step, const std::vector<TensorPtr>& inputs, double tolerance) {
  Session plain(CompileFor(step, "cpu", Forced("")));
  const std::vector<TensorPtr> want = plain.Run(inputs);
  for (const char* form : kForms) {
    CAPTURE(form);
    const auto program = CompileFor(step, "cpu", Forced(form));
    CHECK(program->stats().interpreted == 0);
    Session session(program);
    for (int run = 0; run < 2; ++run) CheckClose(session.Run(inputs), want, tolerance);
  }
}

}  // namespace

TEST_CASE("a training step of LeNet is the same in every layout") {
  if (!HasCpu()) return;
  Network n(3, 1, 28);
  const Graph step = n.Step(LeNet(&n));
  CheckTraining(step, n.Inputs(3, 1, 28), 1e-4);
}

TEST_CASE("a training step of ResNet-20 is the same in every layout") {
  if (!HasCpu()) return;
  Network n(SymInt::Symbol("n"), 3, 16);
  const Graph step = n.Step(ResNet(&n, 3));
  // Differences of rounding grow through twenty normalisations over few positions.
  CheckTraining(step, n.Inputs(4, 3, 16), 5e-3);
}

TEST_CASE("means over a middle axis: the lanes fill one vector, the rows are cut into chunks") {
  if (!HasCpu()) return;
  const char* const text = R"(graph (%x: f32[$N, $R, $C]) -> (%m, %y) {
    %axes = Constant() {value = tensor i64[1] [1]} : ?
    %m = ReduceMean(%x, %axes) {keepdims = 1} : ?
    %y = Sub(%x, %m) : ?
  })";
  for (const char* batch : {"n", "16"})
    for (const char* rows : {"64", "200"})
      for (const char* channels : {"16", "32", "48", "64"}) {
        std::string filled = text;
        for (auto [what, by] : {std::pair{"$N", batch}, {"$R", rows}, {"$C", channels}})
          filled.replace(filled.find(what), 2, by);
        CAPTURE(filled);
        for (const bool alone : {true, false}) {
          Graph g = FromText(filled);
          if (alone) g.outputs = std::vector<NodeEntry>{g.outputs[0]};
          Session session(CompileFor(g, "cpu"));
          for (const int64_t n : {int64_t{16}, int64_t{12}, int64_t{24}, int64_t{2}}) {
            const Reference want = RunReference(g, 3, {{"n", n}});
            CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
          }
        }
      }
}

TEST_CASE("what was compiled for one layout stays right when the graph is edited") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[2, 6, 5, 4], %b: f32[6, 1, 1]) -> (%y) {
    %a = Add(%x, %b) : ?
    %t = Tanh(%a) : ?
    %y = Mul(%t, %t) : ?
  })");
  PassOptions options;
  options.target = "cpu";
  const Graph made = ApplyPasses(g, "Fusion{max_ops=1},Layout{force=last},CodeGen,RTCGen", options);
  std::vector<NodePtr> kernels;
  for (const NodePtr& n : made.TopoOrder())
    if (IsOp(n, builtin::kFused)) kernels.push_back(n);
  REQUIRE(kernels.size() == 3);
  REQUIRE(made.GetAttr<LayoutMap>("layout")[NodeEntry(kernels[1])] == Layout::kChannelsLast);

  const auto check = [&](Graph edited) {
    const Graph plain = ApplyPasses(edited, "InferShape");
    const Reference want = RunReference(plain, 3);
    Session session(CompileFor(edited, "cpu", "Schedule,PlanMemory"));
    CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
    // Again through code generation, and through the whole pipeline.
    for (const char* again : {"CodeGen,RTCGen,Schedule,PlanMemory", ""}) {
      Session other(CompileFor(edited, "cpu", again));
      CHECK(Difference(other.Run(want.inputs), want.outputs) <= 1);
    }
  };
  check(made);
  Graph shown = made;  // somebody wants to see what lies otherwise
  shown.outputs = std::vector<NodeEntry>{NodeEntry(shown.at(kernels[1]))};
  check(shown);
  Graph view = made;  // or a view of it
  const NodeEntry t(view.at(kernels[1]));
  view.outputs = std::vector<NodeEntry>{ApplyOp("Reshape", {t, IntsLike(t, {2, 30, 4})})};
  check(view);
  Graph other = made;  // or reads something else
  other.SetInput(other.at(kernels[1]), 0, NodeEntry(other.inputs()[0]));
  check(other);
}

TEST_CASE("layouts are saved; what a file says of them is not believed") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[2, 6, 5, 4], %b: f32[6, 1, 1]) -> (%y) {
    %a = Add(%x, %b) : ?
    %y = AveragePool(%a) {kernel_shape = [2, 2]} : ?
  })");
  const Reference want = RunReference(g, 3);
  for (const char* form : kForms) {
    const auto program = CompileFor(g, "cpu", Forced(form));
    Graph made = program->graph();
    LayoutMap lies;  // everything, also what the caller sees
    for (const NodePtr& n : made.TopoOrder()) lies.set(NodeEntry(n), Layout::kChannelsLast);
    for (const bool honest : {true, false}) {
      if (!honest) made.SetAttr("layout", lies);
      auto bytes = std::make_shared<std::string>(
          PackProgram(made, "cpu", GetBackend("cpu")->target().name()));
      Session session(LoadProgramFromMemory(bytes->data(), bytes->size(), bytes, "saved"));
      CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
    }
  }
}
