/// plan_graph.h: graphs through the pipeline. Private to the runtime.
#pragma once

#include <memory>
#include <string>

#include "runtime/program/program_impl.h"

namespace weft {

/// What a program of this backend is made from: the graph after the pipeline. `why_regions`: why
/// one plan cannot hold it, so that it is regions; empty: one does.
struct Planned {
  Graph graph;
  std::string why_regions;
};
/// `code`: with the machine code of kernels, which no plan asks for. options.passes.records is
/// filled where given.
Planned PlanGraph(Graph graph, const CompileOptions& options, Backend& backend, bool code);

}  // namespace weft
