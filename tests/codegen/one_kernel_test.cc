/// one_kernel_test.cc: forms that must become exactly one generated kernel: element-wise chains,
/// softmax, the normalisations and the activations, as one operator and spelled out, whatever the
/// names, the order of commuting operands, the way constants are split, and whether extents are
/// numbers or symbols. The results are the oracle's, and each kernel also compiles for sm_90 where
/// NVRTC is at hand.
#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/compiler/kernel_compilers.h"

namespace {

using namespace weft;
using namespace weft::e2e;

struct Form {
  const char* name;
  std::string text;  ///< with $N for the row count and $D for the row length
};

/// `y = gamma * (x - mean) / sqrt(var + eps) + beta`, as exporters write it.
const char* const kLayerNorm = R"(graph (%x: f32[$N, $D], %gamma: f32[$D], %beta: f32[$D]) -> (%y) {
  %ax = Constant() {value = tensor i64[1] [-1]} : ?
  %two = Constant() {value = tensor f32[] [2.0]} : ?
  %eps = Constant() {value = tensor f32[] [0.00001]} : ?
  %mean = ReduceMean(%x, %ax) : ?
  %d = Sub(%x, %mean) : ?
  %sq = Pow(%d, %two) : ?
  %var = ReduceMean(%sq, %ax) : ?
  %ve = Add(%var, %eps) : ?
  %std = Sqrt(%ve) : ?
  %n = Div(%d, %std) : ?
  %g = Mul(%n, %gamma) : ?
  %y = Add(%g, %beta) : ?
})";

