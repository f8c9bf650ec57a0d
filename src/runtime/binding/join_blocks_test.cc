/// join_blocks_test.cc: blocks that lie in others, on random plans that are run on bytes: with
/// blocks joined every step reads what it reads where each block has memory of its own. Seeded
/// faults are all found by VerifyLayout.
#include "join_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "arena.h"
#include "verify_layout.h"
#include "weft/support/error.h"

namespace weft {
namespace {

struct Case {
  ExecutionPlan plan;
  ArenaSizes sizes;
};

/// Steps of storages: results, operands, and which of the storages are parts of others.
class Maker {
 public:
  int Block(int64_t bytes) {
    Storage s;
    s.begin = INT32_MAX;
    c_.plan.storages.push_back(s);
    c_.sizes.blocks.push_back(bytes);
    Value v;
    v.storage = int(c_.plan.storages.size()) - 1;
    c_.plan.values.push_back(v);
    return v.storage;
  }
  /// Gives its number.
  size_t Do(std::vector<int> in, std::vector<int> out, int64_t scratch = 0) {
    Step s;
    s.at = int(c_.plan.steps.size());
    s.name = "step " + std::to_string(s.at);
    for (int b : in) Extend(b, s.at);
    for (int b : out) Extend(b, s.at);
    s.inputs = std::move(in);
    s.outputs = std::move(out);
    c_.plan.steps.push_back(std::move(s));
    c_.sizes.scratch.push_back(scratch);
    return c_.plan.steps.size() - 1;
  }
  void Part(size_t step, int part, int whole, int64_t before, bool copies = true) {
    c_.plan.parts.push_back({step, part, whole, {}, {}, copies});
    c_.sizes.parts.push_back({before, true});
  }
  int64_t bytes(int block) const { return c_.sizes.blocks[size_t(block)]; }
  Case Give() { return std::move(c_); }
  const Case& made() const { return c_; }

 private:
  void Extend(int block, int at) {
    Storage& s = c_.plan.storages[size_t(block)];
    s.begin = std::min(s.begin, at);
    s.end = std::max(s.end, at + 1);
  }
  Case c_;
};

/// What every step reads, as numbers of its operands' bytes: in memory of its own for each block
/// (`layout` null), else in an arena that is full of rubbish.
std::vector<uint64_t> Run(const Case& c, const ArenaLayout* layout) {
  std::vector<std::vector<uint8_t>> own;
  for (int64_t bytes : c.sizes.blocks) own.emplace_back(size_t(bytes), uint8_t(0xA5));
  std::vector<uint8_t> arena(layout ? size_t(layout->arena_bytes) : 0, uint8_t(0x5A));
  const auto at = [&](int b) {
    return layout ? arena.data() + layout->offsets[size_t(b)] : own[size_t(b)].data();
  };
  std::vector<uint64_t> read;
  for (size_t k = 0; k < c.plan.steps.size(); ++k) {
    const Step& s = c.plan.steps[k];
    uint64_t hash = 1469598103934665603u + k;
    for (int b : s.inputs)
      for (int64_t i = 0; i < c.sizes.blocks[size_t(b)]; ++i)
        hash = (hash ^ at(b)[i]) * 1099511628211u;
    read.push_back(hash);
    if (layout && layout->left_out[k]) continue;
    if (layout && c.sizes.scratch[k] > 0)
      std::fill_n(arena.data() + layout->scratch_at[k], c.sizes.scratch[k], uint8_t(k));
    bool copied = false;
    for (size_t p = 0; p < c.plan.parts.size(); ++p) {
      const ExecutionPlan::Part& part = c.plan.parts[p];
      if (part.step != k || !part.copies) continue;
      copied = true;
      const bool into = std::count(s.outputs.begin(), s.outputs.end(), part.whole) > 0;
      const uint8_t* from = at(into ? part.part : part.whole);
      uint8_t* to = at(into ? part.whole : part.part);
      std::copy_n(from + (into ? 0 : c.sizes.parts[p].before), c.sizes.blocks[size_t(part.part)],
                  to + (into ? c.sizes.parts[p].before : 0));
    }
    std::mt19937_64 rng(hash);
    for (int b : s.outputs)
      for (int64_t i = 0; i < c.sizes.blocks[size_t(b)] && !copied; ++i) at(b)[i] = uint8_t(rng());
  }
  return read;
}

/// Chains in place, joins, cuts and results in larger operands, in turn.
Case RandomCase(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&](size_t n) { return size_t(rng() % n); };
  Maker m;
  std::vector<int> alive;
  const auto some = [&] { return alive[below(alive.size())]; };
  const auto size = [&] { return int64_t(64 * (1 + below(6)) - (rng() % 4 == 0 ? below(60) : 0)); };
  for (int k = 0; k < 3; ++k) {
    alive.push_back(m.Block(size()));
    m.Do({}, {alive.back()});
  }
  for (size_t step = 4 + below(30); step > 0; --step) {
    if (alive.size() < 2) {
      alive.push_back(m.Block(size()));
      m.Do({}, {alive.back()});
    }
    switch (below(7)) {
      case 0: {  // joined
        std::vector<int> in;
        int64_t bytes = 0;
        for (size_t n = 2 + below(3); n > 0; --n)
          if (const int b = some(); !std::count(in.begin(), in.end(), b)) {
            in.push_back(b);
            bytes += m.bytes(b);
          }
        const int out = m.Block(bytes);
        const size_t k = m.Do(in, {out});
        int64_t before = 0;
        for (int b : in) {
          m.Part(k, b, out, before);
          before += m.bytes(b);
        }
        alive.push_back(out);
        break;
      }
      case 1: {  // cut
        const int x = some();
        const int64_t first = std::min<int64_t>(64 * int64_t(1 + below(3)), m.bytes(x));
        std::vector<int> out{m.Block(first)};
        if (m.bytes(x) > first) out.push_back(m.Block(m.bytes(x) - first));
        const size_t k = m.Do({x}, out);
        int64_t before = 0;
        for (int b : out) {
          m.Part(k, b, x, before);
          before += m.bytes(b);
          alive.push_back(b);
        }
        break;
      }
      case 2: {  // in place, and never read otherwise again
        const int x = some();
        m.Do({x}, {x});
        break;
      }
      case 3: {  // smaller, where the operand was
        const size_t i = below(alive.size());
        const int x = alive[i], y = m.Block(std::max<int64_t>(m.bytes(x) / 2, 1));
        alive.erase(alive.begin() + long(i));
        const size_t k = m.Do({x}, {y});
        m.Part(k, y, x, 0, false);
        alive.push_back(y);
        break;
      }
      case 4: {  // forgotten
        if (alive.size() > 2) alive.erase(alive.begin() + long(below(alive.size())));
        break;
      }
      default: {
        const int y = m.Block(size());
        m.Do({some(), some()}, {y}, rng() % 2 ? size() : 0);
        alive.push_back(y);
      }
    }
  }
  m.Do(alive, {});
  return m.Give();
}

bool Refused(const Case& c, const ArenaSizes& sizes, const ArenaLayout& layout) {
  try {
    VerifyLayout(c.plan, sizes, layout);
    return false;
  } catch (const InternalError&) {
    return true;
  }
}

}  // namespace

