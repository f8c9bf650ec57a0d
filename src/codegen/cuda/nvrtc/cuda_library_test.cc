/// cuda_library_test.cc: where libraries of the CUDA Toolkit are found, and what is said
/// where they are not.
#include "cuda_library.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <exception>
#include <filesystem>
#include <fstream>

namespace {

using namespace weft;
using namespace weft::cuda;
namespace fs = std::filesystem;

constexpr const char* kVariable = "WEFT_TEST_LIBRARY";

/// A folder with files that lead to some library, that of C++; variables of the environment for the
/// time of a test.
class Machine {
 public:
  Machine() {
    std::string name = (fs::temp_directory_path() / "weft-libraries-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
    for (const char* v : {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME"})
      Put(v, nullptr);
    Put(kVariable, nullptr);
  }
  ~Machine() {
    for (; !before_.empty(); before_.pop_back()) {
      const auto& [name, value] = before_.back();
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
    fs::remove_all(root_);
  }
  std::string Path(const std::string& below) const { return (root_ / below).string(); }
  void Put(const char* variable, const char* value) {
    const char* old = getenv(variable);
    before_.emplace_back(variable, old ? old : "");
    value ? setenv(variable, value, 1) : unsetenv(variable);
  }
  void Library(const std::string& at) {
    fs::create_directories((root_ / at).parent_path());
    static const std::string some = LibraryPathOf(reinterpret_cast<const void*>(&std::terminate));
    fs::create_symlink(fs::canonical(some), root_ / at);
  }
  void Damaged(const std::string& at) {
    fs::create_directories((root_ / at).parent_path());
    std::ofstream(root_ / at) << "no library";
  }

 private:
  fs::path root_;
  std::vector<std::pair<std::string, std::string>> before_;
};

std::string Found(std::string* reason = nullptr) {
  std::string why;
  const SharedLibrary found =
      OpenCudaLibrary(kVariable, {"libweft-probe.so.13", "libweft-probe.so.12"}, &why);
  if (reason) *reason = why;
  return found.is_open() ? found.path() : "";
}

}  // namespace

TEST_CASE("libraries of CUDA: the places in which they are looked for, one before the other") {
  Machine m;
  CHECK(Found() == "");
  const std::string python = "lib/python3.12/site-packages/nvidia/";
  m.Library("home/.local/" + python + "cublas/lib/libweft-probe.so.12");
  m.Put("HOME", m.Path("home").c_str());
  CHECK(Found() == m.Path("home/.local/" + python + "cublas/lib/libweft-probe.so.12"));
  // The newer of two.
  m.Library("home/.local/" + python + "cu13/lib/libweft-probe.so.13");
  CHECK(Found() == m.Path("home/.local/" + python + "cu13/lib/libweft-probe.so.13"));
  m.Library("conda/lib/libweft-probe.so.12");
  m.Put("CONDA_PREFIX", m.Path("conda").c_str());
  CHECK(Found() == m.Path("conda/lib/libweft-probe.so.12"));
  m.Library("venv/" + python + "cudnn/lib/libweft-probe.so.13");
  m.Put("CONDA_PREFIX", nullptr);
  m.Put("VIRTUAL_ENV", m.Path("venv").c_str());
  CHECK(Found() == m.Path("venv/" + python + "cudnn/lib/libweft-probe.so.13"));
  m.Library("cuda/lib64/libweft-probe.so.12");
  m.Put("CUDA_PATH", m.Path("cuda").c_str());
  CHECK(Found() == m.Path("cuda/lib64/libweft-probe.so.12"));
  m.Library("home/cuda/lib/libweft-probe.so.12");
  m.Put("CUDA_HOME", m.Path("home/cuda").c_str());
  CHECK(Found() == m.Path("home/cuda/lib/libweft-probe.so.12"));
  m.Library("own.so");
  m.Put(kVariable, m.Path("own.so").c_str());
  CHECK(Found() == m.Path("own.so"));
  m.Put(kVariable, m.Path("nothing.so").c_str());
  CHECK(Found() == "");
  m.Put(kVariable, "");  // as if it were not set
  CHECK(Found() == m.Path("home/cuda/lib/libweft-probe.so.12"));
}

TEST_CASE("libraries of CUDA: a file that is there and damaged is told, and the next one opened") {
  Machine m;
  std::string why;
  CHECK(Found(&why) == "");
  CHECK(why.find("libweft-probe.so.13") != std::string::npos);
  m.Damaged("cuda/lib64/libweft-probe.so.13");
  m.Put("CUDA_HOME", m.Path("cuda").c_str());
  CHECK(Found(&why) == "");
  CHECK(why.find(m.Path("cuda/lib64/libweft-probe.so.13")) != std::string::npos);
  m.Library("cuda/lib64/libweft-probe.so.12");
  CHECK(Found() == m.Path("cuda/lib64/libweft-probe.so.12"));
}
