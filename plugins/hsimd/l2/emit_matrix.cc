/// emit_matrix.cc: products of tiles on the matrix unit.
///
/// The loops are: tiles of columns and rows whose sums fit, then the contraction, then the blocks
/// of rows. A block of A is loaded into one bank while the products of another run; a product is
/// one instruction over the columns of a tile. Sums lie in one of two banks, so that those of a
/// tile are copied out while the next one is summed up.
#include <algorithm>

#include "emitter.h"
#include "weft/core/tensor/shape.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

std::vector<int64_t> Part(const std::vector<int64_t>& v, size_t from, size_t n) {
  return {v.begin() + ptrdiff_t(from), v.begin() + ptrdiff_t(from + n)};
}

/// sum of counter * stride at the row-major position `index` of the loops.
int64_t OffsetAt(int64_t index, const std::vector<int64_t>& counts,
                 const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t i = counts.size(); i-- > 0;) {
    offset += index % counts[i] * strides[i];
    index /= counts[i];
  }
  return offset;
}

struct Loader {
  int unit, op, memory;
};

/// The unit that brings words of `from` to a memory that the matrix unit takes blocks from.
std::optional<Loader> FindLoader(const Machine& machine, int mat, int from, int fan) {
  for (size_t u = 0; u < machine.units.size(); ++u) {
    const Unit& unit = machine.units[u];
    if (unit.kind != UnitKind::kAlu || !MayRead(machine, int(u), from)) continue;
    for (size_t o = 0; o < unit.ops.size(); ++o) {
      if (unit.ops[o].name != InfoOf(AluOp::kCopy).name) continue;
      for (size_t m = 0; m < machine.memories.size(); ++m) {
        const Memory& memory = machine.memories[m];
        if (int(m) == from || memory.level != machine.pe()) continue;
        if (!MayWrite(machine, int(u), int(m)) || !MayRead(machine, mat, int(m))) continue;
        if ((memory.reads && memory.reads < fan) || (memory.accesses && memory.accesses < fan))
          continue;
        return Loader{int(u), int(o), int(m)};
      }
    }
  }
  return std::nullopt;
}

int MatrixUnit(const Machine& machine) {
  for (size_t u = 0; u < machine.units.size(); ++u)
    if (machine.units[u].kind == UnitKind::kMatrix) return int(u);
  return -1;
}

}  // namespace

bool MatrixTakesFrom(const Machine& machine, int memory) {
  const int mat = MatrixUnit(machine);
  return mat >= 0 && FindLoader(machine, mat, memory, int(machine.levels.back().count));
}

