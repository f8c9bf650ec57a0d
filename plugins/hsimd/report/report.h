/// report.h: one page in HTML about a program: what each unit does when, what lies where.
///
/// The page needs no other file and no network. Parts: the numbers; the units' timeline (colours
/// are nodes); cycles by node; addresses of every memory over time; layouts of values as tables.
/// Its size is bounded by resolution, not by the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../l1/program.h"
#include "../layout/layout.h"

namespace hsimd {

struct ReportValue {
  std::string name, memory;
  int64_t base = 0;
  Layout layout;
};

struct ReportInput {
  std::string title;
  /// Name and number, as in "bound_cycles": told above the timeline.
  std::vector<std::pair<std::string, int64_t>> numbers;
  std::vector<ReportValue> values;
};

/// `program` passed CheckProgram. Instructions of one note belong to one node.
std::string MakeReport(const Program& program, const Machine& machine, const ReportInput& input);

}  // namespace hsimd
