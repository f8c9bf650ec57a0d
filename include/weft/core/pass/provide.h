/// provide.h: graphs that have what the caller reads, without naming who computes it.
#pragma once

#include <string>
#include <vector>

#include "weft/core/pass/pass.h"

namespace weft {

/// `graph` with these attributes complete: the passes that provide what is missing are run, as they
/// are for a pass that requires it. Throws what they throw; kDependency where no pass provides one.
WEFT_API Graph ProvideAttrs(Graph graph, const std::vector<std::string>& attrs,
                            const PassOptions& options = {});
/// With "dtype" and "shape".
WEFT_API Graph ProvideTypes(Graph graph, const PassOptions& options = {});

}  // namespace weft
