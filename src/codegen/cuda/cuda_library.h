/// cuda_library.h: where the libraries of the CUDA Toolkit are looked for; private to src/codegen/cuda and
/// src/backends/cuda. Weft links none of them: each is opened when it is first asked for.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weft/support/shared_library.h"

namespace weft::cuda {

/// The file that the environment names in `variable`; else the first of `names` that the loader finds, that lies below
/// CUDA_HOME or CUDA_PATH, in the usual place of the Toolkit, or in one of NVIDIA's Python packages. Stays open for the life
/// of the process: threads and caches of such a library outlive any scope of ours. An empty handle where there is none, and
/// the reason: that of a file which is there and cannot be opened, where there is one.
SharedLibrary OpenCudaLibrary(const char* variable, const std::vector<std::string>& names,
                              std::string* reason);

/// Fills the entries of a table one by one.
class EntryFinder {
 public:
  explicit EntryFinder(const SharedLibrary& library) : library_(library) {}
  template <class F>
  void operator()(const char* name, F* function) {
    *function = reinterpret_cast<F>(library_.Find(name));
    if (*function == nullptr && missing_.empty()) missing_ = name;
  }
  /// The first that the library lacks; empty: none.
  const std::string& missing() const { return missing_; }

 private:
  const SharedLibrary& library_;
  std::string missing_;
};

}  // namespace weft::cuda
