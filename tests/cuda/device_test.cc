/// device_test.cc: the backend "cuda" on a GPU: every kind of generated kernel in every dtype,
/// random graphs, training steps, variables, saved programs and errors, against the interpreter and
/// the CPU. Says so and passes where there is none.
///
/// WEFT_DEVICE_TEST_BACKEND names another backend, so that the test itself can be tried anywhere;
/// WEFT_DEVICE_TEST_SECONDS says how long random graphs are run (default 20).
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "tests/cuda/device_util.h"
#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/special_run.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_networks.h"
#include "tests/support/variables_util.h"
#include "weft/core/graph/effects.h"
#include "weft/core/module/backend_module.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// "$T" becomes the dtype.
std::string With(std::string text, const std::string& dtype) {
  for (size_t at; (at = text.find("$T")) != std::string::npos;) text.replace(at, 2, dtype);
  return text;
}

/// Has the machine that library of the backend, as `weft doctor` tells?
bool HasLibrary(const std::string& what) {
  for (const ReportRow& row : ReportOfBackend(BackendName()))
    if (row.what == what) return row.ok;
  return false;
}
/// A step says that the library runs it.
bool NamesLibrary(const std::vector<StepTime>& steps, const std::string& word) {
  for (const StepTime& s : steps)
    if (s.how.find(word) != std::string::npos) return true;
  return false;
}

std::vector<SymBindings> Extents(const std::vector<int64_t>& sizes) {
  std::vector<SymBindings> all;
  for (const int64_t n : sizes) all.push_back({{"n", n}});
  return all;
}

const char* const kFloats[] = {"f16", "bf16", "f32", "f64"};
const char* const kIntegers[] = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"};

/// x - rate * gradient for `count` variables of many shapes.
Graph Updates(int count) {
  return UpdatesOf(count, [](int64_t i) {
    return i % 4 == 0   ? std::vector<int64_t>{i + 1}
           : i % 4 == 1 ? std::vector<int64_t>{3, i + 2, 5}
           : i % 4 == 2 ? std::vector<int64_t>{700, 33}
                        : std::vector<int64_t>{0, 4};
  });
}

}  // namespace

TEST_CASE("device: element-wise kernels") {
  if (!Ready()) return;
  const auto extents = Extents({1, 2, 63, 1000, 0});
  for (const char* t : kFloats)
    CheckGraph(With("graph (%x: $T[n, 129], %y: $T[129]) -> (%z, %w) {\n  %a = Add(%x, %y)\n"
                    "  %b = Sigmoid(%a)\n  %z = Mul(%b, %x)\n  %w = Tanh(%a)\n}\n",
                    t),
               extents);
  for (const char* t : kIntegers)
    CheckGraph(With("graph (%x: $T[n, 129], %y: $T[129], %c: bool[n, 1]) -> (%z, %w) {\n"
                    "  %a = Add(%x, %y)\n  %m = Max(%a, %x)\n  %z = Where(%c, %m, %y)\n"
                    "  %w = Cast(%m) {to = f32}\n}\n",
                    t),
               extents);
  CheckGraph(
      "graph (%x: bool[n, 65], %y: bool[65]) -> (%z) {\n  %a = And(%x, %y)\n"
      "  %b = Not(%a)\n  %z = Xor(%b, %y)\n}\n",
      extents);
}

TEST_CASE("device: rows, short and long") {
  if (!Ready()) return;
  for (const char* t : kFloats)
    for (const char* columns : {"5", "128", "1000", "33000"}) {
      std::string text = With(
          "graph (%x: $T[n, $C], %s: $T[$C], %b: $T[$C]) -> (%y, %z, %m) {\n"
          "  %y = Softmax(%x) {axis = -1}\n"
          "  %z, %zm, %zd = LayerNormalization(%x, %s, %b) {axis = -1}\n"
          "  %m = ReduceMax(%x, %last)\n}\n",
          t);
      text.replace(text.find(") -> "), 5, ", %last: i64[1] param = [-1]) -> ");
      for (size_t at; (at = text.find("$C")) != std::string::npos;) text.replace(at, 2, columns);
      CheckGraph(text, Extents({1, 3, 200}));
    }
  for (const char* t : {"i32", "i64", "u32", "u64"})
    CheckGraph(With("graph (%x: $T[n, 777], %last: i64[1] param = [-1]) -> (%y, %z) {\n"
                    "  %y = ReduceSum(%x, %last)\n  %z = ReduceMin(%x, %last)\n}\n",
                    t),
               Extents({1, 40}));
}

