/// planned_graph.h: graphs as programs are made of them.
#pragma once

#include "weft/core/pass/pass.h"

namespace weft {

/// The graph behind the pipeline. Where one plan cannot hold it on the target (sizes that depend on
/// values, tensors without a place in an arena) it is regions and what stands between them, with
/// the pipeline's passes that fuse, and those behind them, applied to each region; so are bodies of
/// control flow. Throws what passes throw, kUnsupported for state variables beside regions.
WEFT_API Graph MakePlannedGraph(Graph graph, const Pipeline& pipeline, const PassOptions& passes);

}  // namespace weft
