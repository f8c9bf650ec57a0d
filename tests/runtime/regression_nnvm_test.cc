/// regression_nnvm_test.cc: the wrong results of the ancestors, one named test each. Numbers as in
/// the project's notes on NNVM-Fusion (bugs 1 to 10) and on MXNet's pointwise fusion (the issue
/// numbers are apache/mxnet's).
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/builtin_ops.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using Tensors = std::vector<TensorPtr>;

/// The backend to test: the generated kernels, or (where there is no cpu backend) the fused bodies
/// in the interpreter.
std::shared_ptr<const Program> Build(const Graph& g) {
  return HasCpu() ? CompileFor(g, "cpu")
                  : CompileFor(g, "ref", "Simplify,FoldConstants,Simplify,Fusion");
}

/// Runs fused, on these inputs, and compares with the oracle.
void CheckOn(const Graph& g, const std::vector<TensorPtr>& inputs, double rtol = -1,
             double atol = -1) {
  EvalOptions options;
  options.typed = false;
  const auto want = GetEvaluator()->Eval(g, inputs, options);
  Session session(Build(g));
  CHECK(Difference(session.Run(inputs), want, rtol, atol) <= 1);
}
void Check(const std::string& text, const SymBindings& bind = {}) {
  const Graph g = FromText(text);
  CheckOn(g, RunReference(g, 3, bind).inputs);
}

TensorPtr Values(DType t, std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(t, std::move(dims), v);
}

Graph Fused(const std::string& text) {
  return ApplyPasses(FromText(text), "Simplify,FoldConstants,Simplify,Fusion,CodeGen");
}
int CountOp(const Graph& g, const std::string& op) {
  int n = 0;
  for (NodePtr p : g.TopoOrder()) n += p->op() && p->op()->name == op;
  return n;
}
std::vector<KernelPtr> Kernels(const Graph& g) {
  std::vector<KernelPtr> out;
  for (NodePtr n : g.TopoOrder())
    if (const LoweredKernel* k = g.GetAttr<KernelMap>("kernel").find(n)) out.push_back(k->kernel);
  return out;
}

}  // namespace

TEST_CASE("nnvm-fusion 1: a fused producer that is also an output keeps its value") {
  Check(R"(graph (%x: f32[4, 5]) -> (%e, %a) {
    %a = Tanh(%x) : ?
    %e = Exp(%a) : ?
  })");
  Check(R"(graph (%x: f32[4, 5]) -> (%e, %a, %x, %e) {
    %a = Tanh(%x) : ?
    %e = Exp(%a) : ?
  })");
}

TEST_CASE("nnvm-fusion 2: a [1] operand after a node of several outputs is read as [1]") {
  Check(R"(graph (%x: f32[6, 4], %one: f32[1]) -> (%y, %z) {
    %a, %b = Split(%x) {axis = 0, num_outputs = 2} : ?, ?
    %y = Add(%a, %one) : ?
    %t = Mul(%b, %one) : ?
    %z = Sub(%t, %a) : ?
  })");
}

TEST_CASE("nnvm-fusion 3: nothing is read or written past the end of a tensor") {
  // Every buffer ends at a page that may not be touched.
  const int64_t page = sysconf(_SC_PAGESIZE);
  struct Guarded {
    explicit Guarded(int64_t p)
        : page(p),
          base(mmap(nullptr, size_t(2 * p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0)) {
      mprotect(static_cast<char*>(base) + p, size_t(p), PROT_NONE);
    }
    ~Guarded() { munmap(base, size_t(2 * page)); }
    int64_t page;
    void* base;
  };
  const auto at_end = [&](int64_t n) {
    auto owner = std::make_shared<Guarded>(page);
    auto t = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{n},
                                      static_cast<char*>(owner->base) + page - 4 * n, owner);
    for (int64_t i = 0; i < n; ++i) t->set(i, 0.25 * double(i % 7) - 0.5);
    return t;
  };
  const Graph g = FromText(R"(graph (%x: f32[n], %z: f32[n]) -> (%y, %s) {
    %e = Exp(%x) : ?
    %y = Mul(%e, %z) : ?
    %s = ReduceSum(%y) {keepdims = 0} : ?
  })");
  Session session(Build(g));
  EvalOptions options;
  options.typed = false;
  for (int64_t n = 0; n <= 70; ++n) {
    CAPTURE(n);
    const std::vector<TensorPtr> in = {at_end(n), at_end(n)};
    std::vector<std::shared_ptr<Tensor>> out = {at_end(n), at_end(1)};
    out[1] = nullptr;
    session.RunInto(in, &out);
    const auto want = GetEvaluator()->Eval(g, in, options);
    CHECK(Difference({out[0], out[1]}, want) <= 1);
  }
}

