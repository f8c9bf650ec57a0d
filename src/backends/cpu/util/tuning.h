/// tuning.h: which of several ways a library call is made: the cost model's, or the one
/// that proved fastest here.
///
/// An operator lists its ways under names, the cost model's first; `ChooseWay` makes one of them:
/// (a) the one whose name is stored for this request, whether or not the program is tuned;
/// (b) in a program that is tuned (CallOptions::tune) and where nothing is stored, the fastest,
/// which is then stored;
/// (c) else the first.
///
/// Names are stored in the kernel cache, on disk and in memory (KernelCache::StoreText), by a key
/// of all that times depend on: operator, attributes, extents, types, layouts, which operands are
/// constant, epilogue, threads, processor, version of oneDNN, and kTuningVersion. A stored name
/// that no way has is as good as nothing stored. Processes that tune at once each store what they
/// found; the last stays.
///
/// Timing. All ways run in turn on operands with ordinary values, and of each the least time
/// counts: load of the machine only ever adds. A way that is more than half slower than another
/// leaves early. It ends when 50 ms are spent or the times have settled; ways that take longer than
/// that run two or three times. Another way must win by 3 % to be preferred to the model's. One
/// request is timed at a time in a process.
///
/// Ways may round differently, so results are a function of the model and of what is stored. To
/// repeat them to the last bit, keep the cache, or do without one (WEFT_CACHE=off).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// One way to do what a request asks for.
struct Way {
  std::string name;  ///< what is stored; of one request, every way has its own
  std::function<std::unique_ptr<LibraryCall>()> make;  ///< gives null where this way cannot do it
};

/// Raised when a name comes to mean something else or ways are added that should be tried
/// where others are stored.
constexpr int kTuningVersion = 1;

/// What a choice is stored by.
std::string TuningKey(const ComputeRequest& q);

/// Null only where no way can do it.
std::unique_ptr<LibraryCall> ChooseWay(const ComputeRequest& q, const std::vector<Way>& ways);

/// What ChooseWay looks at besides its arguments: for this thread, while it lives (tests). Else it
/// is the process's kernel cache and the steady clock.
class ScopedTuner {
 public:
  /// `cache`: null: nothing is stored or found. `seconds`: empty: the steady clock.
  explicit ScopedTuner(KernelCache* cache, std::function<double()> seconds = {});
  ~ScopedTuner();
  ScopedTuner(const ScopedTuner&) = delete;
  ScopedTuner& operator=(const ScopedTuner&) = delete;

 private:
  friend struct Tuner;
  KernelCache* cache_;
  std::function<double()> seconds_;
  const ScopedTuner* before_;
};

}  // namespace weft::cpu
