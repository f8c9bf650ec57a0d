/// device_home.h: a state variable's place on a device whose programs the runtime makes. Private to
/// the runtime.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>

#include "weft/core/tensor/tensor.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/backend/device.h"
#include "weft/runtime/program/state_variable.h"

namespace weft {

class DeviceHome final : public VariableHome {
 public:
  DeviceHome(std::shared_ptr<Backend> backend, int64_t bytes)
      : backend_(std::move(backend)), memory_(backend_->Allocate(std::max<int64_t>(bytes, 1))) {}
  DeviceHome(const DeviceHome&) = delete;
  DeviceHome& operator=(const DeviceHome&) = delete;
  ~DeviceHome() override {
    try {
      WaitForUser();
    } catch (const std::exception&) {
      // The device has failed, and with it whoever used this.
    }
  }
  /// Copied by the stream of the run that asks next.
  void Load(const Tensor& host) override { newer_ = &host; }
  void Fetch(Tensor* host) override {
    WaitForUser();
    if (newer_ || host->num_bytes() == 0) return;
    const std::unique_ptr<DeviceStream> stream = backend_->device()->NewStream();
    stream->CopyOut(host->mutable_data(), memory_.get(), host->num_bytes());
    stream->Wait();
  }
  /// The content, for work given to this stream.
  void* On(DeviceStream& stream) {
    if (&stream != user_) WaitForUser();
    user_ = &stream;
    if (newer_ && newer_->num_bytes() > 0)
      stream.CopyIn(memory_.get(), newer_->data(), newer_->num_bytes());
    newer_ = nullptr;
    return memory_.get();
  }
  /// The run that last asked for it ends there; null: it has ended.
  void UsedUntil(std::shared_ptr<DeviceStream::Point> end) { end_ = std::move(end); }

 private:
  void WaitForUser() {
    if (end_) end_->Wait();
    end_.reset();
  }

  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<void> memory_;
  const DeviceStream* user_ = nullptr;        ///< of the last run
  std::shared_ptr<DeviceStream::Point> end_;  ///< where that ends
  const Tensor* newer_ = nullptr;             ///< what is to be copied in
};

}  // namespace weft
