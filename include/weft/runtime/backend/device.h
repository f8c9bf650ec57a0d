/// device.h: a device with memory of its own, as programs see it.
///
/// A DeviceBackend runs its programs there: operands of kernels and calls are in memory of its
/// Allocate, and both are given to a stream (DeviceLauncher::Enqueue, DeviceCall::Enqueue). The
/// program copies what is fed and fetched; state variables stay on the device from run to run, and
/// the store fetches them when the host asks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weft/support/api.h"

namespace weft {

/// Work for a device, done in the order in which it is given, later than the calls that give it.
/// One thread at a time. Every member throws what went wrong in work given before, or could not
/// be given: kOutOfMemory, kDevice.
class WEFT_API DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  /// The host's memory may change as soon as this returns.
  virtual void CopyIn(void* device, const void* host, int64_t bytes) = 0;
  /// The host's memory is written when the next Wait returns, and not to be touched before.
  virtual void CopyOut(void* host, const void* device, int64_t bytes) = 0;
  /// Between two places of the device that do not overlap.
  virtual void Copy(void* to, const void* from, int64_t bytes) = 0;
  /// Zeros.
  virtual void Clear(void* device, int64_t bytes) = 0;
  /// Returns when all that was given is done.
  virtual void Wait() = 0;
  /// Work of a library that takes the stream as the device's own interface calls it (a CUstream):
  /// `work` gives it there, with the device's context current. Where there is nothing of the kind
  /// (the default) it is given null when all before it is done, and returns when its own work is.
  virtual void Give(const std::function<void(void* native)>& work);

  /// A place in the order of the work. Any thread may ask and wait.
  class Point {
   public:
    virtual ~Point() = default;
    virtual bool Reached() const = 0;
    virtual void Wait() const = 0;
  };
  /// Behind all that was given so far; null where that is done, as it is on a stream that waits for
  /// it here (the default).
  virtual std::shared_ptr<Point> Mark();
  /// As Wait, for what was given before the point.
  virtual void Wait(const Point& point);

  /// What was given once, to be done again at the same addresses and with the
  /// same contents of CopyIn.
  class Recording {
   public:
    virtual ~Recording() = default;
  };
  /// Records what `give` gives to this stream, and does none of it. Null, with `give` not called,
  /// where the device cannot. `earlier`: one of the same work at other addresses, which may become
  /// the new one; null: there is none.
  virtual std::unique_ptr<Recording> Record(const std::function<void()>& give,
                                            std::unique_ptr<Recording> earlier);
  virtual void Replay(const Recording& recording);
  /// A run ends with what was given so far: memory for copies that runs of late had no need of
  /// may go. Throws nothing.
  virtual void EndRun() {}
};

}  // namespace weft
