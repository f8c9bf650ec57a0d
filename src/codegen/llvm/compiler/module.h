/// module.h: a kernel as LLVM IR.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

#include "codegen/llvm/emit/target.h"
#include "weft/codegen/kernel/kernel.h"

namespace weft::llvmgen {

/// The module of one kernel: its function, and a string beside it that says how much scratch the
/// function needs. Checked by LLVM's verifier where the target asks for that.
std::unique_ptr<llvm::Module> BuildModule(const Kernel& kernel, const CpuTarget& target,
                                          const llvm::TargetMachine& machine,
                                          llvm::LLVMContext& context);

}  // namespace weft::llvmgen