TEST_CASE("device: columns, and everything into one number") {
  if (!Ready()) return;
  for (const char* t : kFloats)
    CheckGraph(With("graph (%x: $T[n, 70], %first: i64[1] param = [0]) -> (%y, %z, %s) {\n"
                    "  %y = ReduceMean(%x, %first)\n  %z = ReduceMax(%x, %first)\n"
                    "  %s = ReduceMean(%x)\n}\n",
                    t),
               Extents({1, 33, 5000}));
  for (const char* t : {"i8", "u8", "i32", "i64"})
    CheckGraph(With("graph (%x: $T[n, 70], %first: i64[1] param = [0]) -> (%y) {\n"
                    "  %y = ReduceMax(%x, %first)\n}\n",
                    t),
               Extents({1, 5000}));
}

TEST_CASE("device: windows, movement, look-ups") {
  if (!Ready()) return;
  for (const char* t : kFloats)
    CheckGraph(With("graph (%x: $T[n, 3, 19, 23]) -> (%y, %z, %g) {\n"
                    "  %y, %at = MaxPool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, "
                    "1, 1, 1]}\n"
                    "  %z = AveragePool(%x) {kernel_shape = [2, 3], strides = [2, 1]}\n"
                    "  %g = GlobalAveragePool(%x)\n}\n",
                    t),
               Extents({1, 4}));
  for (const char* t : {"bool", "i8", "u8", "i16", "f16", "bf16", "f32", "i32", "f64", "i64"})
    CheckGraph(With("graph (%x: $T[n, 37, 65]) -> (%y, %z, %c) {\n"
                    "  %y = Transpose(%x) {perm = [0, 2, 1]}\n"
                    "  %z = Transpose(%x) {perm = [2, 1, 0]}\n"
                    "  %c = Concat(%x, %x) {axis = 1}\n}\n",
                    t),
               Extents({1, 33}));
  CheckGraph(
      "graph (%x: f32[50, 9], %i: i64[5] param = [0, 3, 49, -1, 7]) -> (%y) {\n"
      "  %y = Gather(%x, %i)\n}\n",
      {{}});
}

TEST_CASE("device: products and convolutions, by libraries where they are there") {
  if (!Ready()) return;
  for (const char* t : kFloats) {
    CheckGraph(
        With("graph (%x: $T[n, 40], %w: $T[40, 24], %b: $T[24], %v: $T[5, 40, 8]) -> (%y, %z) {\n"
             "  %p = Gemm(%x, %w, %b)\n  %y = Relu(%p)\n  %z = MatMul(%x, %v)\n}\n",
             t),
        Extents({1, 7, 64}));
    CheckGraph(With("graph (%x: $T[n, 8, 14, 14], %w: $T[16, 8, 3, 3], %b: $T[16]) -> (%y, %z) {\n"
                    "  %c = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n  %y = Relu(%c)\n"
                    "  %z = Conv(%x, %w) {strides = [2, 2]}\n}\n",
                    t),
               Extents({1, 5}));
  }
}

TEST_CASE("device: NaN goes through what follows products and convolutions") {
  if (!Ready()) return;
  const auto check = [](const std::string& text, const std::string& type) {
    const Graph g = FromText(With(text, type));
    std::vector<TensorPtr> in = RunReference(g, 3, {}).inputs;
    const auto x = std::make_shared<Tensor>(*in[0]);
    x->set(3, std::nan(""));
    in[0] = x;
    Session session(OnDevice(g));
    const std::vector<TensorPtr> got = session.Run(in), want = GetEvaluator()->Eval(g, in);
    for (size_t i = 0; i < want.size(); ++i)
      for (int64_t k = 0; k < want[i]->num_elements(); ++k)
        CHECK(std::isnan(got[i]->at(k)) == std::isnan(want[i]->at(k)));
  };
  for (const char* t : kFloats) {
    CAPTURE(std::string(t));
    check(
        "graph (%x: $T[6, 40], %w: $T[40, 24], %b: $T[24]) -> (%y, %z, %u, %v) {\n"
        "  %p = Gemm(%x, %w, %b)\n  %y = Relu(%p)\n  %z = Gelu(%p) {approximate = \"tanh\"}\n"
        "  %m = MatMul(%x, %w)\n  %u = Relu(%m)\n  %s = Add(%m, %b)\n  %v = Max(%s, %b)\n}\n",
        t);
    check(
        "graph (%x: $T[2, 8, 9, 9], %w: $T[16, 8, 3, 3], %b: $T[16], %r: $T[2, 16, 9, 9]) -> "
        "(%y, %z) {\n  %c = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n  %y = Relu(%c)\n"
        "  %d = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n  %s = Add(%d, %r)\n"
        "  %z = Relu(%s)\n}\n",
        t);
  }
}

