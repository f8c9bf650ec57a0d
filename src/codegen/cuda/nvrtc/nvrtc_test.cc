/// Tests of nvrtc.h: every template and type compiles to a cubin for several architectures, without
/// spilling.
#include "nvrtc.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "codegen/cuda/print/printer.h"
#include "cubin_info.h"
#include "nvrtc_api.h"
#include "tests/support/kernels/kernel_cases.h"
#include "weft/support/error.h"
#include "weft/support/file.h"

namespace weft {
namespace {

using kernel_cases::AllCases;

bool Skip() {
  std::string why;
  if (NvrtcAvailable(&why)) return false;
  MESSAGE("skipped: ", why);
  return true;
}

std::vector<KernelPtr> Kernels() { return kernel_cases::DistinctKernels(AllCases()); }

TEST_CASE("every case compiles in batches for sm_80, sm_90 and sm_100, and nothing spills") {
  if (Skip()) return;
  const std::vector<KernelPtr> kernels = Kernels();
  const std::vector<int> known = NvrtcArchitectures();
  for (int sm : {80, 90, 100}) {
    if (std::find(known.begin(), known.end(), sm) == known.end()) {
      MESSAGE("skipped: this NVRTC does not know sm_", sm);
      continue;
    }
    NvrtcCompiler compiler(sm);
    std::vector<std::string> errors;
    const std::vector<std::string> binaries = compiler.Compile(kernels, &errors);
    REQUIRE(binaries.size() == kernels.size());
    for (size_t i = 0; i < kernels.size(); ++i) {
      INFO(kernels[i]->Name(), " sm_", sm);
      CHECK(errors[i] == "");
      REQUIRE(binaries[i].substr(0, 4) ==
              "\x7f"
              "ELF");
      const KernelStats stats = compiler.Stats(*kernels[i], binaries[i]);
      CHECK(stats.registers > 0);
      CHECK(stats.registers <= 128);
      CHECK(stats.spill_bytes == 0);
      CHECK(stats.source_bytes > 0);
    }
  }
}

TEST_CASE("few kernels get a binary each, the same in every run; equal kernels share it") {
  if (Skip()) return;
  NvrtcCompiler compiler(90, 2);
  const std::vector<KernelPtr> all = Kernels();
  const std::vector<KernelPtr> some = {all[0], all[1], all[0]};
  std::vector<std::string> errors;
  const std::vector<std::string> once = compiler.Compile(some, &errors),
                                 again = compiler.Compile(some, nullptr);
  CHECK(once == again);
  CHECK(once[0] == once[2]);
  CHECK(once[0] != once[1]);
  CHECK(cuda::ReadCubin(once[0], all[0]->Name()).found);
  CHECK_FALSE(cuda::ReadCubin(once[0], all[1]->Name()).found);
  CHECK(compiler.target().substr(0, 16) == "cuda:sm_90+nvrtc");
  CHECK(compiler.source_extension() == ".cu");
  CHECK(MakeNvrtcCompiler(90)->Source(*all[0]) == PrintCuda(*all[0]));
  CHECK(compiler.Compile({}, &errors).empty());
}

TEST_CASE("a kernel that fails has a message of its own and the others their binaries") {
  if (Skip()) return;
  NvrtcCompiler compiler(90);
  std::string error;
  CHECK(compiler.CompileSource("this is no program", &error).empty());
  CHECK(error.find("weft.cu(1)") != std::string::npos);

  // A kernel that no printer takes, among enough others to be in a batch.
  auto bad = std::make_shared<Kernel>();
  bad->buffers = {{DType::kF32, true, 8}};
  bad->dims = {8};
  bad->num_outer = 1;
  bad->vector_loop = 0;
  bad->small_index = true;
  Expr deep = Expr::Load(0, DType::kF32, {Expr::Index(0)});
  for (int i = 0; i < 17; ++i)
    deep = Expr::Reduce(ReduceOp::kSum, {2},
                        [&](const Indices& k) { return deep * Expr::Cast(DType::kF32, k[0]); });
  bad->num_inputs = 1;
  bad->buffers = {{DType::kF32, false, 8}, {DType::kF32, true, 8}};
  bad->stores = {{1, Expr::Index(0), deep, false}};
  bad->Finish();
  std::vector<KernelPtr> kernels = Kernels();
  kernels.resize(NvrtcCompiler::kBatchFrom);
  kernels[5] = bad;
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler.Compile(kernels, &errors);
  for (size_t i = 0; i < kernels.size(); ++i) {
    CHECK(binaries[i].empty() == (i == 5));
    CHECK(errors[i].empty() == (i != 5));
  }
  CHECK(errors[5].find("nested") != std::string::npos);
}

/// Puts a mistake into the text of some kernels, and counts programs.
class Mistaken final : public NvrtcCompiler {
 public:
  Mistaken() : NvrtcCompiler(90, 1) {}
  std::map<std::string, std::string> mistakes;  ///< by kernel: what to put into its first entry
  mutable std::vector<size_t> programs;         ///< how many kernels each had

