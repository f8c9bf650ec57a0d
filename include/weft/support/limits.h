/// limits.h: bounds on what one request may cost. Every importer, pass and run checks the ones it
/// could exceed.
///
/// A hostile model must end in kLimit, not in a dead machine. The defaults admit every real model
/// known to us; `weft doctor` prints them. Text form: "nodes=1000,deadline_s=30", sizes with K, M,
/// G, T (powers of 1024).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

struct WEFT_API Limits {
  int64_t nodes = 2'000'000;                      ///< nodes of one graph, sub-graphs included
  int64_t depth = 64;                             ///< nesting of sub-graphs and of function calls
  int64_t functions = 10'000;                     ///< model-local functions
  int64_t expanded_nodes = 5'000'000;             ///< nodes after functions are expanded
  int64_t tensor_bytes = int64_t{1} << 40;        ///< one tensor
  int64_t folded_bytes_each = int64_t{64} << 20;  ///< one constant made by folding
  int64_t folded_bytes_total = int64_t{1} << 30;  ///< all constants made by folding in one request
  int64_t source_bytes = int64_t{1} << 20;        ///< generated source of one kernel
  int64_t file_bytes = int64_t{1} << 40;          ///< one input file, also after decompression
  int64_t compile_bytes = int64_t{8} << 30;       ///< memory of one compilation
  int64_t iterations = 100'000'000;               ///< of one run of a Loop or Scan
  int64_t external_links = 0;                     ///< 1: tensor data may lie behind any link
  double deadline_s = 0;                          ///< wall time of one request; 0 for none

  /// Throws kLimit naming the bound unless value <= bound: Check("nodes", n, limits.nodes).
  static void Check(const char* name, int64_t value, int64_t bound);

  /// "name=value" pairs joined by commas, every field, in the order above.
  std::string ToString() const;
  /// Defaults with the named fields changed. Throws kUsage with the nearest names for an unknown
  /// one.
  static Limits Parse(std::string_view text);
};

/// The moment a request has to be finished; made once at its start.
class WEFT_API Deadline {
 public:
  /// Never passes.
  Deadline() = default;
  explicit Deadline(double seconds_from_now);

  bool passed() const { return bounded_ && Clock::now() >= at_; }
  /// Throws kLimit once passed: Check("pass Fusion").
  void Check(std::string_view what) const;

 private:
  using Clock = std::chrono::steady_clock;
  bool bounded_ = false;
  Clock::time_point at_{};
};

}  // namespace weft
