/// stream_product.cc: the order of loads, links and products of a streamed product.
#include "stream_product.h"

#include <algorithm>

#include "weft/support/check.h"

namespace hsimd {

namespace {

/// Columns of a tile: sums of two tiles fill half of a register file each.
constexpr int64_t kWidestTile = 64;
constexpr int64_t kNarrowestTile = 16;

struct Mode {
  int unit = -1, op = -1;
};

Mode FindMode(const Machine& machine, UnitKind kind, int parent, int child,
              const std::vector<int>& indexed, const char* what) {
  for (size_t u = 0; u < machine.units.size(); ++u) {
    const Unit& unit = machine.units[u];
    if (unit.kind != kind || unit.parent != parent || unit.child != child) continue;
    for (size_t o = 0; o < unit.ops.size(); ++o)
      if (unit.ops[o].indexed == indexed && unit.ops[o].reduce.empty()) return {int(u), int(o)};
  }
  WEFT_THROW(kUnsupported, "machine '{}' has no link that {}", machine.name, what);
}

class Streamer {
 public:
  Streamer(const Machine& machine, const StreamedProduct& p, std::string note)
      : machine_(machine), p_(p), note_(std::move(note)) {}

  TileProgram Run() {
    const int pe = machine_.pe();
    WEFT_CHECK(pe == 3, kUnsupported, "streamed products need levels as tree64 has them");
    fan_ = machine_.levels[size_t(pe)].count;
    below_ = fan_ * machine_.levels[2].count;
    parents_ = machine_.levels[1].count;
    for (const Memory& m : machine_.memories) {
      const int id = int(&m - machine_.memories.data());
      if (m.off_chip) dram_ = id;
      if (m.level == 0 && !m.off_chip) top_ = id;
      if (m.level == 1) mid_ = id;
    }
    load_ = FindMode(machine_, UnitKind::kDown, 0, 0, {}, "loads from off-chip memory");
    store_ = FindMode(machine_, UnitKind::kUp, 0, 0, {}, "stores to off-chip memory");
    spread_ = FindMode(machine_, UnitKind::kDown, 0, 1, {}, "broadcasts to the parents of the PEs");
    gather_ = FindMode(machine_, UnitKind::kUp, 0, 1, {1}, "collects from the parents of the PEs");
    distribute_ = FindMode(machine_, UnitKind::kDown, 1, 3, {2, 3}, "distributes to the PEs");
    by_pe_ = FindMode(machine_, UnitKind::kDown, 1, 3, {3}, "gives a word by PE");
    collect_ = FindMode(machine_, UnitKind::kUp, 1, 3, {2, 3}, "collects from the PEs");
    WEFT_CHECK(p_.rows % (below_ * parents_) == 0 && p_.inner % fan_ == 0, kUnsupported,
               "a streamed product of {} rows and {} words of contraction does not fill the PEs",
               p_.rows, p_.inner);
    blocks_ = p_.rows / (below_ * parents_);
    inner_ = p_.inner / fan_;
    Plan();
    Emit();
    tiles_.machine = machine_.name;
    return std::move(tiles_);
  }

 private:
  int Value(const std::string& name, int memory, int64_t words,
            TileValue::Role role = TileValue::Role::kScratch, int64_t base = -1) {
    if (base < 0) {
      base = next_[size_t(memory)];
      next_[size_t(memory)] += words;
      WEFT_CHECK(next_[size_t(memory)] <= machine_.memories[size_t(memory)].words, kLimit,
                 "a streamed product of {} x {} x {} needs {} words of {}, which has {}", p_.rows,
                 p_.inner, p_.columns, next_[size_t(memory)],
                 machine_.memories[size_t(memory)].name, machine_.memories[size_t(memory)].words);
    }
    TileValue v;
    v.name = name;
    v.role = role;
    v.memory = memory;
    v.base = base;
    v.words = words;
    return tiles_.AddValue(std::move(v));
  }