TEST_CASE("nnvm-fusion 4: control edges of merged nodes survive") {
  const Graph g = ApplyPasses(FromText(R"(graph (%x: f32[4], %z: f32[4]) -> (%b, %d) {
    %a = Tanh(%x) : ?
    %b = Exp(%a) : ?
    %c = Neg(%z) after(%b) : ?
    %d = Abs(%c) : ?
  })"),
                              "Fusion,Schedule");
  const auto& order = g.GetAttr<Order>("order").nodes;
  const auto step = [&](const std::string& origin) {
    for (size_t i = 0; i < order.size(); ++i) {
      NodePtr n = g.node(order[i]);
      if (n->attrs.name == origin) return int(i);
      if (n->origin())
        for (const std::string& o : *n->origin())
          if (o == origin) return int(i);
    }
    return -1;
  };
  CHECK(step("b") >= 0);
  CHECK(step("c") > step("b"));
  int control = 0;
  for (NodePtr n : g.TopoOrder()) control += int(n->control_deps.size());
  CHECK(control == 1);
}

TEST_CASE("nnvm-fusion 5: literals keep every bit") {
  const Graph g = FromText(R"(graph (%x: f32[5], %k: f64[2]) -> (%a, %b, %c, %d) {
    %tiny = Constant() {value = tensor f32[] [1e-8]} : ?
    %tinier = Constant() {value = tensor f32[] [1e-30]} : ?
    %odd = Constant() {value = tensor f32[] [0.1]} : ?
    %wide = Constant() {value = tensor f64[] [0.1]} : ?
    %a = Add(%x, %tiny) : ?
    %b = Mul(%x, %tinier) : ?
    %c = Mul(%x, %odd) : ?
    %d = Mul(%k, %wide) : ?
  })");
  Session session(Build(g));
  const auto y = session.Run(
      Tensors{Values(DType::kF32, {5}, {0, 1, 2, 3, 7}), Values(DType::kF64, {2}, {1, 3})});
  CHECK(y[0]->data_as<float>()[0] == 1e-8f);
  for (int i = 0; i < 5; ++i) {
    const float x = float(std::vector<double>{0, 1, 2, 3, 7}[size_t(i)]);
    CHECK(y[1]->data_as<float>()[i] == x * 1e-30f);
    CHECK(y[2]->data_as<float>()[i] == x * 0.1f);
  }
  CHECK(y[3]->data_as<double>()[0] == 0.1);  // not float(0.1)
  CHECK(y[3]->data_as<double>()[1] == 3 * 0.1);
}

TEST_CASE("nnvm-fusion 6: using a value twice does not double the kernel") {
  const auto size = [](int n) {
    std::string text =
        "graph (%x: f32[8]) -> (%v" + std::to_string(n) + ") {\n  %v0 = Tanh(%x) : ?\n";
    for (int i = 1; i <= n; ++i)
      text += "  %v" + std::to_string(i) + " = Mul(%v" + std::to_string(i - 1) + ", %v" +
              std::to_string(i - 1) + ") : ?\n";
    const auto kernels = Kernels(Fused(text + "}"));
    REQUIRE(kernels.size() == 1);
    return kernels[0]->CanonicalText().size();
  };
  const size_t ten = size(10), twenty = size(20), forty = size(40);
  CHECK(twenty - ten <= 10 * 80);
  CHECK(forty - twenty <= 20 * 80);
}

TEST_CASE("nnvm-fusion 7: one tensor is one argument, and chains have bounded ones") {
  const auto kernels = Kernels(Fused(R"(graph (%x: f32[8]) -> (%y) {
    %s = Mul(%x, %x) : ?
    %y = Add(%s, %x) : ?
  })"));
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0]->num_inputs == 1);
  CHECK(kernels[0]->buffers.size() == 2);

  std::string text = "graph (%x: f32[8]";
  for (int i = 0; i < 300; ++i) text += ", %z" + std::to_string(i) + ": f32[8]";
  text += ") -> (%v300) {\n  %v0 = Neg(%x) : ?\n";
  for (int i = 0; i < 300; ++i)
    text += "  %v" + std::to_string(i + 1) + " = Add(%v" + std::to_string(i) + ", %z" +
            std::to_string(i) + ") : ?\n";
  for (const KernelPtr& k : Kernels(Fused(text + "}"))) CHECK(k->buffers.size() <= 66);
  Check(text + "}");
}

