/// llvm_compiler.cc: from kernels to object files, several at a time.
///
/// Every kernel is a module of its own in a context of its own, so that threads share nothing and
/// each kernel has an object that can be stored. An object says how much scratch its kernel needs
/// in a string beside the code.
#include "llvm_compiler.h"

#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "codegen/llvm/object/object_writer.h"
#include "codegen/llvm/templates/contraction.h"
#include "module.h"
#include "weft/support/parallel_for.h"
#include "weft/support/request.h"

namespace weft {
namespace llvmgen {
namespace {

class LlvmCompiler : public KernelCompiler {
 public:
  explicit LlvmCompiler(const LlvmOptions& options)
      : target_(MakeCpuTarget(options)), threads_(std::max(1, options.threads)) {}

  std::string target() const override { return target_.name; }
  std::string source_extension() const override { return ".ll"; }

  std::string Source(const Kernel& kernel) const override {
    llvm::LLVMContext context;
    const auto machine = MakeTargetMachine(target_);
    const auto module = BuildModule(kernel, target_, *machine, context);
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out, nullptr);
    return out.str();
  }

  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override {
    std::vector<std::string> objects(kernels.size()), messages(kernels.size());
    ParallelFor(kernels.size(), threads_, [&](size_t i) {
      RequestScope::Poll();  // what ends the request is no error of the kernel
      std::unique_ptr<ObjectWriter> writer;
      try {
        writer = TakeWriter();
        objects[i] = CompileOne(*kernels[i], &writer);
      } catch (const std::exception& e) {
        objects[i].clear();
        messages[i] = e.what();
        if (messages[i].empty()) messages[i] = "unknown error";
      }
      GiveBack(std::move(writer));
    });
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
  std::unique_ptr<ObjectWriter> TakeWriter() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!writers_.empty()) {
        auto writer = std::move(writers_.back());
        writers_.pop_back();
        return writer;
      }
    }
    return std::make_unique<ObjectWriter>(target_);
  }
  /// Null: it was lost on the way.
  void GiveBack(std::unique_ptr<ObjectWriter> writer) {
    if (!writer) return;
    std::lock_guard<std::mutex> lock(mutex_);
    writers_.push_back(std::move(writer));
  }

  std::string CompileOne(const Kernel& kernel, std::unique_ptr<ObjectWriter>* writer) const {
    auto context = std::make_unique<llvm::LLVMContext>();
    // Names of values are for people: Source() keeps them.
    context->setDiscardValueNames(true);
    std::unique_ptr<llvm::Module> module =
        BuildModule(kernel, target_, (*writer)->machine(), *context);
    try {
      return (*writer)->Write(*module);
    } catch (...) {
      // What an exception went through is in no state to be destroyed: it is left where it lies.
      static_cast<void>(module.release());
      static_cast<void>(context.release());
      static_cast<void>(writer->release());
      throw;
    }
  }

  CpuTarget target_;
  int threads_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ObjectWriter>> writers_;  ///< idle; guarded by mutex_
};

}  // namespace
}  // namespace llvmgen

std::unique_ptr<KernelCompiler> MakeLlvmCompiler(const LlvmOptions& options) {
  return std::make_unique<llvmgen::LlvmCompiler>(options);
}

std::optional<Kernel> ContractionOf(const Kernel& kernel) { return llvmgen::AsContraction(kernel); }

}  // namespace weft
