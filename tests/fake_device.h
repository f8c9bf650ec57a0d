/// fake_device.h: the backend "fake": a device for tests. Its memory is the host's, kept apart: nothing but its own streams
/// may touch it. Work waits in a stream until somebody waits for it, and is computed by the backend "cpu" then.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/runtime/backend.h"
#include "weft/runtime/device.h"

namespace weft::e2e {

/// What the fake device has been asked for; all streams together.
struct FakeDevice {
  std::mutex mutex;
  std::map<uintptr_t, int64_t> blocks;  ///< of its memory: begin, bytes
  int64_t copies_in = 0, copies_out = 0, launches = 0, calls = 0, recordings = 0, replays = 0,
          updates = 0;
  int64_t strangers = 0;  ///< pointers given to it that do not lie in its memory
  int64_t fail_at = -1;   ///< the operation of that number fails, and all after it

  static FakeDevice& Get();
  void Reset();
};

/// Registers the backend, once; needs "cpu".
void RegisterFakeDevice();

}  // namespace weft::e2e
