/// backend_module.h: what a backend brings, under one name: how it runs programs, how its kernels
/// are compiled, what it finds on a machine. Registered once, by a static initialiser of
/// libweft_<name>.so or of a plugin:
///
///   const bool registered = RegisterBackendModule(
///       BackendModule("npu")
///           .set_parameters({{"no-fusion", "one operator a kernel"}})
///           .set_backend([](const BackendParameters& p) {
///             return std::make_shared<Npu>(p.Has("no-fusion"));
///           })
///           .set_compiler([](const Target& t) { return MakeNpuCompiler(t.arch()); }));
///
/// All parts but the name may be missing. What stands behind a colon goes to the part that is
/// asked: "npu:no-fusion" to the backend's factory (GetBackend("npu:no-fusion"), any tool's
/// --backend; backend_parameters.h), "npu:v2" to the compiler's (a target).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/module/backend_parameters.h"
#include "weft/core/target.h"

namespace weft {

class Backend;         // weft/runtime/backend/backend.h
class KernelCompiler;  // weft/codegen/kernel/kernel.h

/// For diagnostics (`weft doctor`).
struct ReportRow {
  std::string what;   ///< "driver", "device 0"
  std::string found;  ///< or why it cannot be used, and what to do
  bool ok = true;
};

struct WEFT_API BackendModule {
  using BackendFactory = std::function<std::shared_ptr<Backend>(const BackendParameters&)>;
  using CompilerFactory = std::function<std::shared_ptr<KernelCompiler>(const Target& target)>;
  using Report = std::function<std::vector<ReportRow>()>;

  explicit BackendModule(std::string module_name) : name(std::move(module_name)) {}
  BackendModule& set_traits(TargetTraits t);
  /// Whose calls its programs make: operators' attribute "FCompute.<library>". By default its own
  /// name.
  BackendModule& set_library(std::string l);
  /// What may stand behind the name of the backend. By default nothing.
  BackendModule& set_parameters(std::vector<BackendParameter> known);
  /// The same as another module knows, for a backend around that one's.
  BackendModule& set_parameters_of(std::string module);
  /// Makes a backend; one for equal parameters is shared by the process.
  BackendModule& set_backend(BackendFactory f);
  BackendModule& set_compiler(CompilerFactory f);
  /// Makes no backend and touches no device's memory.
  BackendModule& set_report(Report f);

  /// Of set_parameters, or of the other module. Throws kUnsupported where that does not load.
  std::vector<BackendParameter> KnownParameters() const;

  std::string name, library;
  TargetTraits traits;
  std::vector<BackendParameter> parameters;
  std::string parameters_of;  ///< empty: its own
  BackendFactory backend;
  CompilerFactory compiler;
  Report report;
};

/// Always true, for static initialisers. A second module of the same name is kDuplicate, thrown at
/// the next look-up.
WEFT_API bool RegisterBackendModule(BackendModule module);
/// Loads libweft_<name>.so from beside libweft.so, or from weft/ below it, where no such module is
/// registered. Null, with the reason in `why` (which may be null), where there is none. Stays
/// valid.
WEFT_API std::shared_ptr<const BackendModule> FindBackendModule(const std::string& name,
                                                                std::string* why = nullptr);
/// Names of those that are registered, sorted; loads nothing.
WEFT_API std::vector<std::string> ListBackendModules();
/// And of those beside the library that nobody has asked for yet.
WEFT_API std::vector<std::string> AvailableBackendModules();

/// What the module finds on this machine. Throws nothing: where there is no module, one row says
/// why; empty for one that has nothing to report.
WEFT_API std::vector<ReportRow> ReportOfBackend(const std::string& name);

}  // namespace weft
