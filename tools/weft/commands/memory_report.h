/// memory_report.h: `weft inspect --memory`: who holds the memory of a run, as text, JSON or a
/// page.
#pragma once

#include <string>

#include "command_line.h"

namespace weft::tool {

struct MemoryReportArgs {
  bool asked = false;
  std::string html;  ///< a file; empty: none
  MemoryArgs memory;
};
void AddMemoryReport(Options& app, MemoryReportArgs* args);

/// Of a run of the model at the dimensions of `inputs`.
int InspectMemory(const ModelArgs& model, const InputArgs& inputs, const MemoryReportArgs& args);

}  // namespace weft::tool
