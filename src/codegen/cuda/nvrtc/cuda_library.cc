/// cuda_library.cc: see cuda_library.h.
#include "cuda_library.h"

#include <glob.h>

#include <cstdlib>
#include <utility>

#include "weft/support/file.h"

namespace weft::cuda {
namespace {

/// Files that a pattern of the shell names, sorted.
void Expand(const std::string& pattern, std::vector<std::string>* files) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files->insert(files->end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
}

/// Null where it is not set, or empty.
const char* NonEmptyEnv(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value ? value : nullptr;
}

/// Of `names`, the first in any of the places before the second.
std::vector<std::string> FilesOf(const std::vector<std::string>& names) {
  std::vector<std::string> files = names;
  const auto below = [&](const std::string& root) {
    for (const char* folder : {"/lib64/", "/lib/"})
      for (const std::string& name : names) files.push_back(root + folder + name);
  };
  for (const char* root : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = NonEmptyEnv(root)) below(folder);
  below("/usr/local/cuda");
  // NVIDIA's Python packages: nvidia/cu13/lib, nvidia/cublas/lib, nvidia/cudnn/lib and so on.
  std::vector<std::string> roots;
  for (const char* root : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* folder = NonEmptyEnv(root)) roots.push_back(folder);
  if (const char* conda = NonEmptyEnv("CONDA_PREFIX")) below(conda);
  if (const char* home = NonEmptyEnv("HOME")) roots.push_back(std::string(home) + "/.local");
  roots.push_back("/usr/local");
  roots.push_back("/usr");
  for (const std::string& root : roots)
    for (const std::string& name : names)
      for (const char* packages : {"site-packages", "dist-packages"})
        Expand(root + "/lib/python3*/" + packages + "/nvidia/*/lib/" + name, &files);
  return files;
}

}  // namespace

std::string DriverFile() {
  const char* named = NonEmptyEnv("WEFT_LIBCUDA");
  return named ? named : "libcuda.so.1";
}

int InstalledDriver() {
  static const int version = [] {
    SharedLibrary driver = SharedLibrary::TryOpen(DriverFile());
    driver.KeepOpen();
    int found = 0;
    const auto ask = driver.FindFunction<int(int*)>("cuDriverGetVersion");
    return ask && ask(&found) == 0 ? found : 0;
  }();
  return version;
}

bool IsForDriver(int major, int driver) { return driver == 0 || major <= driver / 1000; }

std::vector<std::string> NamesForDriver(const std::string& library, int driver) {
  const std::string v13 = library + ".13", v12 = library + ".12";
  // The name without a version leads to whatever a developer has installed last.
  if (IsForDriver(13, driver)) return {v13, v12, library};
  return {v12, library, v13};
}

SharedLibrary OpenCudaLibrary(const char* variable, const std::vector<std::string>& names,
                              std::string* reason, const JudgeLibrary& judge) {
  const char* named = NonEmptyEnv(variable);
  SharedLibrary best;
  int best_score = 0;
  bool damaged = false;  // the reason is that of a file that is there
  for (const std::string& file : named ? std::vector<std::string>{named} : FilesOf(names)) {
    std::string why;
    SharedLibrary library = SharedLibrary::TryOpen(file, &why);
    int score = library.is_open() ? kServesBest : 0;
    if (library.is_open()) {
      library.KeepOpen();
      if (judge) score = judge(library, &why);
    }
    if (score > best_score) {
      best = std::move(library);
      best_score = score;
    }
    if (best_score >= kServesBest) break;
    if (score > 0) continue;
    const bool there =
        library.is_open() || (file.find('/') != std::string::npos && FileExists(file));
    if (reason->empty() || (there && !damaged)) *reason = why;
    damaged |= there;
  }
  return best;
}

}  // namespace weft::cuda
