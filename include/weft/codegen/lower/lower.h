/// lower.h: from operators to kernels: what a fused body computes (`ComputeSpec`), and
/// its loop form (`Kernel`).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/codegen/kernel/kernel.h"
#include "weft/core/plan/layout.h"

namespace weft {

/// A tensor as it lies. One of numbers of few bits (IsLowBit) is bytes: u8, of its own extents
/// where a byte is an element, else of one dimension.
struct TensorSpec {
  DType dtype = DType::kUnknown;
  std::vector<SymInt> dims;               ///< known: integers or expressions
  DType low_bit = DType::kUnknown;        ///< what the bytes hold
  std::vector<SymInt> low_bit_dims = {};  ///< the extents of that tensor
};

/// Output k at position Index(0..rank-1) is values[k], written over `Load(input, indices)` with
/// one index per dimension.
struct ComputeSpec {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  Exprs values;
};

/// Composes the FCodeGen of every node of `body` (its declared inputs in order, its outputs in
/// order): producers are inlined into consumers at the index they are asked for; scalar
/// constants become literals. Needs `shape` and `dtype` on `body`. Throws kMissingOpAttr naming
/// every op without FCodeGen.
WEFT_API ComputeSpec ExpandBody(const Graph& body);
/// The same for one node of a graph that has `shape` and `dtype`; absent inputs get no slot.
WEFT_API ComputeSpec ExpandSingle(const Graph& graph, const NodePtr& node);
/// The same for those that may have no expression, fused nodes by their bodies: an operator without
/// FCodeGen, or one whose FCodeGen refuses these operands, which it says by a UserError. Here, and
/// nowhere else, that becomes an answer: nullopt, with the reason in `why`.
WEFT_API std::optional<ComputeSpec> TryExpand(const Graph& graph, const NodePtr& node,
                                              std::string* why);

/// Most tensors that a kernel reads from outside, unless Fusion is told otherwise. An operator that
/// reads more stands alone; a Concat then becomes the form multi (pieces.cc).
inline constexpr int kMaxKernelTensors = 64;

/// One of several independent computations of one launch.
struct KernelPart {
  KernelPtr kernel;
  std::vector<int> operands;  ///< for each buffer of the kernel: which operand of the launch
  int first_symbol = 0;       ///< of its $0, $1 ... in `LoweredKernel::symbols`
};

/// What one launch site runs: a kernel and the graph-level expressions of its symbols $0, $1 ...;
/// or, form multi, a table of parts that share the launch. Operands of a launch are its
/// inputs, then its outputs.
struct WEFT_API LoweredKernel {
  KernelPtr kernel;                    ///< of the first part where there are parts
  std::vector<SymInt> symbols;         ///< of all parts, one after another
  std::vector<KernelPart> parts = {};  ///< empty: `kernel` takes the operands in order
  std::vector<Layout> layouts = {};    ///< how the operands have to lie; empty: all plain
  Layout layout(size_t operand) const {
    return operand < layouts.size() ? layouts[operand] : Layout::kPlain;
  }
  bool is_multi() const { return !parts.empty(); }
  /// FormName of the kernel, or "multi".
  const char* form_name() const { return is_multi() ? "multi" : FormName(*kernel); }
  /// Distinct kernels in order of first use, by identity of their text.
  std::vector<KernelPtr> Kernels() const;
};

/// Chooses the form, flattens every access to one offset, collapses loops that are contiguous in
/// every access, simplifies index arithmetic with `facts`, renumbers symbols and buffers, finishes
/// the kernel. Its form has rows where all Reduce nodes outside other Reduce bodies' private parts
/// share one row space and every output is over P x R or P; otherwise it is elementwise, where
/// remaining Reduce nodes are loops inside a point. Throws kUnsupported where the outputs have no
/// common space (a reduction that folding removed leaves its result without one).
WEFT_API LoweredKernel LowerKernel(const ComputeSpec& spec, const Facts& facts);

/// The kernels of a body that is several computations side by side, `parts[i]` outputs each, in
/// order (Fusion makes them, see weft::Fused). Element-wise parts over dense tensors become one
/// kernel over d0 points, whatever their shapes. Where a part reads what another one writes
/// (`written`: pairs of an input and the output that is stored in its memory), or `parts` does not
/// fit the outputs, the whole is one kernel.
WEFT_API LoweredKernel LowerParts(const ComputeSpec& spec, const std::vector<int64_t>& parts,
                                  const std::vector<std::pair<int, int>>& written,
                                  const Facts& facts);

/// LowerParts, where all outputs of a part need not have a common space: such a part becomes
/// one for the outputs of each space, which computes for itself what several need. {number
/// of outputs}: one kernel where they have one. Throws kUnsupported where a part would read
/// what another one writes.
WEFT_API LoweredKernel LowerSpaces(const ComputeSpec& spec, const std::vector<int64_t>& parts,
                                   const std::vector<std::pair<int, int>>& written,
                                   const Facts& facts);

/// Simplifies integer index arithmetic (sums of products, floordiv / mod by extents, selects) under
/// the ranges of the loop indices: Index(k) in [0, dims[k]).
WEFT_API Expr SimplifyIndex(const Expr& e, const std::vector<SymInt>& dims, const Facts& facts);

/// Coefficient of Index(loop) in `e` when e is affine in it with a coefficient free of all
/// loop indices; null otherwise.
WEFT_API Expr AffineCoefficient(const Expr& e, int loop);

}  // namespace weft
