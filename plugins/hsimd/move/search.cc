/// search.cc: beam search backwards from the target.
///
/// A state says in which cell each word has to be before the instructions chosen so far. The last
/// instruction that writes address y from address x at a shift, in the places of a mask, takes the
/// words wanted in y there back to x; they must be wanted nowhere where another is. Of each depth
/// the states with the fewest classes (address now, address at the start, shift) of words that are
/// not yet at their start go on, as one instruction serves one class at best.
#include "search.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_set>

#include "hop.h"
#include "weft/support/checked.h"

namespace hsimd {

namespace {

constexpr int kMostPlaces = 5;  ///< masks are all subsets
constexpr int kMostCells = 64;
constexpr int kMostSpareRows = 2;

using State =
    std::array<uint8_t, kMostSearchedWords>;  ///< cell (row * places + place) of each word

struct Shift {
  int unit = 0, op = 0, by = 0;  ///< source place = place + by
};

struct Node {
  State state;
  int parent = -1;
  uint8_t to_row = 0, from_row = 0, shift = 0, mask = 0;
  int wrong = 0;  ///< estimate of what is left
};

class Search {
 public:
  Search(const Machine& m, int memory, const std::vector<WordMove>& words,
         const std::vector<SpareWords>& spare)
      : m_(m), memory_(memory), words_(words) {
    places_ = int(m.levels[m.memories[memory].level].count);
    std::set<int64_t> rows;
    for (const WordMove& w : words) {
      rows.insert(w.from_word);
      rows.insert(w.to_word);
    }
    int more = 0;
    for (const SpareWords& s : spare) {
      if (s.memory != memory) continue;
      for (int64_t k = 0; k < s.words && more < kMostSpareRows; ++k, ++more) {
        spare_rows_.insert(s.base + k);
      }
    }
    rows.insert(spare_rows_.begin(), spare_rows_.end());
    rows_.assign(rows.begin(), rows.end());
  }

  std::optional<std::vector<Instruction>> Run(int beam, int64_t most) {
    if (!Prepare()) return std::nullopt;
    std::vector<std::vector<Node>> levels(1);
    levels[0].push_back({target_, -1, 0, 0, 0, 0, Estimate(target_)});
    if (target_ == source_) return std::vector<Instruction>{};
    std::unordered_set<uint64_t> met{HashOf(target_)};
    for (int64_t depth = 1; depth <= most; ++depth) {
      std::vector<Node> next;
      for (size_t k = 0; k < levels.back().size(); ++k) {
        Expand(levels.back()[k], int(k), met, next);
      }
      if (next.empty()) return std::nullopt;
      for (const Node& n : next) {
        if (n.state != source_) continue;
        return Trace(levels, n);
      }
      std::stable_sort(next.begin(), next.end(),
                       [](const Node& a, const Node& b) { return a.wrong < b.wrong; });
      if (int(next.size()) > beam) next.resize(beam);
      levels.push_back(std::move(next));
    }
    return std::nullopt;
  }

 private:
  int RowOf(int64_t word) const {
    return int(std::lower_bound(rows_.begin(), rows_.end(), word) - rows_.begin());
  }

  bool Prepare() {
    const Memory& memory = m_.memories[memory_];
    if (places_ > kMostPlaces || m_.PlacesOf(memory.level) != places_) return false;
    if (int(rows_.size()) * places_ > kMostCells) return false;
    for (const Hop& h : HopsBetween(m_, memory_, memory_)) {
      const Unit& unit = m_.units[h.unit];
      const int by = unit.kind == UnitKind::kRing ? unit.ops[h.op].shift : 0;
      if (unit.kind == UnitKind::kRing || unit.kind == UnitKind::kAlu) {
        shifts_.push_back({h.unit, h.op, int(weft::FloorModulo(by, places_))});
      }
    }
    // Steps that each shift takes.
    steps_.assign(places_, 1000);
    steps_[0] = 0;
    for (int round = 0; round < places_; ++round) {
      for (int d = 0; d < places_; ++d) {
        for (const Shift& s : shifts_) {
          const int e = (d + s.by) % places_;
          if (s.by != 0) steps_[e] = std::min(steps_[e], steps_[d] + 1);
        }
      }
    }
    target_.fill(0);
    source_.fill(0);
    may_write_.assign(rows_.size() * places_, false);
    for (const int64_t r : spare_rows_) {
      for (int p = 0; p < places_; ++p) may_write_[RowOf(r) * places_ + p] = true;
    }
    std::set<int> from, to;
    for (size_t k = 0; k < words_.size(); ++k) {
      source_[k] = uint8_t(RowOf(words_[k].from_word) * places_ + int(words_[k].from_place));
      target_[k] = uint8_t(RowOf(words_[k].to_word) * places_ + int(words_[k].to_place));
      may_write_[target_[k]] = true;
      if (!from.insert(source_[k]).second || !to.insert(target_[k]).second) return false;
    }
    return true;
  }

