/// matmul_test.cc: products of matrices on the backend "cuda": which of them go to the library, as
/// what, and what programs with them compute, against the interpreter in double precision. The
/// library is emulated (emulated_product.cc), the driver is that of failing_driver.h; what the
/// library declines is computed by generated kernels.
#include <doctest/doctest.h>

#include <functional>

#include "backends/cuda/doubles/emulated_libraries.h"
#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "weft/runtime/program/program.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using cuda::ProductSpec;

/// A graph, the extents of its symbols one after the other, and what the library is asked for at
/// the first of them.
struct Case {
  std::string name, text;
  std::vector<SymBindings> extents = {{}};
  /// Null: nothing.
  std::function<void(const ProductSpec&)> asked = nullptr;
  int products = 1;
};

/// The text with the type in the place of T.
std::string Typed(std::string text, const std::string& type) {
  for (size_t at = 0; (at = text.find("T[", at)) != std::string::npos; at += type.size())
    text.replace(at, 1, type);
  return text;
}

constexpr const char* kTypes[] = {"f32", "f64", "f16", "bf16"};

void Dims(const ProductSpec& s, int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
  CHECK(s.m == m);
  CHECK(s.n == n);
  CHECK(s.k == k);
  CHECK(s.batch == batch);
}
void Plain(const ProductSpec& s) {
  CHECK(!s.bias);
  CHECK(s.alpha == 1);
  CHECK(s.beta == 0);
  CHECK(s.activation == Activation::kNone);
}

/// Of every type.
std::vector<Case> Cases() {
  return {
      {"product",
       "graph (%a: T[17, 13], %b: T[13, 19]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         Dims(s, 17, 19, 13);
         Plain(s);
         CHECK(!s.trans_a);
         CHECK(!s.trans_b);
         CHECK(!s.tf32);
       }},
      {"run-time rows",
       "graph (%a: T[n, 6], %b: T[6, 5]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{{"n", 4}}, {{"n", 1}}, {{"n", 33}}, {{"n", 4}}},
       [](const ProductSpec& s) { Dims(s, 4, 5, 6); },
       3},
      {"a batch of each",
       "graph (%a: T[4, 5, 3], %b: T[4, 3, 7]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         Dims(s, 5, 7, 3, 4);
         CHECK(s.step_a == 15);
         CHECK(s.step_b == 21);
       }},
      {"a batch under one left side",
       "graph (%a: T[5, 3], %b: T[4, 3, 7]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         Dims(s, 5, 7, 3, 4);
         CHECK(s.step_a == 0);
         CHECK(s.step_b == 21);
       }},
      {"a batch over one right side is more rows",
       "graph (%a: T[2, 2, 5, 3], %b: T[3, 7]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) { Dims(s, 20, 7, 3); }},
      {"a vector and a matrix",
       "graph (%a: T[9], %b: T[9, 7]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) { Dims(s, 1, 7, 9); }},
      {"matrices and a vector",
       "graph (%a: T[3, 5, 9], %b: T[9]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) { Dims(s, 15, 1, 9); }},
      {"two vectors",
       "graph (%a: T[9], %b: T[9]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) { Dims(s, 1, 1, 9); }},
      {"transposed",
       "graph (%a: T[6, 5], %b: T[8, 6]) -> (%y) {\n"
       "  %y = Gemm(%a, %b) {transA = 1, transB = 1, alpha = 0.5} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         Dims(s, 5, 8, 6);
         CHECK(s.trans_a);
         CHECK(s.trans_b);
         CHECK(s.alpha == 0.5);
         CHECK(s.beta == 0);
       }},
      {"a row as C",
       "graph (%a: T[5, 6], %b: T[8, 6], %c: T[8]) -> (%y) {\n"
       "  %y = Gemm(%a, %b, %c) {transB = 1, alpha = 0.25} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(s.bias);
         CHECK(s.beta == 0);
         CHECK(s.alpha == 0.25);
       }},
      {"a row of two axes as C",
       "graph (%a: T[6, 5], %b: T[6, 8], %c: T[1, 8]) -> (%y) {\n"
       "  %y = Gemm(%a, %b, %c) {transA = 1} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(s.bias);
         CHECK(s.trans_a);
       }},
      {"a matrix as C",
       "graph (%a: T[5, 6], %b: T[6, 8], %c: T[5, 8]) -> (%y) {\n"
       "  %y = Gemm(%a, %b, %c) {alpha = 0.5, beta = -2.0} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(!s.bias);
         CHECK(s.alpha == 0.5);
         CHECK(s.beta == -2);
       }},
      {"a C that does not count",
       "graph (%a: T[5, 6], %b: T[6, 8], %c: T[5, 1]) -> (%y) {\n"
       "  %y = Gemm(%a, %b, %c) {beta = 0.0} : ?\n}\n",
       {{}},
       Plain},
      {"a tensor added",
       "graph (%a: T[2, 5, 6], %b: T[6, 8], %r: T[2, 5, 8]) -> (%y) {\n"
       "  %p = MatMul(%a, %b) : ?\n  %y = Add(%r, %p) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(!s.bias);
         CHECK(s.beta == 1);
       }},
      // The addend dies in the call, whose result may take its place.
      {"a tensor added that dies",
       "graph (%a: T[5, 6], %b: T[6, 8], %r: T[5, 8]) -> (%y) {\n  %e = Exp(%r) : ?\n"
       "  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %e) : ?\n  %y = Softmax(%s) {axis = 0} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) { CHECK(s.beta == 1); }},
      // It lies where the left side is.
      {"the left side added",
       "graph (%x: T[6, 6], %b: T[6, 6]) -> (%y) {\n  %a = Tanh(%x) : ?\n"
       "  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %a) : ?\n  %y = Softmax(%s) {axis = 0} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) { CHECK(s.beta == 1); }},
  };
}

