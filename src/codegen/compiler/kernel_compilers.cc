/// kernel_compilers.cc: which compiler serves a target; backend modules are loaded
/// when first asked for.
#include "weft/codegen/compiler/kernel_compilers.h"

#include <map>
#include <mutex>

#include "weft/core/op/staging.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/shared_library.h"

namespace weft {
namespace {

struct Families {
  std::map<std::string, KernelCompilerFactory> factories;  // a registry
  std::recursive_mutex loading;  // until a module's registrations are in force
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<KernelCompiler>> compilers;  // by whole target
  std::map<std::string, std::string> load_results;                   // by family
};
Families& Table() {
  static Families* f = new Families;
  return *f;
}

}  // namespace

void RegisterKernelCompiler(const std::string& family, KernelCompilerFactory factory) {
  CommitRegistration([family, factory = std::move(factory)] {
    WEFT_CHECK(!Table().factories.count(family), kDuplicate,
               "the kernel compiler for '{}' is registered twice", family);
    OnRollback([family] { Table().factories.erase(family); });
    Table().factories[family] = factory;
    NoteRegistration("kernel compiler", family);
  });
}

std::string LoadBackendModule(const std::string& family) {
  Families& t = Table();
  std::lock_guard loading(t.loading);
  {
    std::lock_guard lock(t.mutex);
    if (auto it = t.load_results.find(family); it != t.load_results.end()) return it->second;
  }
  // Only from beside the library, as built, or from weft/ below it, as installed: a name that is
  // searched would let the environment choose the code.
  const std::string folder = DirectoryOf(CurrentLibraryPath()), file = "libweft_" + family + ".so";
  std::string path = JoinPath(folder, file), result;
  if (!FileExists(path)) path = JoinPath(JoinPath(folder, "weft"), file);
  if (!FileExists(path)) {
    result = fmt::format("the backend module {} is not in {} (built without it?)", file, folder);
  } else {
    try {
      // All or nothing, and never into the list of a plugin that asks for a backend while it loads.
      StagingScope staged;
      SharedLibrary::Open(path).KeepOpen();
      staged.CommitAll();
    } catch (const Error& e) {
      result = e.message();
    }
  }
  std::lock_guard lock(t.mutex);
  return t.load_results.emplace(family, result).first->second;
}

std::shared_ptr<KernelCompiler> FindKernelCompiler(const std::string& target, std::string* why) {
  Families& t = Table();
  const std::string family = target.substr(0, target.find(':'));
  {
    std::lock_guard lock(t.mutex);
    if (auto it = t.compilers.find(target); it != t.compilers.end()) return it->second;
  }
  bool known;
  {
    RegistryRead lock;
    known = t.factories.count(family) != 0;
  }
  if (!known) {
    const std::string problem = LoadBackendModule(family);
    if (!problem.empty()) {
      if (why) *why = problem;
      return nullptr;
    }
  }
  KernelCompilerFactory factory;
  {
    RegistryRead lock;
    auto it = t.factories.find(family);
    if (it == t.factories.end()) {
      if (why) *why = fmt::format("backend module '{}' registers no kernel compiler", family);
      return nullptr;
    }
    factory = it->second;
  }
  try {
    std::shared_ptr<KernelCompiler> compiler = factory(target);
    std::lock_guard lock(t.mutex);
    return t.compilers.emplace(target, compiler).first->second;
  } catch (const Error& e) {
    if (why) *why = e.message();
    return nullptr;
  }
}

}  // namespace weft