  uint64_t HashOf(const State& s) const {
    // All cells mixed: where two states have one hash, the later one is lost, no more.
    uint64_t h = 0x9e3779b97f4a7c15;
    for (size_t k = 0; k < words_.size(); ++k) {
      h = (h ^ s[k]) * 0xff51afd7ed558ccd;
      h ^= h >> 29;
    }
    return h;
  }

  int Estimate(const State& s) const {
    uint64_t seen[kMostCells] = {};
    int classes = 0, wrong = 0;
    for (size_t k = 0; k < words_.size(); ++k) {
      if (s[k] == source_[k]) continue;
      ++wrong;
      const int y = s[k] / places_, x = source_[k] / places_;
      const int by = (source_[k] % places_ - s[k] % places_ + places_) % places_;
      const uint64_t bit = uint64_t{1} << (by * 8 + (x & 7));
      if ((seen[y] & bit) != 0) continue;
      seen[y] |= bit;
      classes += std::max(1, steps_[by]);
    }
    return classes * 32 + wrong;
  }

  void Expand(const Node& node, int index, std::unordered_set<uint64_t>& met,
              std::vector<Node>& next) const {
    std::array<int8_t, kMostCells> word;
    word.fill(-1);
    for (size_t k = 0; k < words_.size(); ++k) word[node.state[k]] = int8_t(k);
    const int rows = int(rows_.size());
    for (int y = 0; y < rows; ++y) {
      int wanted = 0;
      for (int p = 0; p < places_; ++p) {
        const int cell = y * places_ + p;
        if (word[cell] >= 0 && may_write_[cell]) wanted |= 1 << p;
      }
      if (wanted == 0) continue;
      for (int x = 0; x < rows; ++x) {
        for (size_t s = 0; s < shifts_.size(); ++s) {
          const int by = shifts_[s].by;
          if (x == y && by == 0) continue;
          int may = 0;  // places whose source may hold a word
          for (int p = 0; p < places_; ++p) {
            const int cell = x * places_ + (p + by) % places_;
            if ((wanted >> p & 1) == 0) continue;
            const int w = word[y * places_ + p];
            const bool there = may_write_[cell] || cell == source_[w];
            if (there && (word[cell] < 0 || x == y)) may |= 1 << p;
          }
          for (int mask = may; mask > 0; mask = (mask - 1) & may) {
            Node n;
            n.state = node.state;
            bool fits = true;
            for (int p = 0; p < places_ && fits; ++p) {
              if ((mask >> p & 1) == 0) continue;
              const int q = (p + by) % places_, cell = x * places_ + q;
              fits = word[cell] < 0 || (mask >> q & 1) != 0;
              n.state[word[y * places_ + p]] = uint8_t(cell);
            }
            if (!fits || !met.insert(HashOf(n.state)).second) continue;
            n.parent = index;
            n.to_row = uint8_t(y);
            n.from_row = uint8_t(x);
            n.shift = uint8_t(s);
            n.mask = uint8_t(mask);
            n.wrong = Estimate(n.state);
            next.push_back(n);
          }
        }
      }
    }
  }

  std::vector<Instruction> Trace(const std::vector<std::vector<Node>>& levels, Node node) const {
    std::vector<Instruction> out;
    const int level = m_.memories[memory_].level;
    for (size_t depth = levels.size();; --depth) {
      Instruction i;
      i.unit = shifts_[node.shift].unit;
      i.op = shifts_[node.shift].op;
      Stream source;
      source.memory = i.target.memory = memory_;
      source.base = rows_[node.from_row];
      i.target.base = rows_[node.to_row];
      i.sources = {source};
      if (node.mask != (1 << places_) - 1) {
        i.mask.levels.resize(m_.levels.size());
        i.mask.levels[level] = {node.mask};
      }
      out.push_back(std::move(i));
      if (depth <= 1) break;
      node = levels[depth - 1][node.parent];
    }
    return out;
  }

  const Machine& m_;
  int memory_;
  const std::vector<WordMove>& words_;
  int places_ = 0;
  std::vector<int64_t> rows_;
  std::set<int64_t> spare_rows_;
  std::vector<Shift> shifts_;
  std::vector<int> steps_;
  std::vector<bool> may_write_;
  State source_{}, target_{};
};

}  // namespace

std::optional<std::vector<Instruction>> SearchWords(const Machine& machine, int memory,
                                                    const std::vector<WordMove>& words,
                                                    const std::vector<SpareWords>& spare, int beam,
                                                    int64_t most) {
  if (int(words.size()) > kMostSearchedWords || beam < 1) return std::nullopt;
  return Search(machine, memory, words, spare).Run(beam, most);
}

}  // namespace hsimd
