/// backend_report.h: what a loadable backend finds on this machine: drivers, devices, libraries.
/// For diagnostics (`weft doctor`): asking makes no backend and touches no device's memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/support/api.h"

namespace weft {

struct ReportRow {
  std::string what;   ///< "driver", "device 0"
  std::string found;  ///< or why it cannot be used, and what to do
  bool ok = true;
};
using BackendReport = std::function<std::vector<ReportRow>()>;

/// As RegisterBackend: by static initialisers of the module.
WEFT_API void RegisterBackendReport(const std::string& backend, BackendReport report);
/// Loads libweft_<name>.so when needed. Throws nothing: where there is no module, one row says why;
/// empty for a backend that has nothing to tell.
WEFT_API std::vector<ReportRow> ReportOfBackend(const std::string& backend);

}  // namespace weft
