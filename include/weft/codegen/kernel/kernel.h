/// kernel.h: what a generated kernel computes (`Kernel`), in the form that every printer reads.
///
/// A Kernel is target-independent and canonical: no node names, buffers and symbolic extents
/// numbered by first use, so that equal computations give equal bytes of `CanonicalText()` and
/// share one compiled binary.
///
/// Loops. `dims` are the extents of the loop nest, outermost first; loop k is `Expr::Index(k)` in
/// all expressions. What stores and reductions run over is the kernel's form (kernel_form.h).
/// All loads and stores address one flat element offset (i64 expression); buffers are dense and
/// row-major. A kernel that reads at indices which come out of tensors cuts them to their axes.
/// Where it is not proved that this changes nothing it has a *range flag*: its last buffer is one
/// bool, not of the operator, and its last stores are `flag` stores: they write 1 there at every
/// point at which an index was outside, and nothing elsewhere. Whoever launches it sets the byte to
/// 0 before, and raises kIndexRange where it is 1 after.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/codegen/expr/expr.h"
#include "weft/codegen/kernel/kernel_form.h"

namespace weft {

struct KernelBuffer {
  DType dtype = DType::kUnknown;
  bool is_output = false;
  /// for bounds reasoning: constant, or an expression over the canonical symbols
  SymInt num_elements;
};

struct KernelStore {
  int buffer = 0;        ///< index into buffers
  Expr offset;           ///< flat element offset, i64
  Expr value;            ///< dtype of the buffer
  bool per_row = false;  ///< once per row, not per element
  bool flag = false;     ///< of the range flag: `value` is bool, 1 is written where it is true
};

class WEFT_API Kernel : public KernelForm {
 public:
  std::vector<KernelBuffer> buffers;  ///< inputs first, then outputs
  int num_inputs = 0;
  std::vector<SymInt> dims;  ///< loop extents over canonical symbols $0, $1 ...
  std::vector<KernelStore> stores;
  int num_symbols = 0;       ///< $0 .. $<n-1> are passed as int64 arguments at launch
  bool small_index = false;  ///< every offset and extent provably fits in int32

  std::vector<SymInt> outer_dims() const { return {dims.begin(), dims.begin() + num_outer}; }
  std::vector<SymInt> row_dims() const { return {dims.begin() + num_outer, dims.end()}; }
  /// The last buffer is the range flag.
  bool has_flag() const { return !stores.empty() && stores.back().flag; }
  /// Deterministic text; equality of texts is equality of kernels.
  const std::string& CanonicalText() const;
  /// Hash of CanonicalText; the kernel's identity everywhere (names, caches).
  Hash128 Key() const;
  /// "weft_<first 16 hex digits of Key>": the entry symbol of the generated code.
  std::string Name() const;
  /// Call after the fields are filled; throws InternalError if the kernel is malformed (verifier).
  void Finish();

 private:
  std::string text_;
  Hash128 key_;
};
using KernelPtr = std::shared_ptr<const Kernel>;

/// Extent number k of a kernel: `SymInt::Extent`, printed `$k`.
WEFT_API SymInt KernelSymbol(int k);
/// The number of an extent of a kernel that has `count` of them. What a kernel is made of mentions
/// no other symbol: throws InternalError for one.
WEFT_API int ExtentNumber(SymInt symbol, int count);
/// Number of operations per point or row element, calls weighted (exp about 12): for grain sizes
/// and the cost model.
WEFT_API double OpsPerElement(const Kernel& kernel);

/// Entry point of a CPU kernel. `begin`, `end`: half-open range of work items (kernel_form.h), in
/// an order of the kernel's own: any partition of [0, count) into calls computes everything once.
/// `dims`: values of $0 .. . `scratch`: at least `CpuKernel::scratch_bytes` per call, 64-byte
/// aligned, private to the calling thread.
using CpuKernelFn = void (*)(void* const* buffers, const int64_t* dims, int64_t begin, int64_t end,
                             void* scratch);

/// One step of a kernel whose rows are cut into chunks: `fn` over [0, items), split in any way.
struct CpuPhase {
  CpuKernelFn fn = nullptr;
  SymInt items = 0;
};

/// `fn` computes everything. Where rows are few and long, or the lanes are rows (column
/// reductions), `phases` compute the same for all threads together: partial results of a number of
/// chunks that extents alone decide, then their combination, then what uses it. A phase begins when
/// the one before has ended; `scratch` is one block of `shared_bytes` for all calls of a launch.
struct CpuKernel {
  static constexpr int kMaxPhases = 32;
  CpuKernelFn fn = nullptr;  ///< null where the extents are known and phases are the better way
  SymInt scratch_bytes = 0;  ///< over the canonical symbols
  std::vector<CpuPhase> phases;
  SymInt shared_bytes = 0;
  SymInt phase_gain = -1;  ///< phases are the better way where this is >= 0
  /// Extents that the sizes above use besides those of the kernel: number Kernel::num_symbols + i
  /// is named[i], which mentions only earlier ones.
  std::vector<SymInt> named;
  std::shared_ptr<void> code;  ///< keeps the machine code alive
  int64_t source_bytes = 0, binary_bytes = 0;
};

/// Tables of what a target reported about a compiled kernel; -1 where it does not tell.
struct KernelStats {
  std::string name;
  int64_t source_bytes = 0, binary_bytes = 0;
  int registers = -1, spill_bytes = -1;
};

/// Turns kernels into something a backend can launch. Implemented by backend
/// modules (LLVM, NVRTC); thread-safe.
class WEFT_API KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  /// Distinguishes binaries: "cpu:znver5+avx512f...", "cuda:sm_90"; part of every cache key
  /// with the generator version.
  virtual std::string target() const = 0;
  /// Source or IR text for people: `--save-kernels`, tests. Extension as in ".ll", ".cu".
  virtual std::string Source(const Kernel& kernel) const = 0;
  virtual std::string source_extension() const = 0;
  /// Why nothing can be compiled on this machine (a library is not installed); empty: it can.
  /// Kernels that are missing for this reason are no fault.
  virtual std::string WhyUnavailable() const { return {}; }
  /// Compiles all, in parallel, and returns one binary each (object file, cubin), in order. A
  /// kernel that fails gives an empty binary and a message in `errors[i]`; a message beside a
  /// binary is what should be known of it.
  virtual std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                           std::vector<std::string>* errors) = 0;
  /// What the target tells about a binary.
  virtual KernelStats Stats(const Kernel& kernel, const std::string& binary) const = 0;
};

}  // namespace weft
