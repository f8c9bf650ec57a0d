/// row_phases.cc: the code of the phases of a row kernel.
///
/// With a row in lanes an item is one chunk of one row. Where the lanes are rows, an item is a
/// chunk of the row loop for a whole range of neighbouring rows, which it reads line by line as
/// they lie in memory: a tile of lines updates accumulators that stay in the first-level cache, or
/// in registers where the range is one vector.
#include <algorithm>
#include <numeric>

#include "split_emitter.h"

namespace weft::llvmgen {
namespace {

/// Most lines that one visit of an accumulator adds to it; fewer where so many fall on few
/// sets of the first-level cache (a way of it, and the lines of a set that it keeps while
/// other lines are read).
constexpr int64_t kTileLines = 16, kCacheWay = 4096, kLinesOfSet = 4;
/// Independent accumulators where the rows fill one register only: what hides the latency of an
/// addition.
constexpr int kLinesAtOnce = 4;

}  // namespace

// ---- shared memory ----

llvm::Value* SplitEmitter::Shared(SymInt start, DType t, llvm::Value* index) {
  auto& ir = e_.ir();
  llvm::Type* element = t == DType::kBool ? e_.MemoryType(t) : e_.RegisterType(t);
  return ir.CreateGEP(element, ir.CreateGEP(ir.getInt8Ty(), e_.scratch(), e_.Dim(start)), index);
}

llvm::Value* SplitEmitter::LoadShared(SymInt start, DType t, llvm::Value* index) {
  auto& ir = e_.ir();
  const Lanes* l = rows_in_lanes_ ? e_.lanes() : nullptr;
  const int count = l ? l->count : 1;
  llvm::Type* type = t == DType::kBool ? e_.MemoryType(t, count) : e_.RegisterType(t, count);
  const llvm::Align align{uint64_t(SharedBytes(t))};
  llvm::Value* p = Shared(start, t, index);
  llvm::Value* v;
  if (l && l->mask)
    v = ir.CreateMaskedLoad(type, p, align, l->mask, llvm::Constant::getNullValue(type));
  else
    v = ir.CreateAlignedLoad(type, p, align);
  return t == DType::kBool ? e_.FromMemory(t, v) : v;
}

void SplitEmitter::StoreShared(SymInt start, DType t, llvm::Value* index, llvm::Value* v) {
  auto& ir = e_.ir();
  const Lanes* l = rows_in_lanes_ ? e_.lanes() : nullptr;
  if (l) v = e_.Splat(v, l->count);
  if (t == DType::kBool) v = e_.ToMemory(t, v);
  const llvm::Align align{uint64_t(SharedBytes(t))};
  llvm::Value* p = Shared(start, t, index);
  if (l && l->mask)
    ir.CreateMaskedStore(v, p, align, l->mask);
  else
    ir.CreateAlignedStore(v, p, align);
}

llvm::Value* SplitEmitter::UnitIndex() {
  if (unit_) return unit_;
  llvm::Value* at = e_.Int(0);
  for (int i = 0; i < unit_loops(); ++i) {
    llvm::Value* index = e_.Get(e_.Keep(Expr::Index(i)));
    at = i == 0 ? index
                : e_.ir().CreateAdd(e_.ir().CreateMul(at, e_.Dim(k_.dims[size_t(i)])), index);
  }
  return at;
}

/// The row, of lane 0.
llvm::Value* SplitEmitter::RowIndex() {
  if (!rows_in_lanes_) return UnitIndex();
  return e_.ir().CreateAdd(e_.ir().CreateMul(UnitIndex(), e_.Dim(LaneRows())), e_.lanes()->base);
}

/// Element of a partial result of the current item, of lane 0.
llvm::Value* SplitEmitter::PartialIndex() {
  auto& ir = e_.ir();
  llvm::Value* at = ir.CreateAdd(ir.CreateMul(UnitIndex(), e_.Dim(split_->chunks)), chunk_);
  if (!rows_in_lanes_) return at;
  return ir.CreateAdd(ir.CreateMul(at, e_.Dim(LaneRows())), e_.lanes()->base);
}

/// Reductions of the first levels are what earlier phases left.
void SplitEmitter::PresetResults(int levels) {
  for (int l = 0; l < levels; ++l) {
    const Exprs& reduces = passes_[size_t(l)].reduces;
    for (size_t i = 0; i < reduces.size(); ++i)
      e_.Preset(reduces[i], LoadShared(ResultStart(l, i), reduces[i]->dtype(), RowIndex()));
  }
}

void SplitEmitter::StoreParts(const std::vector<Component>& parts, const Values& v) {
  for (size_t i = 0; i < parts.size(); ++i)
    StoreShared(parts[i].start, parts[i].dtype, PartialIndex(), v[i]);
}

Values SplitEmitter::LoadParts(const std::vector<Component>& parts) {
  Values v;
  for (const Component& c : parts) v.push_back(LoadShared(c.start, c.dtype, PartialIndex()));
  return v;
}

// ---- loops ----

void SplitEmitter::ForItems(const std::function<void()>& body) {
  auto& ir = e_.ir();
  LoopSpec items;
  items.lo = e_.begin();
  items.hi = e_.end();
  items.maybe_empty = false;
  e_.Loop(items, {}, [&](llvm::Value* item, const Values&) -> Values {
    llvm::Value* rest = item;
    const auto next = [&](SymInt extent) -> llvm::Value* {
      if (extent.is(1)) return e_.Int(0);
      llvm::Value* d = e_.Dim(extent);
      llvm::Value* at = ir.CreateURem(rest, d);
      rest = ir.CreateUDiv(rest, d);
      return at;
    };
    llvm::Value* tile = next(split_->tiles);
    chunk_ = next(split_->chunks);
    unit_ = rest;
    e_.Define(Emitter::kRowBit, unit_);
    for (int i = unit_loops() - 1; i > 0; --i)
      e_.Define(Emitter::IndexBit(i), next(k_.dims[size_t(i)]));
    if (unit_loops() > 0) e_.Define(Emitter::IndexBit(0), rest);
    const auto range = [&](llvm::Value* k, SymInt length, SymInt extent, llvm::Value** lo,
                           llvm::Value** hi) {
      *lo = ir.CreateMul(k, e_.Dim(length));
      *hi = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateAdd(*lo, e_.Dim(length)),
                                     e_.Dim(extent));
    };
    range(chunk_, split_->length, k_.dims[size_t(split_->loop)], &lo_, &hi_);
    if (rows_in_lanes_) range(tile, split_->tile_length, LaneRows(), &lane_lo_, &lane_hi_);
    body();
    return {};
  });
}

