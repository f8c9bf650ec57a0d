/// division.h: divisions of a graph between our kernels and delegates: what they should take by
/// measured costs of nodes and borders, and what they do take.
///
///   CompileOptions options;
///   options.backend = "cpu+openvino";
///   for (const DivisionTime& d : TimeDivisions(graph, options, {"none", "all", "alternate:4"}))
///     fmt::print("{} {} {}\n", d.choice, d.estimate_us, d.us);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/runtime/program/program.h"

namespace weft {

/// A division and what a run of it takes.
struct DivisionTime {
  std::string choice;      ///< "none", or a choice of the pass Delegate
  int64_t regions = 0;     ///< that delegates get
  int64_t tensors = 0;     ///< that cross borders
  int64_t bytes = 0;       ///< of these
  double estimate_us = 0;  ///< by costs of nodes and borders, which other divisions told
  double us = 0;           ///< the least of several runs
};

/// Times divisions of a graph as DivisionOptions::choice "auto" does, at the hinted extents or
/// likely ones: in turns of a few runs each. `options.backend` names delegates. Throws what Compile
/// throws, and kBadBinding where there are no extents to time it at.
WEFT_API std::vector<DivisionTime> TimeDivisions(const Graph& graph, const CompileOptions& options,
                                                 const std::vector<std::string>& choices);

}  // namespace weft
