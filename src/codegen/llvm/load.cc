/// load.cc: links objects of kernels into the process.
///
/// All kernels of a process share one JIT session; each has a library of its own, removed with the
/// last owner of its code. The session outlives every kernel, whatever the order of destructors at
/// exit.
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>

#include "codegen/llvm/llvm_compiler.h"
#include "codegen/llvm/object.h"
#include "codegen/llvm/target.h"
#include "weft/support/check.h"

namespace weft {
namespace {

namespace orc = llvm::orc;

std::string Text(llvm::Error error) { return llvm::toString(std::move(error)); }

/// The shared session, made on first use. Kernels hold it, so it goes with the last of them.
std::shared_ptr<orc::LLJIT> Session() {
  static std::mutex mutex;
  static std::shared_ptr<orc::LLJIT> session;
  std::lock_guard<std::mutex> lock(mutex);
  if (!session) {
    llvmgen::InitializeHost();
    auto made = orc::LLJITBuilder()
                    .setPlatformSetUp(orc::setUpInactivePlatform)
                    .setLinkProcessSymbolsByDefault(false)
                    .create();
    WEFT_CHECK(bool(made), kDevice, "no run-time linker: {}", Text(made.takeError()));
    session = std::move(*made);
  }
  return session;
}

/// All that generated code may call: C's fmod has no vector form, copies may come out of the code
/// generator.
orc::SymbolMap Externals(orc::LLJIT& jit) {
  orc::SymbolMap map;
  const auto add = [&](const char* name, auto* f) {
    map[jit.mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(f),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  add("fmod", static_cast<double (*)(double, double)>(&std::fmod));
  add("fmodf", static_cast<float (*)(float, float)>(&std::fmod));
  add("memcpy", &std::memcpy);
  add("memset", &std::memset);
  return map;
}

struct Code {
  std::shared_ptr<orc::LLJIT> session;
  orc::JITDylib* library = nullptr;
  ~Code() {
    // A failure leaves the pages mapped: nothing a destructor could do about it.
    if (library) llvm::consumeError(session->getExecutionSession().removeJITDylib(*library));
  }
};

}  // namespace

CpuKernel LoadCpuKernel(const Kernel& kernel, const std::string& object) {
  static std::atomic<uint64_t> count{0};
  const std::string name = kernel.Name();
  auto code = std::make_shared<Code>();
  code->session = Session();
  orc::LLJIT& jit = *code->session;
  const auto check = [&](llvm::Error error) {
    if (error)
      WEFT_THROW(kInternal, "kernel {} cannot be linked: {}", name, Text(std::move(error)));
  };
  auto library =
      jit.getExecutionSession().createJITDylib(name + "." + std::to_string(count.fetch_add(1)));
  if (!library) check(library.takeError());
  code->library = &*library;
  check(library->define(orc::absoluteSymbols(Externals(jit))));
  check(jit.addObjectFile(*library, llvm::MemoryBuffer::getMemBufferCopy(object, name)));

  auto entry = jit.lookup(*library, name);
  if (!entry) check(entry.takeError());
  auto scratch = jit.lookup(*library, llvmgen::ScratchSymbol(kernel));
  if (!scratch) check(scratch.takeError());

  CpuKernel k;
  k.fn = entry->toPtr<CpuKernelFn>();
  k.scratch_bytes = SymInt::Parse(scratch->toPtr<const char*>());
  k.source_bytes = int64_t(kernel.CanonicalText().size());
  k.binary_bytes = int64_t(object.size());
  k.code = std::move(code);
  return k;
}

}  // namespace weft