/// Columns of a power of two lie on one set each: sixteen lines push each other out (measured: 4096
/// x 1024 f32 take 1.5 times as long as with four).
int64_t SplitEmitter::TileLines() const {
  if (!LaneRows().is_const()) return kTileLines;
  int bytes = 1;
  for (const KernelBuffer& b : k_.buffers) bytes = std::max(bytes, Emitter::Bytes(b.dtype));
  const int64_t sets = kCacheWay / std::gcd(LaneRows().value() % kCacheWay * bytes, kCacheWay);
  return std::min(kTileLines, kLinesOfSet * sets);
}

/// The range of the split loop, a tile of lines after the other.
void SplitEmitter::ForTiles(const std::function<void()>& body) {
  auto& ir = e_.ir();
  llvm::Value *const lo = lo_, *const hi = hi_;
  LoopSpec tiles;
  tiles.lo = lo;
  tiles.hi = hi;
  tiles.step = TileLines();
  tiles.maybe_empty = false;
  e_.Loop(tiles, {}, [&](llvm::Value* at, const Values&) -> Values {
    lo_ = at;
    hi_ =
        ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateAdd(at, e_.Int(TileLines())), hi);
    body();
    return {};
  });
  lo_ = lo;
  hi_ = hi;
}

/// The rows [begin, end) of the function.
void SplitEmitter::ForEachRow(const std::function<void()>& body) {
  unit_ = nullptr;
  if (!rows_in_lanes_) {
    ForRows(e_, first_, e_.begin(), e_.end(), [&](llvm::Value* row) {
      unit_ = row;
      body();
    });
    return;
  }
  const int native = e_.target().vector_bits / 32;
  const Widths w{native, e_.target().masks ? native : 1};
  ForPoints(e_, first_, e_.begin(), e_.end(), [&](llvm::Value* lo, llvm::Value* hi) {
    ForLanes(e_, first_ - 1, lo, hi, -1, w, false, {}, [&](const Values&) -> Values {
      body();
      return {};
    });
  });
}

/// Constant extent of the lanes of an item where code for that very extent is better: one vector,
/// or no rest.
int64_t SplitEmitter::LaneExtent() const {
  if (!split_->tiles.is(1) || !LaneRows().is_const()) return -1;
  const int64_t n = LaneRows().value();
  return n <= 64 || n % 64 == 0 ? n : -1;
}

void SplitEmitter::ForLaneRows(const Widths& w, const std::function<void()>& body) {
  ForLanes(e_, first_ - 1, lane_lo_, lane_hi_, LaneExtent(), w, false, {},
           [&](const Values&) -> Values {
             body();
             return {};
           });
}

