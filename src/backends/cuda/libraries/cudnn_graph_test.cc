/// cudnn_graph_test.cc: cuDNN itself, where it is available
/// (src/backends/cuda/libraries/cudnn_graph.h). It names its engines, and makes plans, for a GPU
/// that is only described to it: whether it takes the graphs that it is told is seen without one.
#include "backends/cuda/libraries/cudnn_graph.h"

#include <doctest/doctest.h>

#include <memory>

#include "backends/cuda/doubles/conv_spec.h"
#include "backends/cuda/libraries/cudnn_api.h"
#include "tests/support/e2e_util.h"
#include "tests/support/sanitized.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using namespace weft::cuda;
using Extents = std::vector<int64_t>;

/// A GPU with the extents of an H100 and another architecture, in the words of cuDNN 9.19.
std::string Described(int architecture) {
  const std::string text =
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"cudaDeviceId":0,)"
      R"("deviceVer":ARCH,"driverVer":13000,"regsPerBlock":65536,"multiProcessorCount":132,)"
      R"("warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":SHARED,)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
      R"("l2CacheSize":52428800,"totalGlobalMem":85000000000,"deviceName":"a GPU"})";
  const auto with = [](std::string in, const std::string& name, int value) {
    return in.replace(in.find(name), name.size(), std::to_string(value));
  };
  return with(with(text, "ARCH", architecture * 10), "SHARED",
              architecture == 80 ? 166912 : 232448);
}

/// Null, and says so, where this cuDNN plans for no device that is not there.
std::unique_ptr<CudnnObject> Gpu(const CudnnApi& api, int architecture) {
  auto gpu = std::make_unique<CudnnObject>();
  const auto cannot = Catch([&] {
    const std::string text = Described(architecture);
    *gpu = CudnnObject(api, cudnn::kDeviceProperties);
    gpu->Set(cudnn::kDeviceText, cudnn::kCharType, int64_t(text.size()), text.data());
    gpu->Finalize();
  });
  if (!cannot) return gpu;
  MESSAGE("skipped: this cuDNN plans for no device that is not there: " << cannot->text);
  return nullptr;
}

/// Null, and says so, where there is none to be tried.
const CudnnApi* Library() {
  if (kAddressSanitizer) {
    MESSAGE("skipped: the libraries behind it give back nothing at the end");
    return nullptr;
  }
  const CudnnApi& api = CudnnLibrary();
  if (api.ok()) return &api;
  MESSAGE("skipped: " << api.error);
  return nullptr;
}

struct Form {
  const char* what;
  Extents x, w, y;
  int64_t groups = 1, stride = 1, dilation = 1, begin = 0, end = 0;
};

}  // namespace

TEST_CASE("cudnn: the library itself has engines for all of it on GPUs that are described") {
  const CudnnApi* const library = Library();
  if (!library) return;
  const CudnnApi& api = *library;
  const Form all[] = {
      {"3 x 3", {4, 64, 28, 28}, {64, 64, 3, 3}, {4, 64, 28, 28}, 1, 1, 1, 1, 1},
      {"1 x 1, strided", {4, 64, 28, 28}, {32, 64, 1, 1}, {4, 32, 14, 14}, 1, 2},
      {"few channels", {4, 1, 28, 28}, {6, 1, 5, 5}, {4, 6, 28, 28}, 1, 1, 1, 2, 2},
      {"groups", {2, 32, 14, 14}, {32, 8, 3, 3}, {2, 32, 14, 14}, 4, 1, 1, 1, 1},
      {"depthwise", {2, 32, 14, 14}, {32, 1, 3, 3}, {2, 32, 14, 14}, 32, 1, 1, 1, 1},
      {"dilated", {2, 16, 14, 14}, {16, 16, 3, 3}, {2, 16, 14, 14}, 1, 1, 2, 2, 2},
      {"uneven pads", {2, 16, 14, 14}, {16, 16, 3, 3}, {2, 16, 7, 7}, 1, 2, 1, 0, 1},
      {"odd extents", {3, 5, 9, 9}, {7, 5, 3, 3}, {3, 7, 8, 8}, 1, 1, 1, 0, 1},
      {"1-D", {4, 16, 50}, {24, 16, 3}, {4, 24, 50}, 1, 1, 1, 1, 1},
      {"3-D", {2, 16, 8, 8, 8}, {32, 16, 3, 3, 3}, {2, 32, 8, 8, 8}, 1, 1, 1, 1, 1},
  };
  for (const int architecture : {80, 90, 100}) {
    const auto gpu = Gpu(api, architecture);
    if (!gpu) return;
    CAPTURE(architecture);
    int found = 0;
    const auto check = [&](const ConvSpec& s) {
      std::string why;
      const auto e = FindEngine(api, {nullptr, gpu.get()}, s, int64_t{256} << 20, &why);
      CHECK_MESSAGE(e.has_value(), why);
      found += e.has_value();
    };
    for (const Form& e : all)
      for (const DType type : {DType::kF32, DType::kF16, DType::kBF16})
        for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
          CAPTURE(e.what);
          CAPTURE(DTypeName(type));
          CAPTURE(int(layout));
          for (const auto pass :
               {ConvSpec::Pass::kForward, ConvSpec::Pass::kGradData, ConvSpec::Pass::kGradWeight}) {
            ConvSpec s = Spec(pass, type, layout, e.x, e.w, e.y, e.groups);
            WindowShape& w = s.shape.window;
            w.strides = Extents(w.rank(), e.stride);
            w.dilations = Extents(w.rank(), e.dilation);
            w.begin = Extents(w.rank(), e.begin);
            w.end = Extents(w.rank(), e.end);
            CAPTURE(int(pass));
            check(s);
            if (pass != ConvSpec::Pass::kForward) continue;
            s.bias = true;
            check(s);
            s.addend = true;
            check(s);
          }
        }
    MESSAGE("cuDNN " << api.version() << " has engines for " << found << " graphs on sm_"
                     << architecture);
  }
}

TEST_CASE("cudnn: 16-bit tensors with their channels last are read and written where they lie") {
  const CudnnApi* const library = Library();
  if (!library) return;
  const auto gpu = Gpu(*library, 90);
  if (!gpu) return;
  // Copies of a tensor into another order would need room.
  constexpr int64_t kTensor = int64_t{32} * 64 * 56 * 56 * 2;
  for (const DType type : {DType::kF16, DType::kBF16})
    for (const auto pass :
         {ConvSpec::Pass::kForward, ConvSpec::Pass::kGradData, ConvSpec::Pass::kGradWeight}) {
      CAPTURE(DTypeName(type));
      CAPTURE(int(pass));
      ConvSpec s = Spec(pass, type, Layout::kChannelsLast, {32, 64, 56, 56}, {64, 64, 3, 3},
                        {32, 64, 56, 56}, 1);
      s.shape.window.begin = s.shape.window.end = Extents{1, 1};
      std::string why;
      const auto e = FindEngine(*library, {nullptr, gpu.get()}, s, int64_t{256} << 20, &why);
      REQUIRE_MESSAGE(e.has_value(), why);
      CHECK(e->workspace_bytes < kTensor / 4);
    }
}
