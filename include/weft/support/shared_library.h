/// shared_library.h: shared libraries opened at run time: plugins, loadable backends, the GPU
/// driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// A handle to an opened library. Opened with RTLD_NOW | RTLD_LOCAL, so that missing symbols show
/// at once and nothing leaks into the process. Closed with the object, unless `KeepOpen` was
/// called.
class WEFT_API SharedLibrary {
 public:
  SharedLibrary() = default;
  ~SharedLibrary();
  SharedLibrary(SharedLibrary&& o) noexcept;
  SharedLibrary& operator=(SharedLibrary&& o) noexcept;

  /// A path that holds '/' is opened as given, a bare name is searched by the loader. Throws
  /// kDevice with the loader's reason, or kIo where the path names no file.
  static SharedLibrary Open(const std::string& path);
  /// An empty handle where it cannot be opened, with the reason in *reason: for what is optional.
  static SharedLibrary TryOpen(const std::string& path, std::string* reason = nullptr);
  /// The first of several names that opens.
  static SharedLibrary TryOpenAny(const std::vector<std::string>& paths,
                                  std::string* reason = nullptr);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  /// Null where the library has no such symbol.
  void* Find(const char* symbol) const;
  /// Throws kDevice naming library and symbol.
  void* Get(const char* symbol) const;
  template <class Function>
  Function* FindFunction(const char* symbol) const {
    return reinterpret_cast<Function*>(Find(symbol));
  }
  template <class Function>
  Function* GetFunction(const char* symbol) const {
    return reinterpret_cast<Function*>(Get(symbol));
  }

  /// The library stays mapped for the life of the process: registered code must not go away.
  void KeepOpen() { keep_open_ = true; }

 private:
  void Close();
  void* handle_ = nullptr;
  bool keep_open_ = false;
  std::string path_;
};

/// A function of a part of Weft that is a library of its own ("libweftpart_image.so") and stays
/// open. Looked for beside the library that holds Weft, as built, and in weft/ below it, as
/// installed, and nowhere else: a name that is searched would let the environment choose the code.
/// Null, with the reason in *why, where the part is not there. Its name is not that of a backend's
/// module (weft/core/module/backend_module.h), among which it would be listed.
WEFT_API void* FindSymbolOfPart(const std::string& library, const char* symbol, std::string* why);
template <class Function>
Function* FindFunctionOfPart(const std::string& library, const char* symbol, std::string* why) {
  return reinterpret_cast<Function*>(FindSymbolOfPart(library, symbol, why));
}

/// Path of the library or program that holds `address`; empty where unknown.
WEFT_API std::string LibraryPathOf(const void* address);
/// Path of the library (or program) that holds this function, that is, of Weft itself.
WEFT_API std::string CurrentLibraryPath();

}  // namespace weft
