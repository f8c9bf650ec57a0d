/// row.h: how rows are shared among threads, and the printer of row kernels;
/// private to src/codegen/cuda.
///
/// Who works on a row of R elements:
///   R known, R <= 512    a group of 1 to 32 lanes of one warp; shuffles
///   R known, R > 512     a block of 128 to 512; shuffles, then one exchange through shared memory
///   R known at run time  both in one kernel; R <= 1024 takes a warp, longer rows the block
///   columns              memory is contiguous along P: 32 neighbouring rows a block, one a lane,
///                        so that a warp reads consecutive addresses; the 16 warps share R and
///                        meet in shared memory
///   few and long rows    in steps (printer.h): as the last three, with slices of a row in
///                        blockIdx.y
///
/// Lanes take V consecutive elements (16 bytes where the row allows it) where the extent of the
/// innermost loop is known, but for the warps of rows of run-time length. Where all vectors of a
/// row begin at multiples of their length, the pointers are tested once, for code that tests no
/// address; rows of other pointers take the same elements in the same order one by one. A thread
/// has two vectors under way at a time, or all that it takes of an unrolled row: with one, 2048
/// threads would keep 32 KiB a multiprocessor under way, where an H200 wants 48. Where single
/// elements are taken, it reads 32 bytes of them before it computes (fewer where bodies are long),
/// always in the same order: sums do not depend on where a row lies. Reductions that do not read
/// each other share one pass over the row. With R known and at most 16 steps of a thread, what
/// several passes read stays in registers after one read; otherwise later passes find the row in
/// the caches. An element is always read and written by the same thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/ctext/row_reduce.h"
#include "text.h"

namespace weft::cuda {

inline constexpr int64_t kWarpRow = 1024;  ///< longest row that one warp takes, R known at run time
inline constexpr int64_t kMaxSharedBytes = 48 << 10;  ///< static shared memory of a block

enum class RowMode { kGroup, kBlock, kColumn };

struct RowPlan {
  RowMode mode = RowMode::kGroup;
  int block = 128;
  int lanes = 32;      ///< threads that share a row
  int64_t row = -1;    ///< R where it is known
  int width = 1;       ///< consecutive elements of a thread
  int64_t chunks = 0;  ///< steps of a thread over a known row
  bool unrolled = false;
  bool aligned = false;  ///< all vectors lie on 16 bytes, or what they have
  bool scalar = false;   ///< the elements of a vector one after the other
  bool sliced = false;   ///< a step of a launch in steps
};

/// `words`: most accumulators of one stage. `loads`: those that may be vectors.
RowPlan MakeRowPlan(const Kernel& k, const std::vector<KernelStore>& stores,
                    const std::vector<Expr>& loads, int words);

class RowPrinter {
 public:
  RowPrinter(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores);

  /// The whole row in one launch. `lean`: rows of run-time length by blocks only.
  void Print(bool lean);
  /// Step `step` of a launch in steps: the partial results of a stage, then the stores of elements,
  /// then those of rows.
  void PrintStep(int step);
  /// Declaration of the shared memory that the printed text uses; empty for none.
  std::string SharedMemory() const;

  const RowPlan& plan() const { return plan_; }
  int stages() const { return int(passes_.size()) - 1; }
  bool has_element_stores() const { return !stores_.empty(); }
  bool has_row_stores() const { return !row_stores_.empty(); }
  /// 8-byte words that a slice of a row leaves.
  int words() const;

 private:
  struct Accumulator {
    const ExprNode* node;
    std::string value, position;  ///< position: ArgMin / ArgMax only
    std::string type;
    int word;  ///< of the workspace
  };
  using Accumulators = std::vector<Accumulator>;
  enum class Stage { kWhole, kPartial, kCombine };

  void PrintMode(const RowPlan& plan, int step);
  void PrintVectors(const RowPlan& plan, int step);
  std::string AlignedBases();
  int Last() const { return int(k_.dims.size()) - 1; }
  bool Chunked() const { return plan_.row >= 0; }
  std::string RowElements();
  void PrintSlice();
  int Together(size_t pass);
  void OpenChunk(size_t pass);
  void CloseChunk();
  void OpenElement(size_t pass);
  void CloseElement();
  std::string LoadText(const Expr& load);
  void KeepLoads();
  void PrintStages(int step);
  void PrintStage(size_t first, size_t end, Stage what);
  void PrintElementStores();
  void PrintRowStores();

  // row_reduce.cc
  Accumulators Declare(size_t first, size_t end);
  void Accumulate(const Accumulators& accs, size_t first, size_t end);
  void WritePartials(const Accumulators& accs);
  void ReadPartials(const Accumulators& accs);
  std::string Partial(const std::string& type, int word, const std::string& slice) const;
  std::string TakeBetter(const Accumulator& a, const std::string& value,
                         const std::string& position);
  void Meet(const Accumulators& accs);
  void Butterfly(const Accumulators& accs, int lanes);
  void MeetInWarps(const Accumulators& accs);
  void MeetInColumns(const Accumulators& accs);
  std::string Shared(const std::string& type, const std::string& extents);

  Emitter& e_;
  const Kernel& k_;
  std::vector<KernelStore> stores_, row_stores_;
  std::vector<ctext::RowReduce> reduces_;
  std::vector<Exprs> passes_;  ///< what each stage reads, then what the stores do
  RowPlan plan_;
  std::string flat_, base_name_;
  std::string loop_;  ///< head of the open chunk, where it is not unrolled
  int together_ = 1;  ///< single elements that its loop reads before it computes
  std::vector<std::pair<Expr, std::string>> kept_;
  std::vector<std::string> meetings_;  ///< members of the shared memory, one struct a meeting
};

}  // namespace weft::cuda
