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

/// What a processor, or another machine, can do at best, all threads together. Rates are of copies,
/// read and written bytes counted; the faster of copies that go through the caches and copies that
/// go past them. Of a machine that counts cycles (Backend::DescribeMachine) they are bytes and
/// operations a cycle in the place of a nanosecond.
struct WEFT_API Machine {
  std::string cpu;  ///< its name
  int threads = 0;
  double own_gbs = 0;       ///< GB/s of copies that stay in each core's own caches
  double shared_gbs = 0;    ///< of those that leave them, but not the last-level cache
  double memory_gbs = 0;    ///< of those much larger than all caches
  double gflops = 0;        ///< f32 operations a nanosecond, of a large matrix product
  int64_t own_bytes = 0;    ///< of the cores' own caches, those of all threads
  int64_t cache_bytes = 0;  ///< of the last-level cache

  TimeUnit unit = TimeUnit::kMicroseconds;
  bool overlaps = false;  ///< it copies while it computes: the longer of both counts, not the sum

  bool measured() const { return gflops > 0; }
  /// The least time that this takes here, in `unit`: bytes / bandwidth + operations / peak, where
  /// the first `own_bytes` may lie in the cores' own caches and the next in the last-level cache.
  /// 0: not known.
  double Floor(int64_t bytes, int64_t flops) const;
  /// The figures, in words.
  std::string ToString() const;
};

/// Of the first processor, as the system calls it.
WEFT_API std::string CpuModel();
/// Takes about two seconds; the result is kept beside the kernel cache for MachineOf.
WEFT_API Machine MeasureMachine(int threads);
/// What programs of that backend run on (Backend::DescribeMachine). Of backends on the host's
/// memory this processor, measured now where that has not been done for it and this number of
/// threads (0: the backend's).
WEFT_API Machine MachineOf(const std::string& backend, int threads = 0);

/// A step, its time the median of several runs.
struct ProfileRow : StepTime {
  size_t step = 0;   ///< from 1, in order of execution
  double floor = 0;  ///< Machine::Floor, in `unit`; 0 where the machine counts another one
};

/// Of several runs, each timed by `profile`.
WEFT_API std::vector<ProfileRow> ProfileSteps(const std::function<std::vector<StepTime>()>& profile,
                                              const Machine& machine);
/// Sums of all rows; of rows on tracks side by side the duration is from the first start to the
/// last end, and the floor that of the track with the highest one.
WEFT_API ProfileRow SumOf(const std::vector<ProfileRow>& rows);
/// A row with the time at which it begins: its own, or that at which the one before it on its track
/// has ended.
struct PlacedRow {
  const ProfileRow* row;
  double start, end;
};
WEFT_API std::vector<PlacedRow> PlaceRows(const std::vector<ProfileRow>& rows);
/// One that steps ran on.
struct ProfileTrack {
  std::string name;
  size_t steps = 0;
  double busy = 0;   ///< sum of its steps, in `unit`
  double share = 0;  ///< of the time from the first start to the last end of all steps
};
/// In the order in which steps name them. Empty where none does.
WEFT_API std::vector<ProfileTrack> TracksOf(const std::vector<ProfileRow>& rows);
/// The slowest step first, then all of them, and the tracks; with `run_us` also a run as a whole,
/// which is not timed step by step.
WEFT_API std::string ProfileTable(std::vector<ProfileRow> rows, const Machine& machine,
                                  double run_us = 0);

}  // namespace weft
