/// polled_range.h: a kernel over a long range runs in pieces, so that a run can be cancelled and
/// its deadline passes between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

#include "weft/codegen/kernel/kernel.h"

namespace weft::cpu {

/// A range that is estimated to take longer than this runs in pieces of about kPieceMicroseconds,
/// between which the request is polled. Where the estimate is a guess, already much shorter ones
/// begin with a small piece.
inline constexpr double kLongMicroseconds = 50e3, kPieceMicroseconds = 10e3,
                        kUncertainMicroseconds = 50;

/// What stops all threads of a launch: the first exception of any of them.
class FirstError {
 public:
  bool set() const { return set_.load(std::memory_order_relaxed); }
  void Keep(std::exception_ptr e);
  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// Whether the work of one element is a guess: an inner loop whose extent comes with the run.
bool WorkIsUncertain(const Kernel& kernel);

/// A range of work that is estimated to take `us` runs in pieces.
inline bool RunsInPieces(double us, bool uncertain) {
  return us > kLongMicroseconds || (uncertain && us > kUncertainMicroseconds);
}

/// A call of generated code without its range.
struct KernelCall {
  CpuKernelFn fn = nullptr;
  void* const* buffers = nullptr;
  const int64_t* dims = nullptr;
  void* memory = nullptr;
  bool uncertain = false;  ///< WorkIsUncertain
};

/// `call` over [begin, end), estimated to take `us`. Throws kCancelled, kLimit (deadline_s); leaves
/// the rest out when `others` (may be null) is set.
void RunPolled(const KernelCall& call, int64_t begin, int64_t end, double us,
               const FirstError* others);

}  // namespace weft::cpu