TEST_CASE("random plans read the same where blocks lie in others, and take no more") {
  int left_out = 0, less = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    const Case c = RandomCase(seed);
    const ArenaLayout joined = LayArena(c.plan, c.sizes);
    ArenaSizes apart_sizes = c.sizes;
    apart_sizes.parts.clear();
    const ArenaLayout apart = LayArena(c.plan, apart_sizes);
    REQUIRE(Run(c, &joined) == Run(c, nullptr));
    REQUIRE(Run(c, &apart) == Run(c, nullptr));
    CHECK(joined.arena_bytes <= apart.arena_bytes);
    left_out += int(std::count(joined.left_out.begin(), joined.left_out.end(), 1));
    less += joined.arena_bytes < apart.arena_bytes;
  }
  CHECK(left_out > 1000);
  CHECK(less > 300);
}

TEST_CASE("what is joined is computed where it is joined") {
  Maker m;
  const int a = m.Block(128), b = m.Block(256), y = m.Block(384), z = m.Block(384);
  m.Do({}, {a});
  m.Do({}, {b});
  const size_t joins = m.Do({a, b}, {y});
  m.Part(joins, a, y, 0);
  m.Part(joins, b, y, 128);
  m.Do({y}, {z});
  const ArenaLayout l = LayArena(m.made().plan, m.made().sizes);
  CHECK(l.left_out == std::vector<char>{0, 0, 1, 0});
  CHECK(l.offsets[size_t(a)] == l.offsets[size_t(y)]);
  CHECK(l.offsets[size_t(b)] == l.offsets[size_t(y)] + 128);
  CHECK(l.arena_bytes == 2 * 384);
}

TEST_CASE("near misses: places that are not aligned, rows, operands that live on and are written") {
  const auto left_out = [](bool together, int64_t first, bool written, bool read) {
    Maker m;
    const int a = m.Block(first), b = m.Block(256), y = m.Block(first + 256);
    m.Do({}, {a});
    m.Do({}, {b});
    const size_t joins = m.Do({a, b}, {y});
    m.Part(joins, a, y, 0);
    m.Part(joins, b, y, first);
    if (written) m.Do({a}, {a});
    if (read) m.Do({y}, {});
    Case c = m.Give();
    c.sizes.parts[0].together = together;
    return LayArena(c.plan, c.sizes).left_out[joins] != 0;
  };
  CHECK(left_out(true, 128, false, true));
  CHECK(!left_out(false, 128, false, true));
  CHECK(!left_out(true, 100, false, true));
  CHECK(!left_out(true, 128, true, true));  // y is read after a is written
  CHECK(left_out(true, 128, true, false));  // nobody reads y any more
}

