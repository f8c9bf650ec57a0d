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
#include <new>
#include <sstream>

#include "codegen/llvm/emit/target.h"
#include "codegen/llvm/object/object.h"
#include "llvm_compiler.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

namespace orc = llvm::orc;

std::string ErrorText(llvm::Error error) { return llvm::toString(std::move(error)); }

/// A run-time linker. One that memory ran out in may hold its locks for ever: it is never entered
/// again, nor destroyed, and what it loaded stays.
struct Linker {
  std::unique_ptr<orc::LLJIT> jit;
  std::atomic<bool> broken{false};
  ~Linker() {
    if (broken) static_cast<void>(jit.release());
  }
};

/// The shared session, made on first use and again where it broke. Kernels hold it, so it goes with
/// the last of them.
std::shared_ptr<Linker> Session() {
  static std::mutex mutex;
  static std::shared_ptr<Linker> session;
  std::lock_guard<std::mutex> lock(mutex);
  if (!session || session->broken) {
    llvmgen::InitializeHost();
    auto fresh = std::make_shared<Linker>();
    auto made = orc::LLJITBuilder()
                    .setPlatformSetUp(orc::setUpInactivePlatform)
                    .setLinkProcessSymbolsByDefault(false)
                    .create();
    WEFT_CHECK(bool(made), kDevice, "no run-time linker: {}", ErrorText(made.takeError()));
    fresh->jit = std::move(*made);
    session = std::move(fresh);
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
  std::shared_ptr<Linker> session;
  orc::JITDylib* library = nullptr;
  ~Code() {
    if (!library || session->broken) return;
    // A failure leaves the pages mapped: nothing a destructor could do about it.
    try {
      llvm::consumeError(session->jit->getExecutionSession().removeJITDylib(*library));
    } catch (...) {
      session->broken = true;
    }
  }
};

CpuKernel LoadKernel(const Kernel& kernel, const std::string& object,
                     const std::shared_ptr<Code>& code) {
  static std::atomic<uint64_t> count{0};
  const std::string name = kernel.Name();
  orc::LLJIT& jit = *code->session->jit;
  const auto check = [&](llvm::Error error) {
    if (error)
      WEFT_THROW(kInternal, "kernel {} cannot be linked: {}", name, ErrorText(std::move(error)));
  };
  auto library =
      jit.getExecutionSession().createJITDylib(name + "." + std::to_string(count.fetch_add(1)));
  if (!library) check(library.takeError());
  code->library = &*library;
  check(library->define(orc::absoluteSymbols(Externals(jit))));
  check(jit.addObjectFile(*library, llvm::MemoryBuffer::getMemBufferCopy(object, name)));

  auto scratch = jit.lookup(*library, llvmgen::ScratchSymbol(kernel));
  if (!scratch) check(scratch.takeError());

  CpuKernel k;
  std::vector<SymInt> numbers;
  std::istringstream lines(scratch->toPtr<const char*>());
  for (std::string line; std::getline(lines, line);) {
    const bool named = StartsWith(line, "= ");
    (named ? k.named : numbers).push_back(SymInt::ParseExtents(named ? line.substr(2) : line));
  }
  k.scratch_bytes = numbers.at(0);
  if (numbers.size() > 3) {
    k.shared_bytes = numbers[1];
    k.phase_gain = numbers[2];
  }
  for (size_t i = 3; i < numbers.size(); ++i) {
    auto phase = jit.lookup(*library, llvmgen::PhaseSymbol(kernel, i - 3));
    if (!phase) check(phase.takeError());
    k.phases.push_back({phase->toPtr<CpuKernelFn>(), numbers[i]});
  }
  // Where phases are the only way, the whole has no code.
  auto entry = jit.lookup(*library, name);
  if (entry)
    k.fn = entry->toPtr<CpuKernelFn>();
  else if (!k.phases.empty() && k.phase_gain.is_const())
    llvm::consumeError(entry.takeError());
  else
    check(entry.takeError());
  k.source_bytes = int64_t(kernel.CanonicalText().size());
  k.binary_bytes = int64_t(object.size());
  k.code = code;
  return k;
}

}  // namespace

CpuKernel LoadCpuKernel(const Kernel& kernel, const std::string& object) {
  auto code = std::make_shared<Code>();
  code->session = Session();
  try {
    return LoadKernel(kernel, object, code);
  } catch (const std::bad_alloc&) {
    code->session->broken = true;
    WEFT_THROW(kOutOfMemory, "out of memory while kernel {} was linked", kernel.Name());
  }
}

}  // namespace weft
