/// multi_kernels_test.cc: updates of many variables as one kernel, written in place; what may
/// share a launch and what may not. Oracles: the update rules in double precision, written out
/// here, and the interpreter.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/support/temp_folder.h"
#include "tests/support/variables_util.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/json/json.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;
using namespace weft::e2e;

using Dims = std::vector<int64_t>;
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

/// Every rank, one element, nothing at all.
Dims DimsOf(int i) {
  static const std::vector<Dims> kinds = {{33, 65},  {},           {1},    {3},
                                          {4, 5},    {2, 3, 4},    {0},    {7, 1},
                                          {2, 0, 4}, {2, 3, 5, 5}, {1, 1}, {1000}};
  return kinds[size_t(i) % kinds.size()];
}
std::string Numbered(const char* name, int i) { return name + std::to_string(i); }

NodeEntry State(Graph* g, const std::string& name, DType t, const Dims& dims) {
  return NodeEntry(AddState(*g, name, t, Shape::OfInts(dims), std::make_shared<Tensor>(t, dims)));
}

/// One update of Adam: three writes.
std::vector<NodeEntry> Adam(Graph* g, const std::string& name, const Dims& dims, DType t,
                            const NodeEntry& gradient, const NodeEntry& rate, double beta1) {
  const NodeEntry m = State(g, name + ".m", t, dims), v = State(g, name + ".v", t, dims),
                  p = State(g, name, t, dims);
  const auto c = [&](double x) { return ScalarLike(gradient, t, x); };
  const NodeEntry m2 = m * c(beta1) + gradient * c(1 - beta1);
  const NodeEntry v2 = v * c(kBeta2) + gradient * gradient * c(1 - kBeta2);
  const NodeEntry p2 = p - rate * m2 / (ApplyOp("Sqrt", {v2}) + c(kEpsilon));
  return {Assign(m, m2), Assign(v, v2), Assign(p, p2)};
}

/// Adam over `count` parameters: inputs are a rate of each type and the gradients.
Graph AdamOver(
    int count, const std::function<DType(int)>& type = [](int) { return DType::kF32; },
    const std::function<double(int)>& beta1 = [](int) { return kBeta1; },
    const std::function<Dims(int)>& dims = DimsOf) {
  Graph g;
  std::map<DType, NodeEntry> rate;
  std::vector<NodeEntry> done;
  for (int i = 0; i < count; ++i) {
    const DType t = type(i);
    if (!rate.count(t))
      rate[t] = NodeEntry(g.AddInput("rate_" + std::string(DTypeName(t)), t, Shape::OfInts({})));
    const NodeEntry gradient(g.AddInput(Numbered("g", i), t, Shape::OfInts(dims(i))));
    for (const NodeEntry& e :
         Adam(&g, Numbered("p", i), dims(i), t, gradient, rate.at(t), beta1(i)))
      done.push_back(e);
  }
  g.outputs = {Group(done)};
  return g;
}

std::map<std::string, TensorPtr> RandomFeeds(const Program& program, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  std::map<std::string, TensorPtr> feeds;
  for (const IoSpec& s : program.inputs()) {
    Dims dims;
    for (SymInt d : s.shape.dims()) dims.push_back(d.value());
    auto t = std::make_shared<Tensor>(s.dtype, dims);
    for (int64_t i = 0; i < t->num_elements(); ++i)
      t->set(i, s.name.rfind("rate", 0) == 0 ? 0.01 : draw(random));
    feeds[s.name] = t;
  }
  return feeds;
}