 protected:
  std::string Program(const std::vector<KernelPtr>& kernels) const override {
    programs.push_back(kernels.size());
    std::string text = NvrtcCompiler::Program(kernels);
    for (const auto& [name, mistake] : mistakes) {
      const size_t at = text.find("{\n", text.find("__global__", text.find("\"" + name + "\"")));
      if (text.find("\"" + name + "\"") != std::string::npos) text.insert(at + 2, mistake);
    }
    return text;
  }
};

TEST_CASE("a program that is refused is compiled without the kernels that the log names") {
  if (Skip()) return;
  std::vector<KernelPtr> kernels = Kernels();
  const auto has_rows = [](const KernelPtr& k) { return k->tmpl == KernelTemplate::kRow; };
  kernels.erase(std::remove_if(kernels.begin(), kernels.end(), has_rows), kernels.end());
  REQUIRE(kernels.size() >= NvrtcCompiler::kBatchFrom);
  kernels.resize(NvrtcCompiler::kBatchFrom);  // two programs of twelve
  Mistaken compiler;
  // Of the C++ compiler; then, once that is gone, of the assembler; and one that
  // makes others look wrong.
  const std::string undefined = kernels[3]->Name(), too_large = kernels[7]->Name(),
                    open_brace = kernels[14]->Name();
  compiler.mistakes = {{undefined, "int x = nothing_of_that_name;\n"},
                       {too_large,
                        "__shared__ int mine[20000]; mine[threadIdx.x] = 1;\n"
                        "__syncthreads(); if (mine[threadIdx.x ^ 1u] == 7) return;\n"},
                       {open_brace, "if (blockIdx.x == 1u) {\n"}};
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler.Compile(kernels, &errors);
  for (size_t i = 0; i < kernels.size(); ++i) {
    CAPTURE(i);
    CHECK(binaries[i].empty() == (compiler.mistakes.count(kernels[i]->Name()) != 0));
    CHECK(errors[i].empty() == !binaries[i].empty());
  }
  CHECK(errors[3].find(undefined + "(") != std::string::npos);
  CHECK(errors[3].find("nothing_of_that_name") != std::string::npos);
  CHECK(errors[7].find("shared data") != std::string::npos);
  // The twelve, ten times fewer than one by one: without the first, without the
  // second, and those two.
  REQUIRE(compiler.programs.size() >= 5);
  CHECK(std::vector<size_t>(compiler.programs.begin(), compiler.programs.begin() + 5) ==
        std::vector<size_t>{12, 11, 10, 1, 1});
  // All that shared the good program share its cubin.
  CHECK(binaries[0] == binaries[11]);
}

TEST_CASE("architectures: too old ones are refused, newer ones than NVRTC knows get PTX") {
  if (Skip()) return;
  CHECK_THROWS_WITH_AS(NvrtcCompiler(61), doctest::Contains("sm_70 or newer, not sm_61"),
                       UserError);
  std::vector<int> known = NvrtcArchitectures();
  REQUIRE(!known.empty());
  const int oldest = *std::min_element(known.begin(), known.end()),
            newest = *std::max_element(known.begin(), known.end());
  if (oldest > NvrtcCompiler::kLeastArchitecture)
    CHECK_THROWS_WITH_AS(NvrtcCompiler(oldest - 1),
                         doctest::Contains(std::to_string(oldest).c_str()), UserError);
  // The driver reads PTX as text that ends with 0.
  std::vector<KernelPtr> kernels = Kernels();
  kernels.resize(NvrtcCompiler::kBatchFrom);
  NvrtcCompiler compiler(newest + 10);
  CHECK(compiler.target().find("cuda:sm_" + std::to_string(newest + 10) + "+nvrtc") == 0);
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler.Compile(kernels, &errors);
  for (size_t i = 0; i < kernels.size(); ++i) {
    CHECK(errors[i] == "");
    const std::string& ptx = binaries[i];
    CHECK(ptx.find(".target sm_" + std::to_string(newest)) != std::string::npos);
    for (const std::string& entry : CudaEntries(*kernels[i]))
      CHECK(ptx.find(".entry " + entry + "(") != std::string::npos);
    CHECK(ptx.find('\0') == std::string::npos);
    const KernelStats stats = compiler.Stats(*kernels[i], ptx);
    CHECK(stats.registers == -1);
    CHECK(stats.spill_bytes == -1);
  }
  // Between two that it knows: of the one before.
  for (int sm = std::max(oldest, NvrtcCompiler::kLeastArchitecture) + 1; sm < newest; ++sm) {
    const auto after = std::upper_bound(known.begin(), known.end(), sm);
    if (*std::prev(after) == sm) continue;
    const std::string ptx = NvrtcCompiler(sm).Compile({kernels[0]}, nullptr)[0];
    CHECK(ptx.find(".target sm_" + std::to_string(*std::prev(after))) != std::string::npos);
    break;
  }
}

/// That of 12.1, which tools/setup brings besides.
std::string OldNvrtc() {
  const char* data = std::getenv("WEFT_DATA_DIR");
  return std::string(data ? data : "build/data") + "/nvidia-cuda-nvrtc-cu12/libnvrtc.so.12";
}

TEST_CASE("an NVRTC of 12.1, which lacks options of later ones, compiles the same kernels") {
  if (!FileExists(OldNvrtc())) {
    MESSAGE("skipped: tools/setup could not bring NVRTC 12.1");
    return;
  }
  const char* named = std::getenv("WEFT_NVRTC");
  const std::string before = named ? named : "";
  setenv("WEFT_NVRTC", OldNvrtc().c_str(), 1);
  const cuda::NvrtcApi api = cuda::OpenNvrtc({});
  named ? setenv("WEFT_NVRTC", before.c_str(), 1) : unsetenv("WEFT_NVRTC");
  REQUIRE(api.ok());
  CHECK(api.AtLeast(12, 1));
  CHECK(!api.AtLeast(12, 4));
  // One of each kind of entries.
  std::vector<KernelPtr> kernels;
  std::map<std::string, int> kinds;
  for (const KernelPtr& k : Kernels()) {
    std::string kind;
    for (const std::string& entry : CudaEntries(*k)) kind += entry.substr(k->Name().size()) + " ";
    if (++kinds[kind] == 1) kernels.push_back(k);
  }
  NvrtcCompiler compiler(80, 0, api);
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler.Compile(kernels, &errors);
  for (size_t i = 0; i < kernels.size(); ++i) {
    CAPTURE(kernels[i]->Name());
    CHECK(errors[i] == "");
    for (const std::string& entry : CudaEntries(*kernels[i]))
      CHECK(cuda::ReadCubin(binaries[i], entry).found);
    CHECK(compiler.Stats(*kernels[i], binaries[i]).spill_bytes == 0);
  }
  CHECK(compiler.target().find("cuda:sm_80+nvrtc12.1+") == 0);
}

TEST_CASE("the target names all that binaries depend on") {
  if (Skip()) return;
  const std::string t80 = NvrtcCompiler(80).target(), t90 = NvrtcCompiler(90).target();
  const auto options = [](const std::string& t) { return t.substr(t.find("+options")); };
  CHECK(t90.find("cuda:sm_90+nvrtc") == 0);
  CHECK(t90.find("+text") != std::string::npos);
  CHECK(options(t90).size() == std::string("+options01234567").size());
  CHECK(options(t80) != options(t90));  // the architecture is one of them
  CHECK(NvrtcCompiler(90, 3).target() == t90);
}

TEST_CASE("a damaged cubin is not read beyond its end") {
  if (Skip()) return;
  NvrtcCompiler compiler(90);
  const KernelPtr kernel = Kernels()[0];
  const std::string good = compiler.Compile({kernel}, nullptr)[0];
  for (size_t size = 0; size < good.size(); size += 97)
    cuda::ReadCubin(good.substr(0, size), kernel->Name());
  for (size_t at = 0; at < std::min<size_t>(good.size(), 4096); at += 3) {
    std::string bad = good;
    bad[at] = char(0xff);
    cuda::ReadCubin(bad, kernel->Name());
  }
  CHECK_FALSE(cuda::ReadCubin("", kernel->Name()).found);
  CHECK_FALSE(cuda::ReadCubin(std::string(4096, '\xff'), kernel->Name()).found);
}

}  // namespace
}  // namespace weft
