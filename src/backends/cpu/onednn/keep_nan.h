/// keep_nan.h: NaN through library calls that end with a maximum or a minimum of the processor.
///
/// Those make of NaN their bound, and oneDNN's Relu and Clip are such ones, inside loops that
/// cannot be changed. But every minimum, maximum and ordered comparison of x86 that meets a NaN
/// sets the flag Invalid of its thread (MXCSR), where it stays until it is cleared. So a call runs
/// as it is. No thread of the team has the flag: no NaN came, the result is right. Else the call is
/// done again with steps that keep NaN, and what is NaN then becomes NaN in the result. All other
/// elements stay what they are, so that no result depends on flags left behind by other code.
///
/// The flags of a team are read where its threads are at work: GOMP_parallel, by which oneDNN
/// starts them, is defined here too, and the loader finds it before that of libgomp, to which it
/// hands on. A fork and join of ours behind each call would cost a small network 2 % on a quiet
/// machine and a third of its time on a busy one. It is what is done where the loader decided
/// otherwise, as it does for a program that is linked with OpenMP itself.
///
/// An addend that lies where the result goes is gone by then. A run that can begin again does so
/// (run_again.h). Else the addend is looked through before the call: what was not finite in it has
/// to be known later.
///
/// Cost: reading and writing a register in each thread; in a run that cannot begin again (a step of
/// training, mostly) a reading pass over each such addend.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// min(max(v, low), high) of every element; NaN stays NaN.
void BoundFloats(float* v, int64_t n, float low, float high);

/// What the parallel regions of one thread tell.
struct NanWatch {
  std::atomic<bool> invalid{false};  ///< a thread of the team came out with the flag
  bool entered = false;              ///< there was a region
};

/// What a call that drops NaN needs to be done again. Thread-safe, as calls are.
class NanKeeper {
 public:
  struct Call {
    std::function<std::unique_ptr<LibraryCall>()> make;  ///< the same that keeps NaN
    int operands = 0;                                    ///< of both
    std::vector<int> added;  ///< those that are added, so one of them may lie where the result goes
    int64_t floats = 0;      ///< of the result
    int threads = 1;
  };
  explicit NanKeeper(Call call) : call_(std::move(call)) {}

  /// Does this machine tell?
  static bool Possible();
  /// Before the first call of a team: `start_region` starts one of oneDNN's, and shows whether
  /// regions are watched here. Runs it once a process.
  static void Learn(const std::function<void()>& start_region);

  /// One run of the call.
  class Run {
   public:
    /// Before anything is written. `keeper` null: nothing is done.
    Run(const NanKeeper* keeper, const void* const* inputs, void* const* outputs);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    /// Before oneDNN does what may drop NaN, and behind it. Regions in between are oneDNN's.
    void Start();
    void Look();
    /// When everything is written.
    void Finish();

   private:
    const NanKeeper* keeper_;
    const void* const* inputs_;
    float* result_ = nullptr;
    int overlaid_ = -1;        ///< the addend in the place of the result
    bool asks_ = false;        ///< for the run to begin again, if that has to be known
    std::vector<float> kept_;  ///< its content, where that is not finite
    bool raised_before_ = false, invalid_ = false;
    NanWatch watch_;
  };

 private:
  const LibraryCall& Exact() const;
  /// `operands` as they were before the call. Were there any?
  bool PutNans(const std::vector<const void*>& operands, float* result) const;

  const Call call_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<LibraryCall> exact_;
  /// Where regions are not watched: other threads of the team come with the flag set
  /// by what runs before.
  mutable std::atomic<bool> clears_{false};
};

}  // namespace weft::cpu
