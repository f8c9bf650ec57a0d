/// cuda_library.cc: see cuda_library.h.
#include "codegen/cuda/cuda_library.h"

#include <cstdlib>

namespace weft::cuda {

SharedLibrary OpenCudaLibrary(const char* variable, const std::vector<std::string>& names,
                              std::string* reason) {
  std::vector<std::string> files;
  if (const char* file = std::getenv(variable)) {
    files = {file};
  } else {
    files = names;
    const auto below = [&](const std::string& root) {
      for (const char* folder : {"/lib64/", "/lib/"})
        for (const std::string& name : names) files.push_back(root + folder + name);
    };
    for (const char* root : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* folder = std::getenv(root)) below(folder);
    below("/usr/local/cuda");
  }
  SharedLibrary library;
  for (const std::string& file : files) {
    std::string why;
    library = SharedLibrary::TryOpen(file, &why);
    if (library.is_open()) break;
    if (reason->empty()) *reason = why;  // of the file that most people have
  }
  if (library.is_open()) library.KeepOpen();
  return library;
}

}  // namespace weft::cuda
