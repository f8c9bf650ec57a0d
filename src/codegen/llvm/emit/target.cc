/// target.cc: the CPU that code is generated for.
#include "target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft::llvmgen {

namespace {

/// Part of every binary's identity: raise it whenever the generated code may change.
constexpr int kGeneratorVersion = 18;

/// By default LLVM ends the process where memory runs out or something is beyond it.
/// Exceptions pass through its frames without their destructors: whoever calls it drops what
/// it was working on.
void OutOfMemory(void*, const char*, bool) { throw std::bad_alloc(); }
void FatalError(void*, const char* reason, bool) {
  WEFT_THROW(kDevice, "the code generator gave up: {}", reason ? reason : "no reason given");
}

const llvm::Target& HostTarget() {
  static std::once_flag once;
  static const llvm::Target* target = nullptr;
  static std::string error;
  std::call_once(once, [] {
    // This LLVM is ours alone: static, its symbols hidden.
    llvm::install_bad_alloc_error_handler(OutOfMemory);
    llvm::install_fatal_error_handler(FatalError);
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    target = llvm::TargetRegistry::lookupTarget(llvm::sys::getProcessTriple(), error);
  });
  WEFT_CHECK(target, kUnsupported, "no code generator for this machine: {}", error);
  return *target;
}

std::unique_ptr<llvm::TargetMachine> CreateMachine(const std::string& cpu,
                                                   const std::string& features) {
  llvm::TargetOptions options;
  // A product and a sum are one operation only where the expression says kFma.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.TrapUnreachable = false;
  return std::unique_ptr<llvm::TargetMachine>(HostTarget().createTargetMachine(
      llvm::sys::getProcessTriple(), cpu, features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
}

}  // namespace

void InitializeHost() { HostTarget(); }

CpuTarget MakeCpuTarget(const LlvmOptions& options) {
  CpuTarget t;
  if (options.cpu.empty()) {
    t.cpu = llvm::sys::getHostCPUName().str();
    std::vector<std::string> features;
    for (const auto& f : llvm::sys::getHostCPUFeatures()) {
      features.push_back((f.second ? "+" : "-") + f.first().str());
    }
    std::sort(features.begin(), features.end());
    for (const std::string& f : features) t.features += (t.features.empty() ? "" : ",") + f;
  } else {
    t.cpu = options.cpu;
  }
  // Asked of a machine without a name: one made with an unknown name complains on stderr.
  WEFT_CHECK(CreateMachine("", "")->getMCSubtargetInfo()->isCPUStringValid(t.cpu), kUnsupported,
             "CPU '{}' is not known to the code generator", t.cpu);
  const auto machine = CreateMachine(t.cpu, t.features);
  const auto has = [&](const char* feature) {
    return machine->getMCSubtargetInfo()->checkFeatures(std::string("+") + feature);
  };
  const bool avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  const int widest = avx512 ? 512 : has("avx2") ? 256 : 128;
  WEFT_CHECK(options.vector_bits == 0 || options.vector_bits == 128 || options.vector_bits == 256 ||
                 options.vector_bits == 512,
             kUsage, "vectors of {} bits; expected 128, 256 or 512", options.vector_bits);
  t.vector_bits = options.vector_bits == 0 ? widest : std::min(options.vector_bits, widest);
  t.masks = avx512;
  // Every x86 CPU since 2013. Without them f16 and kFma would be calls into a library that
  // generated code does not have.
  WEFT_CHECK(has("f16c") && has("fma"), kUnsupported, "CPU '{}' has no F16C and FMA instructions",
             t.cpu);
  t.streaming_bytes = options.streaming_bytes;
  t.split_bytes = options.split_bytes;
  t.verify = options.verify;
  Hasher h;
  h.Add(kGeneratorVersion)
      .Add(LLVM_VERSION_STRING)
      .Add(t.features)
      .Add(t.vector_bits)
      .Add(t.streaming_bytes)
      .Add(t.split_bytes);
  t.name = "cpu:" + t.cpu + "+" + h.Finish().ToHex().substr(0, 16);
  return t;
}

std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(const CpuTarget& target) {
  auto machine = CreateMachine(target.cpu, target.features);
  WEFT_ICHECK(machine, "no target machine for {}", target.cpu);
  return machine;
}

}  // namespace weft::llvmgen
