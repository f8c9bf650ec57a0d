/// row_form.h: what all loop nests of a row kernel share: the passes over a row and one step of a
/// pass.
///
/// The reductions of a kernel are put into levels: a reduction that uses another one comes a level
/// later. Each level is one pass over the row that computes all its reductions, a last pass writes
/// the outputs.
#pragma once

#include <vector>

#include "templates.h"

namespace weft::llvmgen {

/// Elements of a row where constant and few (a window), else -1.
int64_t WindowElements(const Kernel& kernel);

/// One walk over the row.
struct RowPass {
  Exprs reduces;  ///< computed here
  Exprs bodies;   ///< of `reduces`, over the kernel's loops
  std::vector<KernelStore> stores;
  std::vector<int> saves, loads;  ///< into kept values
  Exprs roots() const;
};

class RowForm {
 public:
  explicit RowForm(Emitter& e);

 protected:
  /// Finds the passes; operands of all stores are known to the emitter afterwards.
  void Plan();

  Accumulator AccumulatorFor(const Expr& reduce) const {
    return {reduce->reduce_op(), reduce->operand(0)->dtype(), narrow_positions_};
  }
  /// What the expression is: positions are 64 bits wide outside of accumulators.
  llvm::Value* Result(const Accumulator& acc, llvm::Value* v);
  Values Init(const RowPass& p, int lanes);
  /// One step of all reductions of a pass.
  Values Step(const RowPass& p, const Values& carried);
  /// Folds what both loops of a vectorised row carried out into one value a reduction component.
  Values FoldBoth(const RowPass& p, const Widths& w, const Values& both);
  /// Linear position in the row, of lane 0.
  llvm::Value* Position();
  bool VariesInRow(const Expr& x);
  bool MayBeEmpty(int loop) const;
  bool RowMayBeEmpty() const;
  /// Extent of the last loop where constant, else -1.
  int64_t InnerExtent() const;

  Emitter& e_;
  const Kernel& k_;
  const int first_, loops_;  ///< row loops: [first_, loops_)
  const bool rows_in_lanes_, narrow_positions_;
  std::vector<RowPass> passes_;
  std::vector<KernelStore> row_stores_;
  int store_level_ = 0;  ///< passes whose reductions the stores over P x R use

 private:
  bool RowIsSmall() const;
};

}  // namespace weft::llvmgen
