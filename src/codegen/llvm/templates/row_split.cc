/// row_split.cc: which loop of a row kernel is cut, how often, and when that is worth it.

#include "split_emitter.h"

namespace weft::llvmgen {
namespace {

/// Chunks of one launch: enough to keep large teams busy and even, few enough to combine quickly.
constexpr int64_t kMaxItems = 64;
/// Rows from which there are enough of them to share among threads whole. Rows that several passes
/// read are worth more than balance, as long as they stay in the second-level cache.
constexpr int64_t kManyRows = 64, kManyCachedRows = 8;
constexpr int64_t kCachedRowBytes = int64_t{768} << 10;
/// Shorter rows are windows, or cost less than their combination.
constexpr int64_t kMinRow = 64;
/// Least iterations of a chunk: a line of accumulators is written for so many lines that are read.
constexpr int64_t kMinLines = 16, kMinElements = 1024;
/// Neighbouring rows of one item: their accumulators fit in half of the first-level cache.
constexpr int64_t kTileLanes = 4096;

SymInt Saturated(SymInt a, SymInt least) { return Max(a, least); }

}  // namespace

RowSplit SplitEmitter::PlanPhases() const {
  RowSplit s;
  // Partial results and their combination for each level, then stores over elements and rows.
  if (passes_.empty() || 2 * levels() + 2 > CpuKernel::kMaxPhases) return s;
  const int64_t split_bytes = e_.target().split_bytes;
  // The outermost row loop where it is long enough, else the longest.
  int loop = first_;
  const auto extent = [&](int i) { return Extent(i); };
  for (int i = first_ + 1; i < loops_; ++i) {
    if (!extent(loop).is_const() || extent(loop).value() >= kMaxItems) break;
    if (!extent(i).is_const() || extent(i).value() > extent(loop).value()) loop = i;
  }
  if (ProductOf(first_, loops_).is_const() && NeverFew(ProductOf(first_, loops_))) return s;
  SymInt bytes = 0;
  for (const KernelBuffer& b : k_.buffers)
    bytes = Named(bytes + Named(b.num_elements) * Emitter::Bytes(b.dtype));
  const SymInt rows = ProductOf(0, first_), row = ProductOf(first_, loops_);
  const bool inner = loop == last_loop() && !rows_in_lanes_;
  const bool tested = split_bytes == 0;  // chunks as small as can be
  const int64_t least = tested ? 1 : inner ? kMinElements : rows_in_lanes_ ? kMinLines : 1;

  s.tile_length =
      LaneRows().is_const() && LaneRows().value() <= 2 * kTileLanes ? LaneRows() : kTileLanes;
  s.tile_length = Saturated(s.tile_length, 1);
  s.tiles = Named(CeilDiv(LaneRows(), s.tile_length));
  SymInt chunks = FloorDiv(kMaxItems, Saturated(Units() * s.tiles, 1));
  if (!tested) chunks = Min(chunks, FloorDiv(bytes, split_bytes / 8));
  chunks = Named(Saturated(Min(chunks, FloorDiv(extent(loop), least)), 1));
  s.length = Named(Saturated(CeilDiv(extent(loop), chunks), 1));
  if (inner && !tested) s.length = Named(CeilDiv(s.length, 64) * 64);
  s.chunks = Named(CeilDiv(extent(loop), s.length));

  if (tested) {
    s.gain = 0;
  } else {
    s.gain = Min(Min(bytes - split_bytes, row - kMinRow), s.chunks - 2);
    if (rows_in_lanes_) {
      s.gain = Min(s.gain, kManyRows - 1 - Units());
    } else {
      SymInt few = kManyRows - 1 - rows;
      if (levels() + int(has_store_phase()) > 1)
        few = Max(kManyCachedRows - rows,
                  Min(few, FloorDiv(bytes, Saturated(rows, 1)) - kCachedRowBytes));
      s.gain = Min(s.gain, few);
    }
  }
  if (s.gain.is_const() && s.gain.value() < 0) return s;
  s.loop = loop;
  const SymInt pieces = Named(Units() * s.chunks * s.tiles);
  SymInt shared = 0;
  for (int level = 0; level < levels(); ++level) {
    SymInt end;
    Components(level, s, &end);
    shared = level == 0 ? end : Named(Max(shared, end));
    s.items.push_back(pieces);
    s.items.push_back(rows);
  }
  if (has_store_phase()) {
    s.items.push_back(pieces);
    if (!row_stores_.empty()) s.items.push_back(rows);
  }
  s.shared_bytes = shared;
  return s;
}

/// Rows of this length are never so few and so much work together.
bool SplitEmitter::NeverFew(SymInt row) const {
  if (e_.target().split_bytes == 0) return false;
  if (row.value() < kMinRow) return true;
  if (rows_in_lanes_) return false;
  int64_t element = 0;
  for (const KernelBuffer& b : k_.buffers) element += Emitter::Bytes(b.dtype);
  const bool again = levels() + int(has_store_phase()) > 1;
  const double bytes = double(row.value()) * double(element);
  return bytes * double(again ? kManyCachedRows : kManyRows) < double(e_.target().split_bytes) &&
         bytes < double(kCachedRowBytes);
}

SymInt SplitEmitter::ResultStart(int level, size_t reduce) const {
  SymInt at = 0;
  const SymInt rows = ProductOf(0, first_);
  for (int l = 0; l <= level; ++l) {
    const Exprs& reduces = passes_[size_t(l)].reduces;
    for (size_t i = 0; i < (l == level ? reduce : reduces.size()); ++i)
      at = Named(at + CeilDiv(rows * SharedBytes(reduces[i]->dtype()), 64) * 64);
  }
  return at;
}

std::vector<SplitEmitter::Component> SplitEmitter::Components(int level, const RowSplit& split,
                                                              SymInt* end) const {
  SymInt at = ResultStart(levels() - 1, passes_.back().reduces.size());
  const SymInt elements = Named(ProductOf(0, first_) * split.chunks);
  std::vector<Component> parts;
  const Exprs& reduces = passes_[size_t(level)].reduces;
  const auto add = [&](size_t reduce, DType t) {
    parts.push_back({reduce, t, at});
    at = Named(at + CeilDiv(elements * SharedBytes(t), 64) * 64);
  };
  for (size_t i = 0; i < reduces.size(); ++i) {
    const Accumulator acc = AccumulatorFor(reduces[i]);
    add(i, acc.dtype);
    if (acc.positional()) add(i, acc.position());
  }
  if (end) *end = at;
  return parts;
}

RowSplit EmitRowPhases(const Kernel& kernel, const CpuTarget& target, llvm::Module& module,
                       ExtentNames& names) {
  Emitter planner(kernel, target, module, names);
  const RowSplit split = SplitEmitter(planner).PlanPhases();
  for (size_t k = 0; k < split.items.size(); ++k) {
    Emitter e(kernel, target, module, names);
    SplitEmitter(e).EmitPhase(int(k), split);
  }
  return split;
}

}  // namespace weft::llvmgen
