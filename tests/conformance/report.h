/// report.h: what is written about a run: the list of unsupported cases that is committed, and the
/// page of all cases.
#pragma once

#include <string>
#include <vector>

#include "workers.h"

namespace weft::conformance {

/// The unsupported cases, grouped by reason: what tests/conformance/unsupported.txt must hold.
///
///   # comment
///   reason
///     node/test_x          on every backend
///     node/test_y (cpu)    on that one alone
std::string UnsupportedList(const std::vector<Case>& cases, const Engines& engines,
                            const std::vector<CaseResult>& results);

/// Line by line what `now` has and `committed` has not, and the other way round, in words.
std::vector<std::string> Changes(const std::string& committed, const std::string& now);

/// Markdown: counts, reasons, then every case.
std::string Page(const std::vector<Case>& cases, const Engines& engines,
                 const std::vector<CaseResult>& results);

/// "node: 1765 cases, ref 1300 pass 465 unsupported, cpu ..." a folder, one a line.
std::string Summary(const std::vector<Case>& cases, const Engines& engines,
                    const std::vector<CaseResult>& results);

}  // namespace weft::conformance
