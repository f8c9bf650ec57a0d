/// shared_library.cc: dlopen and friends, with the loader's reason in the error.
#include "weft/support/shared_library.h"

#include <dlfcn.h>

#include <utility>

#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft {

SharedLibrary::~SharedLibrary() { Close(); }

SharedLibrary::SharedLibrary(SharedLibrary&& o) noexcept
    : handle_(std::exchange(o.handle_, nullptr)),
      keep_open_(o.keep_open_),
      path_(std::move(o.path_)) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& o) noexcept {
  if (this != &o) {
    Close();
    handle_ = std::exchange(o.handle_, nullptr);
    keep_open_ = o.keep_open_;
    path_ = std::move(o.path_);
  }
  return *this;
}

void SharedLibrary::Close() {
  if (handle_ != nullptr && !keep_open_) dlclose(handle_);
  handle_ = nullptr;
}

SharedLibrary SharedLibrary::TryOpen(const std::string& path, std::string* reason) {
  SharedLibrary library;
  library.path_ = path;
  library.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ == nullptr && reason != nullptr) {
    const char* text = dlerror();
    *reason = text != nullptr ? text : "unknown reason";
  }
  return library;
}

SharedLibrary SharedLibrary::TryOpenAny(const std::vector<std::string>& paths,
                                        std::string* reason) {
  std::string reasons;
  for (const std::string& path : paths) {
    std::string why;
    SharedLibrary library = TryOpen(path, &why);
    if (library.is_open()) return library;
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  if (reason != nullptr) *reason = reasons;
  return {};
}

SharedLibrary SharedLibrary::Open(const std::string& path) {
  std::string reason;
  SharedLibrary library = TryOpen(path, &reason);
  if (library.is_open()) return library;
  WEFT_CHECK(path.find('/') == std::string::npos || FileExists(path), kIo,
             "no shared library at '{}'", path);
  WEFT_THROW(kDevice, "cannot open the shared library '{}': {}", path, reason);
}

void* SharedLibrary::Find(const char* symbol) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, symbol);
}

void* SharedLibrary::Get(const char* symbol) const {
  void* address = Find(symbol);
  WEFT_CHECK(address != nullptr, kDevice, "the shared library '{}' has no symbol '{}'", path_,
             symbol);
  return address;
}

void* FindSymbolOfPart(const std::string& library, const char* symbol, std::string* why) {
  const std::string beside = DirectoryOf(CurrentLibraryPath());
  for (const std::string& folder : {beside, JoinPath(beside, "weft")}) {
    const std::string path = JoinPath(folder, library);
    if (!FileExists(path)) continue;
    SharedLibrary part = SharedLibrary::TryOpen(path, why);
    if (!part.is_open()) return nullptr;
    part.KeepOpen();
    return part.Get(symbol);
  }
  *why = fmt::format("{} is not in {} (built without it?)", library, beside);
  return nullptr;
}

std::string LibraryPathOf(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::string CurrentLibraryPath() {
  return LibraryPathOf(reinterpret_cast<const void*>(&CurrentLibraryPath));
}

}  // namespace weft
