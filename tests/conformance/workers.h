/// workers.h: runs the cases in processes of their own, so that a crash or an endless loop costs
/// the one case that caused it and is reported under its name.
#pragma once

#include <vector>

#include "case.h"

namespace weft::conformance {

using CaseResult = std::vector<Outcome>;  ///< one an engine

/// Result of every case on every engine, in the order of `cases`. A worker that dies or is silent
/// for `timeout_s` is an error of the case it was at; another takes its place. Workers load these
/// plugins first.
std::vector<CaseResult> RunAll(const std::vector<Case>& cases, const Engines& engines, int workers,
                               int timeout_s, const std::vector<std::string>& plugins = {});

}  // namespace weft::conformance
