/// session_caches.h: the room of a session's caches: state variables that rows are appended to
/// (passes/effects/cache_in_place.cc). Private to the runtime.
///
/// Before a run that needs more rows than there is room for, all caches get new memory, of twice
/// the room at least, and the rows that the run keeps are moved there: over a text every row is
/// moved about once, and a run in between allocates nothing.
#pragma once

#include <memory>
#include <vector>

#include "runtime/program/program_impl.h"

namespace weft {

class VariableAccess;

class SessionCaches {
 public:
  explicit SessionCaches(const Program::Impl& program);
  /// Makes room for what a run on `inputs` leaves. Throws kBadInput where it would keep rows that
  /// nothing has written, kBadBinding where the store holds a cache of another batch or kind, or
  /// one in memory of the caller without the room.
  void Prepare(const std::vector<TensorPtr>& inputs, VariableAccess* access);
  /// The run has written its rows; one that fails leaves those that it kept.
  void Ran(VariableAccess* access);
  void Reserve(int64_t rows) { reserved_ = rows; }
  const CacheStats& stats() const { return stats_; }

 private:
  const Program::Impl& program_;
  std::vector<std::pair<size_t, size_t>> told_;  ///< by symbol: an input that has it, and its axis
  SymProgram sizes_;                             ///< of all caches: kept, rows, then its dims
  std::vector<int> dims_at_;                     ///< by cache, the first slot of its dims
  std::vector<int64_t> symbols_, values_;
  int64_t rows_ = 0, reserved_ = 0;
  CacheStats stats_;
};

}  // namespace weft