/// Of float32 and below: f64 has no activations in the library, and its factors are more exact than
/// what an epilogue holds.
std::vector<Case> FloatCases() {
  return {
      {"a factor, a row, Relu",
       "graph (%a: T[5, 6], %b: T[6, 8], %r: T[8]) -> (%y) {\n"
       "  %f = Constant() {value = tensor T[] [0.75]} : ?\n  %p = MatMul(%a, %b) : ?\n"
       "  %q = Mul(%p, %f) : ?\n  %s = Add(%q, %r) : ?\n  %y = Relu(%s) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(s.alpha == 0.75);
         CHECK(s.bias);
         CHECK(s.activation == Activation::kRelu);
       }},
      {"a row under a batch",
       "graph (%a: T[4, 5, 6], %b: T[4, 6, 8], %r: T[1, 1, 8]) -> (%y) {\n"
       "  %p = MatMul(%a, %b) : ?\n  %y = Add(%p, %r) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(s.batch == 4);
         CHECK(s.bias);
       }},
      {"a row, a tensor, Relu",
       "graph (%a: T[n, 6], %b: T[6, 8], %r: T[8], %t: T[n, 8]) -> (%y) {\n"
       "  %p = MatMul(%a, %b) : ?\n  %q = Add(%p, %r) : ?\n  %s = Add(%q, %t) : ?\n"
       "  %y = Relu(%s) : ?\n}\n",
       {{{"n", 5}}, {{"n", 1}}},
       [](const ProductSpec& s) {
         CHECK(s.bias);
         CHECK(s.beta == 1);
         CHECK(s.activation == Activation::kRelu);
       },
       2},
      {"behind a Gemm",
       "graph (%a: T[5, 6], %b: T[6, 8], %c: T[8], %t: T[5, 8]) -> (%y) {\n"
       "  %p = Gemm(%a, %b, %c) : ?\n  %s = Add(%t, %p) : ?\n  %y = Relu(%s) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(s.bias);
         CHECK(s.beta == 1);
         CHECK(s.activation == Activation::kRelu);
       }},
      // A row that dies may lie where the only row of the result goes.
      {"a row as large as the result",
       "graph (%a: T[1, 6], %b: T[6, 8], %x: T[1, 8]) -> (%y) {\n  %r = Exp(%x) : ?\n"
       "  %p = MatMul(%a, %b) : ?\n  %q = Add(%p, %r) : ?\n  %s = Relu(%q) : ?\n"
       "  %y = Softmax(%s) : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(!s.bias);
         CHECK(s.beta == 1);
         CHECK(s.activation == Activation::kRelu);
       }},
      {"layers",
       "graph (%x: T[n, 7], %w: T[7, 9], %b: T[9], %v: T[9, 6], %c: T[6], %u: T[6, 5]) -> (%y) {\n"
       "  %p = Gemm(%x, %w, %b) : ?\n  %h = Relu(%p) : ?\n  %q = MatMul(%h, %v) : ?\n"
       "  %r = Add(%q, %c) : ?\n  %g = Sigmoid(%r) : ?\n  %z = MatMul(%g, %u) : ?\n"
       "  %y = Softmax(%z) : ?\n}\n",
       {{{"n", 3}}, {{"n", 20}}},
       [](const ProductSpec& s) { CHECK(s.activation == Activation::kRelu); },
       6},
  };
}

