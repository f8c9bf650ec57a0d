/// kernel_launcher.h: runs a generated kernel on the team, split into ranges of work items.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "backends/cpu/util/threads.h"
#include "weft/runtime/backend/backend.h"

namespace weft::cpu {

/// Work below which a task does not pay for the fork and join (0.5 us on a quiet machine, 20 us and
/// more on a busy one): bytes read and written, or operations.
inline constexpr int64_t kBytesPerTask = 32 << 10;
/// one core, vector code with some memory behind it
inline constexpr double kOpsPerMicrosecond = 16e3;
inline constexpr double kMicrosecondsPerTask = 8;
inline constexpr double kBytesPerMicrosecond = 8e3;  ///< one core, out of memory
/// Boundaries between tasks are multiples of this: 64 elements of any type end on a cache line and
/// on a whole vector.
inline constexpr int64_t kItemAlign = 64;

/// What every launch asks about its extents; the order of the results of KernelSizes.
enum KernelSize { kItems, kBytes, kScratch, kRowElements, kNumKernelSizes };
/// A program over the kernel's symbols that computes them; more results may be added behind them.
SymProgram KernelSizes(const Kernel& kernel, const CpuKernel& code);
/// Operations of a launch of these sizes.
double TotalOps(double ops_per_element, const int64_t* sizes);
/// Estimate of what work takes on one core.
double Microseconds(int64_t bytes, double ops);
/// 64-byte aligned memory of the calling thread: kept, never cleared, valid until the next
/// call. Null for 0 bytes, and where memory cannot be allocated: what runs inside a parallel
/// region must not throw.
void* ThreadScratch(int64_t bytes);

/// How many tasks the work is worth; below 1: not worth a fork.
double TasksWorth(int64_t bytes, double ops);
/// Number of tasks (1: run on the caller) for `items` of work that together move `bytes` and take
/// `ops` operations.
int TaskCount(int64_t items, int64_t bytes, double ops, int threads);
/// kItemAlign, or less where so few items (rows, points of a long contraction) would make uneven
/// tasks.
int64_t TaskAlign(int64_t items, int tasks);
/// Half-open range of task `t` of `tasks`; boundaries are multiples of `align`, the last one is
/// `items`. Ranges are disjoint, in order, cover everything, and differ by `align` at most (the
/// last may be shorter).
std::pair<int64_t, int64_t> TaskRange(int64_t items, int tasks, int64_t align, int t);

/// Throws kOverflow where a size cannot be expressed.
std::shared_ptr<KernelLauncher> MakeCpuLauncher(const Kernel& kernel, CpuKernel code,
                                                std::shared_ptr<const Team> team);

}  // namespace weft::cpu
