/// counting_device.h: the backend "counting": a device without CUDA, for what the runtime asks of
/// any device. Its memory is kept apart: nothing but its own streams can touch it, while they work.
/// Work waits in a stream until somebody waits for it, and is computed by the backend "cpu" then.
/// Copies, launches, calls and recordings are counted. What CUDA's backend asks of a driver is seen
/// on emulated_gpu.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/runtime/backend/backend.h"
#include "weft/runtime/backend/device.h"

namespace weft::e2e {

/// What the device has been asked for; all streams together.
struct CountingDevice {
  std::mutex mutex;
  std::map<uintptr_t, int64_t> blocks;  ///< of its memory: begin, bytes
  using Count = std::atomic<int64_t>;
  Count copies_in = 0, copies_out = 0, launches = 0, calls = 0, recordings = 0, replays = 0,
        updates = 0;
  Count strangers = 0;  ///< pointers that do not lie in its memory, when given or when used
  Count fail_at = -1;   ///< the operation of that number fails, and all after it
  /// Calls ask for 64 bytes of scratch memory an element of their first result, and fill it.
  bool greedy_calls = false;
  bool refuses_to_record = false, refuses_calls = false;  ///< in a recording
  std::function<void()> on_prepare;                       ///< is called when a call is to be made

  static CountingDevice& Get();
  void Reset();
};

/// Registers the backend, once, and counts from 0; false, and the test says so, where the backend
/// "cpu" that it needs does not load.
bool StartCountingDevice();

}  // namespace weft::e2e
