/// division.h: which parts of a graph delegates get, chosen by timing. Private to the runtime.
#pragma once

#include "weft/core/graph/graph.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/program/division.h"

namespace weft {

/// A graph on its way through a pipeline, and what is left of it.
struct Divided {
  Graph graph;
  Pipeline pipeline;
};

/// For choice=auto: `graph` and `pipeline`, which has the pass Delegate, with the division that is
/// fastest here, at the hinted extents or likely ones. Programs without delegates and with all that
/// each takes are made and profiled, which tells what nodes cost on either side; of the cheapest
/// division by these costs, none and all the fastest is taken, and kept on disk by the graph,
/// extents, threads, processor and the delegates' versions. `options` name the backend without
/// delegates.
Divided ChooseDivision(const Graph& graph, const Pipeline& pipeline, const CompileOptions& options);
/// The same for divisions that are named; TimeDivisions.
std::vector<DivisionTime> TimesOfDivisions(const Graph& graph, const Pipeline& pipeline,
                                           const CompileOptions& options,
                                           const std::vector<std::string>& choices);

}  // namespace weft
