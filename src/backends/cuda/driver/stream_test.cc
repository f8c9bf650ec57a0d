/// stream_test.cc: copies between host and device in the backend "cuda", on the table of
/// failing_driver.h: which of them wait, what memory of the host is pinned for them and for how
/// long, and how long a copy in a graph may be.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/variables_util.h"

namespace {

using namespace weft;
using namespace weft::e2e;

constexpr int64_t kMiB = int64_t{1} << 20;

FailingDriver& D() { return FailingDriver::Get(); }

/// What is fed is fetched: copies and no kernel.
const char* const kCopied = "graph (%x: f32[n]) -> (%y) {\n  %y = Identity(%x) : f32[n]\n}\n";

/// What is fed is looked up at the largest of its first elements, which the host finds.
const char* const kLookedUp =
    R"(graph (%x: f32[n], %i: i64[3], %one: i64[1] param = [1]) -> (%y) {
  %few = Gather(%x, %i) : f32[3]
  %most, %at = TopK(%few, %one) : f32[1], i64[1]
  %y = Gather(%x, %at) : f32[1]
}
)";

std::shared_ptr<Tensor> Counted(int64_t n, double first) {
  auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{n});
  std::iota(x->mutable_data_as<float>(), x->mutable_data_as<float>() + n, float(first));
  return x;
}

}  // namespace

TEST_CASE("cuda transfers: large results are fetched while the caller goes on") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(kCopied));
    EmulatedGpu::BuildKernels();
    Session s(program);
    for (const int64_t n : {64 * kMiB / 4, 4 * kMiB / 4 + 1, int64_t{1}}) {
      CAPTURE(n);
      const auto x = Counted(n, 1);
      PendingRun a = s.Start({x}), b = s.Start({x});
      CHECK(!a.ready());
      CHECK(!b.ready());
      CHECK(b.Wait()[0]->Equals(*x));
      CHECK(a.ready());
      CHECK(a.Wait()[0]->Equals(*x));
      CHECK(s.Run({x})[0]->Equals(*x));
    }
    CHECK(D().pageable == 0);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda transfers: more results than memory is pinned for otherwise") {
  if (!EmulatedGpu::Start()) return;
  {
    constexpr int kPieces = 72;
    const std::shared_ptr<void> place = EmulatedGpu::backend()->Allocate(4 * kMiB);
    std::vector<char> content(size_t(4 * kMiB)), got(size_t(4 * kMiB) * kPieces);
    std::iota(content.begin(), content.end(), char(3));
    const auto fetch = [&](DeviceStream* stream) {
      std::memset(got.data(), 0, got.size());
      for (int i = 0; i < kPieces; ++i)
        stream->CopyOut(&got[size_t(i) * content.size()], place.get(), int64_t(content.size()));
    };
    const auto right = [&] {
      for (int i = 0; i < kPieces; ++i)
        if (std::memcmp(&got[size_t(i) * content.size()], content.data(), content.size()) != 0)
          return false;
      return true;
    };
    {
      const std::unique_ptr<DeviceStream> stream = EmulatedGpu::backend()->NewStream();
      stream->CopyIn(place.get(), content.data(), int64_t(content.size()));
      fetch(stream.get());
      CHECK(D().pageable == 0);
      CHECK(!right());  // nobody has waited
      stream->Wait();
      CHECK(right());
    }
    // Where the system pins no more, the driver's own way is left.
    const std::unique_ptr<DeviceStream> stream = EmulatedGpu::backend()->NewStream();
    D().failure = {"MemHostAlloc", D().calls["MemHostAlloc"] + 64, 2, false};
    fetch(stream.get());
    stream->Wait();
    D().failure = {};
    CHECK(right());
    CHECK(D().pageable == 1);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda transfers: what is fetched goes where what was fed has been") {
  if (!EmulatedGpu::Start()) return;
  {
    const std::shared_ptr<void> place = EmulatedGpu::backend()->Allocate(40 * kMiB);
    std::vector<char> in(size_t(40 * kMiB), 5), out(in.size());
    const std::unique_ptr<DeviceStream> stream = EmulatedGpu::backend()->NewStream();
    const int64_t before = D().calls["MemHostAlloc"];
    stream->CopyIn(place.get(), in.data(), int64_t(in.size()));
    stream->CopyOut(out.data(), place.get(), int64_t(out.size()));
    // What is fed next does not go where results wait for the host.
    std::memset(in.data(), 9, in.size());
    stream->CopyIn(place.get(), in.data(), int64_t(in.size()));
    stream->Wait();
    CHECK(out == std::vector<char>(out.size(), 5));
    CHECK(D().calls["MemHostAlloc"] - before == 20);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda transfers: runs that wait for the host pin no memory once they are warm") {
  if (!HasCpu() || !EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(kLookedUp));
    EmulatedGpu::BuildKernels();
    CHECK(program->stats().interpreted == 1);
    Session s(program);
    const auto x = Counted(9 * kMiB / 4, 0);  // three pieces
    const TensorPtr at = Tensor::Ints({7, 1, 3});
    const auto run = [&](int times) {
      for (int i = 0; i < times; ++i) {
        x->set(0, double(i));
        CHECK(s.Run({x, at})[0]->at(0) == double(i));
      }
    };
    run(3);
    const int64_t warm = D().calls["MemHostAlloc"], freed = D().calls["MemFreeHost"];
    run(40);
    CHECK(D().calls["MemHostAlloc"] == warm);
    CHECK(D().calls["MemFreeHost"] == freed);
    CHECK(program->stats().host_waits == 43);
    // What one run needed and those after it do not is given back.
    const int64_t pinned = D().pinned;
    const auto large = Counted(40 * kMiB, 0);
    s.Run({large, at});
    CHECK(D().pinned > pinned + 10);
    run(40);
    CHECK(D().pinned <= pinned);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda transfers: copies of 2 GiB and more are recorded in pieces") {
  if (!EmulatedGpu::Start()) return;
  constexpr int64_t kGiB = int64_t{1} << 30;
  const int64_t before = D().memory_bytes;
  D().memory_bytes = 12 * kGiB;
  {
    const std::shared_ptr<void> from = EmulatedGpu::backend()->Allocate(5 * kGiB),
                                to = EmulatedGpu::backend()->Allocate(5 * kGiB);
    const std::unique_ptr<DeviceStream> stream = EmulatedGpu::backend()->NewStream();
    for (const int64_t bytes : {int64_t{12}, kGiB, 2 * kGiB - 1, 2 * kGiB, 5 * kGiB}) {
      CAPTURE(bytes);
      D().graph_copies.clear();
      CHECK(stream->Record([&] { stream->Copy(to.get(), from.get(), bytes); }, nullptr));
      const std::vector<int64_t>& nodes = D().graph_copies;
      CHECK(nodes.size() == size_t((bytes + kGiB - 1) / kGiB));
      CHECK(std::accumulate(nodes.begin(), nodes.end(), int64_t{0}) == bytes);
    }
    // In pieces, and each where it belongs.
    std::memset(from.get(), 1, size_t(kGiB) + 8);
    std::memset(to.get(), 0, size_t(kGiB) + 16);
    const auto recording =
        stream->Record([&] { stream->Copy(to.get(), from.get(), kGiB + 8); }, nullptr);
    stream->Replay(*recording);
    stream->Wait();
    const char* got = static_cast<const char*>(to.get());
    for (const int64_t i : {int64_t{0}, kGiB - 1, kGiB, kGiB + 7}) CHECK(got[i] == 1);
    CHECK(got[kGiB + 8] == 0);
  }
  EmulatedGpu::CheckClean();
  D().memory_bytes = before;
}
