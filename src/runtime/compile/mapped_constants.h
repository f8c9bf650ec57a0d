/// mapped_constants.h: constants of parts that engines run, in a file. Private to the runtime.
#pragma once

#include "weft/core/graph/graph.h"

namespace weft {

/// Large constants of bodies of weft::Delegated nodes that nobody else holds go to a file without a
/// name, from which they are mapped (weft/support/mapped_file.h): the engine keeps what it needs of
/// them, and ours are read again only where it is compiled for other extents, where its part runs
/// here, and where the program is saved. Where no such file can be written they stay.
void MapDelegatedConstants(Graph* graph);

}  // namespace weft
