/// templates.h: the loop nests of a kernel, and how one loop of them is cut into vectors.
#pragma once

#include <functional>
#include <vector>

#include "codegen/llvm/emit/emitter.h"

namespace weft::llvmgen {

/// A loop in vector lanes: whole vectors of `main` lanes, then the rest in masked vectors of `tail`
/// lanes, or one by one (`tail` 1) where masks are slow.
struct Widths {
  int main = 1;  ///< 1: no main loop
  int tail = 1;
};

/// Chooses widths for `roots` evaluated along `loop`: a register of the widest type in it, times 2
/// or 4 where the expressions are small. `extent`: of the loop where it is constant, else -1.
Widths ChooseWidths(Emitter& e, const Exprs& roots, const std::vector<DType>& stored, int loop,
                    int64_t extent);

/// Values that both loops of a vectorised range carry: partial results of the main lanes and of the
/// tail lanes.
struct Carried {
  Values main, tail;
};
/// Emits one vector's worth of work; the lanes are those of the emitter. Gets and returns what the
/// loop carries.
using LaneBody = std::function<Values(const Values& carried)>;

/// Runs `body` over [lo, hi) of `loop`. `extent`: hi - lo where it is constant, else -1. `barrier`:
/// the range may be empty while the code around it runs.
Carried ForLanes(Emitter& e, int loop, llvm::Value* lo, llvm::Value* hi, int64_t extent,
                 const Widths& widths, bool barrier, Carried carried, const LaneBody& body);

/// Stores of the kernel, math functions expanded.
std::vector<KernelStore> ExpandedStores(const Kernel& kernel);
/// Computes all values, then writes them.
void EmitStores(Emitter& e, const std::vector<KernelStore>& stores, bool streaming);
/// The same over [lo, hi) of `loop`, past the caches where the outputs are large. `extent`: of the
/// whole loop where it is constant, else -1; `whole`: the range is the whole loop. `before` runs
/// first in every vector. True when stores may go past the caches; then the kernel must end with a
/// fence.
bool StoreRange(Emitter& e, const std::vector<KernelStore>& stores, int loop, llvm::Value* lo,
                llvm::Value* hi, int64_t extent, bool whole, bool barrier, const LaneBody& before);

/// Runs `body` for rows [first, last) of the loop nest 0 .. num_loops - 1, its indices defined.
void ForRows(Emitter& e, int num_loops, llvm::Value* first, llvm::Value* last,
             const std::function<void(llvm::Value* row)>& body);
/// The same for one row of at least one loop, without a loop.
void AtRow(Emitter& e, int num_loops, llvm::Value* row, const std::function<void()>& body);
/// `body` over [lo, hi) of `loop` in narrow vectors only: for few elements.
void ForFewLanes(Emitter& e, int loop, llvm::Value* lo, llvm::Value* hi, const Widths& widths,
                 const LaneBody& body);
/// Points [begin, end), not empty, of at least two loops: `whole` for whole rows [first, last) of
/// the last one, and `part` for [lo, hi) of a row at both ends, its other indices defined.
void ForWholeRows(Emitter& e, llvm::Value* begin, llvm::Value* end,
                  const std::function<void(llvm::Value* first, llvm::Value* last)>& whole,
                  const std::function<void(llvm::Value* lo, llvm::Value* hi)>& part);
/// Points [begin, end), not empty, of loops 0 .. num_loops - 1, the last of them as ranges:
/// body(lo, hi).
void ForPoints(Emitter& e, int num_loops, llvm::Value* begin, llvm::Value* end,
               const std::function<void(llvm::Value* lo, llvm::Value* hi)>& body);

/// Fills tables of what depends on one loop alone and is long to compute, in the entry scope; the
/// emitter reads them from then on. Returns the bytes of scratch that they take.
SymInt EmitTables(Emitter& e, const std::vector<KernelStore>& stores);

/// [begin, end) of a loop, and the stores of the kernel there.
struct LoopPiece {
  int64_t begin = 0, end = 0;
  std::vector<KernelStore> stores;
};
/// Pieces of `loop` in each of which every comparison of its index with a number is decided
/// (Concat: one piece an input); none where that does not save loads.
std::vector<LoopPiece> CutLoop(Emitter& e, const std::vector<KernelStore>& stores, int loop);

/// Each emits the whole function and returns the scratch it needs, in bytes.
SymInt EmitElementwise(Emitter& e);
SymInt EmitRow(Emitter& e);

}  // namespace weft::llvmgen
