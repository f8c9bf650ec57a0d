/// kernel_launcher.cc: sizes of one launch come from a program made once; the range is cut and the
/// team runs it.
///
/// A task is a contiguous range, one a thread, always the same for equal extents: what a thread
/// wrote in one kernel is in its own cache when the next kernel of equal extents reads it.
#include "kernel_launcher.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>

#include "codegen/llvm/compiler/llvm_compiler.h"
#include "polled_range.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// 64-byte aligned memory of a thread; grows, is never cleared, goes with the thread.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  /// Null when memory cannot be allocated.
  void* Reserve(int64_t bytes) {
    if (bytes <= size_) return data_;
    std::free(data_);
    size_ = 0;
    const int64_t rounded = (bytes + 63) / 64 * 64;
    data_ = std::aligned_alloc(64, size_t(rounded));
    if (data_) size_ = rounded;
    return data_;
  }

 private:
  void* data_ = nullptr;
  int64_t size_ = 0;
};
thread_local Scratch scratch;

/// What a launch in phases asks besides.
enum PhaseSize { kShared = kNumKernelSizes, kPhaseGain, kPhaseItems };
constexpr int kMaxPhases = CpuKernel::kMaxPhases;
/// The second-level cache of a core.
constexpr int64_t kCachedBytes = int64_t{1} << 20;
/// Operations of sums of products, which are FMAs on what is in the caches, by those of other code
/// in a microsecond: 100,000 were measured for a cell 64 wide.
constexpr double kContractionSpeed = 6;

class CpuLauncher final : public KernelLauncher {
 public:
  CpuLauncher(const Kernel& kernel, CpuKernel code, std::shared_ptr<const Team> team)
      : code_(std::move(code)),
        team_(std::move(team)),
        ops_(OpsPerElement(kernel)),
        uncertain_(WorkIsUncertain(kernel)) {
    if (const std::optional<Kernel> points = ContractionOf(kernel)) {
      is_contraction_ = true;
      ops_ = OpsPerElement(*points) / kContractionSpeed;
    }
    program_ = KernelSizes(kernel, code_);
    program_.Add(code_.shared_bytes);
    program_.Add(code_.phase_gain);
    WEFT_ICHECK(code_.phases.size() <= size_t{kMaxPhases}, "a kernel of {} phases",
                code_.phases.size());
    for (const CpuPhase& phase : code_.phases) program_.Add(phase.items);
    fixed_ = kernel.num_symbols == 0;
    if (fixed_) program_.Run(nullptr, sizes_);
  }

  void Launch(void* const* buffers, const int64_t* dims) const override {
    int64_t computed[kNumSizes];
    const int64_t* const sizes = SizesOf(dims, computed);
    const int64_t items = sizes[kItems];
    if (items <= 0) return;
    const double ops = Ops(sizes);
    if (HasPhases(sizes)) {
      RunPhases(buffers, dims, sizes, ops);
      return;
    }
    [[maybe_unused]] const int tasks = Tasks(sizes, ops);
#ifdef _OPENMP
    if (tasks > 1 && !omp_in_parallel()) {
      RunTasks(tasks, items, buffers, dims, sizes[kScratch],
               Microseconds(sizes[kBytes], ops) / tasks);
      return;
    }
#endif
    void* memory = ThreadScratch(sizes[kScratch]);
    WEFT_CHECK(memory || sizes[kScratch] <= 0, kOutOfMemory,
               "cannot allocate {} bytes of scratch memory for a kernel", sizes[kScratch]);
    RunPolled({code_.fn, buffers, dims, memory, uncertain_}, 0, items,
              Microseconds(sizes[kBytes], ops), nullptr);
  }

  std::optional<DirectLaunch> Direct(const int64_t* dims) const override {
    int64_t computed[kNumSizes];
    const int64_t* const sizes = SizesOf(dims, computed);
    if (sizes[kItems] <= 0) return DirectLaunch{};
    const double ops = Ops(sizes), us = Microseconds(sizes[kBytes], ops);
    if (HasPhases(sizes) || Tasks(sizes, ops) > 1 || RunsInPieces(us, uncertain_))
      return std::nullopt;
    // In the caches, which is where those that follow one another are, bytes are not what counts.
    const bool cached = sizes[kBytes] <= kCachedBytes;
    return DirectLaunch{code_.fn, sizes[kItems], sizes[kScratch],
                        cached ? Microseconds(0, ops) : us};
  }