/// Row loops from `loop` on, up to `last`, around `body`: of the split one the item's part.
Values SplitEmitter::Nest(int loop, int last, const Values& init,
                          const std::function<Values(const Values&)>& body) {
  if (loop == last) return body(init);
  const bool split = loop == split_->loop;
  LoopSpec spec;
  spec.lo = split ? lo_ : e_.Int(0);
  spec.hi = split ? hi_ : e_.Dim(k_.dims[size_t(loop)]);
  spec.bit = Emitter::IndexBit(loop);
  spec.maybe_empty = !split && MayBeEmpty(loop);
  spec.barrier = RowMayBeEmpty();
  return e_.Loop(spec, init, [&](llvm::Value*, const Values& carried) {
    return Nest(loop + 1, last, carried, body);
  });
}

Widths SplitEmitter::WidthsFor(const Exprs& roots, const std::vector<KernelStore>& stores) {
  std::vector<DType> types;
  for (const KernelStore& s : stores) types.push_back(k_.buffers[size_t(s.buffer)].dtype);
  if (rows_in_lanes_) return ChooseWidths(e_, roots, types, first_ - 1, LaneExtent());
  return ChooseWidths(e_, roots, types, loops_ - 1,
                      split_->loop == loops_ - 1 ? -1 : InnerExtent());
}

// ---- phases ----

Values SplitEmitter::StepAndStore(const RowPass& p, const Values& carried) {
  const Values out = Step(p, carried);
  EmitStores(e_, p.stores, false);
  return out;
}

void SplitEmitter::PartialOfRow(const RowPass& p, const std::vector<Component>& parts) {
  const Widths w = WidthsFor(p.roots(), p.stores);
  const int inner = loops_ - 1;
  const bool cut = split_->loop == inner;
  Values both = Init(p, w.main);
  const size_t half = both.size();
  for (llvm::Value* v : Init(p, w.tail)) both.push_back(v);
  both = Nest(first_, inner, both, [&](const Values& in) {
    Carried c{Values(in.begin(), in.begin() + long(half)),
              Values(in.begin() + long(half), in.end())};
    c = ForLanes(e_, inner, cut ? lo_ : e_.Int(0), cut ? hi_ : e_.Dim(k_.dims.back()),
                 cut ? -1 : InnerExtent(), w, RowMayBeEmpty(), c,
                 [&](const Values& carried) { return StepAndStore(p, carried); });
    Values out = c.main;
    out.insert(out.end(), c.tail.begin(), c.tail.end());
    return out;
  });
  StoreParts(parts, FoldBoth(p, w, both));
}

/// The item's part of every row in the current lanes, in several accumulators at once where one is
/// a single register.
Values SplitEmitter::Lines(const RowPass& p, int lanes) {
  auto& ir = e_.ir();
  const bool several = loops_ - first_ == 1 && lanes * 32 <= e_.target().vector_bits &&
                       p.reduces.size() <= 2 && e_.Info(p.bodies[0]).weight <= 16;
  Values v = Init(p, lanes);
  if (!several) return Nest(first_, loops_, v, [&](const Values& c) { return StepAndStore(p, c); });
  const size_t size = v.size();
  for (int k = 1; k < kLinesAtOnce; ++k) {
    for (llvm::Value* x : Init(p, lanes)) v.push_back(x);
  }
  llvm::Value *const lo = lo_, *const hi = hi_;
  LoopSpec main;
  main.lo = lo;
  main.hi = ir.CreateAdd(lo, ir.CreateAnd(ir.CreateSub(hi, lo), e_.Int(-kLinesAtOnce)));
  main.step = kLinesAtOnce;
  v = e_.Loop(main, v, [&](llvm::Value* at, const Values& carried) {
    Values out;
    for (int k = 0; k < kLinesAtOnce; ++k) {
      const auto begin = carried.begin() + long(size) * k;
      const Values set(begin, begin + long(size));
      for (llvm::Value* x : e_.Unrolled(Emitter::IndexBit(first_), ir.CreateAdd(at, e_.Int(k)),
                                        [&] { return StepAndStore(p, set); }))
        out.push_back(x);
    }
    return out;
  });
  LoopSpec rest;
  rest.lo = main.hi;
  rest.hi = hi;
  rest.bit = Emitter::IndexBit(first_);
  const Values first = e_.Loop(rest, Values(v.begin(), v.begin() + long(size)),
                               [&](llvm::Value*, const Values& c) { return StepAndStore(p, c); });
  Values out;
  size_t at = 0;
  for (const Expr& r : p.reduces) {
    const Accumulator acc = AccumulatorFor(r);
    const auto part = [&](const Values& from, size_t set) {
      const auto begin = from.begin() + long(set * size + at);
      return Values(begin, begin + acc.size());
    };
    // In pairs: the order of the lines is kept as far as it can be.
    Values a = e_.Merge(acc, part(first, 0), part(v, 1)), b = e_.Merge(acc, part(v, 2), part(v, 3));
    for (llvm::Value* x : e_.Merge(acc, a, b)) out.push_back(x);
    at += size_t(acc.size());
  }
  return out;
}

