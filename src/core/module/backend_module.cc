/// backend_module.cc: the table of backend modules, and the one place where such a module is
/// loaded.
#include "weft/core/module/backend_module.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/shared_library.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr std::string_view kPrefix = "libweft_", kSuffix = ".so";

std::map<std::string, std::shared_ptr<const BackendModule>>& Table() {
  static auto* table =
      new std::map<std::string, std::shared_ptr<const BackendModule>>;  // a registry
  return *table;
}

std::shared_ptr<const BackendModule> LookUp(const std::string& name) {
  RegistryRead lock;
  auto it = Table().find(name);
  return it == Table().end() ? nullptr : it->second;
}

/// Only from beside the library, as built, or from weft/ below it, as installed: a name that is
/// searched would let the environment choose the code.
std::vector<std::string> Folders() {
  const std::string beside = DirectoryOf(CurrentLibraryPath());
  return {beside, JoinPath(beside, "weft")};
}

/// Empty when it is loaded, else why not.
std::string LoadModule(const std::string& name) {
  const std::string file = fmt::format("{}{}{}", kPrefix, name, kSuffix);
  for (const std::string& folder : Folders()) {
    const std::string path = JoinPath(folder, file);
    if (!FileExists(path)) continue;
    try {
      // All or nothing, and never into the list of a plugin that asks for a backend while it loads.
      StagingScope staged;
      SharedLibrary::Open(path).KeepOpen();
      staged.CommitAll();
      return {};
    } catch (const Error& e) {
      return e.message();
    }
  }
  return fmt::format("the backend module {} is not in {} (built without it?)", file, Folders()[0]);
}

/// Each module is tried once. Recursive: a module may be made of another.
std::string LoadOnce(const std::string& name) {
  static std::recursive_mutex mutex;
  static auto* results = new std::map<std::string, std::string>;
  std::lock_guard lock(mutex);
  auto it = results->find(name);
  if (it == results->end()) it = results->emplace(name, LoadModule(name)).first;
  return it->second;
}

}  // namespace

BackendModule& BackendModule::set_traits(TargetTraits t) {
  traits = std::move(t);
  return *this;
}
BackendModule& BackendModule::set_library(std::string l) {
  library = std::move(l);
  return *this;
}
BackendModule& BackendModule::set_parameters(std::vector<BackendParameter> known) {
  parameters = std::move(known);
  return *this;
}
BackendModule& BackendModule::set_parameters_of(std::string module) {
  parameters_of = std::move(module);
  return *this;
}
std::vector<BackendParameter> BackendModule::KnownParameters() const {
  if (parameters_of.empty()) return parameters;
  std::string why;
  const std::shared_ptr<const BackendModule> other = FindBackendModule(parameters_of, &why);
  WEFT_CHECK(other, kUnsupported, "backend '{}' takes the parameters of '{}': {}", name,
             parameters_of, why);
  return other->KnownParameters();
}
BackendModule& BackendModule::set_backend(BackendFactory f) {
  backend = std::move(f);
  return *this;
}
BackendModule& BackendModule::set_compiler(CompilerFactory f) {
  compiler = std::move(f);
  return *this;
}
BackendModule& BackendModule::set_report(Report f) {
  report = std::move(f);
  return *this;
}

bool RegisterBackendModule(BackendModule given) {
  if (given.library.empty()) given.library = given.name;
  CommitRegistration([module = std::make_shared<const BackendModule>(std::move(given))] {
    WEFT_CHECK(!Table().count(module->name), kDuplicate, "backend '{}' is registered twice",
               module->name);
    OnRollback([name = module->name] { Table().erase(name); });
    Table()[module->name] = module;
    NoteRegistration("backend", module->name);
  });
  return true;
}

std::shared_ptr<const BackendModule> FindBackendModule(const std::string& name, std::string* why) {
  CheckRegistrations();
  if (auto module = LookUp(name)) return module;
  const std::string problem = LoadOnce(name);
  if (auto module = LookUp(name)) return module;
  if (why) *why = problem.empty() ? "its module registers no backend of that name" : problem;
  return nullptr;
}

std::vector<std::string> ListBackendModules() {
  RegistryRead lock;
  std::vector<std::string> names;
  for (const auto& [name, module] : Table()) names.push_back(name);
  return names;
}

std::vector<std::string> AvailableBackendModules() {
  std::vector<std::string> names = ListBackendModules();
  for (const std::string& folder : Folders()) {
    std::error_code none;  // a folder that is not there holds no modules
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename();
      if (StartsWith(file, kPrefix) && EndsWith(file, kSuffix))
        names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<ReportRow> ReportOfBackend(const std::string& name) {
  try {
    std::string why;
    const std::shared_ptr<const BackendModule> module = FindBackendModule(name, &why);
    if (!module) return {{"module", why, false}};
    return module->report ? module->report() : std::vector<ReportRow>();
  } catch (const Error& e) {
    return {{"module", e.message(), false}};
  }
}

}  // namespace weft