 private:
  static constexpr int kNumSizes = kPhaseItems + kMaxPhases;
  /// `computed`: memory for them.
  const int64_t* SizesOf(const int64_t* dims, int64_t* computed) const {
    if (fixed_) return sizes_;
    program_.Run(dims, computed);
    return computed;
  }
  double Ops(const int64_t* sizes) const {
    return is_contraction_ ? ops_ * double(sizes[kItems]) : TotalOps(ops_, sizes);
  }
  bool HasPhases(const int64_t* sizes) const {
    return !code_.phases.empty() && sizes[kPhaseGain] >= 0;
  }
  int Tasks(const int64_t* sizes, double ops) const {
    // What stays in the caches of a core is no reason to share the work.
    const int64_t moved = is_contraction_ && sizes[kBytes] <= kCachedBytes ? 0 : sizes[kBytes];
    return TaskCount(sizes[kItems], moved, ops, team_->threads());
  }
  /// One phase after the other, all threads in each; the memory between them is the caller's.
  void RunPhases(void* const* buffers, const int64_t* dims, const int64_t* sizes,
                 double ops) const {
    void* memory = ThreadScratch(sizes[kShared]);
    WEFT_CHECK(memory || sizes[kShared] <= 0, kOutOfMemory,
               "cannot allocate {} bytes of scratch memory for a kernel", sizes[kShared]);
    const size_t phases = code_.phases.size();
    const double us = Microseconds(sizes[kBytes], ops);
    const auto run = [&](size_t k, int first, int step, int tasks, const FirstError* others) {
      const int64_t items = sizes[kPhaseItems + k];
      for (int t = first; t < tasks; t += step) {
        const auto [begin, end] = TaskRange(items, tasks, PhaseAlign(items, tasks), t);
        if (begin < end)
          RunPolled({code_.phases[k].fn, buffers, dims, memory, uncertain_}, begin, end, us / tasks,
                    others);
      }
    };
#ifdef _OPENMP
    const int tasks = TaskCount(sizes[kPhaseItems], sizes[kBytes], ops, team_->threads());
    if (tasks > 1 && !omp_in_parallel()) {
      FirstError error;
      const RequestScope* const request = RequestScope::Current();
#pragma omp parallel num_threads(tasks)
      {
        const RequestScope::Borrow borrow(request);
        for (size_t k = 0; k < phases; ++k) {
          // Every thread comes to every barrier, also when there is nothing left to do.
          try {
            if (!error.set()) run(k, omp_get_thread_num(), omp_get_num_threads(), tasks, &error);
          } catch (...) {
            error.Keep(std::current_exception());
          }
          if (k + 1 < phases) {
#pragma omp barrier
          }
        }
      }
      error.Rethrow();
      return;
    }
#endif
    for (size_t k = 0; k < phases; ++k) run(k, 0, 1, 1, nullptr);
  }
  /// Chunks are few and go one by one; rows of a combination like those of any kernel.
  static int64_t PhaseAlign(int64_t items, int tasks) {
    return items <= kItemAlign ? 1 : TaskAlign(items, tasks);
  }

#ifdef _OPENMP
  void RunTasks(int tasks, int64_t items, void* const* buffers, const int64_t* dims,
                int64_t scratch_bytes, double us) const {
    std::atomic<bool> failed{false};
    FirstError error;
    const RequestScope* const request = RequestScope::Current();
#pragma omp parallel num_threads(tasks)
    {
      const int64_t align = TaskAlign(items, tasks);
      void* memory = ThreadScratch(scratch_bytes);
      if (scratch_bytes > 0 && !memory) {
        failed = true;
      } else {
        // The system may grant fewer threads than were asked for.
        for (int t = omp_get_thread_num(); t < tasks; t += omp_get_num_threads()) {
          const auto [begin, end] = TaskRange(items, tasks, align, t);
          if (begin >= end) continue;
          try {
            const RequestScope::Borrow borrow(request);
            RunPolled({code_.fn, buffers, dims, memory, uncertain_}, begin, end, us, &error);
          } catch (...) {
            error.Keep(std::current_exception());
          }
        }
      }
    }
    WEFT_CHECK(!failed, kOutOfMemory,
               "cannot allocate {} bytes of scratch memory per thread for a kernel", scratch_bytes);
    error.Rethrow();
  }
#endif

