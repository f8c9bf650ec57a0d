/// lower.h: from operators to kernels: what a fused body computes (`ComputeSpec`), and its loop form (`Kernel`).
#pragma once

#include <string>
#include <vector>

#include "weft/codegen/kernel.h"
#include "weft/codegen/op_codegen.h"

namespace weft {

struct TensorSpec {
  DType dtype = DType::kUnknown;
  std::vector<SymInt> dims;  ///< known: integers or expressions
};

/// Output k at position Index(0..rank-1) is values[k], written over `Load(input, indices)` with one index per dimension.
struct ComputeSpec {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  Exprs values;
};

/// Composes the FCodeGen of every node of `body` (its declared inputs in order, its outputs in order): producers are
/// inlined into consumers at the index they are asked for; scalar constants become literals. Needs `shape` and `dtype`
/// on `body`. Throws kMissingOpAttr naming every op without FCodeGen.
WEFT_API ComputeSpec ExpandBody(const Graph& body);
/// The same for one node of a graph that has `shape` and `dtype`; absent inputs get no slot.
WEFT_API ComputeSpec ExpandSingle(const Graph& graph, const NodePtr& node);

/// A kernel and the graph-level expressions of its symbols d0, d1 ... for one launch site.
struct LoweredKernel {
  KernelPtr kernel;
  std::vector<SymInt> symbols;
};

/// Chooses the template, flattens every access to one offset, collapses loops that are contiguous in every access,
/// simplifies index arithmetic with `facts`, renumbers symbols and buffers, picks `vector_loop`, finishes the kernel.
/// Templates: kRow where all Reduce nodes outside other Reduce bodies' private parts share one row space and every output is
/// over P x R or P; otherwise kElementwise, where remaining Reduce nodes are loops inside a point. Throws kUnsupported where
/// the outputs have no common space (a reduction that folding removed leaves its result without one).
WEFT_API LoweredKernel LowerKernel(const ComputeSpec& spec, const Facts& facts);

/// Simplifies integer index arithmetic (sums of products, floordiv / mod by extents, selects) under the ranges of the
/// loop indices: Index(k) in [0, dims[k]).
WEFT_API Expr SimplifyIndex(const Expr& e, const std::vector<SymInt>& dims, const Facts& facts);

/// Coefficient of Index(loop) in `e` when e is affine in it with a coefficient free of all loop indices; null otherwise.
WEFT_API Expr AffineCoefficient(const Expr& e, int loop);

/// Replaces every kCall by basic operations (codegen/math.h); what LLVM and CUDA print.
WEFT_API Expr ExpandMath(const Expr& e);

}  // namespace weft