const std::vector<Form>& Forms() {
  static const std::vector<Form> kForms = {
      {"add(mul(x0,x1),x2)",
       R"(graph (%x0: f32[$N, $D], %x1: f32[$N, $D], %x2: f32[$N, $D]) -> (%y) {
        %m = Mul(%x0, %x1) : ?
        %y = Add(%m, %x2) : ?
      })"},
      {"add(mul(x0,x1),x2) commuted and renamed",
       R"(graph (%p: f32[$N, $D], %q: f32[$N, $D], %r: f32[$N, $D]) -> (%"out put") {
        %inner = Mul(%q, %p) : ?
        %"out put" = Add(%r, %inner) : ?
      })"},
      {"split constant: x*0.5", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %h = Constant() {value = tensor f32[] [0.5]} : ?
        %y = Mul(%x, %h) : ?
      })"},
      {"split constant: x*(0.25+0.25)", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %a = Constant() {value = tensor f32[] [0.25]} : ?
        %b = Constant() {value = tensor f32[] [0.25]} : ?
        %h = Add(%a, %b) : ?
        %y = Mul(%x, %h) : ?
      })"},
      {"Softmax", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %y = Softmax(%x) {axis = -1} : ?
      })"},
      {"softmax spelled out", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %ax = Constant() {value = tensor i64[1] [1]} : ?
        %m = ReduceMax(%x, %ax) : ?
        %s = Sub(%x, %m) : ?
        %e = Exp(%s) : ?
        %t = ReduceSum(%e, %ax) : ?
        %y = Div(%e, %t) : ?
      })"},
      {"LogSoftmax", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %y = LogSoftmax(%x) {axis = 1} : ?
      })"},
      {"log-softmax spelled out", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %ax = Constant() {value = tensor i64[1] [-1]} : ?
        %m = ReduceMax(%x, %ax) : ?
        %s = Sub(%x, %m) : ?
        %e = Exp(%s) : ?
        %t = ReduceSum(%e, %ax) : ?
        %l = Log(%t) : ?
        %y = Sub(%s, %l) : ?
      })"},
      {"layer-norm spelled out", kLayerNorm},
      {"layer-norm spelled out, x*x for the square and reciprocal",
       R"(graph (%x: f32[$N, $D], %gamma: f32[$D], %beta: f32[$D]) -> (%y) {
        %ax = Constant() {value = tensor i64[1] [-1]} : ?
        %e1 = Constant() {value = tensor f32[] [0.000005]} : ?
        %e2 = Constant() {value = tensor f32[] [0.000005]} : ?
        %eps = Add(%e1, %e2) : ?
        %mean = ReduceMean(%x, %ax) : ?
        %d = Sub(%x, %mean) : ?
        %sq = Mul(%d, %d) : ?
        %var = ReduceMean(%sq, %ax) : ?
        %ve = Add(%eps, %var) : ?
        %std = Sqrt(%ve) : ?
        %inv = Reciprocal(%std) : ?
        %n = Mul(%inv, %d) : ?
        %g = Mul(%gamma, %n) : ?
        %y = Add(%beta, %g) : ?
      })"},
      {"RMS-norm spelled out", R"(graph (%x: f32[$N, $D], %w: f32[$D]) -> (%y) {
        %ax = Constant() {value = tensor i64[1] [-1]} : ?
        %eps = Constant() {value = tensor f32[] [0.000001]} : ?
        %sq = Mul(%x, %x) : ?
        %ms = ReduceMean(%sq, %ax) : ?
        %me = Add(%ms, %eps) : ?
        %r = Sqrt(%me) : ?
        %n = Div(%x, %r) : ?
        %y = Mul(%n, %w) : ?
      })"},
      {"tanh-gelu spelled out", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %half = Constant() {value = tensor f32[] [0.5]} : ?
        %one = Constant() {value = tensor f32[] [1.0]} : ?
        %k = Constant() {value = tensor f32[] [0.7978846]} : ?
        %c = Constant() {value = tensor f32[] [0.044715]} : ?
        %three = Constant() {value = tensor f32[] [3.0]} : ?
        %cube = Pow(%x, %three) : ?
        %cc = Mul(%c, %cube) : ?
        %in = Add(%x, %cc) : ?
        %ki = Mul(%k, %in) : ?
        %t = Tanh(%ki) : ?
        %t1 = Add(%one, %t) : ?
        %h = Mul(%half, %x) : ?
        %y = Mul(%h, %t1) : ?
      })"},
      {"erf-gelu spelled out", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %a = Constant() {value = tensor f32[] [0.25]} : ?
        %b = Constant() {value = tensor f32[] [0.25]} : ?
        %half = Add(%a, %b) : ?
        %one = Constant() {value = tensor f32[] [1.0]} : ?
        %root = Constant() {value = tensor f32[] [1.4142135]} : ?
        %d = Div(%x, %root) : ?
        %e = Erf(%d) : ?
        %e1 = Add(%e, %one) : ?
        %p = Mul(%x, %e1) : ?
        %y = Mul(%p, %half) : ?
      })"},
      {"Gelu", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %y = Gelu(%x) {approximate = "tanh"} : ?
      })"},
      {"HardSwish", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %y = HardSwish(%x) : ?
      })"},
      {"hard-swish spelled out", R"(graph (%x: f32[$N, $D]) -> (%y) {
        %three = Constant() {value = tensor f32[] [3.0]} : ?
        %zero = Constant() {value = tensor f32[] [0.0]} : ?
        %six = Constant() {value = tensor f32[] [6.0]} : ?
        %a = Add(%x, %three) : ?
        %c = Clip(%a, %zero, %six) : ?
        %m = Mul(%x, %c) : ?
        %y = Div(%m, %six) : ?
      })"},
  };
  return kForms;
}

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}
Graph Make(const Form& form, const std::string& rows, const std::string& length) {
  return FromText(Replace(Replace(form.text, "$N", rows), "$D", length));
}

/// Other names for every node and input; the graph is the same otherwise.
Graph Renamed(Graph g) {
  for (NodeId id = 0; id < g.id_bound(); ++id)
    if (NodePtr n = g.node(id)) n->attrs.name = "renamed/" + std::to_string(1000 - id);
  return g;
}

/// Kernels of the graph after code generation.
std::vector<KernelPtr> KernelsOf(const Graph& g) {
  const Graph made = ApplyPasses(g, "Simplify,FoldConstants,Simplify,Fusion,CodeGen");
  std::vector<KernelPtr> out;
  const KernelMap& kernels = made.GetAttr<KernelMap>("kernel");
  for (NodePtr n : made.TopoOrder())
    if (const LoweredKernel* k = kernels.find(n)) out.push_back(k->kernel);
  return out;
}

