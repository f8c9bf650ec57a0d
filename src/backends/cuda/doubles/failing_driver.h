/// failing_driver.h: a table in the place of the CUDA driver (backends/cuda/driver/driver_api.h):
/// one device with the host's memory, whose kernels run on emulated threads. Work waits in its
/// stream until somebody waits for the stream. Any call can be made to fail; everything that is
/// made and not given back, and every call that is out of order, shows. Threads have a stack of
/// contexts each. For tests of what talks to the driver itself; tests/support/emulated_gpu.h has a
/// backend on top.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver_api.h"
#include "codegen/cuda/emulator/emulator.h"

namespace weft::e2e {

struct FailingDriver {
  const cuda::EmulatedLibrary* kernels = nullptr;  ///< where entries are looked for
  int devices = 1, architecture = 90, multiprocessors = 2, version = 12040;
  int64_t memory_bytes = int64_t{1} << 30;

  /// The call of that number to the entry of that name gives `result`; where `for_ever`, so does
  /// every later call to any.
  struct Failure {
    std::string entry;
    int64_t call = 0;
    int result = 0;
    bool for_ever = false;
  } failure;

  std::string lacks;  ///< entries of kernels whose names end so are not there; empty: all are

  std::map<std::string, int64_t> calls;  ///< by name of the entry
  std::vector<std::string> launched;     ///< entries of kernels, in the order in which they ran
  std::vector<std::string> problems;     ///< misuse, and what the emulator found
  std::map<uint64_t, int64_t> memory;    ///< of the device: begin, bytes
  std::map<uint64_t, int64_t> pinned_memory;  ///< of the host: begin, bytes
  int64_t pageable = 0;  ///< copies to other memory of the host: the driver waited for them
  std::vector<int64_t> graph_copies;  ///< bytes of nodes that copy
  int64_t pinned = 0, streams = 0, pools = 0, libraries = 0, graphs = 0, contexts = 0, events = 0;

  int64_t alive() const {
    return int64_t(memory.size()) + pinned + streams + pools + libraries + graphs + contexts +
           events;
  }
  static FailingDriver& Get();
  /// From now on this thread is one of a caller with a context of its own, which is current.
  static void BecomeCaller();
  /// Is that so again, or still?
  static bool CallerIsCurrent();
  /// As new; nothing may be alive.
  void Reset();
};

std::shared_ptr<const cuda::DriverApi> FailingDriverTable();
/// What a library gives to a stream, which may be captured.
void GiveWork(cuda::StreamHandle* stream, std::function<void()> work);

}  // namespace weft::e2e