TEST_CASE("nnvm-fusion 8: equal computations share one compiled kernel whatever their names") {
  const char* text = R"(graph (%$a: f32[n, 3], %$b: f32[n, 3]) -> (%$y) {
    %$m = Mul(%$a, %$b) : ?
    %$y = Sigmoid(%$m) : ?
  })";
  const auto named = [&](const std::string& prefix) {
    std::string s = text;
    for (size_t at = 0; (at = s.find('$', at)) != std::string::npos;) s.replace(at, 1, prefix);
    return FromText(s);
  };
  if (!HasCpu()) return;
  CompileFor(named("first"), "cpu");
  const auto second = CompileFor(named("second_"), "cpu");
  bool seen = false;
  for (const PassRecord& r : second->stats().passes) {
    if (r.name != "RTCGen") continue;
    seen = true;
    CHECK(r.statistics.count("compiled") <= 1);
    if (r.statistics.count("compiled")) CHECK(r.statistics.at("compiled") == 0);
  }
  CHECK(seen);
}

TEST_CASE("nnvm-fusion 9: fusing again keeps the kernels, also when extents change between runs") {
  const std::string text = R"(graph (%x: f32[n, 4]) -> (%y) {
    %a = Tanh(%x) : ?
    %b = Exp(%a) : ?
    %ax = Constant() {value = tensor i64[1] [1]} : ?
    %s = ReduceSum(%b, %ax) : ?
    %y = Div(%b, %s) : ?
  })";
  const Graph once = ApplyPasses(FromText(text), "Fusion,CodeGen"),
              twice = ApplyPasses(once, "Fusion,CodeGen");
  CHECK(CountOp(twice, "weft::Fused") == CountOp(once, "weft::Fused"));
  CHECK(Kernels(twice).size() == Kernels(once).size());
  CHECK(Kernels(twice).size() == 1);
  const Graph g = FromText(text);
  Session session(
      HasCpu()
          ? CompileFor(g, "cpu", "Fusion,CodeGen,RTCGen,Fusion,CodeGen,RTCGen,Schedule,PlanMemory")
          : Build(g));
  for (int64_t n : {3, 8, 1, 0, 3, 100}) {
    CAPTURE(n);
    const Reference want = RunReference(g, 5, {{"n", n}});
    CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
  }
}

TEST_CASE("nnvm-fusion 10: more elements than 65,535 blocks of 256, and many threads at once") {
  const int64_t n = 65536 * 256 + 17;
  const Graph big = FromText(
      "graph (%x: u8[n]) -> (%y) {\n  %c = Constant() {value = tensor u8[] [3]} : ?\n  %m = "
      "Max(%x, %c) : ?\n  %y = Add(%m, %x) : ?\n}");
  auto x = std::make_shared<Tensor>(DType::kU8, std::vector<int64_t>{n});
  for (int64_t i = 0; i < n; ++i) x->mutable_data_as<uint8_t>()[i] = uint8_t(i % 97);
  if (HasCpu()) {
    Session session(Build(big));
    const auto y = session.Run({x});
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i)
      wrong += y[0]->data_as<uint8_t>()[i] != uint8_t(std::max<int64_t>(i % 97, 3) + i % 97);
    CHECK(wrong == 0);
  }
  const Graph g = FromText("graph (%x: f32[n, 3]) -> (%y) {\n  %y = Softmax(%x) : ?\n}");
  const auto program = Build(g);
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Session session(program);
      for (int i = 0; i < 20; ++i) {
        const Reference want = RunReference(g, uint64_t(t + 1), {{"n", 1 + (t + i) % 5}});
        if (!(Difference(session.Run(want.inputs), want.outputs) <= 1)) ++bad;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(bad == 0);
}

TEST_CASE("mxnet 17914, 17937: slices, negative ones too, before and after arithmetic") {
  Check(R"(graph (%x: f32[6, 7], %z: f32[6, 7]) -> (%y) {
    %s = Constant() {value = tensor i64[2] [1, 2]} : ?
    %e = Constant() {value = tensor i64[2] [6, 7]} : ?
    %a = Slice(%x, %s, %e) : ?
    %b = Slice(%z, %s, %e) : ?
    %y = Add(%a, %b) : ?
  })");
  Check(R"(graph (%x: f32[6, n], %z: f32[2, n]) -> (%y) {
    %s = Constant() {value = tensor i64[2] [-1, -1]} : ?
    %e = Constant() {value = tensor i64[2] [-4, -9223372036854775808]} : ?
    %ax = Constant() {value = tensor i64[2] [0, 1]} : ?
    %st = Constant() {value = tensor i64[2] [-2, -1]} : ?
    %n = Neg(%x) : ?
    %a = Slice(%n, %s, %e, %ax, %st) : ?
    %y = Add(%a, %z) : ?
  })",
        {{"n", 5}});
}

