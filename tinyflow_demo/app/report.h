/// report.h: one HTML file about a run, which needs no other file.
#pragma once

#include <string>
#include <vector>

#include "app/trainer.h"
#include "weft/runtime/program/profile.h"

namespace app {

struct ReportData {
  const TrainOptions* options;
  const programs::Program* program;
  const TrainResult* result;
  std::vector<weft::ProfileRow> profile;
};

/// Curves of loss and accuracy (SVG), figures, and where the time of a step goes. Throws kIo.
void WriteReport(const std::string& path, const ReportData& data);

}  // namespace app