TEST_CASE("a join that would hold more bytes at the peak is not taken") {
  // b is made long after a: with y around a from the start, both are alive beside the large one.
  Maker m;
  const int a = m.Block(64), large = m.Block(6400), b = m.Block(6400), y = m.Block(6464);
  m.Do({}, {a});
  m.Do({}, {large});
  m.Do({large}, {});
  m.Do({}, {b});
  const size_t joins = m.Do({a, b}, {y});
  m.Part(joins, a, y, 0);
  m.Part(joins, b, y, 64);
  // Without it: 64 + 6400 + 6464. With it never more than 6464 + 6400.
  CHECK(LayArena(m.made().plan, m.made().sizes).left_out[joins] == 1);
  Maker n;
  const int c = n.Block(64), first = n.Block(6400), second = n.Block(6400), d = n.Block(64),
            w = n.Block(128);
  n.Do({}, {c});
  n.Do({}, {first});
  n.Do({first}, {second});  // the peak: a byte more would raise it
  n.Do({second}, {});
  n.Do({}, {d});
  const size_t later = n.Do({c, d}, {w});
  n.Part(later, c, w, 0);
  n.Part(later, d, w, 64);
  CHECK(LayArena(n.made().plan, n.made().sizes).left_out[later] == 0);
}

TEST_CASE("scratch memory is beside what lives at its step, and nowhere else") {
  Maker m;
  const int a = m.Block(640), b = m.Block(64), c = m.Block(640);
  m.Do({}, {a});
  const size_t k = m.Do({a}, {b}, 576);
  m.Do({b}, {c});
  const ArenaLayout l = LayArena(m.made().plan, m.made().sizes);
  CHECK(l.arena_bytes == 640 + 64 + 576);
  CHECK(l.live_bytes == l.arena_bytes);
  CHECK(l.scratch_bytes == 576);
  CHECK(l.tensor_bytes == 704);
  CHECK(l.scratch_at[k] % 64 == 0);
}

TEST_CASE("seeded faults: blocks that overlap, die early, or are claimed to lie in others") {
  int faults = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    const Case c = RandomCase(seed);
    const ArenaLayout good = LayArena(c.plan, c.sizes);
    REQUIRE(!Refused(c, c.sizes, good));
    std::mt19937_64 rng(seed);
    const std::vector<uint64_t> want = Run(c, nullptr);
    for (int kind = 0; kind < 4; ++kind) {
      CAPTURE(kind);
      ArenaLayout bad = good;
      ArenaSizes sizes = c.sizes;
      if (kind == 0) {  // a block somewhere else
        const size_t s = size_t(rng() % c.plan.storages.size());
        const int64_t room = good.arena_bytes - sizes.blocks[s];
        bad.offsets[s] = room > 0 ? int64_t(rng() % uint64_t(room + 1)) / 64 * 64 : 0;
      } else if (kind == 1) {  // freed a step early, and laid out again
        Case early = c;
        Storage& s = early.plan.storages[size_t(rng() % early.plan.storages.size())];
        if (s.end - s.begin < 2) continue;
        --s.end;
        try {
          bad = LayArena(early.plan, sizes);
        } catch (const InternalError&) {
          ++faults;  // found at once
          continue;
        }
      } else if (kind == 2) {  // a step that is left out though it is not done
        const size_t k = size_t(rng() % c.plan.steps.size());
        if (bad.left_out[k] || c.plan.steps[k].outputs.empty()) continue;
        bad.left_out[k] = 1;
      } else {  // scratch memory somewhere else
        const size_t k = size_t(rng() % c.plan.steps.size());
        if (sizes.scratch[k] == 0) continue;
        bad.scratch_at[k] =
            int64_t(rng() % uint64_t(good.arena_bytes - sizes.scratch[k] + 1)) / 64 * 64;
      }
      // Whatever changes what a step reads must be refused; what changes nothing may be.
      const bool wrong = Run(c, &bad) != want;
      if (wrong) {
        ++faults;
        CHECK(Refused(c, sizes, bad));
      }
    }
  }
  CHECK(faults > 1000);
}

TEST_CASE("an operator that claims parts which are not all of its result is refused") {
  Maker m;
  const int a = m.Block(128), b = m.Block(128), y = m.Block(320);
  m.Do({}, {a});
  m.Do({}, {b});
  const size_t joins = m.Do({a, b}, {y});
  m.Part(joins, a, y, 0);
  m.Part(joins, b, y, 192);  // 64 bytes between them are nobody's
  m.Do({y}, {});
  CHECK_THROWS_AS(LayArena(m.made().plan, m.made().sizes), InternalError);
  Maker n;
  const int c = n.Block(128), d = n.Block(128), z = n.Block(256);
  n.Do({}, {c});
  n.Do({}, {d});
  const size_t over = n.Do({c, d}, {z});
  n.Part(over, c, z, 0);
  n.Part(over, d, z, 64);  // over the other one: not joined
  n.Do({z}, {});
  CHECK(LayArena(n.made().plan, n.made().sizes).left_out[over] == 0);
}

}  // namespace weft
