/// memory_budget.h: how many bytes something may take, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

struct WEFT_API MemoryBudget {
  enum class Kind : uint8_t {
    kNone,   ///< what comes
    kBytes,  ///< at most `bytes`
    kShare,  ///< `share` of what is taken where nothing is computed twice
    kLeast,  ///< as few as can be found
  };
  Kind kind = Kind::kNone;
  int64_t bytes = 0;
  double share = 0;  ///< in (0, 1]
  /// Inputs, variables and constants count too, not only what a run adds.
  bool all = false;

  bool any() const { return kind != Kind::kNone; }
  /// The bytes for a thing that takes `whole` without recomputation; INT64_MAX: no bound, 0: the
  /// least.
  int64_t BytesOf(int64_t whole) const;

  /// "314572800", "300M", "1.5G" (K, M, G, T: powers of 1024), "50%", "min"; behind "all:" the same
  /// of everything. Empty: none. Throws kUsage, with `option` as its place, for what is none of
  /// these, not above 0, or beyond 2^63.
  static MemoryBudget Parse(std::string_view text, const std::string& option);
  std::string ToString() const;
};

}  // namespace weft