/// Runs some steps and compares every parameter with the rule in double precision.
void CheckAdam(
    const std::shared_ptr<const Program>& program, int count,
    const std::function<double(int)>& beta1 = [](int) { return kBeta1; }, double tolerance = 2e-6) {
  auto store = std::make_shared<VariableStore>();
  Session session(program, store);
  std::vector<std::vector<double>> m(static_cast<size_t>(count)), v = m, p = m;
  for (uint32_t step = 0; step < 3; ++step) {
    const auto feeds = RandomFeeds(*program, step);
    session.Run(feeds);
    for (int i = 0; i < count; ++i) {
      const Tensor& g = *feeds.at(Numbered("g", i));
      const auto got = store->Get(Numbered("p", i));
      REQUIRE(got->num_elements() == g.num_elements());
      auto &mi = m[size_t(i)], &vi = v[size_t(i)], &pi = p[size_t(i)];
      mi.resize(size_t(g.num_elements()));
      vi.resize(mi.size());
      pi.resize(mi.size());
      double worst = 0;
      for (size_t k = 0; k < mi.size(); ++k) {
        const double x = g.at(int64_t(k)), b = beta1(i);
        mi[k] = b * mi[k] + (1 - b) * x;
        vi[k] = kBeta2 * vi[k] + (1 - kBeta2) * x * x;
        pi[k] -= 0.01 * mi[k] / (std::sqrt(vi[k]) + kEpsilon);
        worst = std::max(worst, std::abs(pi[k] - got->at(int64_t(k))));
      }
      CHECK(worst <= tolerance);
    }
  }
}

std::shared_ptr<const Program> CompileCpu(const Graph& g, const std::string& fusion = "Fusion") {
  return CompileFor(g, "cpu",
                    "OrderMutation,ReadVariables,Simplify,FoldConstants,Simplify," + fusion +
                        ",CodeGen,RTCGen,Layout,Schedule,PlanMemory");
}

int64_t ArenaBytes(const std::shared_ptr<const Program>& program) {
  Session session(program, std::make_shared<VariableStore>());
  session.Run(RandomFeeds(*program, 1));
  return session.arena_bytes();
}

}  // namespace

TEST_CASE("an Adam step over any number of parameters is one kernel that writes in place") {
  if (!HasCpu()) return;
  for (int count : {1, 8, 65, 400}) {
    CAPTURE(count);
    const auto program = CompileCpu(AdamOver(count));
    CHECK(program->stats().kernels == 1);
    CHECK(program->stats().distinct_kernels == 1);
    CHECK(program->stats().library_calls == 0);
    CHECK(program->stats().interpreted == 0);
    CHECK(ArenaBytes(program) <= 64);
    CheckAdam(program, count);
    // One part kernel, whatever the shapes.
    const Graph& g = program->graph();
    for (NodePtr n : g.TopoOrder())
      if (const LoweredKernel* k = g.GetAttr<KernelMap>("kernel").find(n)) {
        CHECK(k->Kernels().size() == 1);
        CHECK(int(k->parts.size()) == (count == 1 ? 0 : count));
      }
  }
}

TEST_CASE("one kernel a dtype; other constants are other work") {
  if (!HasCpu()) return;
  const auto types = [](int i) { return i % 2 ? DType::kF64 : DType::kF32; };
  const auto two_types = CompileCpu(AdamOver(24, types), "Fusion{multi_small=0}");
  CHECK(two_types->stats().kernels == 2);
  CheckAdam(two_types, 24);

  const auto betas = [](int i) { return i % 3 ? 0.9 : 0.95; };
  const auto two_betas = CompileCpu(AdamOver(
                                        24, [](int) { return DType::kF32; }, betas),
                                    "Fusion{multi_small=0}");
  CHECK(two_betas->stats().kernels == 2);
  CheckAdam(two_betas, 24, betas);
  // Small ones stand beside each other; the code is each one's own.
  const auto each = [](int i) { return 0.9 - 0.01 * i; };
  const auto beside = CompileCpu(AdamOver(
      4, [](int) { return DType::kF32; }, each, [](int i) { return Dims{3 + i}; }));
  CHECK(beside->stats().kernels == 1);
  for (NodePtr n : beside->graph().TopoOrder())
    if (const LoweredKernel* k = beside->graph().GetAttr<KernelMap>("kernel").find(n))
      CHECK(k->Kernels().size() == 4);
  CheckAdam(beside, 4, each);
}

