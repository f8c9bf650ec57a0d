/// launcher.h: compiled kernels on a device: loaded once, launched as the printer's contract says
/// (codegen/cuda/print/printer.h). Private to src/backends/cuda.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/driver/device.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/runtime/backend/backend.h"

namespace weft::cuda {

/// One cubin on a device. Kernels may share it.
class Module {
 public:
  Module(std::shared_ptr<Device> device, const std::string& cubin);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// Throws kDevice where it has no such entry.
  KernelHandle* Get(const std::string& entry) const;
  /// Has it the entry? One made by NVRTC before 12.1 lacks those with parameters of 32 KB.
  bool Has(const std::string& entry) const;
  Device& device() const { return *device_; }

 private:
  std::shared_ptr<Device> device_;
  LibraryHandle* library_ = nullptr;
};

std::shared_ptr<DeviceLauncher> MakeLauncher(const Kernel& kernel, std::shared_ptr<Module> module);
/// `modules`: one for each of lowered.Kernels().
std::shared_ptr<DeviceLauncher> MakeMultiLauncher(const LoweredKernel& lowered,
                                                  std::vector<std::shared_ptr<Module>> modules);

}  // namespace weft::cuda