  CpuKernel code_;
  std::shared_ptr<const Team> team_;
  double ops_;
  bool uncertain_, is_contraction_ = false;
  SymProgram program_;
  bool fixed_ = false;
  int64_t sizes_[kNumSizes] = {};  ///< where they depend on no symbol
};

}  // namespace

SymProgram KernelSizes(const Kernel& kernel, const CpuKernel& code) {
  std::vector<SymInt> symbols;
  for (int i = 0; i < kernel.num_symbols; ++i) symbols.push_back(KernelSymbol(i));
  SymProgram program(symbols);
  for (size_t i = 0; i < code.named.size(); ++i)
    program.Define(KernelSymbol(kernel.num_symbols + int(i)), code.named[i]);
  // Where the data name what is read, a few results read a little of a large operand. Eight loads
  // of one operand for each point are more than bodies have.
  constexpr int64_t kLoads = 8;
  const SymInt points = Product(kernel.outer_dims()) * Product(kernel.row_dims());
  SymInt bytes = 0;
  for (size_t k = 0; k < kernel.buffers.size(); ++k) {
    const KernelBuffer& b = kernel.buffers[k];
    const bool picked = kernel.has_flag() && int(k) < kernel.num_inputs;
    const SymInt read = picked ? Min(b.num_elements, points * kLoads) : b.num_elements;
    bytes = bytes + read * DTypeBytes(b.dtype, 1);
  }
  program.Add(Product(kernel.outer_dims()));
  program.Add(bytes);
  program.Add(code.scratch_bytes);
  program.Add(Product(kernel.row_dims()));
  return program;
}

double TotalOps(double ops_per_element, const int64_t* sizes) {
  return ops_per_element * double(sizes[kItems]) *
         double(std::max<int64_t>(sizes[kRowElements], 1));
}

double Microseconds(int64_t bytes, double ops) {
  return std::max(ops / kOpsPerMicrosecond, double(bytes) / kBytesPerMicrosecond);
}

void* ThreadScratch(int64_t bytes) { return bytes > 0 ? scratch.Reserve(bytes) : nullptr; }

double TasksWorth(int64_t bytes, double ops) {
  return std::max(double(bytes) / double(kBytesPerTask),
                  ops / (kOpsPerMicrosecond * kMicrosecondsPerTask));
}

int TaskCount(int64_t items, int64_t bytes, double ops, int threads) {
  if (threads <= 1 || items <= 1) return 1;
  const double tasks = std::min({TasksWorth(bytes, ops), double(threads), double(items)});
  return std::max(1, int(tasks));
}

int64_t TaskAlign(int64_t items, int tasks) {
  int64_t align = kItemAlign;
  while (align > 1 && items / align < 4 * int64_t{tasks}) align /= 4;
  return align;
}

std::pair<int64_t, int64_t> TaskRange(int64_t items, int tasks, int64_t align, int t) {
  const int64_t pieces = items / align + (items % align != 0);
  const int64_t each = pieces / tasks,
                more = pieces % tasks;  // the first `more` tasks take one piece more
  const auto boundary = [&](int64_t k) { return k * each + std::min(k, more); };
  // Cut at the piece, not at the element: the last piece may be short, and align * pieces may leave
  // 64 bits.
  const auto element = [&](int64_t piece) { return piece >= pieces ? items : piece * align; };
  return {element(boundary(t)), element(boundary(t + 1))};
}

std::shared_ptr<KernelLauncher> MakeCpuLauncher(const Kernel& kernel, CpuKernel code,
                                                std::shared_ptr<const Team> team) {
  return std::make_shared<CpuLauncher>(kernel, std::move(code), std::move(team));
}

}  // namespace weft::cpu
