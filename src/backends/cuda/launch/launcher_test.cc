/// launcher_test.cc: operators over thousands of tensors, Concat and Sum: on emulated CUDA threads,
/// on the driver that is a table of ours in streams and as graphs, and on the CPU; and what NVRTC
/// takes for their kernels.
#include <doctest/doctest.h>

#include <chrono>

#include "backends/cuda/doubles/emulated_kernels.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "codegen/cuda/print/printer.h"
#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/nvrtc_checks.h"
#include "tests/support/training_networks.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

constexpr int kTensors = 5000;
constexpr int64_t kOuter = 2, kInner = 3;

int64_t RowsOf(int tensor) { return tensor % 4; }
/// Small integers: sums of them are exact in any order.
double Element(int tensor, int64_t i) { return double((tensor * 7 + i * 5) % 23 - 11); }

/// Concat of [2, rows, 3] on axis 1, of [rows] on axis 0, or Sum of [3].
enum class What { kConcat, kConcatVectors, kSum };

Graph Wide(What what, DType t) {
  Graph g;
  std::vector<NodeEntry> in;
  for (int i = 0; i < kTensors; ++i) {
    const std::vector<int64_t> dims =
        what == What::kConcat          ? std::vector<int64_t>{kOuter, RowsOf(i), kInner}
        : what == What::kConcatVectors ? std::vector<int64_t>{RowsOf(i)}
                                       : std::vector<int64_t>{kInner};
    in.emplace_back(g.AddInput("x" + std::to_string(i), t, Shape::OfInts(dims)));
  }
  if (what == What::kSum)
    g.outputs = {ApplyOp("Sum", in)};
  else
    g.outputs = {ApplyOp("Concat", in, {{"axis", what == What::kConcat ? 1 : 0}})};
  return g;
}
std::vector<double> Expected(What what) {
  std::vector<double> want;
  if (what == What::kSum) {
    for (int64_t i = 0; i < kInner; ++i) {
      want.push_back(0);
      for (int t = 0; t < kTensors; ++t) want.back() += Element(t, i);
    }
    return want;
  }
  const bool vectors = what == What::kConcatVectors;
  for (int64_t o = 0; o < (vectors ? 1 : kOuter); ++o)
    for (int t = 0; t < kTensors; ++t) {
      const int64_t run = RowsOf(t) * (vectors ? 1 : kInner);
      for (int64_t i = 0; i < run; ++i) want.push_back(Element(t, o * run + i));
    }
  return want;
}
std::vector<TensorPtr> InputsOf(const Program& program) {
  std::vector<TensorPtr> in;
  for (const IoSpec& s : program.inputs()) {
    std::vector<int64_t> dims;
    for (SymInt d : s.shape.dims()) dims.push_back(d.value());
    auto t = std::make_shared<Tensor>(s.dtype, dims);
    const int tensor = std::stoi(s.name.substr(1));
    for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, Element(tensor, i));
    in.push_back(std::move(t));
  }
  return in;
}
void CheckResult(const Tensor& got, What what) {
  const std::vector<double> want = Expected(what);
  REQUIRE(got.num_elements() == int64_t(want.size()));
  int wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) wrong += got.at(int64_t(i)) != want[i];
  CHECK(wrong == 0);
}

const std::pair<What, DType> kCases[] = {
    {What::kConcat, DType::kF16}, {What::kConcatVectors, DType::kI64}, {What::kSum, DType::kF32}};

}  // namespace

TEST_CASE("5000 tensors: emulated CUDA") {
  RegisterEmulation();
  std::vector<std::shared_ptr<const Program>> programs;
  for (const auto& [what, t] : kCases) {
    programs.push_back(CompileEmulated(Wide(what, t)));
    CHECK(programs.back()->stats().interpreted == 0);
  }
  if (!BuildKernels(2)) return;
  for (size_t i = 0; i < programs.size(); ++i) {
    CAPTURE(i);
    Session session(programs[i]);
    const int64_t launches = TheEmulation().launches;
    for (uint64_t run = 1; run < 3; ++run) {
      TheEmulation().run = {cuda::GuardedMemory::Place(run), run + 1, run % 2 ? 1 : 132};
      CheckResult(*session.Run(InputsOf(*programs[i]))[0], kCases[i].first);
    }
    CHECK(TheEmulation().launches - launches == 2);
  }
}