TEST_CASE("device: a library that is there is used") {
  if (!Ready()) return;
  const auto steps = [](const std::string& text) {
    const Graph g = FromText(text);
    return Session(OnDevice(g)).Profile(RunReference(g, 1, {}).inputs);
  };
  for (const char* t : kFloats) {
    CAPTURE(std::string(t));
    if (HasLibrary("cuBLASLt"))
      CHECK(NamesLibrary(steps(With("graph (%x: $T[64, 256], %w: $T[256, 128]) -> (%y) {\n"
                                    "  %y = MatMul(%x, %w)\n}\n",
                                    t)),
                         "cuBLASLt"));
    if (HasLibrary("cuDNN") && std::string(t) != "f64")
      CHECK(
          NamesLibrary(steps(With("graph (%x: $T[4, 16, 14, 14], %w: $T[32, 16, 3, 3]) -> (%y) {\n"
                                  "  %y = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n}\n",
                                  t)),
                       "cudnn"));
  }
}

TEST_CASE("device: random graphs") {
  if (!Ready()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  const auto seconds = std::chrono::seconds(FromEnvironment("WEFT_DEVICE_TEST_SECONDS", 20));
  const auto begin = std::chrono::steady_clock::now();
  const auto first = uint64_t(FromEnvironment("WEFT_DEVICE_TEST_SEED", 1));
  int graphs = 0, wrong = 0;
  for (uint64_t seed = first; std::chrono::steady_clock::now() - begin < seconds;
       ++seed, ++graphs) {
    CAPTURE(seed);
    const fuzz::RandomGraph random = fuzz::MakeRandomGraph(seed);
    Session session(OnDevice(random.graph));
    const size_t sets = random.bindings.size() + 1;  // the last with special numbers
    for (size_t b = 0; b < sets; ++b) {
      const bool special = b + 1 == sets;
      const std::vector<TensorPtr> in =
          special ? fuzz::MakeSpecialInputs(random, 0) : fuzz::MakeInputs(random, b);
      Oracles want;
      try {
        want = AskOracles(random.graph, in, special);
      } catch (const UserError&) {
        if (special) continue;  // an index that is no number
        throw;
      }
      for (int run = 0; run < 3; ++run) {
        const std::vector<TensorPtr> got = run == 1 ? session.Start(in).Wait() : session.Run(in);
        for (size_t i = 0; i < got.size(); ++i) {
          const NodeEntry e = random.graph.outputs[i];
          const double error = random.values.at({e.node->id(), e.index}).error;
          const std::string why = CompareResult(*got[i], want, i, error);
          wrong += !why.empty();
          CHECK_MESSAGE(why.empty(), why);
        }
      }
    }
    if (wrong > 20) break;
  }
  SetLogLevel(before);
  MESSAGE(graphs << " random graphs, " << wrong << " mismatches");
  CHECK(graphs > 0);
}

TEST_CASE("device: training steps of networks against the interpreter") {
  if (!Ready()) return;
  EvalOptions exact;
  exact.typed = false;
  const auto check = [&](const Graph& step, const std::vector<TensorPtr>& in, double tolerance) {
    Session session(OnDevice(step));
    const std::vector<TensorPtr> want = GetEvaluator()->Eval(step, in, exact);
    for (int run = 0; run < 4; ++run) CheckClose(session.Run(in), want, tolerance);
  };
  Network lenet(3, 1, 28);
  const Graph a = lenet.Step(LeNet(&lenet));
  check(a, lenet.Inputs(3, 1, 28), 1e-4);
  Network resnet(SymInt::Symbol("n"), 3, 12);
  const Graph b = resnet.Step(ResNet(&resnet, 1));
  check(b, resnet.Inputs(4, 3, 12), 5e-3);
}

TEST_CASE("device: LeNet learns as on the CPU, 20 steps") {
  if (!Ready() || !HasCpu()) return;
  constexpr int64_t kBatch = 64;
  Network n(kBatch, 1, 28);
  const Graph step = n.Step(LeNet(&n));  // (x, labels, parameters) -> (loss, gradients)
  Session device(OnDevice(step)), cpu(CompileFor(step, "cpu"));
  const Losses losses = CheckLearnsAlike(device, cpu, n.Inputs(kBatch, 1, 28));
  CHECK(losses.last < losses.first);
}

TEST_CASE(
    "device: variables stay there, are shared by sessions, and many are updated by one launch") {
  if (!Ready()) return;
  const auto program = OnDevice(FromText(
      R"(graph (%x: f32[4], %v: f32[4] param = [0.0, 0.0, 0.0, 0.0] {state = 1}) -> (%y) {
  %s = Add(%v, %x) : f32[4]
  %a = weft::Assign(%v, %s) : f32[4]
  %y = Mul(%a, %a) : f32[4]
}
)"));
  auto store = std::make_shared<VariableStore>();
  Session a(program, store), b(program, store);
  for (int i = 1; i <= 5; ++i) {
    a.Run({Vector({1, 1, 1, 1})});
    b.Run({Vector({1, 1, 1, 1})});
    CHECK(ValuesOf(*store->Get("v")) == Values(4, 2.0 * i));
  }
  store->Set("v", Vector({5, 6, 7, 8}));
  CHECK(ValuesOf(*a.Run({Vector({1, 1, 1, 1})})[0]) == Values{36, 49, 64, 81});

  for (const int count : {7, 150}) {
    const auto updates = OnDevice(Updates(count));
    auto own = std::make_shared<VariableStore>();
    Session session(updates, own);
    std::map<std::string, std::vector<double>> want;
    for (int step = 0; step < 4; ++step) session.Run(StepOfUpdates(*updates, step, &want));
    for (const auto& [name, values] : want) CHECK(ValuesOf(*own->Get(name)) == values);
    CHECK(updates->stats().kernels <= 2);
  }
}

TEST_CASE("device: a saved program gives the same bits") {
  if (!Ready()) return;
  const TempFolder dir;
  Network n(SymInt::Symbol("n"), 1, 28);
  const Graph step = n.Step(LeNet(&n));
  const auto program = OnDevice(step);
  SaveProgram(*program, dir / "a.weftx");
  const auto loaded = LoadProgram(dir / "a.weftx");
  CHECK(loaded->backend() == BackendName());
  CHECK(loaded->stats().kernels == program->stats().kernels);
  const std::vector<TensorPtr> in = n.Inputs(6, 1, 28);
  const auto want = Session(program).Run(in), got = Session(loaded).Run(in);
  REQUIRE(want.size() == got.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(want[i]->Equals(*got[i]));
}

TEST_CASE(
    "device: an index outside is told, too much memory is refused, and the device stays good") {
  if (!Ready()) return;
  const Graph g = FromText("graph (%x: f32[4], %i: i64[2]) -> (%y) {\n  %y = Gather(%x, %i)\n}\n");
  Session session(OnDevice(g));
  const TensorPtr x = Vector({1, 2, 3, 4});
  for (int run = 0; run < 4; ++run) {
    CHECK(ValuesOf(*session.Run({x, Tensor::Ints({0, 3})})[0]) == Values{1, 4});
    const auto caught = Catch([&] { session.Run({x, Tensor::Ints({0, 4})}); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kIndexRange);
  }
  const auto no_room = Catch([&] { GetBackend(BackendName())->Allocate(int64_t{1} << 50); });
  REQUIRE(no_room);
  CHECK(no_room->code == ErrorCode::kOutOfMemory);
  CHECK(ValuesOf(*session.Run({x, Tensor::Ints({1, 2})})[0]) == Values{2, 3});
  CHECK(!session.Profile({x, Tensor::Ints({1, 2})}).empty());
}
