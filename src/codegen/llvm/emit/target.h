/// target.h: which CPU code is generated for, and how wide its vectors are.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "llvm_options.h"

namespace weft::llvmgen {

struct CpuTarget {
  std::string cpu;
  std::string features;  ///< "+avx512f,-..." as LLVM reads it; empty: what `cpu` implies
  int vector_bits = 0;
  bool masks = false;  ///< AVX-512 F, BW, DQ, VL: masked access of every element size costs nothing
  int64_t streaming_bytes = 0;
  int64_t split_bytes = 0;
  bool verify = false;
  std::string name;  ///< what KernelCompiler::target() says
};

/// Registers LLVM's code generator for this machine, once.
void InitializeHost();

/// Throws kUnsupported for a CPU that LLVM does not know, or one too old.
CpuTarget MakeCpuTarget(const LlvmOptions& options);
/// One a thread: a TargetMachine must not be shared by concurrent compilations.
std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(const CpuTarget& target);

}  // namespace weft::llvmgen
