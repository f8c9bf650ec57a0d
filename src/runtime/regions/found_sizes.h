/// found_sizes.h: what a run of regions knows, when it begins, of the sizes that data will tell in
/// it: the most that they can be. Memory for them is laid out for that at once, so that a run that
/// finds more needs no other memory than one that finds less. Private to the runtime.
///
/// Not where that is too much: a frame, and all tensors between regions together, are laid out for
/// the most while they take no more than kTimesFed of what is fed, or kAlways. What has no bound,
/// or one of more bytes, is laid out for what comes.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/binding/size_limits.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/bounded_cache.h"

namespace weft {

class FoundSizes {
 public:
  struct Ahead {
    std::shared_ptr<const FrameBounds> bounds;  ///< null: nothing is known
    std::vector<int64_t> bytes;                 ///< by tensor, in the order of Add; 0: as it comes
  };
  /// What a session remembers of its last run.
  struct Last {
    std::vector<int64_t> key;
    std::shared_ptr<const Ahead> ahead;
  };
  /// Indices of a NonZero take 8 bytes each for an axis, of elements of 4 or 1: a bound of a few
  /// times what is fed is what such programs use. Boxes of all classes with what is cut out for
  /// each are thousands of times as much, and few are found.
  static constexpr int64_t kTimesFed = 16, kAlways = 4 << 20;

  explicit FoundSizes(const Graph& graph);
  /// A tensor between regions.
  void Add(const Type& type, const Shape& shape) { tensors_.push_back({type, shape}); }
  /// Null where nothing is to be known. `around`: of the program that this is part of, or null.
  std::shared_ptr<const Ahead> At(const std::vector<TensorPtr>& inputs,
                                  const std::shared_ptr<const FrameBounds>& around,
                                  Last* last) const;

 private:
  struct Between {
    Type type;
    Shape shape;
  };
  std::shared_ptr<const Ahead> Compute(const std::vector<int64_t>& values,
                                       const std::shared_ptr<const FrameBounds>& around,
                                       int64_t bytes) const;

  Facts facts_;
  std::vector<Shape> inputs_;
  std::vector<SymInt> symbols_;          ///< of the inputs
  std::vector<SymInt> unbacked_, told_;  ///< sizes; those of them that values of operands tell
  std::vector<Between> tensors_;
  mutable std::mutex mutex_;
  mutable BoundedCache<std::vector<int64_t>, std::shared_ptr<const Ahead>> known_{32};
};

}  // namespace weft
