/// module.cc: a kernel becomes LLVM IR: the template writes the function.
#include "module.h"

#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <optional>
#include <vector>

#include "codegen/llvm/emit/arrange_loops.h"
#include "codegen/llvm/object/object.h"
#include "codegen/llvm/templates/contraction.h"
#include "codegen/llvm/templates/row_split.h"
#include "codegen/llvm/templates/templates.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

/// Words of the stack become values that the loops carry: through memory each would wait
/// for the one before.
void KeepInRegisters(llvm::Module& module) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    std::vector<llvm::AllocaInst*> words;
    for (llvm::Instruction& i : f.getEntryBlock()) {
      auto* word = llvm::dyn_cast<llvm::AllocaInst>(&i);
      if (word && llvm::isAllocaPromotable(word)) words.push_back(word);
    }
    if (words.empty()) continue;
    llvm::DominatorTree dominators(f);
    llvm::PromoteMemToReg(words, dominators);
  }
}

}  // namespace

std::unique_ptr<llvm::Module> BuildModule(const Kernel& kernel, const CpuTarget& target,
                                          const llvm::TargetMachine& machine,
                                          llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>(kernel.Name(), context);
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  const std::optional<Kernel> contraction = AsContraction(kernel);
  const Kernel adjusted = contraction ? *contraction : ArrangeLoops(kernel);
  RowSplit split;
  ExtentNames names(kernel.num_symbols);
  if (adjusted.has_rows()) split = EmitRowPhases(adjusted, target, *module, names);
  // Both ways only where extents decide between them at run time, or both are to be tested.
  const bool phases_only = !split.items.empty() && split.gain.is_const() && target.split_bytes > 0;
  SymInt scratch = 0;
  if (!phases_only) {
    Emitter emitter(adjusted, target, *module, names);
    switch (adjusted.tmpl) {
      case KernelTemplate::kElementwise:
        scratch = contraction ? EmitContraction(emitter) : EmitElementwise(emitter);
        break;
      case KernelTemplate::kRow:
        scratch = EmitRow(emitter);
        break;
    }
  }
  KeepInRegisters(*module);
  std::string numbers = scratch.ToString();
  if (!split.items.empty())
    numbers += "\n" + split.shared_bytes.ToString() + "\n" + split.gain.ToString();
  for (SymInt items : split.items) numbers += "\n" + items.ToString();
  std::string named;
  for (SymInt definition : names.definitions()) named += "= " + definition.ToString() + "\n";
  numbers = named + numbers;
  auto* text = llvm::ConstantDataArray::getString(context, numbers);
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