  void Plan() {
    next_.assign(machine_.memories.size(), 0);
    // Register files: memories of the PEs that read and write in a cycle; x in one, sums in
    // another.
    std::vector<int> files, stores;
    for (size_t m = 0; m < machine_.memories.size(); ++m) {
      const Memory& memory = machine_.memories[m];
      if (memory.level != machine_.pe()) continue;
      if (memory.reads == 1 && memory.writes == 1 && !memory.accesses) files.push_back(int(m));
      if (memory.accesses == 1) stores.push_back(int(m));
    }
    WEFT_CHECK(files.size() >= 2 && !stores.empty(), kUnsupported,
               "streamed products need two register files and a memory for A");
    const int xs = files[0], sums = files[1], as = stores.back();
    const int64_t half = machine_.memories[size_t(sums)].words / 2;
    WEFT_CHECK(blocks_ <= half, kLimit, "a streamed product of {} rows needs more sums", p_.rows);
    const int64_t widest = std::min({p_.columns, half / blocks_, kWidestTile});
    piece_ = std::clamp<int64_t>(machine_.memories[size_t(xs)].words / 2 / widest, 1, inner_);
    // The first pieces are short, so that products begin early, and so are the last tiles.
    for (int64_t left = p_.columns; left > 0;) {
      const int64_t narrow = std::max<int64_t>(std::min(kNarrowestTile, widest), 1);
      int64_t width = std::min(widest, left);
      if (left > narrow && left < 2 * widest) width = std::min(widest, std::max(narrow, left / 2));
      width = std::min(width, left);
      columns_.push_back(width);
      left -= width;
    }
    const int64_t wide = *std::max_element(columns_.begin(), columns_.end());

    a_dram_ = Value("a", dram_, p_.rows * p_.inner, TileValue::Role::kInput, p_.a);
    b_dram_ = Value("b", dram_, p_.inner * p_.columns, TileValue::Role::kInput, p_.b);
    y_dram_ = Value("y", dram_, p_.rows * p_.columns, TileValue::Role::kOutput, p_.y);
    a_ = Value("a_pe", as, blocks_ * p_.inner);
    for (int i = 0; i < 2; ++i) {
      x_.push_back(Value("x_pe" + std::to_string(i), xs, piece_ * wide));
      sum_.push_back(Value("sums" + std::to_string(i), sums, blocks_ * wide));
    }
    const int64_t x_words = piece_ * fan_ * wide, a_words = piece_ * fan_ * below_ * blocks_;
    const int64_t y_words = blocks_ * wide * below_;
    y_mid_ = Value("y_mid", mid_, y_words);
    y_top_ = Value("y_top", top_, y_words * parents_);
    for (int i = 0; i < 2; ++i) x_mid_.push_back(Value("x_mid" + std::to_string(i), mid_, x_words));
    a_mid_.push_back(Value("a_mid", mid_, a_words));
    // As many loads in flight as the latency asks for and the memory holds.
    const auto room = [&] { return machine_.memories[size_t(top_)].words - next_[size_t(top_)]; };
    for (int i = 0; i < 2; ++i)
      if (i == 0 || room() >= a_words * parents_ + 2 * x_words)
        a_top_.push_back(Value("a_top" + std::to_string(i), top_, a_words * parents_));
    for (int i = 0; i < 8; ++i)
      if (i == 0 || room() >= x_words)
        x_top_.push_back(Value("x_top" + std::to_string(i), top_, x_words));
  }

  void Transfer(const Mode& mode, std::vector<int64_t> counts, TileStream from, TileStream to,
                int parent = -1) {
    TransferOp t;
    t.unit = mode.unit;
    t.op = mode.op;
    t.counts = std::move(counts);
    t.source = std::move(from);
    t.target = std::move(to);
    t.note = note_;
    if (parent >= 0) {
      t.mask.levels.resize(machine_.levels.size());
      t.mask.levels[1] = {uint64_t{1} << parent};
    }
    tiles_.ops.emplace_back(std::move(t));
  }

  /// Blocks of the contraction [k, k + n) of A, into the PEs: rows (parent, block, row).
  void BringA(int64_t k, int64_t n) {
    const int64_t words = n * fan_;  // of a row
    const int top = a_top_[size_t(a_turn_++ % int64_t(a_top_.size()))];
    const int64_t rows = below_ * blocks_;
    for (int64_t q = 0; q < parents_; ++q) {
      // Rows of parent q, their words one after another.
      Transfer(load_, {rows, words}, {a_dram_, q * rows * p_.inner + k * fan_, {p_.inner, 1}},
               {top, q * rows * words, {words, 1}});
      // In the parent: the rows of a block side by side.
      Transfer(spread_, {blocks_, below_, words},
               {top, q * rows * words, {below_ * words, words, 1}},
               {a_mid_[0], 0, {below_ * words, 1, below_}}, int(q));
    }
    Transfer(distribute_, {blocks_, words}, {a_mid_[0], 0, {below_ * words, below_}},
             {a_, k * fan_, {p_.inner, 1}});
  }

