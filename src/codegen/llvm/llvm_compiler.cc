/// llvm_compiler.cc: from kernels to object files, several at a time.
///
/// Every kernel is a module of its own in a context of its own, so that threads share nothing and
/// each kernel has an object that can be stored. An object says how much scratch its kernel needs
/// in a string beside the code.
#include "codegen/llvm/llvm_compiler.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "codegen/llvm/object.h"
#include "codegen/llvm/templates.h"
#include "weft/support/check.h"

namespace weft {
namespace llvmgen {
namespace {

std::unique_ptr<llvm::Module> MakeModule(const Kernel& kernel, const CpuTarget& target,
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

class LlvmCompiler : public KernelCompiler {
 public:
  explicit LlvmCompiler(const LlvmOptions& options)
      : target_(MakeCpuTarget(options)), threads_(std::max(1, options.threads)) {}

  std::string target() const override { return target_.name; }
  std::string source_extension() const override { return ".ll"; }

  std::string Source(const Kernel& kernel) const override {
    llvm::LLVMContext context;
    const auto machine = MakeTargetMachine(target_);
    const auto module = MakeModule(kernel, target_, *machine, context);
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out, nullptr);
    return out.str();
  }

  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override {
    std::vector<std::string> objects(kernels.size()), messages(kernels.size());
    std::atomic<size_t> next{0};
    const auto work = [&] {
      std::unique_ptr<llvm::TargetMachine> machine;
      for (size_t i; (i = next.fetch_add(1)) < kernels.size();) {
        try {
          if (!machine) machine = TakeMachine();
          objects[i] = CompileOne(*kernels[i], *machine);
        } catch (const std::exception& e) {
          objects[i].clear();
          messages[i] = e.what();
          if (messages[i].empty()) messages[i] = "unknown error";
        }
      }
      if (!machine) return;
      std::lock_guard<std::mutex> lock(mutex_);
      machines_.push_back(std::move(machine));
    };
    std::vector<std::thread> threads;
    const size_t wanted = std::min(size_t(threads_), kernels.size());
    for (size_t t = 1; t < wanted; ++t) {
      try {
        threads.emplace_back(work);
      } catch (const std::system_error&) {
        break;  // The machine has no more threads: those that run do all the work.
      }
    }
    work();
    for (std::thread& t : threads) t.join();
    if (errors) *errors = std::move(messages);
    return objects;
  }

  KernelStats Stats(const Kernel& kernel, const std::string& binary) const override {
    KernelStats s;
    s.name = kernel.Name();
    s.source_bytes = int64_t(kernel.CanonicalText().size());
    s.binary_bytes = int64_t(binary.size());
    return s;
  }

 private:
  /// Making a machine takes as long as emitting a small kernel, so they are used again.
  std::unique_ptr<llvm::TargetMachine> TakeMachine() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!machines_.empty()) {
        auto machine = std::move(machines_.back());
        machines_.pop_back();
        return machine;
      }
    }
    return MakeTargetMachine(target_);
  }

  std::string CompileOne(const Kernel& kernel, llvm::TargetMachine& machine) const {
    llvm::LLVMContext context;
    // Names of values are for people: Source() keeps them.
    context.setDiscardValueNames(true);
    const auto module = MakeModule(kernel, target_, machine, context);
    llvm::SmallVector<char, 0> object;
    llvm::raw_svector_ostream out(object);
    llvm::legacy::PassManager passes;
    WEFT_CHECK(!machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile,
                                            /*DisableVerify=*/true),
               kUnsupported, "this machine has no object files");
    passes.run(*module);
    return std::string(object.begin(), object.end());
  }

  CpuTarget target_;
  int threads_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> machines_;  ///< idle; guarded by mutex_
};

}  // namespace
}  // namespace llvmgen

std::unique_ptr<KernelCompiler> MakeLlvmCompiler(const LlvmOptions& options) {
  return std::make_unique<llvmgen::LlvmCompiler>(options);
}

}  // namespace weft