TEST_CASE("5000 tensors: the CUDA backend, in streams and as a graph") {
  if (!EmulatedGpu::Start()) return;
  {
    std::vector<std::shared_ptr<const Program>> programs;
    for (const auto& [what, t] : kCases) programs.push_back(EmulatedGpu::Compile(Wide(what, t)));
    EmulatedGpu::BuildKernels(2);
    for (size_t i = 0; i < programs.size(); ++i) {
      CAPTURE(i);
      const int64_t replays = FailingDriver::Get().calls["GraphLaunch"];
      Session session(programs[i]);
      for (int run = 0; run < 3; ++run)
        CheckResult(*session.Run(InputsOf(*programs[i]))[0], kCases[i].first);
      CHECK(FailingDriver::Get().calls["GraphLaunch"] > replays);
    }
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE(
    "many tensors of run-time extents: one launch on every backend; few of them: one kernel") {
  RegisterEmulation();
  const auto make = [](int tensors) {
    Graph g;
    const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");
    std::vector<NodeEntry> in;
    for (int i = 0; i < tensors; ++i)
      in.emplace_back(g.AddInput("x" + std::to_string(i), DType::kF32,
                                 Shape{m,
                                       i % 3 == 0   ? n
                                       : i % 3 == 1 ? SymInt(1)
                                                    : n + 2,
                                       2}));
    g.outputs = {ApplyOp("Concat", in, {{"axis", 1}})};
    return g;
  };
  const auto inputs = [](const Program& program, int64_t n, int64_t m) {
    std::vector<TensorPtr> in;
    for (const IoSpec& s : program.inputs()) {
      const int tensor = std::stoi(s.name.substr(1));
      const std::vector<int64_t> dims{m, tensor % 3 == 0 ? n : tensor % 3 == 1 ? 1 : n + 2, 2};
      auto t = std::make_shared<Tensor>(s.dtype, dims);
      for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, Element(tensor, i));
      in.push_back(std::move(t));
    }
    return in;
  };
  for (const int tensors : {64, 80}) {
    CAPTURE(tensors);
    const Graph g = make(tensors);
    const Graph lowered = LowerForNvrtc(g, KernelPasses());
    const KernelMap& map = lowered.GetAttr<KernelMap>("kernel");
    int64_t parts = 0;
    for (NodeId id = 0; id < map.id_bound(); ++id)
      if (const LoweredKernel* k = map.find(id)) parts += int64_t(k->parts.size());
    CHECK(parts == (tensors == 80 ? 80 : 0));
    std::vector<std::shared_ptr<const Program>> programs{CompileEmulated(g)};
    if (!BuildKernels(2)) return;
    if (HasCpu()) programs.push_back(CompileFor(g, "cpu"));
    for (const auto& program : programs) {
      Session session(program);
      for (const auto& [n, m] : {std::pair<int64_t, int64_t>{3, 4}, {0, 2}, {1, 1}, {5, 0}}) {
        const std::vector<TensorPtr> in = inputs(*program, n, m);
        CheckClose(session.Run(in), GetEvaluator()->Eval(g, in, EvalOptions()), 0);
      }
    }
  }
}

TEST_CASE("5000 tensors: the CPU") {
  if (!HasCpu()) return;
  for (const auto& [what, t] : kCases) {
    if (what == What::kSum) continue;  // one long sum takes LLVM seconds
    const auto program = CompileFor(Wide(what, t), "cpu");
    Session session(program);
    CheckResult(*session.Run(InputsOf(*program))[0], what);
  }
}

TEST_CASE("5000 tensors: NVRTC compiles what they need, short text, without spills") {
  const auto compiler = FindNvrtc();
  if (!compiler) return;
  for (const auto& [what, t] : kCases) {
    const std::vector<KernelPtr> kernels =
        KernelsIn(LowerForNvrtc(Wide(what, t), StandardPipeline({PipelineEnd::kKernels})));
    CHECK(kernels.size() == 1);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::string> errors;
    const std::vector<std::string> binaries = compiler->Compile(kernels, &errors);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (size_t i = 0; i < kernels.size(); ++i) {
      CHECK(errors[i] == "");
      CHECK(compiler->Stats(*kernels[i], binaries[i]).spill_bytes == 0);
      CHECK(PrintCuda(*kernels[i]).size() < 20000);
    }
    MESSAGE("NVRTC " << seconds << " s");  // as straight code it would be minutes
  }
}
