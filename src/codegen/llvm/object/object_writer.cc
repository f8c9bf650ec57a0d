/// object_writer.cc: which of LLVM's passes run between IR and machine code.
///
/// The emitter has already done what most of them are for: what is invariant stands outside of the
/// loops, no expression is computed twice, addresses are a base and an index, and no block is
/// unreachable. Left out are
/// - all passes over the IR but the one that splits masked accesses where the CPU has none;
/// - machine passes that find nothing in such code, and the scheduler before register allocation:
///   the selector's own list scheduler has ordered each block.
/// Together they took a quarter of the time of a compilation; over the kernels of
/// bench_kernel_compile code without them is as fast. Kept were those whose absence was measured:
/// hoisting out of loops (constants; 5 % on exponentials and polynomials), the scheduler after
/// register allocation and the combiner of additions (7 % each where vectors become bfloat16).
#include "object_writer.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>

#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

void DisablePasses(llvm::TargetPassConfig* config) {
  for (const char* id : {
           // Before register allocation. Nothing is common, sinkable or dead any more.
           &llvm::EarlyTailDuplicateID,
           &llvm::OptimizePHIsID,
           &llvm::StackColoringID,
           &llvm::LocalStackSlotAllocationID,
           &llvm::EarlyIfConverterID,
           &llvm::MachineCSEID,
           &llvm::MachineSinkingID,
           &llvm::PeepholeOptimizerID,
           &llvm::LiveRangeShrinkID,
           &llvm::MachineSchedulerID,
           // After it. Copies are few, frames small, blocks in order.
           &llvm::StackSlotColoringID,
           &llvm::MachineCopyPropagationID,
           &llvm::MachineLICMID,
           &llvm::RemoveRedundantDebugValuesID,
           &llvm::FixupStatepointCallerSavedID,
           &llvm::PostRAMachineSinkingID,
           &llvm::ShrinkWrapID,
           &llvm::MachineLateInstrsCleanupID,
           &llvm::TailDuplicateID,
           // Tracing, patching, exceptions, garbage collection, debug information.
           &llvm::FEntryInserterID,
           &llvm::XRayInstrumentationID,
           &llvm::PatchableFunctionID,
           &llvm::FuncletLayoutID,
           &llvm::StackMapLivenessID,
           &llvm::LiveDebugValuesID,
           &llvm::MachineSanitizerBinaryMetadataID,
           &llvm::StackFrameLayoutAnalysisPassID,
           &llvm::GCMachineCodeAnalysisID,
       })
    config->disablePass(id);
}

}  // namespace

ObjectWriter::ObjectWriter(const CpuTarget& target) : machine_(MakeTargetMachine(target)) {
  auto& machine = static_cast<llvm::LLVMTargetMachine&>(*machine_);
  auto* info = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig* config = machine.createPassConfig(passes_);
  config->setDisableVerify(true);
  DisablePasses(config);
  passes_.add(config);
  passes_.add(info);
  passes_.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes_.add(llvm::createScalarizeMaskedMemIntrinLegacyPass());
  const bool no_selector = config->addInstSelector();
  passes_.add(llvm::Pass::createPass(&llvm::FinalizeISelID));
  config->addMachinePasses();
  config->setInitialized();
  const bool no_printer = machine.addAsmPrinter(
      passes_, out_, nullptr, llvm::CodeGenFileType::ObjectFile, info->getMMI().getContext());
  WEFT_CHECK(!no_selector && !no_printer, kUnsupported, "this machine has no object files");
  passes_.add(llvm::createFreeMachineFunctionPass());
}

std::string ObjectWriter::Write(llvm::Module& module) {
  object_.clear();
  passes_.run(module);
  return std::string(object_.begin(), object_.end());
}

}  // namespace weft::llvmgen