void SplitEmitter::PartialOfRows(const RowPass& p, const std::vector<Component>& parts) {
  const int level = int(&p - passes_.data());
  const Widths w = WidthsFor(p.roots(), p.stores);
  if (LaneExtent() >= 0 && LaneExtent() <= 2 * std::max(w.main, w.tail)) {
    ForLaneRows(w, [&] {
      PresetResults(level);
      StoreParts(parts, Lines(p, e_.lanes()->count));
    });
    return;
  }
  ForLaneRows(w, [&] { StoreParts(parts, Init(p, e_.lanes()->count)); });
  ForTiles([&] {
    ForLaneRows(w, [&] {
      PresetResults(level);
      StoreParts(parts, Nest(first_, loops_, LoadParts(parts),
                             [&](const Values& c) { return StepAndStore(p, c); }));
    });
  });
}

void SplitEmitter::Stores() {
  if (rows_in_lanes_) {
    Exprs values;
    for (const KernelStore& s : stores_) values.push_back(s.value);
    const Widths w = WidthsFor(values, stores_);
    const auto lines = [&] {
      ForLaneRows(w, [&] {
        PresetResults(levels());
        Nest(first_, loops_, {}, [&](const Values&) -> Values {
          EmitStores(e_, stores_, false);
          return {};
        });
      });
    };
    // A line of few vectors is in the cache when the next of them asks for its part: tiles would
    // only load the results of the rows, and compute what follows from them, again and again.
    const bool few = LaneExtent() >= 0 && LaneExtent() <= 2 * std::max(w.main, w.tail);
    ForItems([&] { few ? lines() : ForTiles(lines); });
    return;
  }
  bool fence = false;
  const int inner = loops_ - 1;
  const bool cut = split_->loop == inner;
  ForItems([&] {
    PresetResults(levels());
    Nest(first_, inner, {}, [&](const Values&) -> Values {
      fence |=
          StoreRange(e_, stores_, inner, cut ? lo_ : e_.Int(0), cut ? hi_ : e_.Dim(k_.dims.back()),
                     InnerExtent(), !cut, RowMayBeEmpty(), nullptr);
      return {};
    });
  });
  if (fence) e_.EmitFence();
}

/// For every row: the reductions of `level` from their partial results, and what is stored once a
/// row.
void SplitEmitter::Combine(int level, bool reduce, bool store) {
  const std::vector<Component> parts =
      reduce ? Components(level, *split_, nullptr) : std::vector<Component>();
  ForEachRow([&] {
    if (store) PresetResults(reduce ? level : levels());
    if (reduce) {
      const RowPass& p = passes_[size_t(level)];
      const Lanes* l = rows_in_lanes_ ? e_.lanes() : nullptr;
      LoopSpec chunks;
      chunks.lo = e_.Int(0);
      chunks.hi = e_.Dim(split_->chunks);
      chunks.maybe_empty = !split_->chunks.is_const() || split_->chunks.value() < 1;
      const Values v =
          e_.Loop(chunks, Init(p, l ? l->count : 1), [&](llvm::Value* c, const Values& carried) {
            chunk_ = c;
            const Values next = LoadParts(parts);
            Values out;
            for (const Expr& r : p.reduces) {
              const Accumulator acc = AccumulatorFor(r);
              const auto part = [&](const Values& from) {
                const auto begin = from.begin() + long(out.size());
                return Values(begin, begin + acc.size());
              };
              const Values both = e_.Merge(acc, part(carried), part(next));
              out.insert(out.end(), both.begin(), both.end());
            }
            return out;
          });
      size_t at = 0;
      for (size_t i = 0; i < p.reduces.size(); ++i) {
        const Accumulator acc = AccumulatorFor(p.reduces[i]);
        at += size_t(acc.size());
        llvm::Value* result = Result(acc, v[at - 1]);
        StoreShared(ResultStart(level, i), p.reduces[i]->dtype(), RowIndex(), result);
        e_.Preset(p.reduces[i], result);
      }
    }
    if (store) EmitStores(e_, row_stores_, false);
  });
}

void SplitEmitter::EmitPhase(int phase, const RowSplit& split) {
  split_ = &split;
  e_.Begin("_" + std::to_string(phase));
  const int level = phase / 2;
  if (level < levels() && phase % 2 == 0) {
    const std::vector<Component> parts = Components(level, split, nullptr);
    const RowPass& p = passes_[size_t(level)];
    ForItems([&] {
      if (rows_in_lanes_) {
        PartialOfRows(p, parts);
      } else {
        PresetResults(level);
        PartialOfRow(p, parts);
      }
    });
  } else if (level < levels()) {
    Combine(level, true, level + 1 == levels() && !has_store_phase());
  } else if (phase % 2 == 0) {
    Stores();
  } else {
    Combine(0, false, true);
  }
}

}  // namespace weft::llvmgen
