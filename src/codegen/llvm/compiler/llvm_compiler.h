/// llvm_compiler.h: kernels for the host CPU through LLVM: compiling to object files, and linking
/// them into the process.
///
/// The printer writes explicit vector IR and runs no IR passes, so that a kernel takes about two
/// milliseconds from `Kernel` to machine code. Objects are position-independent and refer to
/// nothing outside themselves but `memcpy`, `memset`, `fmod` and `fmodf`; they may be stored on
/// disk and linked by another process with an equal `target()`.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "codegen/llvm/emit/llvm_options.h"
#include "weft/codegen/kernel/kernel.h"

namespace weft {

/// Throws kUnsupported when `options.cpu` is not known to this LLVM.
std::unique_ptr<KernelCompiler> MakeLlvmCompiler(const LlvmOptions& options = {});

/// Links one object made by an LLVM compiler of this target. The code lives as long as
/// `CpuKernel::code`. Thread-safe. Throws kInternal when the object cannot be linked or lacks the
/// kernel's entry.
CpuKernel LoadCpuKernel(const Kernel& kernel, const std::string& object);

/// The kernel over single points where its code makes sums of products of rows by a matrix, all of
/// a point together; nothing where it does not.
std::optional<Kernel> ContractionOf(const Kernel& kernel);

}  // namespace weft