TEST_CASE("what waits for a launch is bounded") {
  if (!HasCpu()) return;
  const auto large = [](int) { return Dims{100, 10}; };  // 4,000 bytes of gradient each
  Graph g;
  std::vector<NodeEntry> done;
  const NodeEntry rate(g.AddInput("rate", DType::kF32, Shape::OfInts({})));
  for (int i = 0; i < 8; ++i) {
    // A gradient that is computed: a library call keeps it out of the kernel.
    const NodeEntry a(g.AddInput(Numbered("a", i), DType::kF32, {100, 7})),
        b(g.AddInput(Numbered("b", i), DType::kF32, {7, 10}));
    for (const NodeEntry& e :
         Adam(&g, Numbered("p", i), large(i), DType::kF32, ApplyOp("MatMul", {a, b}), rate, kBeta1))
      done.push_back(e);
  }
  g.outputs = {Group(done)};
  CHECK(CompileCpu(g)->stats().kernels == 1);
  CHECK(CompileCpu(g, "Fusion{multi_small=0,multi_bytes=8000}")->stats().kernels == 4);
  CHECK(CompileCpu(g, "Fusion{multi_small=0,multi_bytes=1}")->stats().kernels == 8);
  CHECK(CompileCpu(g, "Fusion{multi_small=0,multi_bytes=0}")->stats().kernels == 8);
}

TEST_CASE("a launch of parts goes through text, JSON and .weftx") {
  const Graph fused =
      ApplyPasses(AdamOver(9), "OrderMutation,ReadVariables,InferType,InferShape,Simplify,Fusion");
  int launches = 0;
  for (NodePtr n : fused.TopoOrder())
    if (IsOp(n, builtin::kFused)) {
      ++launches;
      CHECK(n->attr<Ints>("parts") == Ints(9, 3));
      CHECK(WrittenInputs(n).size() == 27);
    }
  CHECK(launches == 1);
  PrintOptions complete;
  complete.inline_all = true;
  const std::string text = PrintGraph(fused, complete);
  CHECK(PrintGraph(ParseGraph(text), complete) == text);
  CHECK(PrintGraph(LoadJson(SaveJson(fused)), complete) == text);
  if (!HasCpu()) return;
  const auto program = CompileCpu(AdamOver(9));
  const TempFolder folder;
  const std::string path = folder.path() + "/adam.weftx";
  SaveProgram(*program, path);
  const auto loaded = LoadProgram(path);
  CHECK(loaded->stats().kernels == 1);
  CHECK(loaded->stats().interpreted == 0);
  CheckAdam(loaded, 9);
}

TEST_CASE("thousands of small kernels share launches, as many as fit") {
  // Sums over columns of two lengths, so that neighbours are no equal sinks; every tenth of them
  // beside a large one.
  Graph g;
  std::vector<NodeEntry> sums;
  const int count = 5000;
  for (int i = 0; i < count; ++i) {
    const int64_t rows = i % 10 == 0 ? 1000 : 2 + i % 2;
    const NodeEntry x(g.AddInput(Numbered("x", i), DType::kF32, Shape::OfInts({rows, 33})));
    sums.push_back(ApplyOp("ReduceSum", {x, g.AddConstant(Tensor::Ints({0}))}, {{"keepdims", 0}}));
  }
  g.outputs = sums;
  g = ApplyPasses(std::move(g), "InferType,InferShape,Fusion");
  int launches = 0;
  for (NodePtr n : g.TopoOrder()) {
    if (!IsOp(n, builtin::kFused)) continue;
    ++launches;
    CHECK(n->num_inputs() <= 64);
  }
  // Each small one has a place beside a large one.
  CHECK(launches == count / 10);
}