void CheckOneKernel(const Graph& g, const SymBindings& bind) {
  const Reference want = RunReference(g, 7, bind);
  if (!HasCpu()) {
    CHECK(KernelsOf(g).size() == 1);
    return;
  }
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().kernels == 1);
  CHECK(program->stats().library_calls == 0);
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  CHECK(Difference(session.Run(want.inputs), want.outputs, 1e-4, 1e-5) <= 1);
}

}  // namespace

TEST_CASE("what pads a quotient of short rows is zero, also where 0 / 0 is computed beside it") {
  if (!HasCpu()) return;
  for (const char* quotient :
       {"%a = Div(%x, %y) : ?", "%a = Mod(%x, %y) {fmod = 1} : ?",
        "%b = Add(%x, %y) : ?\n %a = AveragePool(%b) {kernel_shape = [1]} : ?"}) {
    CAPTURE(std::string(quotient));
    const Graph g =
        FromText(std::string("graph (%x: f32[16, 5, 1], %y: f32[16, 5, 1]) -> (%p) {\n"
                             "  %0 = Constant() {value = tensor i64[6] [0, 0, 0, 0, 0, 1]} : ?\n") +
                 quotient + "\n  %p = Pad(%a, %0) : ?\n}\n");
    const Reference r = RunReference(g, 1);
    CHECK(Difference(Session(CompileFor(g, "cpu")).Run(r.inputs), r.outputs) <= 1);
  }
}

TEST_CASE("one kernel: static extents") {
  for (const Form& form : Forms()) {
    CAPTURE(std::string(form.name));
    CheckOneKernel(Make(form, "5", "37"), {});
    CheckOneKernel(Make(form, "3", "64"), {});
  }
}

TEST_CASE("one kernel: other names") {
  for (const Form& form : Forms()) {
    CAPTURE(std::string(form.name));
    CheckOneKernel(Renamed(Make(form, "4", "19")), {});
  }
}

TEST_CASE("one kernel: symbolic rows, symbolic row length, both") {
  for (const Form& form : Forms()) {
    CAPTURE(std::string(form.name));
    for (int64_t extent : {1, 2, 17, 64}) {
      CAPTURE(extent);
      CheckOneKernel(Make(form, "n", "33"), {{"n", extent}});
      CheckOneKernel(Make(form, "6", "m"), {{"m", extent}});
      CheckOneKernel(Make(form, "n", "m"), {{"n", 3}, {"m", extent}});
    }
  }
}

TEST_CASE("one kernel: names and the order of operands do not change the kernel") {
  const auto key = [](const Form& form, bool rename) {
    Graph g = Make(form, "n", "m");
    const auto kernels = KernelsOf(rename ? Renamed(std::move(g)) : std::move(g));
    REQUIRE(kernels.size() == 1);
    return kernels[0]->Key();
  };
  for (const Form& form : Forms()) {
    CAPTURE(std::string(form.name));
    CHECK(key(form, false) == key(form, true));
  }
  // x*0.5 is x*(0.25+0.25) once constants are folded.
  CHECK(key(Forms()[2], false) == key(Forms()[3], false));
}

TEST_CASE("one kernel: each compiles for sm_90") {
  std::string why;
  const auto compiler = FindKernelCompiler("cuda:sm_90", &why);
  if (!compiler) {
    MESSAGE("skipped: no compiler for cuda:sm_90: " << why);
    return;
  }
  std::vector<KernelPtr> kernels;
  std::vector<std::string> names;
  for (const Form& form : Forms()) {
    for (const char* rows : {"5", "n"}) {
      const auto made = KernelsOf(Make(form, rows, "64"));
      REQUIRE(made.size() == 1);
      kernels.push_back(made[0]);
      names.push_back(std::string(form.name) + " with " + rows + " rows");
    }
  }
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler->Compile(kernels, &errors);
  REQUIRE(binaries.size() == kernels.size());
  for (size_t i = 0; i < binaries.size(); ++i) {
    CAPTURE(names[i]);
    const std::string error = i < errors.size() ? errors[i] : "";
    CAPTURE(error);
    CHECK(binaries[i].compare(0, 4,
                              "\x7f"
                              "ELF") == 0);
    const KernelStats stats = compiler->Stats(*kernels[i], binaries[i]);
    CHECK(stats.registers > 0);
    CHECK(stats.spill_bytes == 0);
  }
}
