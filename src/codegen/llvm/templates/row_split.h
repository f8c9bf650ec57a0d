/// row_split.h: a row kernel whose rows are cut into chunks that all threads work on: few long rows
/// (a loss, a norm, statistics of a few channels) and column reductions (gradients of biases).
///
/// Phases, each complete before the next begins: for every level of reductions the partial results
/// of all chunks, then their combination; then the stores over P x R, then those over P. Stores
/// over P x R that need no result of the last level are written by the pass that computes it, so
/// that their operands are read once. Results lie in memory that all threads share. The number of
/// chunks follows from the extents alone, never from the number of threads, and chunks are
/// combined in their order: results are the same bits on every machine of one vector width.
#pragma once

#include <vector>

#include "row_form.h"

namespace weft::llvmgen {

struct RowSplit {
  int loop = -1;              ///< the row loop that is cut; -1: no phases
  SymInt chunks, length;      ///< pieces of that loop, iterations of one (the last may be shorter)
  SymInt tiles, tile_length;  ///< the same of the vector loop where the lanes are rows
  SymInt gain;                ///< CpuKernel::phase_gain
  SymInt shared_bytes;
  std::vector<SymInt> items;  ///< of each phase
};

/// Emits the phases of a row kernel where they can ever be of use:
/// functions `<name>_0`, `<name>_1` ...
RowSplit EmitRowPhases(const Kernel& kernel, const CpuTarget& target, llvm::Module& module,
                       ExtentNames& names);

}  // namespace weft::llvmgen
