/// device_tensor.cc: see device_tensor.h.
#include "weft/runtime/backend/device_tensor.h"

#include <algorithm>

#include "weft/support/check.h"

namespace weft {
namespace {

DeviceBackend& DeviceOf(const std::shared_ptr<Backend>& backend) {
  WEFT_CHECK(backend, kApiMisuse, "no backend is given");
  DeviceBackend* device = backend->device();
  WEFT_CHECK(device && !device->place().on_host(), kUnsupported,
             "tensors have no place in memory of the backend '{}'", backend->name());
  return *device;
}

}  // namespace

std::shared_ptr<Tensor> NewTensorOn(const std::shared_ptr<Backend>& backend, DType dtype,
                                    std::vector<int64_t> dims) {
  DeviceBackend& device = DeviceOf(backend);
  WEFT_CHECK(DTypeBits(dtype) > 0, kUnsupported, "tensors of {} have no place on a device",
             DTypeName(dtype));
  struct Block {
    std::shared_ptr<Backend> backend;  // outlives its memory
    std::shared_ptr<void> memory;
  };
  const auto block = std::make_shared<Block>();
  block->backend = backend;
  block->memory = device.Allocate(std::max<int64_t>(DTypeBytes(dtype, NumElements(dims)), 1));
  return std::make_shared<Tensor>(dtype, std::move(dims), block->memory.get(), block,
                                  device.place());
}

std::shared_ptr<Tensor> CopyTo(const std::shared_ptr<Backend>& backend, const Tensor& host) {
  WEFT_CHECK(host.on_host() && host.is_tensor(), kApiMisuse, "a tensor on {} is not the host's",
             host.place().ToString());
  std::shared_ptr<Tensor> t = NewTensorOn(backend, host.dtype(), host.dims());
  if (host.num_bytes() == 0) return t;
  const std::unique_ptr<DeviceStream> stream = DeviceOf(backend).NewStream();
  stream->CopyIn(t->mutable_data(), host.data(), host.num_bytes());
  stream->Wait();
  return t;
}

std::shared_ptr<Tensor> CopyFrom(const std::shared_ptr<Backend>& backend, const Tensor& on_device) {
  DeviceBackend& device = DeviceOf(backend);
  WEFT_CHECK(on_device.place() == device.place(), kApiMisuse,
             "a tensor on {} is not the backend's, which is on {}", on_device.place().ToString(),
             device.place().ToString());
  auto t = std::make_shared<Tensor>(on_device.dtype(), on_device.dims());
  if (t->num_bytes() == 0) return t;
  const std::unique_ptr<DeviceStream> stream = device.NewStream();
  stream->CopyOut(t->mutable_data(), on_device.data(), t->num_bytes());
  stream->Wait();
  return t;
}

}  // namespace weft
