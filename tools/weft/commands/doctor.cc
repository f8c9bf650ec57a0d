/// doctor.cc: `weft doctor`: what this machine and this build offer, in the words a bug report
/// needs.
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "command_line.h"
#include "common.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/delegate.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/program/profile.h"
#include "weft/support/check.h"
#include "weft/support/shared_library.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

struct Row {
  std::string what, found;
  bool ok = true;
};

std::string EnvOr(const char* name, const char* otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? v : otherwise;
}

Row BackendRow(const std::string& name) {
  try {
    const auto backend = GetBackend(name);
    std::string found = backend->target().traits().kernels
                            ? fmt::format("ready, {} threads", backend->threads())
                            : "ready, makes programs of whole graphs";
    std::vector<std::string> parameters;
    for (const BackendParameter& p : FindBackendModule(name)->KnownParameters())
      parameters.push_back(p.Spelling());
    if (!parameters.empty()) found += "; parameters: " + Join(parameters, ", ");
    return {"backend " + name, found};
  } catch (const Error& e) {
    return {"backend " + name, e.message(), false};
  }
}

Row CompilerRow(const std::string& target, const std::string& what) {
  std::string why;
  const auto compiler = FindKernelCompiler(target, &why);
  if (!compiler) return {what, why, false};
  return {what, compiler->target()};
}

/// The engine's version, or what this machine lacks of it.
Row DelegateRow(const std::string& name) {
  try {
    return {"delegate " + name, GetDelegate(name)->Version()};
  } catch (const Error& e) {
    return {"delegate " + name, e.hint().empty() ? e.message() : e.message() + "; " + e.hint(),
            false};
  }
}

/// What the module finds; a machine without a GPU has none, which is no fault.
void AddReport(const std::string& backend, std::vector<Row>* rows) {
  for (const ReportRow& r : ReportOfBackend(backend))
    rows->push_back({backend + " " + r.what, r.found, r.ok});
}

Row MeasuredRow() {
  return {"measured", MeasureMachine(GetBackend(kDefaultBackend)->threads()).ToString()};
}

std::vector<Row> Examine() {
  std::vector<Row> rows;
  rows.push_back({"weft", fmt::format("{}, built with {} {}", WEFT_VERSION,
#ifdef __clang__
                                      "clang", __clang_version__
#else
                                      "g++", __VERSION__
#endif
                                      )});
  rows.push_back({"library", CurrentLibraryPath()});
  rows.push_back({"registered", fmt::format("{} operators, {} passes", Op::List().size(),
                                            PassEntry::List().size())});
  rows.push_back(
      {"cpu", fmt::format("{}, {} threads", CpuModel(), std::thread::hardware_concurrency())});
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  rows.push_back(
      {"memory", pages > 0 && page > 0 ? FormatBytes(int64_t{pages} * page) : "unknown"});
  rows.push_back(
      {"threads", fmt::format("OMP_NUM_THREADS {}", EnvOr("OMP_NUM_THREADS", "is not set"))});
  rows.push_back({"evaluator", GetEvaluator() ? "interpreter" : "none", GetEvaluator() != nullptr});
  const std::vector<std::string> modules = AvailableBackendModules();
  for (const std::string& name : modules) rows.push_back(BackendRow(name));
  for (const std::string& name : modules)
    if (const auto module = FindBackendModule(name); module && module->compiler)
      rows.push_back(CompilerRow(name, "kernels " + name));
  for (const std::string& name : modules) AddReport(name, &rows);
  for (const std::string& name : ListDelegates()) rows.push_back(DelegateRow(name));
  KernelCache& cache = KernelCache::Process();
  const std::string dir = cache.directory();
  rows.push_back({"kernel cache", dir.empty() ? "off: " + cache.why_off() : dir});
  rows.push_back({"limits", Limits().ToString()});
  return rows;
}

}  // namespace

Command MakeDoctor(Options& parent) {
  auto json = std::make_shared<bool>(false), measure = std::make_shared<bool>(false);
  Options app = parent.AddCommand("doctor", "what this machine and this build offer");
  app.AddFlag("--json", json.get(), "one JSON object on stdout");
  app.AddFlag("--measure", measure.get(),
              "measure bandwidth and peak of this machine, for the floors of bench --profile");
  return {app, [json, measure] {
            std::vector<Row> rows = Examine();
            if (*measure) rows.push_back(MeasuredRow());
            if (*json) {
              Json out = Json::object();
              for (const Row& r : rows) out[r.what] = {{"found", r.found}, {"ok", r.ok}};
              PrintJson(out);
              return 0;
            }
            std::string text;
            for (const Row& r : rows)
              text += fmt::format("{:13} {} {}\n", r.what, r.ok ? " " : "-", r.found);
            PrintText(text);
            return 0;
          }};
}

}  // namespace weft::tool
