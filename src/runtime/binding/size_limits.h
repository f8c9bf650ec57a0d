/// size_limits.h: the most that sizes can be which data decide, at dimensions that are known: for
/// arenas that are laid out before the sizes are there, and for queries of what a run takes.
/// Private to the runtime.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/sym/sym.h"

namespace weft {

struct BySize {
  bool operator()(SymInt a, SymInt b) const { return SymInt::Compare(a, b) < 0; }
};
using SizeLimits = std::map<SymInt, int64_t, BySize>;

/// What a run has of sizes that come later.
struct FrameBounds {
  SizeLimits most;
  /// What would be larger than that at those sizes is not laid out for them.
  int64_t bytes = 0;
};

/// Values of sizes, and of those that data decide the most.
class SizeBounds {
 public:
  static constexpr int64_t kNone = INT64_MAX;
  SizeBounds(Facts facts, const SymBindings& bindings);
  void SetMost(SymInt size, int64_t most);
  /// Finds limits of these sizes, in the order of their numbers.
  void Limit(const std::vector<SymInt>& unbacked);
  /// kNone where nothing bounds it. `at_most` becomes true where it may be less. Throws kBadBinding
  /// for a symbol without a value.
  int64_t Most(SymInt e, bool* at_most);
  const SizeLimits& limits() const { return limits_; }

 private:
  void Limit(SymInt size);

  Facts facts_;
  const SymBindings& bindings_;
  SizeLimits limits_;
};

/// Those that data decide of all that the graph mentions, in the order of their numbers.
std::vector<SymInt> UnbackedSizes(const Graph& g);

}  // namespace weft
