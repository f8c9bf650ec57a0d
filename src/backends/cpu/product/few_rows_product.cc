/// few_rows_product.cc: the matrix as panels of columns, and the panels by the team of threads.
#include "few_rows_product.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "backends/cpu/util/for_pieces.h"
#include "backends/cpu/util/made_once.h"
#include "backends/cpu/util/packed_memory.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

constexpr int64_t kPieceFloats = 65536;  // multiplied, that a team is worth waking for
constexpr int64_t kLanes = 16;           // to a multiple of which the last panel is padded

/// Of which the last one may be wider.
int64_t PanelsIn(int64_t columns) {
  const int64_t spare = kMostColumns - kPanelColumns;
  return std::max<int64_t>(1, (columns - spare + kPanelColumns - 1) / kPanelColumns);
}
/// The column behind panel p.
int64_t EndOf(int64_t p, int64_t columns) {
  return p + 1 == PanelsIn(columns) ? columns : (p + 1) * kPanelColumns;
}

int64_t Padded(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }

}  // namespace

bool FewRowsProduct::Fits(int64_t rows, int64_t depth, int64_t columns) {
  constexpr int64_t kSmall = int64_t{1} << 19, kManyColumns = 128;
  return rows <= kMostFewRows && columns > 1 &&
         (columns >= kManyColumns || CheckedMul(depth, columns) <= kSmall);
}

struct FewRowsProduct::Panels {
  TensorPtr matrix;  ///< holds its address while the panels are there
  std::shared_ptr<float> floats;
  int64_t bytes = 0;
};

std::shared_ptr<const FewRowsProduct::Panels> FewRowsProduct::PanelsOf(const TensorPtr& matrix,
                                                                       int64_t depth,
                                                                       int64_t columns,
                                                                       int64_t row_step,
                                                                       int64_t column_step) {
  // Steps of an unrolled loop multiply by one matrix, which stays in the caches as one.
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t, int64_t>;
  static auto* const made = new MadeOnce<Key, Panels>;
  const Key key{NameOfConstant(*matrix), depth, columns, row_step, column_step};
  return made->Get(key, [&] { return MakePanels(matrix, depth, columns, row_step, column_step); });
}

std::shared_ptr<const FewRowsProduct::Panels> FewRowsProduct::MakePanels(const TensorPtr& matrix,
                                                                         int64_t depth,
                                                                         int64_t columns,
                                                                         int64_t row_step,
                                                                         int64_t column_step) {
  const int64_t all = CheckedMul(depth, Padded(columns));
  auto panels =
      std::make_shared<Panels>(Panels{matrix, PackedMemory(all), all * int64_t{sizeof(float)}});
  const auto* from = matrix->data_as<float>();
  float* const floats = panels->floats.get();
  ForPieces(PanelsIn(columns), std::max<int64_t>(1, kPieceFloats / (depth * kPanelColumns)),
            [&](int64_t begin, int64_t end) {
              for (int64_t p = begin; p < end; ++p) {
                const int64_t first = p * kPanelColumns, n = EndOf(p, columns) - first,
                              wide = Padded(n);
                float* to = floats + first * depth;
                for (int64_t k = 0; k < depth; ++k)
                  for (int64_t j = 0; j < wide; ++j)
                    *to++ = j < n ? from[k * row_step + (first + j) * column_step] : 0;
              }
            });
  DropSubnormals(floats, all);
  return panels;
}

FewRowsProduct::FewRowsProduct(const TensorPtr& matrix, int64_t depth, int64_t columns,
                               int64_t row_step, int64_t column_step)
    : depth_(depth),
      columns_(columns),
      panels_(PanelsOf(matrix, depth, columns, row_step, column_step)) {}

std::pair<const void*, int64_t> FewRowsProduct::packed() const {
  return {panels_->floats.get(), panels_->bytes};
}

void FewRowsProduct::Run(int64_t rows, const float* x, int64_t x_step, const float* row,
                         const float* addend, float* y, const FewRowsKernel& kernel) const {
  // There and back: what the last product read at its end is still near. A matrix as large as a
  // cache is read from behind it otherwise, all of it in each product.
  const bool back = (turn_.fetch_add(1, std::memory_order_relaxed) & 1) != 0;
  const auto multiply = [&](int64_t first, int64_t last, auto* run) {
    FewRowsTile t;
    t.panel = panels_->floats.get() + first * depth_;
    t.x = x;
    t.row = row ? row + first : nullptr;
    t.addend = addend ? addend + first : nullptr;
    t.y = y + first;
    t.rows = rows;
    t.columns = last - first;
    t.depth = depth_;
    t.x_step = x_step;
    t.y_step = columns_;
    run(t);
  };
  // Which panels are a pair must not change with the threads: sums may.
  const int64_t panels = PanelsIn(columns_), pairs = (panels + 1) / 2;
  const auto some = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = 2 * (back ? end - 1 - (i - begin) : i), first = p * kPanelColumns;
      if (p + 1 == panels) {
        multiply(first, columns_, kernel.run);
        continue;
      }
      const int64_t middle = first + kPanelColumns, last = EndOf(p + 1, columns_);
      if (rows <= kernel.pair_rows && last == middle + kPanelColumns) {
        multiply(first, last, kernel.run_pair);
        continue;
      }
      multiply(first, middle, kernel.run);
      multiply(middle, last, kernel.run);
    }
  };
  const bool large = rows * depth_ * columns_ >= kPieceFloats;
  const int64_t team = large ? std::min<int64_t>(TeamAtHand(), pairs) : 1;
  // A thread has the same part in each product.
  if (team > 1)
    ForPieces(team, 1, [&](int64_t first, int64_t last) {
      some(first * pairs / team, last * pairs / team);
    });
  else
    some(0, pairs);
}

}  // namespace weft::cpu
