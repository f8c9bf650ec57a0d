/// test_delegate.h: delegates for tests, whose engine is the interpreter and which err on command:
///
///   test_a, test_b    take what the interpreter can run and has no body
///   test_serial       the same; no two runs of one engine may overlap
///   test_device       operands lie in memory of a device that is not there
///   test_absent       is not installed
///
/// Options: `ops` what it takes, "Relu|Add" (empty: all); `fail` in: version, supports, compile,
/// prepare, run; `code` then: internal, unsupported, oom; `at` the number of the call that fails
/// (0: every one); `largest` elements of a result, above which a region is refused; `sleep_ms` in a
/// run; `off` is added to the first element of every result; `copies` bytes that a run tells.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::e2e {

/// What all of them have been asked for.
struct TestDelegateCounts {
  std::atomic<int64_t> compiled = 0, prepared = 0, runs = 0, imported = 0;
  std::atomic<int64_t> engines = 0, instances = 0;  ///< that exist
  std::atomic<int64_t> overlaps = 0;                ///< runs that began while one was running
  static TestDelegateCounts& Get();
  void Reset();
};

/// Registers them, once. True, for static initialisers.
bool RegisterTestDelegates();

}  // namespace weft::e2e