TEST_CASE("mxnet 17844: softplus stays stable when it is fused") {
  const Graph g = FromText(R"(graph (%x: f32[6], %z: f32[6]) -> (%y, %h) {
    %a = Add(%x, %z) : ?
    %y = Softplus(%a) : ?
    %h = Mul(%y, %z) : ?
  })");
  CheckOn(g, {Values(DType::kF32, {6}, {-200, -80, -1, 0, 90, 1000}),
              Values(DType::kF32, {6}, {0, 1, 1, 0.5, 2, 3})});
  Session session(Build(g));
  const auto y = session.Run(Tensors{Values(DType::kF32, {6}, {-200, -80, -1, 0, 90, 1000}),
                                     Values(DType::kF32, {6}, {0, 0, 0, 0, 0, 0})});
  for (int i = 0; i < 6; ++i) CHECK(std::isfinite(y[0]->at(i)));
  CHECK(y[0]->at(5) == 1000);
  CHECK(y[0]->at(1) > 0);  // exp(-80), not 0
}

TEST_CASE("mxnet 16796: bool inputs") {
  Check(R"(graph (%c: bool[5, 3], %d: bool[3], %x: f32[5, 3]) -> (%y, %e, %w) {
    %e = And(%c, %d) : ?
    %f = Cast(%e) {to = f32} : ?
    %y = Mul(%x, %f) : ?
    %n = Not(%c) : ?
    %w = Where(%n, %x, %y) : ?
  })");
}

TEST_CASE("mxnet 19035: clip without one bound, and without both") {
  Check(R"(graph (%x: f32[9], %i: i32[9]) -> (%a, %b, %c, %d) {
    %lo = Constant() {value = tensor f32[] [-0.5]} : ?
    %hi = Constant() {value = tensor f32[] [0.5]} : ?
    %il = Constant() {value = tensor i32[] [-1]} : ?
    %n = Neg(%x) : ?
    %a = Clip(%n, %lo) : ?
    %b = Clip(%n, _, %hi) : ?
    %c = Clip(%n) : ?
    %d = Clip(%i, %il) : ?
  })");
}

TEST_CASE("mxnet 19269: fusing around a library call makes no cycle") {
  const std::string text = R"(graph (%x: f32[4, 4], %w: f32[4, 4]) -> (%y) {
    %a = Tanh(%x) : ?
    %m = MatMul(%a, %w) : ?
    %r = Relu(%m) : ?
    %y = Add(%a, %r) : ?
  })";
  const Graph g = Fused(text);
  CHECK_NOTHROW(VerifyGraph(g));
  CHECK(CountOp(g, "weft::Fused") == 2);
  Check(text);
}

TEST_CASE("mxnet 16785: reshape behind a fused group") {
  Check(R"(graph (%x: f32[n, 4, 3]) -> (%y) {
    %a = Tanh(%x) : ?
    %b = Exp(%a) : ?
    %to = Constant() {value = tensor i64[2] [0, -1]} : ?
    %r = Reshape(%b, %to) : ?
    %ax = Constant() {value = tensor i64[1] [-1]} : ?
    %s = ReduceSum(%r, %ax) : ?
    %y = Div(%r, %s) : ?
  })",
        {{"n", 5}});
}