  /// Blocks of the contraction [k, k + n) of columns [c, c + width) of b, to all PEs.
  int BringX(int64_t k, int64_t n, int64_t c, int64_t width) {
    const int top = x_top_[size_t(x_turn_ % int64_t(x_top_.size()))];
    const int mid = x_mid_[size_t(x_turn_ % 2)], pe = x_[size_t(x_turn_ % 2)];
    ++x_turn_;
    Transfer(load_, {n * fan_, width}, {b_dram_, k * fan_ * p_.columns + c, {p_.columns, 1}},
             {top, 0, {width, 1}});
    // (block, word, column) becomes (block, column, word).
    Transfer(spread_, {n, fan_, width}, {top, 0, {fan_ * width, width, 1}},
             {mid, 0, {fan_ * width, 1, fan_}});
    Transfer(by_pe_, {n * width}, {mid, 0, {fan_}}, {pe, 0, {1}});
    return pe;
  }

  void Emit() {
    int64_t c = 0;
    for (size_t t = 0; t < columns_.size(); ++t) {
      const int64_t width = columns_[t];
      const int sum = sum_[t % 2];
      for (int64_t k = 0; k < inner_;) {
        // While A comes in, pieces grow from one block on.
        int64_t n = piece_;
        if (t == 0) n = std::min(piece_, std::max<int64_t>(1, k));
        n = std::min(n, inner_ - k);
        const int x = BringX(k, n, c, width);
        if (t == 0) BringA(k, n);
        MatrixOp product;
        product.note = note_;
        product.rows = {blocks_};
        product.inner = {n};
        product.columns = {width};
        product.a = {a_, k * fan_, {p_.inner, fan_, 0}};
        product.x = {x, 0, {0, width, 1}};
        product.y = {sum, 0, {1, 0, blocks_}};
        product.onto = k > 0;
        tiles_.ops.emplace_back(std::move(product));
        k += n;
      }
      // Sums go up in pieces of columns: (column, block, row) and the parents last.
      const int64_t step = std::max<int64_t>(1, std::min<int64_t>(width, 8));
      for (int64_t from = 0; from < width; from += step) {
        const int64_t n = std::min(step, width - from);
        const int64_t rows = blocks_ * below_;
        Transfer(collect_, {n * blocks_}, {sum, from * blocks_, {1}},
                 {y_mid_, from * rows, {below_}});
        Transfer(gather_, {n * rows}, {y_mid_, from * rows, {1}},
                 {y_top_, from * rows * parents_, {parents_}});
        Transfer(store_, {parents_, rows, n},
                 {y_top_, from * rows * parents_, {1, parents_, rows * parents_}},
                 {y_dram_, c + from, {rows * p_.columns, p_.columns, 1}});
      }
      c += width;
    }
  }

  const Machine& machine_;
  StreamedProduct p_;
  std::string note_;
  TileProgram tiles_;
  int dram_ = -1, top_ = -1, mid_ = -1;
  Mode load_, store_, spread_, gather_, distribute_, by_pe_, collect_;
  int64_t fan_ = 0, below_ = 0, parents_ = 0;
  int64_t blocks_ = 0, inner_ = 0, piece_ = 1;
  std::vector<int64_t> columns_, next_;
  int a_dram_ = -1, b_dram_ = -1, y_dram_ = -1, a_ = -1, y_mid_ = -1, y_top_ = -1;
  std::vector<int> x_, sum_, x_mid_, a_mid_, a_top_, x_top_;
  int64_t a_turn_ = 0, x_turn_ = 0;
};

}  // namespace

TileProgram StreamProduct(const Machine& machine, const StreamedProduct& product,
                          const std::string& note) {
  return Streamer(machine, product, note).Run();
}

int64_t StreamProductBound(const Machine& machine, const StreamedProduct& p) {
  const int64_t fan = machine.levels.back().count;
  const int64_t units = machine.PlacesOf(machine.pe()) / fan;
  int64_t bound = 0;
  for (const Unit& unit : machine.units) {
    if (unit.kind == UnitKind::kMatrix)
      bound = std::max(bound, p.rows * p.inner * p.columns / (units * fan * fan) *
                                  unit.ops[0].rate.cycles / unit.ops[0].rate.elements);
    if (unit.kind == UnitKind::kDown && unit.parent == 0 && unit.child == 0)
      bound = std::max(bound, (p.rows * p.inner + p.inner * p.columns + p.rows * p.columns) *
                                  unit.ops[0].rate.cycles / unit.ops[0].rate.elements);
  }
  return bound;
}

}  // namespace hsimd
