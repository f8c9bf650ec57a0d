/// metadata.h: what the author of a model says beside the graph: pairs of strings, such as the
/// character set of a text recogniser. Import keeps them, every pass carries them, export and the
/// other file formats write them.
#pragma once

#include <map>
#include <string>

#include "weft/core/graph/graph.h"

namespace weft {

/// The graph attribute "metadata" (given).
using ModelMetadata = std::map<std::string, std::string>;

/// Empty where the model has none. Valid until the graph's attribute changes.
WEFT_API const ModelMetadata& Metadata(const Graph& graph);
/// Replaces all; an empty map takes the attribute away.
WEFT_API void SetMetadata(Graph* graph, ModelMetadata metadata);

}  // namespace weft
