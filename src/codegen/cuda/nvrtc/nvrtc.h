/// nvrtc.h: compiles kernels to cubins with NVRTC. Works on a machine without a GPU.
#pragma once

#include <atomic>
#include <memory>

#include "weft/codegen/kernel/kernel.h"

namespace weft {

namespace cuda {
struct NvrtcApi;
}
struct CudaTuning;

/// Is NVRTC there? When not, `*why` says what to do.
WEFT_API bool NvrtcAvailable(std::string* why = nullptr);
/// Architectures that it can compile for: 75, 80, 90 ...; empty where it is not there.
WEFT_API std::vector<int> NvrtcArchitectures();

/// Compiler for compute capability `sm` (90 for 9.0). Throws kUnsupported when NVRTC is there and
/// cannot target it, and for what is older than kLeastArchitecture.
///
/// A binary is a cubin. For an architecture that is newer than some that this NVRTC knows, and that
/// it does not know itself, it is PTX of the newest known one before it, which the driver compiles
/// where it is loaded; of registers and spills nothing is known then.
///
/// Few kernels are compiled one a program, so that each has a cubin of its own (about 35 ms). From
/// kBatchFrom missing kernels on, up to kBatchSize share a program: a third of the time each, since
/// most of a program's cost is its start; of kernels of rows, which take two to eight times as
/// long, kRowBatchSize. Then the binary of each of them is the shared cubin: loading it and asking
/// for `kernel.Name()` works the same. A program that is refused is compiled again without the
/// kernels that the compiler names, and those alone; where it names none, all are. A kernel for
/// which the compiler traded registers for memory is compiled once more, alone, with registers for
/// 512 threads a multiprocessor only; where that does not help, its message says so.
///
/// Options that this NVRTC has, by its version, are given; should it refuse them all the same,
/// those that it can do without are left out. Before 12.1 it takes no parameters of 32 KB, and the
/// entries that have them are not printed.
class WEFT_API NvrtcCompiler : public KernelCompiler {
 public:
  /// The first that takes parameters by reference, `__grid_constant__`, and up to 32 KB of them.
  static constexpr int kLeastArchitecture = 70;
  static constexpr int kBatchFrom = 24;
  static constexpr int kBatchSize = 20, kRowBatchSize = 5;

  /// `num_threads` 0: as many programs at once as there are cores, at most 8.
  explicit NvrtcCompiler(int sm, int num_threads = 0);
  /// By that NVRTC, which outlives the compiler.
  NvrtcCompiler(int sm, int num_threads, const cuda::NvrtcApi& api);

  /// "cuda:sm_90+nvrtc13.0+text3+options0123abcd": all that a binary depends on beside the kernel,
  /// which are the versions of compiler and printer and the compiler's options; no headers are
  /// read. Without NVRTC "cuda:sm_90".
  std::string target() const override;
  std::string Source(const Kernel& kernel) const override;
  std::string source_extension() const override { return ".cu"; }
  std::string WhyUnavailable() const override;
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override;
  /// The most of all entries of the kernel. `spill_bytes` is the whole stack frame, which is 0
  /// where nothing was spilled.
  KernelStats Stats(const Kernel& kernel, const std::string& binary) const override;

  /// Compiles one source that is not ours to print (tests). Empty and a message in `*error` where
  /// it fails.
  std::string CompileSource(const std::string& source, std::string* error) const;

 protected:
  /// The source of a program (tests put mistakes into it).
  virtual std::string Program(const std::vector<KernelPtr>& kernels) const;

 private:
  struct Outcome {
    std::string binary, error, log;  ///< error: what to tell; log: all that the compiler said
  };
  /// Those that code depends on, then those that only spare time.
  std::vector<std::string> Options() const;
  std::vector<std::string> OptionalOptions() const;
  /// What this NVRTC can compile.
  CudaTuning Tuning() const;
  Outcome Run(const std::string& source) const;
  void CompileProgram(const std::vector<KernelPtr>& kernels, std::vector<std::string>* binaries,
                      std::vector<std::string>* messages) const;

  int sm_, num_threads_;
  const cuda::NvrtcApi& api_;
  int virtual_ = 0;  ///< architecture of the PTX; 0: cubins
  mutable std::atomic<bool> refuses_optional_{false};
};

/// The compiler behind its interface, for backends.
WEFT_API std::unique_ptr<KernelCompiler> MakeNvrtcCompiler(int sm);

}  // namespace weft
