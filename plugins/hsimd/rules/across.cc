/// across.cc: combining over places: the ring of the level, or links that go up, reduce, and come
/// down again; where they have no such mode, every place gets what the others have and combines it.
#include <algorithm>

#include "../l2/emitter.h"
#include "lowering.h"
#include "weft/support/check.h"

namespace hsimd {

using weft::DType;
using weft::ReduceOp;

namespace {

/// A pair of links between two levels.
struct Hop {
  int up = -1, down = -1;
  int parent = -1, child = -1;
};

std::vector<int> LevelsBetween(const Machine& machine, int parent, int child) {
  std::vector<int> levels;
  for (int l = parent + 1; l <= child; ++l)
    if (machine.levels[size_t(l)].count > 1) levels.push_back(l);
  return levels;
}

/// Levels of an op as a sorted list without those of one place.
std::vector<int> IndexedOf(const Machine& machine, const UnitOp& op) {
  std::vector<int> levels;
  for (int l : op.indexed)
    if (machine.levels[size_t(l)].count > 1) levels.push_back(l);
  std::sort(levels.begin(), levels.end());
  return levels;
}

int ModeOf(const Machine& machine, int unit, const std::vector<int>& indexed,
           const std::string& reduce) {
  const std::vector<UnitOp>& ops = machine.units[size_t(unit)].ops;
  for (size_t o = 0; o < ops.size(); ++o)
    if (ops[o].reduce == reduce && IndexedOf(machine, ops[o]) == indexed) return int(o);
  return -1;
}

std::string ReduceName(ReduceOp op, DType dtype) {
  const std::string i = dtype == DType::kF32 ? "" : "i";
  switch (op) {
    case ReduceOp::kSum:
      return i + "sum";
    case ReduceOp::kMax:
      return i + "max";
    case ReduceOp::kMin:
      return i + "min";
    default:
      return "none";
  }
}

}  // namespace

void Lowering::Across(int value, int level, ReduceOp op, DType dtype) {
  for (size_t u = 0; u < machine_.units.size(); ++u) {
    const Unit& unit = machine_.units[u];
    if (unit.kind != UnitKind::kRing || unit.child != level || level != machine_.pe()) continue;
    for (size_t o = 0; o < unit.ops.size(); ++o)
      if (unit.ops[o].shift == 1 || unit.ops[o].shift == -1) {
        AcrossRing(value, int(u), int(o), op, dtype);
        return;
      }
  }
  AcrossTree(value, level, op, dtype);
}

/// What a neighbour has is passed on from place to place, each adding it to its own.
void Lowering::AcrossRing(int value, int unit, int mode, ReduceOp op, DType dtype) {
  const TileValue of = tiles_.values[size_t(value)];
  // Passed on in a memory that reads and writes in one cycle, half of its scratch at a time.
  ScratchRange* range = nullptr;
  for (ScratchRange& r : scratch_)
    if (PortsAllow(machine_, {r.memory}, r.memory) && PortsAllow(machine_, {of.memory}, r.memory) &&
        MayRead(machine_, unit, r.memory) && MayWrite(machine_, unit, r.memory) && r.words > 1 &&
        machine_.memories[size_t(r.memory)].level == machine_.pe() &&
        (!range || r.words > range->words))
      range = &r;
  WEFT_CHECK(range, kLimit, "{}: needs scratch in a memory that {} reads and writes in one cycle",
             note_, machine_.units[size_t(unit)].name);
  int64_t piece = std::min(of.words, range->words / 2);
  int passing = -1;
  for (const auto& [from, ring] : rings_)
    if (from == of.memory) passing = ring;
  if (passing >= 0) {
    piece = std::min(piece, tiles_.values[size_t(passing)].words);
  } else {
    passing = TakeFrom(*range, "ring", piece, dtype);
    rings_.emplace_back(of.memory, passing);
  }
  for (int64_t from = 0; from < of.words; from += piece) {
    const int64_t words = std::min(piece, of.words - from);
    for (int64_t turn = 1; turn < machine_.levels.back().count; ++turn) {
      TransferOp pass;
      pass.unit = unit;
      pass.op = mode;
      pass.counts = {words};
      pass.source = turn == 1 ? TileStream{value, from, {1}} : TileStream{passing, 0, {1}};
      pass.target = {passing, 0, {1}};
      pass.note = note_;
      tiles_.ops.emplace_back(std::move(pass));
      VectorOp add;
      add.note = note_;
      add.counts = {words};
      add.inputs = {{value, from, {1}}, {passing, 0, {1}}};
      add.steps = {{*CombineOp(op, dtype), {BodyOperand::Input(0), BodyOperand::Input(1)}}};
      add.results = {{BodyOperand::Step(0), {value, from, {1}}, std::nullopt, false}};
      tiles_.ops.emplace_back(std::move(add));
    }
  }
}

void Lowering::AcrossTree(int value, int level, ReduceOp op, DType dtype) {
  // As many words at a time as the parents have room for, a few buffers each.
  const TileValue whole = tiles_.values[size_t(value)];
  int64_t piece = whole.words;
  for (const ScratchRange& range : scratch_) {
    const Memory& memory = machine_.memories[size_t(range.memory)];
    if (memory.off_chip || memory.level >= machine_.pe()) continue;
    const int64_t below = machine_.PlacesOf(machine_.pe()) / machine_.PlacesOf(memory.level);
    piece = std::min(piece, std::max<int64_t>(1, range.words / (4 * below)));
  }
  for (int64_t from = 0; from < whole.words; from += piece) {
    TileValue part = whole;
    part.name = "part" + std::to_string(tiles_.values.size());
    part.role = TileValue::Role::kScratch;
    part.layout.reset();
    part.base += from;
    part.words = std::min(piece, whole.words - from);
    AcrossPiece(tiles_.AddValue(std::move(part)), level, op, dtype);
  }
}

void Lowering::AcrossPiece(int value, int level, ReduceOp op, DType dtype) {
  // Links from the PEs up to above the level.
  std::vector<Hop> hops;
  for (int child = machine_.pe(); child >= level;) {
    Hop hop;
    hop.child = child;
    for (size_t u = 0; u < machine_.units.size(); ++u) {
      const Unit& unit = machine_.units[u];
      if (unit.child != child || unit.parent >= child) continue;
      if (unit.kind == UnitKind::kUp) hop.up = int(u);
      if (unit.kind == UnitKind::kDown) hop.down = int(u);
    }
    WEFT_CHECK(hop.up >= 0 && hop.down >= 0, kUnsupported,
               "{}: machine '{}' has no links up and down from level {}", note_, machine_.name,
               machine_.levels[size_t(child)].name);
    hop.parent = machine_.units[size_t(hop.up)].parent;
    hops.push_back(hop);
    child = hop.parent;
  }

  const std::vector<ScratchRange> saved = scratch_;
  // Bodies have their temporaries in what is left of the PEs' scratch, so that stays taken.
  const auto give_back = [&] {
    for (size_t i = 0; i < scratch_.size(); ++i)
      if (machine_.memories[size_t(scratch_[i].memory)].level != machine_.pe())
        scratch_[i] = saved[i];
  };
  // A range of scratch on a level.
  const auto range_on = [&](int on, int64_t words) {
    for (ScratchRange& range : scratch_)
      if (machine_.memories[size_t(range.memory)].level == on &&
          !machine_.memories[size_t(range.memory)].off_chip && range.words >= words)
        return TakeFrom(range, "across", words, dtype);
    WEFT_THROW(kLimit, "{}: needs {} words of scratch in a memory of level {}", note_, words,
               machine_.levels[size_t(on)].name);
  };
  const auto transfer = [&](int unit, int mode, int from, int64_t from_stride, int to,
                            int64_t to_stride, int64_t words) {
    TransferOp t;
    t.unit = unit;
    t.op = mode;
    t.counts = {words};
    t.source = {from, 0, {from_stride}};
    t.target = {to, 0, {to_stride}};
    t.note = note_;
    tiles_.ops.emplace_back(std::move(t));
  };
  const auto size_of = [&](const std::vector<int>& levels) {
    int64_t n = 1;
    for (int l : levels) n *= machine_.levels[size_t(l)].count;
    return n;
  };

  // Up to below the level, all places side by side.
  std::vector<int> values{value};
  std::vector<int64_t> words{tiles_.values[size_t(value)].words};
  for (size_t h = 0; h + 1 < hops.size(); ++h) {
    const std::vector<int> all = LevelsBetween(machine_, hops[h].parent, hops[h].child);
    const int mode = ModeOf(machine_, hops[h].up, all, "");
    WEFT_CHECK(mode >= 0, kUnsupported, "{}: {} of machine '{}' does not collect from every place",
               note_, machine_.units[size_t(hops[h].up)].name, machine_.name);
    const int64_t n = size_of(all);
    values.push_back(range_on(hops[h].parent, words.back() * n));
    transfer(hops[h].up, mode, values[h], 1, values[h + 1], n, words.back());
    words.push_back(words.back() * n);
  }
  const Hop& top = hops.back();
  const std::vector<int> all = LevelsBetween(machine_, top.parent, top.child);
  std::vector<int> rest;
  for (int l : all)
    if (l != level) rest.push_back(l);
  const int reduce = ModeOf(machine_, top.up, rest, ReduceName(op, dtype));
  const int down = ModeOf(machine_, top.down, rest, "");
  // Back down to the PEs, into `target` there.
  const auto spread = [&](int from, int target) {
    for (size_t h = hops.size() - 1; h-- > 0;) {
      const std::vector<int> here = LevelsBetween(machine_, hops[h].parent, hops[h].child);
      const int mode = ModeOf(machine_, hops[h].down, here, "");
      WEFT_CHECK(mode >= 0, kUnsupported,
                 "{}: {} of machine '{}' does not distribute to every place", note_,
                 machine_.units[size_t(hops[h].down)].name, machine_.name);
      const int to = h == 0 ? target : range_on(hops[h].child, words[h]);
      transfer(hops[h].down, mode, from, size_of(here), to, 1, words[h]);
      from = to;
    }
  };
  const int64_t n = words.back();
  if (reduce >= 0 && down >= 0) {
    const int64_t width = size_of(rest);
    const int sum = range_on(top.parent, n * width);
    transfer(top.up, reduce, values.back(), 1, sum, width, n);
    const int back = hops.size() == 1 ? value : range_on(top.child, n);
    transfer(top.down, down, sum, width, back, 1, n);
    if (hops.size() > 1) spread(back, value);
    give_back();
    return;
  }

  // Every place gets the words of the others, one after another.
  const int collect = ModeOf(machine_, top.up, all, "");
  const int distribute = ModeOf(machine_, top.down, all, "");
  WEFT_CHECK(collect >= 0 && distribute >= 0, kUnsupported,
             "{}: machine '{}' neither reduces over {} nor collects from and distributes to it",
             note_, machine_.name, machine_.levels[size_t(level)].name);
  const int64_t width = size_of(all), count = machine_.levels[size_t(level)].count;
  int64_t step = 1;  // of the level in the block of a parent
  for (int l : all)
    if (l > level) step *= machine_.levels[size_t(l)].count;
  // Blocks are read from shifted bases; what places beyond the mask would read lies in margins.
  const int64_t margin = (count - 1) * step;
  const int gathered = range_on(top.parent, n * width + 2 * margin);
  {
    TransferOp t;
    t.unit = top.up;
    t.op = collect;
    t.counts = {n};
    t.source = {values.back(), 0, {1}};
    t.target = {gathered, margin, {width}};
    t.note = note_;
    tiles_.ops.emplace_back(std::move(t));
  }
  const auto pe_scratch = [&](int* kept) {
    if (*kept < 0 || tiles_.values[size_t(*kept)].words < tiles_.values[size_t(value)].words)
      *kept = TakeScratch("across", tiles_.values[size_t(value)].words, dtype);
    return *kept;
  };
  const int other = pe_scratch(&across_other_), total = pe_scratch(&across_total_);
  const int landing = hops.size() == 1 ? other : range_on(top.child, n);
  const int64_t local = tiles_.values[size_t(value)].words;
  for (int64_t from = 0; from < count; ++from) {
    // The words of place `from`, to every place of the level: the base of the block moves so that
    // place q reads block `from`.
    for (int64_t q = 0; q < count; ++q) {
      Mask mask;
      mask.levels.resize(machine_.levels.size());
      std::vector<uint64_t>& bits = mask.levels[size_t(level)];
      bits.resize(size_t((count + 63) / 64));
      bits[size_t(q / 64)] |= uint64_t{1} << (q % 64);
      TransferOp t;
      t.unit = top.down;
      t.op = distribute;
      t.counts = {n};
      t.source = {gathered, margin + (from - q) * step, {width}};
      t.target = {landing, 0, {1}};
      t.mask = mask;
      t.note = note_;
      tiles_.ops.emplace_back(std::move(t));
    }
    if (hops.size() > 1) {
      const std::vector<ScratchRange> now = scratch_;
      spread(landing, other);
      scratch_ = now;  // memories of parents alone were taken
    }
    VectorOp add;
    add.note = note_;
    add.counts = {local};
    add.inputs = {{other, 0, {1}}};
    if (from > 0) {
      add.inputs.push_back({total, 0, {1}});
      add.steps = {{*CombineOp(op, dtype), {BodyOperand::Input(1), BodyOperand::Input(0)}}};
    }
    add.results = {{from > 0 ? BodyOperand::Step(0) : BodyOperand::Input(0),
                    {total, 0, {1}},
                    std::nullopt,
                    false}};
    tiles_.ops.emplace_back(std::move(add));
  }
  VectorOp copy;
  copy.note = note_;
  copy.counts = {local};
  copy.inputs = {{total, 0, {1}}};
  copy.results = {{BodyOperand::Input(0), {value, 0, {1}}, std::nullopt, false}};
  tiles_.ops.emplace_back(std::move(copy));
  give_back();
}

}  // namespace hsimd
