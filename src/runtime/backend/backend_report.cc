/// backend_report.cc: the table of reports.
#include "weft/runtime/backend/backend_report.h"

#include <map>
#include <optional>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"

namespace weft {
namespace {

std::map<std::string, BackendReport>& Table() {
  static auto* table = new std::map<std::string, BackendReport>;  // a registry
  return *table;
}
std::optional<BackendReport> Find(const std::string& backend) {
  RegistryRead lock;
  auto it = Table().find(backend);
  if (it == Table().end()) return std::nullopt;
  return it->second;
}

}  // namespace

void RegisterBackendReport(const std::string& backend, BackendReport report) {
  CommitRegistration([backend, report = std::move(report)] {
    WEFT_CHECK(!Table().count(backend), kDuplicate,
               "the report of backend '{}' is registered twice", backend);
    OnRollback([backend] { Table().erase(backend); });
    Table()[backend] = report;
    NoteRegistration("backend report", backend);
  });
}

std::vector<ReportRow> ReportOfBackend(const std::string& backend) {
  try {
    std::optional<BackendReport> report = Find(backend);
    std::string why;
    if (!report) {
      why = LoadBackendModule(backend);
      report = Find(backend);
    }
    if (report) return (*report)();
    if (!why.empty()) return {{"module", why, false}};
    return {};
  } catch (const Error& e) {
    return {{"module", e.message(), false}};
  }
}

}  // namespace weft
