/// versions_test.cc: which libraries of the CUDA Toolkit are taken for a driver and a device, and
/// what NVRTC is told by its version. The libraries are stubs (stub_nvrtc.c, stub_cublaslt.c) that
/// tell versions and refuse what those refuse.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "backends/cuda/doubles/failing_driver.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/libraries/cublaslt.h"
#include "backends/cuda/libraries/cudnn_api.h"
#include "codegen/cuda/nvrtc/cuda_library.h"
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "codegen/cuda/nvrtc/nvrtc_api.h"
#include "codegen/cuda/print/printer.h"
#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using namespace weft::cuda;
namespace fs = std::filesystem;

/// Names that no loader knows, in a folder that CUDA_HOME names.
constexpr const char *kNvrtc = "libweft-nvrtc.so", *kLt = "libweft-cublasLt.so";

struct Setting {
  Setting(const char* n, const std::string& value) : name(n) {
    if (const char* old = getenv(n)) before = old;
    setenv(n, value.c_str(), 1);
  }
  ~Setting() { before.empty() ? unsetenv(name) : setenv(name, before.c_str(), 1); }
  const char* name;
  std::string before;
};

class Toolkit {
 public:
  void Add(const std::string& name, const char* file) {
    fs::create_directories(dir_ / "lib64");
    fs::create_symlink(file, dir_ / ("lib64/" + name));
  }

 private:
  TempFolder dir_;
  Setting home_{"CUDA_HOME", dir_ / ""}, nvrtc_{"WEFT_NVRTC", ""}, lt_{"WEFT_CUBLASLT", ""};
};

bool Holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

NvrtcApi Open(const char* file) {
  const Setting named("WEFT_NVRTC", file);
  NvrtcApi api = OpenNvrtc({});
  REQUIRE(api.ok());
  return api;
}

/// A kernel that has entries for many parts: y = -x.
KernelPtr ManyParts() {
  auto k = std::make_shared<Kernel>();
  k->buffers = {{DType::kF32, false, KernelSymbol(0)}, {DType::kF32, true, KernelSymbol(0)}};
  k->dims = {KernelSymbol(0)};
  k->num_outer = k->num_inputs = k->num_symbols = 1;
  k->vector_loop = 0;
  k->stores = {{1, Expr::Index(0), -Expr::Load(0, DType::kF32, {Expr::Index(0)}), false}};
  k->Finish();
  REQUIRE(CudaEntries(*k).back() == k->Name() + "_m32k");
  return k;
}

}  // namespace

TEST_CASE("cuda versions: NVRTC for the driver and the device") {
  Toolkit t;
  t.Add(std::string(kNvrtc) + ".13", STUB_NVRTC_13);
  t.Add(std::string(kNvrtc) + ".12", STUB_NVRTC_12);
  struct Case {
    int driver, sm, major;
  };
  for (const Case& c : {Case{12020, 90, 12}, Case{12080, 90, 12}, Case{13000, 90, 13},
                        Case{12020, 70, 12}, Case{12080, 70, 12}, Case{13000, 70, 12},
                        // Code that the driver refuses is worth nothing: PTX of sm_90 is.
                        Case{12080, 100, 12}, Case{13000, 100, 13}, Case{13000, 110, 13},
                        // No driver: the newest that knows the device.
                        Case{0, 90, 13}, Case{0, 70, 12}, Case{0, 0, 13}, Case{14000, 90, 13}}) {
    CAPTURE(c.driver);
    CAPTURE(c.sm);
    const NvrtcApi api = OpenNvrtc({c.driver, c.sm, kNvrtc});
    CHECK(api.ok());
    CHECK(api.major == c.major);
  }
}

TEST_CASE("cuda versions: a newer NVRTC than the driver's is better than none") {
  Toolkit t;
  t.Add(std::string(kNvrtc) + ".13", STUB_NVRTC_13);
  CHECK(OpenNvrtc({12020, 90, kNvrtc}).major == 13);
  // One that knows nothing of the device says what it knows.
  const NvrtcApi api = OpenNvrtc({13000, 70, kNvrtc});
  CHECK(api.major == 13);
  const auto caught = Catch([&] { NvrtcCompiler(70, 1, api); });
  REQUIRE(caught);
  CHECK(caught->says("NVRTC 13.0 cannot compile for sm_70; it knows 75 80"));
  CHECK(Holds(OpenNvrtc({13000, 90, "libweft-nothing.so"}).error, "NVRTC was not found"));
}

TEST_CASE("cuda versions: cuBLASLt for the driver, and the next file where one does not start") {
  for (const int driver : {12020, 12080, 13000}) {
    CAPTURE(driver);
    Toolkit t;
    t.Add(std::string(kLt) + ".13", STUB_CUBLASLT_13);
    t.Add(std::string(kLt) + ".12", STUB_CUBLASLT_12);
    CHECK(OpenCublasLt(driver, {}, kLt)->GetVersion() / 10000 == size_t(driver / 1000));
    // Whatever the driver's version promises.
    const auto not_13 = [](const std::shared_ptr<const CublasLtApi>& api) {
      return std::string(api->GetVersion() >= 130000 ? "does not start" : "");
    };
    CHECK(OpenCublasLt(driver, not_13, kLt)->GetVersion() == 120000);
    const auto none = [](const std::shared_ptr<const CublasLtApi>&) {
      return std::string("does not start");
    };
    CHECK(Holds(OpenCublasLt(driver, none, kLt)->error, "does not start"));
  }
  Toolkit t;
  t.Add(std::string(kLt) + ".13", STUB_CUBLASLT_13);
  CHECK(OpenCublasLt(12020, {}, kLt)->GetVersion() == 130000);
}

