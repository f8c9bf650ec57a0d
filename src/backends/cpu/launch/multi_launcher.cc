/// multi_launcher.cc: one fork and join for all parts of a launch.
///
/// The work items of all parts stand in one line, part after part, each as long as the bytes that
/// it moves or, where that is more, its operations. The line is cut into one piece a thread: a
/// thread walks through whole tensors and shares at most its first and its last with others, so
/// memory is read in order, and what it wrote is in its own cache the next time.
///
/// Parts whose kernel works in phases (column reductions) synchronise inside; they are
/// launched by themselves, first.
#include "multi_launcher.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>

#include "kernel_launcher.h"
#include "polled_range.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

struct Code {
  CpuKernel cpu;
  double ops = 0;  ///< per element
  SymProgram program;
  bool uncertain = false;  ///< WorkIsUncertain
  bool per_point = false;  ///< one loop over d0: sizes follow from it without the program
  int64_t bytes_a_point = 0;
  std::shared_ptr<KernelLauncher> alone;  ///< it works in phases
};

class CpuMultiLauncher final : public KernelLauncher {
 public:
  CpuMultiLauncher(const LoweredKernel& lowered, std::vector<CpuKernel> codes,
                   std::shared_ptr<const Team> team)
      : team_(std::move(team)) {
    const std::vector<KernelPtr> kernels = lowered.Kernels();
    WEFT_ICHECK(kernels.size() == codes.size(), "{} codes for {} kernels", codes.size(),
                kernels.size());
    for (size_t i = 0; i < kernels.size(); ++i)
      codes_.push_back(MakeCode(*kernels[i], std::move(codes[i])));
    for (const KernelPart& p : lowered.parts) {
      const auto at = std::find(kernels.begin(), kernels.end(), p.kernel) - kernels.begin();
      parts_.push_back({int(at), p.first_symbol, int(operands_.size())});
      operands_.insert(operands_.end(), p.operands.begin(), p.operands.end());
    }
  }

  void Launch(void* const* buffers, const int64_t* dims) const override {
    std::vector<void*> gathered(operands_.size());
    for (size_t i = 0; i < operands_.size(); ++i) gathered[i] = buffers[operands_[i]];
    std::vector<Work> line;
    line.reserve(parts_.size());
    double length = 0;
    int64_t scratch = 0;
    for (const Part& p : parts_) {
      const Code& code = codes_[size_t(p.code)];
      void* const* own = gathered.data() + p.first_operand;
      const int64_t* own_dims = dims + p.first_symbol;
      if (code.alone) {
        code.alone->Launch(own, own_dims);
        continue;
      }
      int64_t sizes[kNumKernelSizes];
      SizesOf(code, own_dims, sizes);
      if (sizes[kItems] <= 0) continue;
      const double ops = TotalOps(code.ops, sizes), worth = TasksWorth(sizes[kBytes], ops);
      line.push_back(
          {&code, own, own_dims, sizes[kItems], Microseconds(sizes[kBytes], ops), length, worth});
      length += worth;
      scratch = std::max(scratch, sizes[kScratch]);
    }
#ifdef _OPENMP
    const double tasks = std::min(length, double(team_->threads()));
    if (tasks >= 2 && !omp_in_parallel()) {
      RunOnTeam(line, length, int(tasks), scratch);
      return;
    }
#endif
    void* const memory = ThreadScratch(scratch);
    WEFT_CHECK(memory || scratch <= 0, kOutOfMemory,
               "cannot allocate {} bytes of scratch memory for a kernel", scratch);
    Runner run(memory, nullptr);
    for (const Work& w : line) run(w, 0, w.items);
  }

 private:
  struct Part {
    int code, first_symbol, first_operand;
  };
  /// One part in the line of all work.
  struct Work {
    const Code* code;
    void* const* buffers;
    const int64_t* dims;
    int64_t items;
    double us, begin, worth;
    /// Items before the point `at` of the line, cut where tasks of a kernel are cut.
    int64_t Before(double at, int64_t align) const {
      const double share = (at - begin) / worth;
      if (share <= 0) return 0;
      if (share >= 1) return items;
      const auto item = int64_t(share * double(items));
      return std::min(items, (item + align / 2) / align * align);
    }
  };