/// Of the half types, where the library's tanh is exact enough.
std::vector<Case> HalfCases() {
  return {
      {"Gelu",
       "graph (%a: T[5, 6], %b: T[6, 8], %r: T[8]) -> (%y) {\n  %p = MatMul(%a, %b) : ?\n"
       "  %s = Add(%p, %r) : ?\n  %y = Gelu(%s) {approximate = \"tanh\"} : ?\n}\n",
       {{}},
       [](const ProductSpec& s) {
         CHECK(s.bias);
         CHECK(s.activation == Activation::kGeluTanh);
       }},
  };
}

/// Products with something behind them that the library has not.
std::vector<Case> ApartCases() {
  return {
      {"a column as C",
       "graph (%a: T[5, 6], %b: T[6, 8], %c: T[5, 1], %t: T[5, 8]) -> (%y) {\n"
       "  %p = Gemm(%a, %b, %c) {alpha = 0.5} : ?\n  %q = Add(%p, %t) : ?\n"
       "  %y = Relu(%q) : ?\n}\n"},
      {"a number as C",
       "graph (%a: T[5, 6], %b: T[6, 8], %c: T[]) -> (%y) {\n  %y = Gemm(%a, %b, %c) : ?\n}\n"},
      // Each may lie where the result goes, and one only is added to what lies there.
      {"a row and a tensor as large as it",
       "graph (%a: T[1, 6], %b: T[6, 8], %x: T[1, 8]) -> (%y) {\n  %r = Exp(%x) : ?\n"
       "  %e = Tanh(%x) : ?\n  %p = MatMul(%a, %b) : ?\n  %q = Add(%p, %r) : ?\n"
       "  %s = Add(%q, %e) : ?\n  %u = Relu(%s) : ?\n  %y = Softmax(%u) : ?\n}\n"},
  };
}