TEST_CASE("cuda versions: a library that cannot be created on the device makes room for the next") {
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  FailingDriver::Get().Reset();
  FailingDriver::Get().version = 13000;
  {
    Toolkit t;
    t.Add(std::string(kLt) + ".13", STUB_CUBLASLT_13);
    t.Add(std::string(kLt) + ".12", STUB_CUBLASLT_12);
    const Setting starts("STUB_LT_DRIVER", "12");
    const auto device = Device::Open(0, FailingDriverTable());
    std::vector<std::string> told;
    SetLogLevel(LogLevel::kWarning);
    SetLogSink([&](LogLevel, const char*, int, std::string_view text) { told.emplace_back(text); });
    ProductSpec spec;
    spec.m = spec.n = spec.k = 16;
    CublasLt(device, nullptr, kLt).Plan(spec);
    CHECK(told.empty());  // version 12 starts, and has no algorithm
    const Setting none("STUB_LT_DRIVER", "11");
    CublasLt(device, nullptr, kLt).Plan(spec);
    SetLogSink(nullptr);
    REQUIRE(told.size() == 1);
    CHECK(Holds(told[0], "without cuBLASLt"));
    CHECK(Holds(told[0], "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED"));
  }
  FailingDriver::Get().version = 12040;
  CHECK(FailingDriver::Get().alive() == 0);
  SetLogLevel(before);
}

TEST_CASE("cuda versions: a library of another kind or of an older version is told with its flaw") {
  {
    const Setting nvrtc("WEFT_NVRTC", STUB_DRIVER), lt("WEFT_CUBLASLT", STUB_DRIVER),
        cudnn("WEFT_CUDNN", STUB_DRIVER);
    const std::string file = STUB_DRIVER;
    CHECK(OpenNvrtc({}).error == "NVRTC was not found (" + file +
                                     ": lacks nvrtcVersion); install the CUDA Toolkit's "
                                     "NVRTC 12 or 13, or name the library in WEFT_NVRTC");
    CHECK(Holds(OpenCublasLt(0)->error, file + ": lacks cublasLtGetVersion); install the CUDA"));
    CHECK(Holds(OpenCudnn().error, file + ": lacks cudnnGetVersion); install cuDNN 9, or name"));
  }
  const Setting nvrtc("WEFT_NVRTC", STUB_NVRTC_12), major("STUB_NVRTC_MAJOR", "11");
  CHECK(Holds(OpenNvrtc({}).error, std::string(STUB_NVRTC_12) + ": is of version 11.0"));
}

TEST_CASE("cuda versions: NVRTC is given the options that its version has") {
  struct Case {
    const char *file, *minor;
    bool minimal, seed, large;
  };
  const KernelPtr kernel = ManyParts();
  for (const Case& c :
       {Case{STUB_NVRTC_12, "0", false, false, false}, Case{STUB_NVRTC_12, "1", false, false, true},
        Case{STUB_NVRTC_12, "3", false, false, true}, Case{STUB_NVRTC_12, "4", true, false, true},
        Case{STUB_NVRTC_12, "9", true, false, true}, Case{STUB_NVRTC_13, "0", true, true, true}}) {
    CAPTURE(std::string(c.minor));
    const Setting minor("STUB_NVRTC_MINOR", c.minor);
    const NvrtcApi api = Open(c.file);
    NvrtcCompiler compiler(90, 1, api);
    std::vector<std::string> errors;
    const std::string made = compiler.Compile({kernel}, &errors)[0];
    CHECK(errors[0] == "");
    CHECK(Holds(made, "--fmad=false"));
    CHECK(Holds(made, "--modify-stack-limit=false"));
    CHECK(Holds(made, "--minimal") == c.minimal);
    CHECK(Holds(made, "--frandom-seed=weft") == c.seed);
    CHECK(Holds(made, "_m4k("));
    CHECK(Holds(made, "_m32k(") == c.large);
  }
}

TEST_CASE("cuda versions: an option that is refused all the same is left out") {
  const KernelPtr kernel = ManyParts();
  for (const char* option : {"--minimal", "--modify-stack-limit=false", "--frandom-seed=weft"}) {
    CAPTURE(std::string(option));
    const Setting refuses("STUB_NVRTC_REFUSES", option);
    const NvrtcApi api = Open(STUB_NVRTC_13);
    NvrtcCompiler compiler(90, 1, api);
    std::vector<std::string> errors;
    for (int i = 0; i < 2; ++i) {
      const std::string made = compiler.Compile({kernel}, &errors)[0];
      CHECK(errors[0] == "");
      CHECK(Holds(made, "--fmad=false"));
      CHECK(!Holds(made, option));
    }
  }
  // One that results depend on is not.
  const Setting refuses("STUB_NVRTC_REFUSES", "--fmad=false");
  const NvrtcApi api = Open(STUB_NVRTC_13);
  std::string error;
  CHECK(NvrtcCompiler(90, 1, api).CompileSource("", &error).empty());
  CHECK(Holds(error, "unrecognized option --fmad=false"));
}
