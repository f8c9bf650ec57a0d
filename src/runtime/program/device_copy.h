/// device_copy.h: a state variable's place on a device. Private to the runtime; guarded by the
/// lock of its store.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>

#include "weft/core/tensor/tensor.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/backend/device.h"

namespace weft {

class DeviceCopy {
 public:
  DeviceCopy() = default;
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() {
    try {
      WaitForUser();
    } catch (const std::exception&) {
      // The device has failed, and with it whoever used this.
    }
  }
  /// The content on that device, brought there where the host's is newer. `writes`: it
  /// will be changed there.
  void* On(const std::shared_ptr<Backend>& backend, DeviceStream& stream,
           const std::shared_ptr<Tensor>& host, bool writes) {
    if (backend != backend_ || host != host_) {
      ToHost();
      WaitForUser();
      memory_ = backend->Allocate(std::max<int64_t>(host->num_bytes(), 1));
      backend_ = backend;
      host_ = host;
      behind_ = true;
    }
    if (&stream != user_) WaitForUser();
    user_ = &stream;
    if (behind_ && host->num_bytes() > 0)
      stream.CopyIn(memory_.get(), host->data(), host->num_bytes());
    behind_ = false;
    ahead_ = ahead_ || writes;
    return memory_.get();
  }
  /// The run that last asked for it ends there; null: it has ended.
  void UsedUntil(std::shared_ptr<DeviceStream::Point> end) { end_ = std::move(end); }
  /// The host's tensor has what the device has.
  void ToHost() {
    if (!ahead_) return;
    WaitForUser();
    if (host_->num_bytes() > 0) {
      const std::unique_ptr<DeviceStream> stream = backend_->device()->NewStream();
      stream->CopyOut(host_->mutable_data(), memory_.get(), host_->num_bytes());
      stream->Wait();
    }
    ahead_ = false;
  }
  /// The device has content that the host's tensor lacks.
  bool ahead() const { return ahead_; }
  /// The host's tensor is about to be written, in part or as a whole.
  void FallBehind() {
    ToHost();
    behind_ = true;
  }
  /// It is another one, or all of it is.
  void Overwritten() {
    behind_ = true;
    ahead_ = false;
  }

 private:
  void WaitForUser() {
    if (end_) end_->Wait();
    end_.reset();
  }

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<void> memory_;
  std::shared_ptr<Tensor> host_;
  const DeviceStream* user_ = nullptr;        ///< of the last run
  std::shared_ptr<DeviceStream::Point> end_;  ///< where that ends
  bool behind_ = true, ahead_ = false;
};

}  // namespace weft