/// What is left to generated kernels, whole.
std::vector<Case> DeclinedCases() {
  std::vector<Case> cases;
  for (const char* t : {"f32", "f16"}) {
    const auto add = [&](const char* name, const std::string& text) {
      cases.push_back({name, Typed(text, t)});
    };
    add("batches that broadcast differently",
        "graph (%a: T[2, 1, 5, 3], %b: T[4, 3, 7]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
    add("a row with a factor",
        "graph (%a: T[5, 6], %b: T[6, 8], %c: T[8]) -> (%y) {\n"
        "  %y = Gemm(%a, %b, %c) {beta = 0.5} : ?\n}\n");
    add("a C and nothing to add it to",
        "graph (%a: T[5, 0], %b: T[0, 8], %c: T[8]) -> (%y) {\n  %y = Gemm(%a, %b, %c) : ?\n}\n");
  }
  cases.push_back(
      {"integers",
       "graph (%a: i32[5, 3], %b: i32[3, 7]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n"});
  return cases;
}

/// Cases made ready, then their kernels built together, then run.
class Bench {
 public:
  void Add(const Case& c, const std::string& type) {
    Made m{c, type, FromText(Typed(c.text, type)), nullptr};
    m.program = EmulatedGpu::Compile(m.graph);
    all_.push_back(std::move(m));
  }
  void AddAll() {
    for (const char* type : kTypes) {
      for (const Case& c : Cases()) Add(c, type);
      if (type != std::string("f64"))
        for (const Case& c : FloatCases()) Add(c, type);
    }
    for (const char* type : {"f16", "bf16"})
      for (const Case& c : HalfCases()) Add(c, type);
  }
  /// kApart, kNone: the library does only a part of a call, or nothing of it; so kernels are asked
  /// for when extents are bound, and are built then.
  enum class Part { kWhole, kApart, kNone };
  void Run(Part part) {
    const bool late = part != Part::kWhole;
    EmulatedGpu::BuildKernels();
    std::vector<ProductSpec>& specs = EmulatedGpu::libraries()->product_specs;
    if (late) {
      for (Made& m : all_) {
        specs.clear();
        for (const SymBindings& bind : m.c.extents) {
          Session s(m.program);
          // It fails for want of the kernels that it asks for.
          (void)Catch([&] { s.Run(RunReference(m.graph, 1, bind).inputs); });
        }
        m.specs = specs;
      }
      EmulatedGpu::BuildKernels();
    }
    for (Made& m : all_) {
      CAPTURE(m.c.name);
      CAPTURE(m.type);
      CHECK(m.program->stats().interpreted == 0);
      specs.clear();
      Session session(m.program);
      uint64_t seed = 3;
      for (const SymBindings& bind : m.c.extents) {
        const Reference r = RunReference(m.graph, ++seed, bind);
        // The third run is recorded, the fourth replayed.
        for (int run = 0; run < 4; ++run) {
          std::vector<TensorPtr> got;
          for (int build = 0;; ++build) {
            const auto caught = Catch([&] { got = session.Run(r.inputs); });
            if (!caught) break;
            REQUIRE_MESSAGE(build < (late ? 4 : 0), caught->text);
            EmulatedGpu::BuildKernels(1);  // of a further call
          }
          CHECK(Difference(got, r.outputs) <= 1);
        }
      }
      m.specs.insert(m.specs.end(), specs.begin(), specs.end());
      REQUIRE(m.specs.size() == size_t(part == Part::kNone ? 0 : m.c.products));
      if (part == Part::kWhole && m.c.asked) m.c.asked(m.specs[0]);
      for (const ProductSpec& s : m.specs) CHECK(DTypeName(s.type) == m.type);
    }
    all_.clear();
  }

 private:
  struct Made {
    Case c;
    std::string type;
    Graph graph;
    std::shared_ptr<const Program> program;
    std::vector<ProductSpec> specs = {};  ///< that the library has made plans for
  };
  std::vector<Made> all_;
};

/// A multi-layer network whose calls are recorded, and one of whose sums is added to where it lies.
constexpr const char* kNetwork =
    R"(graph (%x: f32[3, 7], %w: f32[7, 9], %b: f32[9], %v: f32[9, 9]) -> (%y) {
  %p = Gemm(%x, %w, %b) : ?
  %h = Relu(%p) : ?
  %q = MatMul(%h, %v) : ?
  %s = Add(%q, %h) : ?
  %y = Softmax(%s) : ?
}
)";

}  // namespace

