/// llvm_compiler.h: kernels for the host CPU through LLVM: compiling to object files, and linking
/// them into the process.
///
/// The printer writes explicit vector IR and runs no IR passes, so that a kernel takes about two
/// milliseconds from `Kernel` to machine code. Objects are position-independent and refer to
/// nothing outside themselves but `memcpy`, `memset`, `fmod` and `fmodf`; they may be stored on
/// disk and linked by another process with an equal `target()`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/codegen/kernel.h"

namespace weft {

struct LlvmOptions {
  std::string
      cpu;  ///< LLVM name of a CPU, e.g. "x86-64-v3"; empty: the host with exactly its features
  int vector_bits = 0;  ///< width of a native vector: 128, 256 or 512; 0: the widest of the CPU
  int threads = 2;      ///< threads of one `Compile`
  /// Outputs of this many bytes or more in total are written past the caches (no read for
  /// ownership: a third more bandwidth where the result does not fit the last-level cache anyway).
  /// Negative: never.
  int64_t streaming_bytes = int64_t{16} << 20;
  /// Work (bytes read and written) from which rows that are few, or read by columns, are cut into
  /// chunks for all threads. 0: always, into as many as there can be (tests).
  int64_t split_bytes = int64_t{256} << 10;
  bool verify = false;  ///< run LLVM's verifier on every module (tests)
};

/// Throws kUnsupported when `options.cpu` is not known to this LLVM.
std::unique_ptr<KernelCompiler> MakeLlvmCompiler(const LlvmOptions& options = {});

/// Links one object made by an LLVM compiler of this target. The code lives as long as
/// `CpuKernel::code`. Thread-safe. Throws kInternal when the object cannot be linked or lacks the
/// kernel's entry.
CpuKernel LoadCpuKernel(const Kernel& kernel, const std::string& object);

}  // namespace weft