TEST_CASE("small kernels of one level share a launch, or join a larger one") {
  if (!HasCpu()) return;
  // A mean of losses and a column sum that do not know of each other, and soft-max over more
  // rows than are small.
  const Graph g =
      FromText(R"(graph (%l: f32[64], %d: f32[64, 10], %x: f32[512, 100]) -> (%m, %b, %y) {
    %axis = Constant() {value = tensor i64[1] [0]}
    %m = ReduceMean(%l, %axis) {keepdims = 0}
    %b = ReduceSum(%d, %axis) {keepdims = 0}
    %y = Softmax(%x)
  })");
  const Reference want = RunReference(g, 3);
  const auto run = [&](const std::string& fusion, int kernels) {
    const auto program = CompileCpu(g, fusion);
    CHECK(program->stats().kernels == kernels);
    CHECK(program->stats().interpreted == 0);
    Session session(program);
    CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
  };
  run("Fusion", 1);
  run("Fusion{multi_small=0}", 3);
  run("Fusion{multi_small=700}", 2);  // the column sum is none of the small ones
  run("Fusion{max_tensors=4}", 2);
}

TEST_CASE(
    "a variable that is read elsewhere than it is written is copied, not overwritten too early") {
  const char* const kBodies[] = {
      // Against itself transposed.
      "%t = Transpose(%v) {perm = [1, 0]} : ?\n%n = Sub(%v, %t) : ?\n%w = weft::Assign(%v, %n) : "
      "?\n",
      // By the sum of its rows.
      "%axis = Constant() {value = tensor i64[1] [1]} : ?\n%s = ReduceSum(%v, %axis) : ?\n"
      "%n = Div(%v, %s) : ?\n%w = weft::Assign(%v, %n) : ?\n",
      // Two writes, one after the other.
      "%a = Add(%v, %x) : ?\n%w1 = weft::Assign(%v, %a) : ?\n%b = Mul(%v, %x) : ?\n"
      "%w = weft::Assign(%v, %b) : ?\n",
      // Two variables, each from the other's old content.
      "%a = Add(%v, %x) : ?\n%b = Mul(%u, %x) : ?\n%w2 = weft::Assign(%u, %a) : ?\n"
      "%w = weft::Assign(%v, %b) : ?\n",
      // Read again afterwards.
      "%a = Add(%v, %x) : ?\n%w1 = weft::Assign(%v, %a) : ?\n%w = Mul(%v, %x) : ?\n",
      // What is read before is needed after.
      "%a = Add(%v, %x) : ?\n%w1 = weft::Assign(%v, %x) : ?\n%n = Neg(%w1) : ?\n%w = Mul(%n, %a) : "
      "?\n"};
  for (const char* body : kBodies) {
    CAPTURE(body);
    const Graph g = FromText(
        std::string(
            "graph (%x: f32[3, 3], %v: f32[3, 3] param = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, "
            "8.0, 9.5] {state = 1}, %u: f32[3, 3] param = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, "
            "4.0, 4.5] {state = 1}) -> (%w) {\n") +
        body + "}\n");
    const auto x = Tensor::FromDoubles(DType::kF32, {3, 3}, {1, 2, 1, 3, 1, 2, 2, 1, 4});
    std::vector<std::vector<TensorPtr>> results;
    std::vector<Values> v, u;
    for (const Way& way : Ways()) {
      auto store = std::make_shared<VariableStore>();
      Session session(CompileWay(g, way), store);
      session.Run({x});
      results.push_back(session.Run({x}));
      v.push_back(ValuesOf(*store->Get("v")));
      u.push_back(store->Has("u") ? ValuesOf(*store->Get("u")) : Values());
    }
    for (size_t i = 1; i < results.size(); ++i) {
      CHECK(Difference(results[i], results[0], 1e-5, 1e-5) <= 1);
      for (size_t k = 0; k < v[0].size(); ++k)
        CHECK(v[i][k] == doctest::Approx(v[0][k]).epsilon(1e-5));
      for (size_t k = 0; k < u[0].size(); ++k)
        CHECK(u[i][k] == doctest::Approx(u[0][k]).epsilon(1e-5));
    }
  }
}