void Emitter::Matrix(const MatrixOp& op) {
  const int mat = MatrixUnit(machine_);
  WEFT_CHECK(mat >= 0, kUnsupported, "{}: machine '{}' has no matrix unit", op.note, machine_.name);
  const int fan = int(machine_.levels.back().count);
  const size_t nr = op.rows.size(), ni = op.inner.size(), nc = op.columns.size();
  const RawStream a = Raw(op.a), x = Raw(op.x), y = Raw(op.y);

  std::vector<int64_t> rows = op.rows, inner = op.inner, columns = op.columns;
  std::vector<int64_t> a_rows = Part(a.strides, 0, nr), a_inner = Part(a.strides, nr, ni);
  std::vector<int64_t> x_inner = Part(x.strides, nr, ni), x_columns = Part(x.strides, nr + ni, nc);
  std::vector<int64_t> y_rows = Part(y.strides, 0, nr), y_columns = Part(y.strides, nr + ni, nc);
  MergeLoops(rows, {&a_rows, &y_rows});
  MergeLoops(inner, {&a_inner, &x_inner});
  MergeLoops(columns, {&x_columns, &y_columns});
  while (columns.size() > 3) {  // the outermost by operations of their own
    MatrixOp one = op;
    one.columns.erase(one.columns.begin());
    WEFT_CHECK(nc > 3, kUnsupported, "{}: columns", op.note);
    const int64_t x_step = op.x.strides[nr + ni], y_step = op.y.strides[nr + ni];
    for (TileStream* s : {&one.a, &one.x, &one.y})
      s->strides.erase(s->strides.begin() + ptrdiff_t(nr + ni));
    for (int64_t i = 0; i < op.columns[0]; ++i) {
      Matrix(one);
      one.x.offset += x_step;
      one.y.offset += y_step;
    }
    return;
  }

  const auto loader = FindLoader(machine_, mat, a.memory, fan);
  WEFT_CHECK(loader, kUnsupported,
             "{}: no unit of machine '{}' brings blocks from {} to its matrix unit", op.note,
             machine_.name, machine_.memories[size_t(a.memory)].name);
  const int64_t banks = machine_.memories[size_t(loader->memory)].words / fan;

  const auto can_sum = [&](int memory) {
    return MayRead(machine_, mat, memory) && MayWrite(machine_, mat, memory) &&
           PortsAllow(machine_, {x.memory, memory}, memory);
  };
  const int64_t all_rows = weft::NumElements(rows), all_inner = weft::NumElements(inner),
                all_columns = weft::NumElements(columns);
  const bool once = all_inner == 1 && !op.onto && MayWrite(machine_, mat, y.memory) &&
                    PortsAllow(machine_, {x.memory}, y.memory);
  const bool in_place = once || can_sum(y.memory);
  WEFT_CHECK(MayRead(machine_, mat, x.memory), kUnsupported,
             "{}: the matrix unit of machine '{}' does not read x from {}", op.note, machine_.name,
             machine_.memories[size_t(x.memory)].name);

  // Tiles of rows and columns.
  const ScratchRange* sums = nullptr;
  for (const ScratchRange& range : scratch_)
    if (!in_place && range.memory != loader->memory && can_sum(range.memory) &&
        (!sums || range.words > sums->words))
      sums = &range;
  WEFT_CHECK(in_place || sums, kUnsupported,
             "{}: no scratch in a memory of machine '{}' that holds sums of its matrix unit",
             op.note, machine_.name);
  int64_t row_tile = all_rows, column_limit = 512, bank_words = 0;
  if (sums) {
    const bool one_tile = all_rows * all_columns <= sums->words;
    bank_words = one_tile ? all_rows * all_columns : sums->words / 2;
    WEFT_CHECK(bank_words > 0, kLimit, "{}: sums need 2 words of scratch in {}", op.note,
               machine_.memories[size_t(sums->memory)].name);
    const int64_t least = std::min<int64_t>(all_columns, 4 * fan);
    row_tile = std::max<int64_t>(1, std::min(all_rows, bank_words / std::min(least, bank_words)));
    column_limit = std::max<int64_t>(1, bank_words / row_tile);
  }
  // The largest suffix of the column loops within the limit, and pieces of the next.
  size_t first = columns.size();
  int64_t points = 1, piece = 1;
  while (first > 0 && points * columns[first - 1] <= column_limit) points *= columns[--first];
  if (first > 0) {
    const int64_t most = std::max<int64_t>(1, column_limit / points);
    const int64_t pieces = (columns[first - 1] + most - 1) / most;
    piece = (columns[first - 1] + pieces - 1) / pieces;
    --first;
  } else {
    piece = columns.empty() ? 1 : columns[0];
  }
  const bool has_columns = !columns.empty();
  const std::vector<int64_t> outer(columns.begin(), columns.begin() + ptrdiff_t(first));
  const int64_t outer_points = weft::NumElements(outer);

  int64_t bank_of_a = 0, bank_of_sums = 0;
  const auto tile = [&](int64_t x_at, int64_t y_at, const std::vector<int64_t>& counts,
                        int64_t row_from, int64_t row_count) {
    const size_t skip = columns.size() - counts.size();
    const std::vector<int64_t> xs(x_columns.begin() + ptrdiff_t(skip), x_columns.end());
    const std::vector<int64_t> ys(y_columns.begin() + ptrdiff_t(skip), y_columns.end());
    std::vector<int64_t> dense(counts.size());
    int64_t n = 1;
    for (size_t i = counts.size(); i-- > 0;) {
      dense[i] = n;
      n *= counts[i];
    }
    const int64_t sum_base = sums ? sums->base + bank_of_sums * bank_words : 0;
    const auto copy_sums = [&](bool in) {
      for (int64_t r = 0; r < row_count; ++r) {
        RawStream sum{sums->memory, sum_base + r * n, dense};
        RawStream out{y.memory, y.base + y_at + OffsetAt(row_from + r, rows, y_rows), ys};
        RawVector copy;
        copy.counts = counts;
        copy.inputs = {in ? out : sum};
        copy.results = {{BodyOperand::Input(0), in ? sum : out, std::nullopt, false}};
        // Sums lie in scratch that a copy must not take for its own temporaries.
        const std::vector<ScratchRange> saved = scratch_;
        scratch_.clear();
        EmitRaw(copy, op.mask, op.note);
        scratch_ = saved;
      }
    };
    if (sums && op.onto) copy_sums(true);
    for (int64_t k = 0; k < all_inner; ++k)
      for (int64_t r = 0; r < row_count; ++r) {
        const int64_t block =
            a.base + OffsetAt(row_from + r, rows, a_rows) + OffsetAt(k, inner, a_inner);
        const int64_t bank = bank_of_a * fan;
        bank_of_a = (bank_of_a + 1) % banks;
        Issue(loader->unit, loader->op, {fan}, {{a.memory, block, {op.a_word}}},
              {loader->memory, bank, {1}}, op.mask, op.note);
        RawStream target{y.memory, y.base + y_at + OffsetAt(row_from + r, rows, y_rows), ys};
        if (sums) target = {sums->memory, sum_base + r * n, dense};
        std::vector<RawStream> sources{
            {loader->memory, bank, std::vector<int64_t>(counts.size(), 0)},
            {x.memory, x.base + x_at + OffsetAt(k, inner, x_inner), xs}};
        if (k > 0 || op.onto) sources.push_back(target);
        Issue(mat, 0, counts, sources, target, op.mask, op.note);
      }
    if (sums) copy_sums(false);
    if (sums && 2 * bank_words <= sums->words) bank_of_sums ^= 1;
  };
  for (int64_t o = 0; o < outer_points; ++o) {
    const int64_t x_outer = OffsetAt(o, outer, x_columns), y_outer = OffsetAt(o, outer, y_columns);
    const int64_t count = has_columns ? columns[first] : 1;
    for (int64_t from = 0; from < count; from += piece) {
      std::vector<int64_t> counts(columns.begin() + ptrdiff_t(first), columns.end());
      if (has_columns) counts[0] = std::min(piece, count - from);
      const int64_t x_at = x_outer + (has_columns ? from * x_columns[first] : 0);
      const int64_t y_at = y_outer + (has_columns ? from * y_columns[first] : 0);
      for (int64_t row = 0; row < all_rows; row += row_tile)
        tile(x_at, y_at, counts, row, std::min(row_tile, all_rows - row));
    }
  }
}

}  // namespace hsimd
