/// object_writer.h: LLVM IR becomes an object file.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>
#include <string>

#include "codegen/llvm/emit/target.h"

namespace weft::llvmgen {

/// A code generator and its passes, made once and used for one module after the other: making them
/// takes a fifth of the time of compiling a small kernel. One a thread.
class ObjectWriter {
 public:
  explicit ObjectWriter(const CpuTarget& target);
  const llvm::TargetMachine& machine() const { return *machine_; }
  /// Machine code of the module, which is spent afterwards.
  std::string Write(llvm::Module& module);

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallVector<char, 0> object_;
  llvm::raw_svector_ostream out_{object_};
  llvm::legacy::PassManager passes_;
};

}  // namespace weft::llvmgen
