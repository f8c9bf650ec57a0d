/// threads.cc: how many threads this process may use.
#include "threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace weft::cpu {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines of more than 1024 CPUs, which then rely on OMP_NUM_THREADS.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

int ThreadsOfQuota(const char* cpu_max, const char* quota_us, const char* period_us) {
  long long quota = 0, period = 0;
  if (cpu_max && *cpu_max) {  // "max 100000" or "150000 100000"
    char* rest = nullptr;
    quota = std::strtoll(cpu_max, &rest, 10);
    if (rest == cpu_max) return 0;
    period = std::strtoll(rest, nullptr, 10);
  } else if (quota_us && *quota_us && period_us && *period_us) {
    quota = std::strtoll(quota_us, nullptr, 10);
    period = std::strtoll(period_us, nullptr, 10);
  }
  if (quota <= 0 || period <= 0) return 0;
  return int(std::min<long long>((quota + period - 1) / period, 1 << 16));
}

int DefaultThreads() {
#ifdef _OPENMP
  if (const char* set = std::getenv("OMP_NUM_THREADS")) {
    const long n = std::strtol(set, nullptr,
                               10);  // A list gives one number a nesting level: ours is the first.
    if (n > 0) return int(std::min(n, 1024L));
  }
  int n = AffinityCpus();
  const int paid = ThreadsOfQuota(FirstLine("/sys/fs/cgroup/cpu.max").c_str(),
                                  FirstLine("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str(),
                                  FirstLine("/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str());
  if (paid > 0) n = std::min(n, paid);
  return n;
#else
  return 1;
#endif
}

#ifdef _OPENMP
ScopedThreads::ScopedThreads(int n) : before_(omp_get_max_threads()) {
  if (n != before_) omp_set_num_threads(n);
}
ScopedThreads::~ScopedThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}
#else
ScopedThreads::ScopedThreads(int) : before_(1) {}
ScopedThreads::~ScopedThreads() = default;
#endif

}  // namespace weft::cpu