namespace {

/// A training step in small: parameters of any rank, gradients from layers that feed each
/// other, rules of any kind, scalars that count steps, control edges between what has
/// nothing else in common.
Graph RandomOptimizer(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return int(random() % uint32_t(n)); };
  Graph g;
  const DType t = DType::kF32;
  std::vector<NodeEntry> done;
  const NodeEntry count = State(&g, "count", t, {});
  const NodeEntry next = count + ScalarLike(count, t, 1);
  const NodeEntry rate = ScalarLike(count, t, 0.1) / (next + ScalarLike(count, t, 1));
  NodeEntry x(g.AddInput("x", t, {4, 6}));
  const int layers = 1 + pick(6);
  for (int i = 0; i < layers; ++i) {
    const Dims dims = pick(3) == 0 ? Dims{4, 6} : pick(2) ? Dims{6} : pick(4) ? Dims{1, 6} : Dims{};
    const NodeEntry p = State(&g, Numbered("p", i), t, dims);
    NodeEntry y = pick(2) ? x * p : x + p;
    if (pick(3) == 0) y = ApplyOp("Tanh", {y});
    const NodeEntry gradient = SumTo(y * (pick(2) ? x : y), p);
    x = pick(4) == 0 ? ApplyOp("Softmax", {y}) : y;
    const auto c = [&](double value) { return ScalarLike(p, t, value); };
    NodeEntry change = gradient * rate;
    const int rule = pick(4);
    if (rule == 1) {  // momentum
      const NodeEntry m = State(&g, Numbered("m", i), t, dims);
      const NodeEntry m2 = m * c(0.9) + gradient;
      done.push_back(Assign(m, m2));
      change = m2 * rate;
    } else if (rule == 2) {  // as RMSprop
      const NodeEntry v = State(&g, Numbered("v", i), t, dims);
      const NodeEntry v2 = v * c(0.9) + gradient * gradient * c(0.1);
      done.push_back(Assign(v, v2));
      change = gradient * rate / (ApplyOp("Sqrt", {v2}) + c(1e-3));
    } else if (rule == 3) {  // decay
      change = (gradient + p * c(0.01)) * rate;
    }
    done.push_back(Assign(p, p - change));
    if (pick(3) == 0) done.back().node->control_deps.push_back(y.node);
    if (pick(5) == 0) x = x + p;  // the new content
  }
  done.push_back(Assign(count, next));
  g.outputs = {Group(done), x};
  return g;
}

}  // namespace

TEST_CASE("random training steps: fused = unfused = interpreter, and no cycle among kernels") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Graph g = RandomOptimizer(seed);
    const Graph fused =
        ApplyPasses(g, "OrderMutation,ReadVariables,InferType,InferShape,Simplify,Fusion,CodeGen");
    VerifyGraph(fused);  // acyclic, control edges included
    const auto feed = MakeRandomInputs(g, seed).tensors;
    std::vector<std::vector<TensorPtr>> results;
    std::vector<std::map<std::string, Values>> states;
    for (const Way& way : Ways()) {
      auto store = std::make_shared<VariableStore>();
      Session session(CompileWay(g, way), store);
      session.Run(feed);
      results.push_back(session.Run(feed));
      states.emplace_back();
      for (const std::string& name : store->Names())
        states.back()[name] = ValuesOf(*store->Get(name));
    }
    for (size_t i = 1; i < results.size(); ++i) {
      CHECK(Difference({results[i][1]}, {results[0][1]}, 1e-4, 1e-4) <= 1);
      for (const auto& [name, values] : states[0])
        for (size_t k = 0; k < values.size(); ++k)
          CHECK(states[i].at(name)[k] == doctest::Approx(values[k]).epsilon(1e-4));
    }
  }
}
