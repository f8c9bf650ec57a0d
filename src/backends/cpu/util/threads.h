/// threads.h: the one team of threads that generated kernels and oneDNN share.
///
/// Debian's oneDNN runs on OpenMP; a second pool beside a spinning OpenMP team costs almost a
/// factor of two, so kernels are launched through OpenMP as well, and both read the number of
/// threads from here.
#pragma once

#include <atomic>

namespace weft::cpu {

/// How many threads a program uses; shared by a backend and everything it loaded.
class Team {
 public:
  /// OpenMP ends the process where the system grants none of a team's threads.
  static constexpr int kMost = 1024;

  explicit Team(int threads) : threads_(Held(threads)) {}
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  void set_threads(int n) { threads_.store(Held(n), std::memory_order_relaxed); }

 private:
  static int Held(int n) { return n < 1 ? 1 : n > kMost ? kMost : n; }

  std::atomic<int> threads_;
};

/// OMP_NUM_THREADS where it is set, else the CPUs of the affinity mask, at most what the cgroup's
/// quota pays for.
int DefaultThreads();
/// CPUs that a cgroup quota allows, rounded up; 0: no limit. Texts of cpu.max (v2),
/// cpu.cfs_quota_us and cpu.cfs_period_us (v1); empty where the file is not there.
int ThreadsOfQuota(const char* cpu_max, const char* quota_us, const char* period_us);

/// While it lives, OpenMP regions of this thread, oneDNN's included, have `n` threads. oneDNN sizes
/// its scratchpads by the number it sees when a primitive is made and expects the same when it
/// runs.
class ScopedThreads {
 public:
  explicit ScopedThreads(int n);
  ~ScopedThreads();
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};

}  // namespace weft::cpu
