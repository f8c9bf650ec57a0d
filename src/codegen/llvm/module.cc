/// module.cc: a kernel becomes LLVM IR: the template writes the function.
#include "codegen/llvm/module.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/llvm/object.h"
#include "codegen/llvm/templates.h"
#include "weft/support/check.h"

namespace weft::llvmgen {

std::unique_ptr<llvm::Module> BuildModule(const Kernel& kernel, const CpuTarget& target,
                                          const llvm::TargetMachine& machine,
                                          llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>(kernel.Name(), context);
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  Kernel adjusted = kernel;  // keeps its name
  adjusted.vector_loop = ChooseVectorLoop(kernel);
  Emitter emitter(adjusted, target, *module);
  const SymInt scratch =
      kernel.tmpl == KernelTemplate::kRow ? EmitRow(emitter) : EmitElementwise(emitter);
  auto* text = llvm::ConstantDataArray::getString(context, scratch.ToString());
  new llvm::GlobalVariable(*module, text->getType(), true, llvm::GlobalValue::ExternalLinkage, text,
                           ScratchSymbol(kernel));
  if (target.verify) {
    std::string message;
    llvm::raw_string_ostream out(message);
    const bool broken = llvm::verifyModule(*module, &out);
    WEFT_ICHECK(!broken, "generated code is malformed: {}", message);
  }
  return module;
}

}  // namespace weft::llvmgen
