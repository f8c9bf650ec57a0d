/// profile.h: where the time of a run goes, step by step, and how far each step is from what the
/// machine could at best.
///
///   const Machine machine = MachineOf("cpu");
///   const auto rows = ProfileSteps([&] { return session.Profile(inputs, &outputs); }, machine);
///   puts(ProfileTable(rows, machine).c_str());
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/runtime/program/program.h"

namespace weft {

/// What a processor can do at best, all threads together. Rates are of copies, read and written
/// bytes counted; the faster of copies that go through the caches and copies that go past them.
struct WEFT_API Machine {
  std::string cpu;
  int threads = 0;
  double own_gbs = 0;       ///< GB/s of copies that stay in each core's own caches
  double shared_gbs = 0;    ///< of those that leave them, but not the last-level cache
  double memory_gbs = 0;    ///< of those much larger than all caches
  double gflops = 0;        ///< f32 operations a nanosecond, of a large matrix product
  int64_t own_bytes = 0;    ///< of the cores' own caches, those of all threads
  int64_t cache_bytes = 0;  ///< of the last-level cache

  bool measured() const { return gflops > 0; }
  /// The least time that this takes here, in microseconds: bytes / bandwidth + operations / peak,
  /// where the first `own_bytes` may lie in the cores' own caches and the next in the last-level
  /// cache. 0: not measured.
  double FloorUs(int64_t bytes, int64_t flops) const;
  /// The figures, in words.
  std::string ToString() const;
};

/// Of the first processor, as the system calls it.
WEFT_API std::string CpuModel();
/// Takes about two seconds; the result is kept beside the kernel cache for MachineOf.
WEFT_API Machine MeasureMachine(int threads);
/// What programs of that backend run on, measured now where that has not been done for
/// this processor and number of threads (0: the backend's). Of other backends than
/// `cpu` nothing is known.
WEFT_API Machine MachineOf(const std::string& backend, int threads = 0);

/// A step, its time the median of several runs.
struct ProfileRow : StepTime {
  size_t step = 0;      ///< from 1, in order of execution
  double floor_us = 0;  ///< Machine::FloorUs
};

/// Of several runs, each timed by `profile`.
WEFT_API std::vector<ProfileRow> ProfileSteps(const std::function<std::vector<StepTime>()>& profile,
                                              const Machine& machine);
/// Sums of all rows.
WEFT_API ProfileRow SumOf(const std::vector<ProfileRow>& rows);
/// The slowest step first, then all of them; with `run_us` also a run as a whole, which is not
/// timed step by step.
WEFT_API std::string ProfileTable(std::vector<ProfileRow> rows, const Machine& machine,
                                  double run_us = 0);

}  // namespace weft