TEST_CASE("cuda products: types, extents, transposes, broadcasts, epilogues") {
  if (!EmulatedGpu::Start()) return;
  {
    Bench bench;
    bench.AddAll();
    bench.Run(Bench::Part::kWhole);
  }
  CHECK(FailingDriver::Get().calls["GraphAddChildGraphNode"] > 50);
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda products: a library that adds no rows, and kernels behind it") {
  if (!EmulatedGpu::Start()) return;
  {
    Bench bench;
    for (const char* type : {"f32", "f16"})
      for (const Case& c : ApartCases()) bench.Add(c, type);
    bench.Run(Bench::Part::kApart);
    EmulatedGpu::libraries()->refuse_epilogues = true;
    bench.AddAll();
    bench.Run(Bench::Part::kApart);
    EmulatedGpu::libraries()->refuse_epilogues = false;
  }
  CHECK(FailingDriver::Get().calls["GraphAddChildGraphNode"] > 50);
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda products: a library that declines all of them") {
  if (!EmulatedGpu::Start()) return;
  EmulatedGpu::libraries()->refuse = true;
  {
    Bench bench;
    bench.AddAll();
    bench.Run(Bench::Part::kNone);
  }
  EmulatedGpu::libraries()->refuse = false;
  CHECK(FailingDriver::Get().calls["GraphAddChildGraphNode"] == 0);
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda products: what the library is not asked for") {
  if (!EmulatedGpu::Start()) return;
  {
    Bench bench;
    for (const Case& c : DeclinedCases()) bench.Add(c, {});
    bench.Run(Bench::Part::kNone);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda products: nothing to add up") {
  if (!EmulatedGpu::Start()) return;
  {
    const Graph none =
        FromText("graph (%a: f16[n, k], %b: f16[k, 4]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
    const auto program = EmulatedGpu::Compile(none);
    EmulatedGpu::BuildKernels();
    Session session(program);
    EmulatedGpu::libraries()->products = 0;
    for (const SymBindings& bind :
         {SymBindings{{"n", 3}, {"k", 0}}, SymBindings{{"n", 0}, {"k", 2}}})
      for (int run = 0; run < 4; ++run) {
        const Reference r = RunReference(none, 5, bind);
        CHECK(Difference(session.Run(r.inputs), r.outputs) == 0);
      }
    CHECK(EmulatedGpu::libraries()->products == 0);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda products: 10 bits of mantissa only where they are allowed") {
  if (!EmulatedGpu::Start()) return;
  for (const bool allowed : {false, true}) {
    for (const char* type : {"f32", "f16"}) {
      const auto plain = EmulatedGpu::Compile(FromText(Typed(
          "graph (%a: T[4, 4], %b: T[4, 4]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n", type)));
      CompileOptions options;
      options.backend = "emulated-gpu";
      options.calls.tf32 = allowed;
      const auto program = Compile(plain->graph(), options);
      EmulatedGpu::libraries()->product_specs.clear();
      Session session(program);
      session.Run(RunReference(plain->graph(), 1).inputs);
      REQUIRE(EmulatedGpu::libraries()->product_specs.size() == 1);
      CHECK(EmulatedGpu::libraries()->product_specs[0].tf32 ==
            (allowed && type == std::string("f32")));
    }
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda products: any call that fails is told once, and nothing leaks") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kNetwork);
  const Reference r = RunReference(g, 2);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  FailingDriver& d = FailingDriver::Get();
  int failures = 0;
  for (const char* entry :
       {"CtxSetCurrent", "MemAllocFromPoolAsync", "MemHostAlloc", "MemcpyHtoDAsync",
        "MemcpyDtoHAsync", "StreamCreate", "StreamSynchronize", "LaunchKernel",
        "StreamBeginCapture", "StreamEndCapture", "GraphCreate", "GraphAddKernelNode",
        "GraphAddChildGraphNode", "GraphInstantiate", "GraphLaunch"}) {
    CAPTURE(std::string(entry));
    for (int64_t n = 0;; ++n) {
      REQUIRE(n < 300);
      if (!EmulatedGpu::Start()) return;
      d.failure = {entry, n, 2, false};
      const auto caught = Catch([&] {
        Session s(EmulatedGpu::Compile(g));
        for (int i = 0; i < 5; ++i) s.Run(r.inputs);
      });
      d.failure = {};
      if (!caught) break;
      ++failures;
      CHECK(caught->code == ErrorCode::kOutOfMemory);
      Session again(EmulatedGpu::Compile(g));
      CHECK(Difference(again.Run(r.inputs), r.outputs) <= 1);
    }
    EmulatedGpu::CheckClean();
  }
  CHECK(failures > 40);
}
