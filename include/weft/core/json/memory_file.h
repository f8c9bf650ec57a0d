/// memory_file.h: problems of memory as JSON files, for `weft plan`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/core/plan/memory_problem.h"
#include "weft/support/api.h"

namespace weft {

struct MemoryFile {
  MemoryProblem problem;
  std::vector<std::string> names;  ///< of nodes
};

/// {"nodes": [{"name": "b", "inputs": ["a", "c:1"], "outputs": [bytes, ..], "cost": 1,
///   "inplace": [[0, 0]], "recompute": true, "keep": false}, ..]} in an order that is possible.
/// "c:1" is the second output of c. All but the name may be left out. Throws kSyntax, kInvalidModel
/// or kLimit with the place in `source`.
WEFT_API MemoryFile ParseMemoryFile(std::string_view text, const std::string& source);

}  // namespace weft
