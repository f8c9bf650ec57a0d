/// Tests of cuda_printer.h without a GPU: what the printed kernels compute, on emulated threads;
/// and the text itself.
#include "codegen/cuda/cuda_printer.h"

#include "codegen/c_helpers.h"
#include "codegen/cuda/host_emulation.h"
#include "codegen/kernel_cases.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using kernel_cases::AllCases;
using kernel_cases::Case;

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// `run_<name>` unpacks arrays of arguments, so that all kernels have one signature.
std::string Trampoline(const Kernel& k) {
  std::string args;
  for (size_t b = 0; b < k.buffers.size(); ++b)
    args += fmt::format("({}*)b[{}], ", ctext::StorageType(k.buffers[b].dtype), b);
  for (int d = 0; d < k.num_symbols; ++d) args += fmt::format("d[{}], ", d);
  return fmt::format(
      "extern \"C\" void run_{0}(void** b, const long long* d, long long total) {{ {0}({1}total); "
      "}}\n",
      k.Name(), args);
}

TEST_CASE("printed CUDA computes every case, on emulated threads") {
  const std::vector<Case> cases = AllCases();
  const std::vector<KernelPtr> kernels = kernel_cases::DistinctKernels(cases);
  std::string source = cuda::kHostEmulation + PrintCuda(kernels);
  source = Replaced(source, R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));)",
                    "h = EmulatedToHalf(v);");
  source = Replaced(source, R"(asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));)",
                    "v = EmulatedFromHalf(h);");
  for (const KernelPtr& k : kernels) source += Trampoline(*k);
  void* library = kernel_cases::BuildAndOpen({source}, ".cc", "g++ -std=c++17 -O1 -w");
  if (library == nullptr) {
    MESSAGE("skipped: no g++ on this machine");
    return;
  }
  using Body = void (*)(void**, const long long*, long long);
  using Launch = bool (*)(Body, unsigned, unsigned, void**, const long long*, long long);
  const auto launch = reinterpret_cast<Launch>(dlsym(library, "EmulateLaunch"));
  REQUIRE(bool(launch));
  for (const Case& c : cases) {
    const auto body = reinterpret_cast<Body>(dlsym(library, ("run_" + c.kernel->Name()).c_str()));
    REQUIRE_MESSAGE(bool(body), c.name);
    const CudaSchedule schedule = ScheduleCuda(*c.kernel);
    const std::vector<long long> dims(c.dims.begin(), c.dims.end());
    // One multiprocessor makes blocks take several items; a base that is not aligned takes the
    // other paths.
    for (int multiprocessors : {1, 132}) {
      for (size_t misalign : {0, 1}) {
        kernel_cases::Check(
            c,
            [&](std::vector<void*> buffers) {
              const auto grid =
                  unsigned(std::min<int64_t>(schedule.Blocks(c.total, c.row, multiprocessors), 6));
              CHECK_MESSAGE(launch(body, grid, unsigned(schedule.block), buffers.data(),
                                   dims.data(), c.total),
                            c.name, ": threads wait for ever");
            },
            misalign, multiprocessors == 1 && kernel_cases::MayRunInPlace(c));
      }
    }
  }
}

TEST_CASE("printed CUDA is deterministic and names nothing but itself") {
  const std::vector<Case> a = AllCases(), b = AllCases();
  for (size_t i = 0; i < a.size(); ++i) {
    const std::string text = PrintCuda(*a[i].kernel);
    CHECK(text == PrintCuda(*b[i].kernel));
    CHECK(text.find("#include") == std::string::npos);
  }
  Kernel k;
  k.buffers = {{DType::kF32, true, 8}};
  k.dims = {8};
  k.num_outer = 1;
  k.vector_loop = 0;
  k.small_index = true;
  k.stores = {{0, Expr::Index(0), Expr::Variable("\"); system(\"x"), false}};
  CHECK_THROWS_AS(PrintCuda(k), Error);
  k.stores[0].value = Expr::Cast(DType::kF32, Expr::Dim(SymInt::Symbol("batch_size")));
  CHECK_THROWS_AS(PrintCuda(k), Error);
}

TEST_CASE("an input that an output may lie on is not restrict, others are") {
  for (const Case& c : AllCases()) {
    const std::string text = PrintCuda(*c.kernel);
    if (c.name == "add_mul")
      CHECK(text.find("const f32* b0, const f32* b1, f32* b2") != std::string::npos);
    if (c.name == "broadcast_types")
      CHECK(text.find("const f32* __restrict__ b1") != std::string::npos);
    if (c.name == "broadcast_types") CHECK(text.find("const u16* b0") != std::string::npos);
  }
}

TEST_CASE("schedules cover the work and no more than the machine") {
  for (const Case& c : AllCases()) {
    const CudaSchedule s = ScheduleCuda(*c.kernel);
    INFO(c.name);
    CHECK(s.block % 32 == 0);
    CHECK(s.Blocks(1, c.row, 132) == 1);
    CHECK(s.Blocks(s.items_per_block + 1, 1, 132) == 2);
    CHECK(s.Blocks(int64_t{1} << 40, c.row, 132) * s.block <= 132 * 2048 * 2);
    if (c.name == "add_mul") CHECK(s.items_per_block == 256 * 4);
    if (c.name == "softmax_f32_9x3000_dynamic") CHECK(s.Blocks(9, 3000, 132) == 9);
    if (c.name == "softmax_f32_9x3000_dynamic") CHECK(s.Blocks(9, 700, 132) == 2);
  }
}

}  // namespace
}  // namespace weft
