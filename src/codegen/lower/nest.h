/// nest.h: the form between a ComputeSpec and a Kernel; private to src/codegen.
///
/// A Nest has no Reduce nodes: every reduction is a `Reduction` with a body of its own, and stands
/// in the expressions that use it as slot k. All loops, those of the kernel and those of
/// reductions, are `Index` numbers into one list of extents, so index arithmetic is simplified and
/// loops are collapsed without opening anything.
#pragma once

#include <optional>

#include "codegen/expr/expr_pool.h"
#include "weft/codegen/lower/lower.h"

namespace weft {

/// `vector_loop` is chosen when the nest becomes a kernel.
struct Nest : KernelForm {
  struct Store {
    int output;
    Expr offset, value;
    bool per_row = false;
  };
  struct Reduction {
    ReduceOp op;
    int first, count;  ///< its loops
    Expr body;
  };
  /// True at a point (a row) where an index that comes out of a tensor leaves its axis.
  struct RangeFlag {
    Expr value;
    bool per_row = false;
  };
  std::vector<SymInt> loops;
  std::vector<int> group;  ///< of each loop; only loops of one group merge
  int num_dims = 0;        ///< the first ones are loops of the kernel
  std::vector<Store> stores;
  std::vector<Reduction> reductions;
  std::vector<RangeFlag> flags;

  /// All expressions: offsets, values, bodies, flags.
  Exprs Parts() const;
};

/// Extents and unit dims of a spec brought to one form by the facts; see nest.cc.
ComputeSpec NormalizeSpec(const ComputeSpec& spec, const Facts& facts);
/// One store per point; reductions are loops inside a point.
Nest ElementwiseNest(const ComputeSpec& spec, const Facts& facts);
/// P x R where it is possible (rows_only: every output is per row), see lower.h; nullopt otherwise.
std::optional<Nest> RowNest(const ComputeSpec& spec, const Facts& facts);
/// Worth it when all outputs are per row: some load of a reduction visits each element once.
/// Contractions and overlapping windows read elements many times and are better as loops inside a
/// point.
bool RowsReadOnce(const Nest& nest, const Facts& facts);

/// A kernel reads inside its buffers whatever an index tensor holds: an index that no loop bounds
/// is cut to the axis or, where it changes along `lane_loop`, guards the load; nothing is read of
/// an axis of extent 0. (index_check.cc)
void KeepInside(Indices* at, const std::vector<SymInt>& dims, int lane_loop, Expr* guard);
/// Makes `flags` of all loads whose indices KeepInside cuts; loads still have an index a dimension.
void AddRangeFlags(Nest* nest, const ComputeSpec& spec);
/// Takes out the flags that simplification proved false.
void DropFalseFlags(Nest* nest);
/// Reductions in an order in which each one's body uses only earlier ones.
std::vector<int> DependencyOrder(const Nest& nest);

/// Loads by flat offset, index arithmetic simplified.
void FlattenNest(Nest* nest, const ComputeSpec& spec, const Facts& facts);
/// Loops that expressions take apart by a period become two where that makes accesses affine in
/// long runs. `sizes`: as for IndexSimplifier. (split_loops.cc)
void SplitLoops(Nest* nest, const Facts& facts, const std::vector<SymInt>& sizes);
/// Merges adjacent loops that every sum steps through as if they were one.
void CollapseLoops(Nest* nest, const Facts& facts);

}  // namespace weft