TEST_CASE("mxnet 17767: operands that are not aligned, and tails of every length") {
  for (DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kI64, DType::kU8}) {
    CAPTURE(DTypeName(t));
    Graph g;
    const SymInt n = SymInt::Symbol("n");
    const NodeEntry x(g.AddInput("x", t, {n})), z(g.AddInput("z", t, {n}));
    const NodeEntry s = x + z;
    g.outputs = {NodeEntry(g.AddNode("Max", {s, x})), s};
    Session session(Build(g));
    EvalOptions options;
    for (int64_t extent = 0; extent <= 67; ++extent) {
      CAPTURE(extent);
      const auto unaligned = [&](int64_t shift) {
        const int64_t size = DTypeBytes(t, 1);
        auto memory = std::make_shared<std::vector<char>>(size_t((extent + 4) * size + 64));
        const uintptr_t base = (reinterpret_cast<uintptr_t>(memory->data()) + 63) / 64 * 64;
        auto v =
            std::make_shared<Tensor>(t, std::vector<int64_t>{extent},
                                     reinterpret_cast<void*>(base + size_t(shift * size)), memory);
        for (int64_t i = 0; i < extent; ++i) {
          if (IsFloat(t))
            v->set(i, 0.25 * double(i % 9));
          else
            v->set_int(i, i % 9);
        }
        return v;
      };
      const std::vector<TensorPtr> in = {unaligned(1), unaligned(3)};
      CHECK(Difference(session.Run(in), GetEvaluator()->Eval(g, in, options)) <= 1);
    }
  }
}

TEST_CASE("mxnet 19318: casts of tensors of different sizes") {
  Check(R"(graph (%a: f32[7], %b: f32[3, 5], %c: f32[], %d: f32[1, 64]) -> (%u, %v, %w, %x) {
    %u = Cast(%a) {to = f16} : ?
    %v = Cast(%b) {to = f16} : ?
    %w = Cast(%c) {to = f16} : ?
    %x = Cast(%d) {to = f16} : ?
  })");
}

TEST_CASE("mxnet: f64 stays f64, i64 stays i64") {
  const Graph g = FromText(R"(graph (%x: f64[3], %i: i64[3]) -> (%p, %e, %s) {
    %k = Constant() {value = tensor f64[] [2.7]} : ?
    %one = Constant() {value = tensor i64[] [1]} : ?
    %p = Pow(%x, %k) : ?
    %e = Exp(%x) : ?
    %s = Add(%i, %one) : ?
  })");
  const std::vector<double> x = {0.3, 1.7, 3.9};
  const int64_t wide = int64_t{1} << 53;
  auto i = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{3});
  for (int k = 0; k < 3; ++k) i->set_int(k, wide + k);
  Session session(Build(g));
  const auto y = session.Run(Tensors{Values(DType::kF64, {3}, x), i});
  for (int k = 0; k < 3; ++k) {
    CHECK(std::fabs(y[0]->at(k) / std::pow(x[size_t(k)], 2.7) - 1) < 1e-14);
    CHECK(std::fabs(y[1]->at(k) / std::exp(x[size_t(k)]) - 1) < 1e-14);
    CHECK(y[2]->at_int(k) == wide + k + 1);
  }
}

TEST_CASE("mxnet 18498: compiling on many threads at once") {
  const Graph g = FromText(R"(graph (%x: f32[n, 6]) -> (%y) {
    %a = Softmax(%x) : ?
    %b = Log(%a) : ?
    %y = Mul(%b, %x) : ?
  })");
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const Reference want = RunReference(g, uint64_t(t), {{"n", 1 + i}});
        Session session(Build(g));
        if (!(Difference(session.Run(want.inputs), want.outputs) <= 1)) ++bad;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(bad == 0);
}

TEST_CASE("mxnet 16747, 19316: names of any length stay out of the kernels") {
  Graph g;
  const std::string name(20000, 'x');
  const NodeEntry x(g.AddInput(name, DType::kF32, {4}));
  g.outputs = {NodeEntry(
      g.AddNode("Exp", {NodeEntry(g.AddNode("Tanh", {x}, {}, name + "a"))}, {}, name + "b"))};
  const auto kernels = Kernels(ApplyPasses(g, "Fusion,CodeGen"));
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0]->Name().size() < 32);
  CHECK(kernels[0]->CanonicalText().find("xxx") == std::string::npos);
  CheckOn(g, {Values(DType::kF32, {4}, {0, 1, -1, 2})});
}

TEST_CASE("mxnet 17020: where no kernel compiles the program runs all the same") {
  std::vector<PassRecord> records;
  PassOptions options;
  options.target = "nowhere";
  options.records = &records;
  const Graph g =
      FromText("graph (%x: f32[4]) -> (%y) {\n  %a = Tanh(%x) : ?\n  %y = Exp(%a) : ?\n}");
  const Graph made = ApplyPasses(g, "Fusion,CodeGen,RTCGen", options);
  CHECK(records.back().warnings.size() == 1);
  const Reference want = RunReference(g, 1);
  CHECK(Difference(GetEvaluator()->Eval(made, want.inputs), want.outputs) <= 1);
}
