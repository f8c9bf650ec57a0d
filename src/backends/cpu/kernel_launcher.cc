/// kernel_launcher.cc: sizes of one launch come from a program made once; the range is cut and the
/// team runs it.
///
/// A task is a contiguous range, one a thread, always the same for equal extents: what a thread
/// wrote in one kernel is in its own cache when the next kernel of equal extents reads it.
#include "backends/cpu/kernel_launcher.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

/// 64-byte aligned memory of a thread; grows, is never cleared, goes with the thread.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  /// Null when memory cannot be had: what runs inside a parallel region must not throw.
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

/// What a launch needs to know of its extents; the order of the size program's results.
enum Size { kItems, kBytes, kScratch, kRowElements, kNumSizes };

class CpuLauncher final : public KernelLauncher {
 public:
  CpuLauncher(const Kernel& kernel, CpuKernel code, std::shared_ptr<const Team> team)
      : code_(std::move(code)), team_(std::move(team)), ops_(OpsPerElement(kernel)) {
    std::vector<SymInt> symbols;
    for (int i = 0; i < kernel.num_symbols; ++i) symbols.push_back(KernelSymbol(i));
    program_ = SymProgram(symbols);
    const bool row = kernel.tmpl == KernelTemplate::kRow;
    const auto split = row ? kernel.dims.begin() + kernel.num_outer : kernel.dims.end();
    SymInt bytes = 0;
    for (const KernelBuffer& b : kernel.buffers)
      bytes = bytes + b.num_elements * DTypeBytes(b.dtype, 1);
    program_.Add(Product({kernel.dims.begin(), split}));
    program_.Add(bytes);
    program_.Add(code_.scratch_bytes);
    program_.Add(Product({split, kernel.dims.end()}));
    fixed_ = symbols.empty();
    if (fixed_) program_.Run(nullptr, sizes_);
  }

  void Launch(void* const* buffers, const int64_t* dims) const override {
    int64_t computed[kNumSizes];
    const int64_t* sizes = sizes_;
    if (!fixed_) {
      program_.Run(dims, computed);
      sizes = computed;
    }
    const int64_t items = sizes[kItems];
    if (items <= 0) return;
    const double ops = ops_ * double(items) * double(std::max<int64_t>(sizes[kRowElements], 1));
    [[maybe_unused]] const int tasks = TaskCount(items, sizes[kBytes], ops, team_->threads());
#ifdef _OPENMP
    if (tasks > 1 && !omp_in_parallel()) {
      RunTasks(tasks, items, buffers, dims, sizes[kScratch]);
      return;
    }
#endif
    void* memory = nullptr;
    if (sizes[kScratch] > 0) {
      memory = scratch.Reserve(sizes[kScratch]);
      WEFT_CHECK(memory, kOutOfMemory, "{} bytes of scratch for a kernel cannot be had",
                 sizes[kScratch]);
    }
    code_.fn(buffers, dims, 0, items, memory);
  }

 private:
#ifdef _OPENMP
  void RunTasks(int tasks, int64_t items, void* const* buffers, const int64_t* dims,
                int64_t scratch_bytes) const {
    std::atomic<bool> failed{false};
#pragma omp parallel num_threads(tasks)
    {
      const int64_t align = TaskAlign(items, tasks);
      void* memory = scratch_bytes > 0 ? scratch.Reserve(scratch_bytes) : nullptr;
      if (scratch_bytes > 0 && !memory) {
        failed = true;
      } else {
        // The system may grant fewer threads than were asked for.
        for (int t = omp_get_thread_num(); t < tasks; t += omp_get_num_threads()) {
          const auto [begin, end] = TaskRange(items, tasks, align, t);
          if (begin < end) code_.fn(buffers, dims, begin, end, memory);
        }
      }
    }
    WEFT_CHECK(!failed, kOutOfMemory, "{} bytes of scratch a thread for a kernel cannot be had",
               scratch_bytes);
  }
#endif

  CpuKernel code_;
  std::shared_ptr<const Team> team_;
  double ops_;
  SymProgram program_;
  bool fixed_ = false;
  int64_t sizes_[kNumSizes] = {};  ///< where they depend on no symbol
};

}  // namespace

int TaskCount(int64_t items, int64_t bytes, double ops, int threads) {
  if (threads <= 1 || items <= 1) return 1;
  const double by_bytes = double(bytes) / double(kBytesPerTask);
  const double by_work = ops / (kOpsPerMicrosecond * kMicrosecondsPerTask);
  const double tasks = std::min({std::max(by_bytes, by_work), double(threads), double(items)});
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
