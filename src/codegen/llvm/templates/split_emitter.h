/// split_emitter.h: the phases of one row kernel: their plan (row_split.cc) and their code
/// (row_phases.cc).
#pragma once

#include "row_split.h"

namespace weft::llvmgen {

class SplitEmitter : RowForm {
 public:
  explicit SplitEmitter(Emitter& e) : RowForm(e) {
    Plan();
    if (!passes_.empty() && passes_.back().reduces.empty()) {
      stores_ = std::move(passes_.back().stores);
      passes_.pop_back();
      if (store_level_ < int(passes_.size())) passes_.back().stores = std::move(stores_);
    }
  }

  RowSplit PlanPhases() const;
  void EmitPhase(int phase, const RowSplit& split);

 private:
  struct Component {
    size_t reduce;  ///< of its pass
    DType dtype;
    SymInt start;  ///< of the partial results, in bytes
  };

  bool has_store_phase() const { return !stores_.empty(); }
  int levels() const { return int(passes_.size()); }
  int last_loop() const { return loops_ - 1; }
  /// Outer loops that an item fixes.
  int unit_loops() const { return rows_in_lanes_ ? first_ - 1 : first_; }
  SymInt Units() const { return ProductOf(0, unit_loops()); }
  SymInt ProductOf(int from, int to) const {
    SymInt n = 1;
    for (int i = from; i < to; ++i) n = Named(n * Extent(i));
    return n;
  }
  SymInt LaneRows() const { return rows_in_lanes_ ? Extent(first_ - 1) : SymInt(1); }
  SymInt Named(SymInt size) const { return e_.names().Name(size); }
  SymInt Extent(int loop) const { return Named(k_.dims[size_t(loop)]); }
  static int SharedBytes(DType t) { return Emitter::Bytes(AccumulatorOf(t)); }
  /// Shared memory: results of all levels, then the partial results of the current one.
  SymInt ResultStart(int level, size_t reduce) const;
  std::vector<Component> Components(int level, const RowSplit& split, SymInt* end) const;
  bool NeverFew(SymInt row) const;

  // ---- emission ----
  llvm::Value* Shared(SymInt start, DType t, llvm::Value* index);
  llvm::Value* LoadShared(SymInt start, DType t, llvm::Value* index);
  void StoreShared(SymInt start, DType t, llvm::Value* index, llvm::Value* v);
  llvm::Value* UnitIndex();
  llvm::Value* RowIndex();
  llvm::Value* PartialIndex();
  void PresetResults(int levels);
  void ForItems(const std::function<void()>& body);
  int64_t TileLines() const;
  void ForTiles(const std::function<void()>& body);
  void ForEachRow(const std::function<void()>& body);
  /// Lanes of one item, with rows in lanes.
  void ForLaneRows(const Widths& w, const std::function<void()>& body);
  Values Nest(int loop, int last, const Values& init,
              const std::function<Values(const Values&)>& body);
  Widths WidthsFor(const Exprs& roots, const std::vector<KernelStore>& stores);
  int64_t LaneExtent() const;
  Values StepAndStore(const RowPass& p, const Values& carried);
  void PartialOfRow(const RowPass& p, const std::vector<Component>& parts);
  void PartialOfRows(const RowPass& p, const std::vector<Component>& parts);
  Values Lines(const RowPass& p, int lanes);
  void StoreParts(const std::vector<Component>& parts, const Values& v);
  Values LoadParts(const std::vector<Component>& parts);
  void Stores();
  void Combine(int level, bool reduce, bool store);

  std::vector<KernelStore> stores_;
  const RowSplit* split_ = nullptr;
  llvm::Value *lo_ = nullptr, *hi_ = nullptr;            ///< of the split loop
  llvm::Value *chunk_ = nullptr, *unit_ = nullptr;       ///< of the item
  llvm::Value *lane_lo_ = nullptr, *lane_hi_ = nullptr;  ///< of the vector loop, with rows in lanes
};

}  // namespace weft::llvmgen
