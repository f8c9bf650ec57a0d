/// machine.h: what this machine can do at best, measured once and kept beside the kernel cache.
#pragma once

#include <cstdint>
#include <string>

namespace weft::tool {

struct Machine {
  std::string cpu;
  int threads = 0;
  double memory_gbs = 0;    ///< GB/s, read and written, of a copy much larger than the caches
  double cache_gbs = 0;     ///< of a copy that stays in each core's own cache
  double gflops = 0;        ///< f32 operations a nanosecond, of a large matrix product
  int64_t cache_bytes = 0;  ///< of the last-level cache: what is larger comes from memory

  bool measured() const { return gflops > 0; }
  /// The least time that this takes here, in microseconds: bytes / bandwidth + operations / peak; 0: not measured.
  double FloorUs(int64_t bytes, int64_t flops) const {
    if (!measured()) return 0;
    const double bandwidth = bytes > cache_bytes ? memory_gbs : cache_gbs;
    return double(bytes) / bandwidth / 1e3 + double(flops) / gflops / 1e3;
  }
};

std::string CpuModel();
/// Takes about two seconds. With `keep` the result is stored for MeasuredMachine.
Machine MeasureMachine(int threads, bool keep);
/// As kept for this processor and number of threads; measured now where nothing is.
Machine MeasuredMachine(int threads);

}  // namespace weft::tool
