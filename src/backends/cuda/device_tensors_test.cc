/// device_tensors_test.cc: memory of others on a GPU, as DLPack gives and takes it, on a driver
/// that is a table of ours: programs use it where it is, and nothing is copied through the host.
#include <dlpack/dlpack.h>
#include <doctest/doctest.h>

#include "backends/cuda/doubles/failing_driver.h"
#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "weft/core/tensor/dlpack.h"
#include "weft/runtime/backend/device_tensor.h"

using namespace weft;
using namespace weft::e2e;

namespace {

constexpr MemoryPlace kGpu{MemoryPlace::kCuda, 0};

/// A tensor of another library on the GPU, as it comes from there.
std::shared_ptr<Tensor> Theirs(const Tensor& host) {
  DLManagedTensor* managed = ToDLPack(CopyTo(EmulatedGpu::backend(), host));
  CHECK(managed->dl_tensor.device.device_type == kDLCUDA);
  CHECK(managed->dl_tensor.device.device_id == 0);
  return FromDLPack(managed);
}

}  // namespace

TEST_CASE("cuda backend: tensors on the GPU come and go as DLPack, with no copy by the host") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(
      "graph (%x: f32[n, 4], %w: f32[4, 8]) -> (%y, %s) {\n  %m = MatMul(%x, %w) : ?\n"
      "  %y = Relu(%m) : ?\n  %s = Mul(%x, %x) : ?\n}\n");
  auto program = EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  FailingDriver& d = FailingDriver::Get();
  {
    Session session(program);
    const Reference r = RunReference(g, 3, {{"n", 5}});
    const std::vector<TensorPtr> in{Theirs(*r.inputs[0]), Theirs(*r.inputs[1])};
    std::vector<std::shared_ptr<Tensor>> out;
    for (const TensorPtr& t : r.outputs) out.push_back(Theirs(*t));
    for (const auto& t : in) CHECK(t->place() == kGpu);
    const int64_t replays = EmulatedGpu::replays();
    for (int run = 0; run < 6; ++run) {
      const int64_t to_gpu = d.calls["MemcpyHtoDAsync"], to_host = d.calls["MemcpyDtoHAsync"];
      CHECK((session.RunBound(in, out) == out));
      CHECK(d.calls["MemcpyHtoDAsync"] == to_gpu);
      CHECK(d.calls["MemcpyDtoHAsync"] == to_host);
      std::vector<TensorPtr> here;
      for (const auto& t : out) here.push_back(CopyFrom(EmulatedGpu::backend(), *t));
      CHECK(Difference(here, r.outputs) <= 1);
    }
    CHECK(EmulatedGpu::replays() > replays);  // a recording goes on with the same places
    // Results on the GPU that the session's caller makes; inputs of the host beside others.
    session.set_result_allocator([](size_t, DType t, const std::vector<int64_t>& dims) {
      return NewTensorOn(EmulatedGpu::backend(), t, dims);
    });
    PendingRun pending = session.Start({r.inputs[0], in[1]});
    std::vector<TensorPtr> here;
    for (const TensorPtr& t : pending.Wait()) {
      CHECK(t->place() == kGpu);
      here.push_back(CopyFrom(EmulatedGpu::backend(), *t));
    }
    CHECK(Difference(here, r.outputs) <= 1);
    const auto other =
        std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{5, 4}, out[0]->mutable_data(),
                                 nullptr, MemoryPlace{MemoryPlace::kCuda, 1});
    const auto caught = Catch([&] { session.Run({other, in[1]}); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kBadInput);
    CHECK(
        caught->says("input 'x' is on CUDA device 1, the program takes what is on CUDA device 0"));
  }
  program.reset();
  EmulatedGpu::CheckClean();
}