  /// Runs pieces of the line one after another, polled like the range of one kernel: many short
  /// parts are together as long as a long one.
  class Runner {
   public:
    Runner(void* memory, const FirstError* others) : memory_(memory), others_(others) {}
    void operator()(const Work& w, int64_t begin, int64_t end) {
      if (unpolled_us_ > kPieceMicroseconds) {
        RequestScope::Poll();
        unpolled_us_ = 0;
      }
      const double us = w.us * double(end - begin) / double(w.items);
      RunPolled({w.code->cpu.fn, w.buffers, w.dims, memory_, w.code->uncertain}, begin, end, us,
                others_);
      unpolled_us_ += us;
    }

   private:
    void* memory_;
    const FirstError* others_;
    double unpolled_us_ = 0;
  };

  Code MakeCode(const Kernel& kernel, CpuKernel cpu) const {
    Code code;
    if (!cpu.phases.empty()) code.alone = MakeCpuLauncher(kernel, cpu, team_);
    code.cpu = std::move(cpu);
    code.ops = OpsPerElement(kernel);
    code.uncertain = WorkIsUncertain(kernel);
    code.program = KernelSizes(kernel, code.cpu);
    for (const KernelBuffer& b : kernel.buffers)
      if (b.num_elements == KernelSymbol(0)) code.bytes_a_point += DTypeBytes(b.dtype, 1);
    code.per_point = kernel.has_points() && kernel.dims.size() == 1 &&
                     kernel.dims[0] == KernelSymbol(0) && code.cpu.scratch_bytes.is(0);
    return code;
  }
  static void SizesOf(const Code& code, const int64_t* dims, int64_t* sizes) {
    if (!code.per_point) return code.program.Run(dims, sizes);
    sizes[kItems] = dims[0];
    sizes[kScratch] = 0;
    sizes[kRowElements] = 1;
    if (__builtin_mul_overflow(dims[0], code.bytes_a_point, &sizes[kBytes]))
      sizes[kBytes] = INT64_MAX;
  }

#ifdef _OPENMP
  static void RunOnTeam(const std::vector<Work>& line, double length, int tasks,
                        int64_t scratch_bytes) {
    std::atomic<bool> failed{false};
    FirstError error;
    const RequestScope* const request = RequestScope::Current();
#pragma omp parallel num_threads(tasks)
    {
      void* const memory = ThreadScratch(scratch_bytes);
      if (scratch_bytes > 0 && !memory) {
        failed = true;
      } else {
        try {
          const RequestScope::Borrow borrow(request);
          Runner run(memory, &error);
          // The system may grant fewer threads than were asked for.
          for (int t = omp_get_thread_num(); t < tasks; t += omp_get_num_threads()) {
            const double from = length * t / tasks, to = length * (t + 1) / tasks;
            for (const Work& w : line) {
              const int64_t align = TaskAlign(w.items, tasks);
              const int64_t begin = t == 0 ? 0 : w.Before(from, align),
                            end = t + 1 == tasks ? w.items : w.Before(to, align);
              if (begin < end && !error.set()) run(w, begin, end);
            }
          }
        } catch (...) {
          error.Keep(std::current_exception());
        }
      }
    }
    WEFT_CHECK(!failed, kOutOfMemory,
               "cannot allocate {} bytes of scratch memory per thread for a kernel", scratch_bytes);
    error.Rethrow();
  }
#endif

  std::shared_ptr<const Team> team_;
  std::vector<Code> codes_;
  std::vector<Part> parts_;
  std::vector<int> operands_;  ///< of all parts, one after another
};

}  // namespace

std::shared_ptr<KernelLauncher> MakeCpuMultiLauncher(const LoweredKernel& lowered,
                                                     std::vector<CpuKernel> codes,
                                                     std::shared_ptr<const Team> team) {
  return std::make_shared<CpuMultiLauncher>(lowered, std::move(codes), std::move(team));
}

}  // namespace weft::cpu
