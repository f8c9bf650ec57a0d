/// device.cc: see device.h.
#include "device.h"

#include <algorithm>

#include "codegen/cuda/print/printer.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::cuda {
namespace {

// CUdevice_attribute
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kMemoryPools = 115;
// CUmemPool_attribute
constexpr int kReleaseThreshold = 4;
// CUstream_flags: does not wait for the legacy default stream
constexpr unsigned kNonBlocking = 1;
// CUresult
constexpr DriverResult kNoMemory = 2;

/// Errors of work that was given, after which the driver reports nothing else.
bool EndsTheDevice(DriverResult r) {
  switch (r) {
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
    case 226:  // contained error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // assert
    case 714:  // hardware stack
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // tensor memory leak
    case 810:  // client of MPS terminated
    case 999:  // unknown, which stays
      return true;
    default:
      return false;
  }
}

}  // namespace

std::shared_ptr<Device> Device::Open(int ordinal, std::shared_ptr<const DriverApi> api) {
  WEFT_CHECK(api->ok(), kUnsupported, "no CUDA device: {}", api->error);
  std::shared_ptr<Device> d(new Device);
  d->api_ = std::move(api);
  d->ordinal_ = ordinal;
  const DriverApi& a = *d->api_;
  int count = 0;
  d->Check(a.DeviceGetCount(&count), "cuDeviceGetCount");
  WEFT_CHECK(ordinal >= 0 && ordinal < count, kUnsupported,
             "no CUDA device {}: the driver has {} of them (WEFT_CUDA_DEVICE chooses one)", ordinal,
             count);
  d->Check(a.DeviceGet(&d->handle_, ordinal), "cuDeviceGet");
  char name[256] = {};
  d->Check(a.DeviceGetName(name, sizeof name - 1, d->handle_), "cuDeviceGetName");
  d->name_ = name;
  const auto attribute = [&](int which) {
    int value = 0;
    d->Check(a.DeviceGetAttribute(&value, which, d->handle_), "cuDeviceGetAttribute");
    return value;
  };
  d->architecture_ = attribute(kMajor) * 10 + attribute(kMinor);
  d->multiprocessors_ = attribute(kMultiprocessors);
  WEFT_CHECK(attribute(kMemoryPools) != 0, kUnsupported,
             "CUDA device {} ({}) has no stream-ordered memory", ordinal, d->name_);
  int version = 0;
  d->Check(a.DriverGetVersion(&version), "cuDriverGetVersion");
  d->parameter_bytes_ = version >= 12010 ? kMostParameterBytes : kLeastParameterBytes;
  size_t bytes = 0;
  d->Check(a.DeviceTotalMem(&bytes, d->handle_), "cuDeviceTotalMem");
  d->memory_bytes_ = int64_t(bytes);
  d->Check(a.DevicePrimaryCtxRetain(&d->context_, d->handle_), "cuDevicePrimaryCtxRetain");
  const Current current = d->Use();
  PoolProps props;
  props.location_id = d->handle_;
  d->Check(a.MemPoolCreate(&d->pool_, &props), "cuMemPoolCreate");
  uint64_t keep = ~uint64_t{0};  // what is given back stays for the next one
  d->Check(a.MemPoolSetAttribute(d->pool_, kReleaseThreshold, &keep), "cuMemPoolSetAttribute");
  d->Check(a.StreamCreate(&d->memory_stream_, kNonBlocking), "cuStreamCreate");
  return d;
}

Device::~Device() {
  if (!context_) return;
  {
    const Current current = Enter();
    if (memory_stream_) api_->StreamDestroy(memory_stream_);
    if (pool_) api_->MemPoolDestroy(pool_);
  }
  api_->DevicePrimaryCtxRelease(handle_);
}

std::string Device::Text(DriverResult r) const {
  const char *name = nullptr, *text = nullptr;
  api_->GetErrorName(r, &name);
  api_->GetErrorString(r, &text);
  return fmt::format("{} ({})", text ? text : "unknown error", name ? name : std::to_string(r));
}

Device::Current Device::Use() const {
  if (has_ended_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    WEFT_THROW(kDevice, "CUDA device {} is unusable since {}; only a new process can use it again",
               ordinal_, ended_);
  }
  Check(api_->CtxPushCurrent(context_), "cuCtxPushCurrent");
  return Current(api_.get());
}

void Device::Check(DriverResult r, const char* what) const {
  if (r == 0) return;
  const std::string text = fmt::format("{}: {}", what, Text(r));
  if (EndsTheDevice(r)) {
    std::lock_guard lock(mutex_);
    if (ended_.empty()) ended_ = text;
    has_ended_.store(true, std::memory_order_release);
  }
  if (r == kNoMemory) WEFT_THROW(kOutOfMemory, "CUDA device {}: {}", ordinal_, text);
  WEFT_THROW(kDevice, "CUDA device {}: {}", ordinal_, text);
}

std::shared_ptr<void> Device::Allocate(int64_t bytes) {
  const Current current = Use();
  DevicePointer p = 0;
  const DriverResult r =
      api_->MemAllocFromPoolAsync(&p, size_t(std::max<int64_t>(bytes, 1)), pool_, memory_stream_);
  if (r == kNoMemory) {
    size_t free = 0, total = 0;
    api_->MemGetInfo(&free, &total);
    WEFT_THROW(kOutOfMemory, "CUDA device {} has no {} left: {} of {} are free", ordinal_,
               FormatBytes(bytes), FormatBytes(int64_t(free)), FormatBytes(int64_t(total)));
  }
  Check(r, "cuMemAllocFromPoolAsync");
  // The owner waits for its own streams before it releases it.
  std::shared_ptr<void> block(reinterpret_cast<void*>(p), [self = shared_from_this()](void* q) {
    const Current entered = self->Enter();
    self->api_->MemFreeAsync(reinterpret_cast<DevicePointer>(q), self->memory_stream_);
  });
  Check(api_->StreamSynchronize(memory_stream_), "cuStreamSynchronize");
  return block;
}

std::shared_ptr<void> Device::AllocatePinned(int64_t bytes) {
  const Current current = Use();
  void* p = nullptr;
  Check(api_->MemHostAlloc(&p, size_t(std::max<int64_t>(bytes, 1)), 0), "cuMemHostAlloc");
  return {p, [self = shared_from_this()](void* q) {
            const Current entered = self->Enter();
            self->api_->MemFreeHost(q);
          }};
}

}  // namespace weft::cuda
