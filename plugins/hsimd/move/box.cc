/// box.cc: boxes from two layouts.
///
/// Along an axis, a border is an index weight at which a digit of either layout begins. Borders
/// that divide, or are divided by, all others cut the axis into digits on which both maps are
/// linear. Between two of them others may lie that do not fit each other (block 3 against cyclic
/// 4): there the axis is cut at all their multiples into runs on which both maps are linear. Sizes
/// that the digits do not fill (padding) are cut into whole blocks and a rest, as a number into its
/// digits.
#include "box.h"

#include <algorithm>
#include <set>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

int64_t Box::words() const {
  int64_t n = 1;
  for (const Step& s : steps) n = weft::CheckedMul(n, s.size);
  return n;
}

namespace {

/// One side's map along an axis: its digits with coordinates for levels.
struct AxisMap {
  struct Part {
    int64_t weight, size, stride;
    int coordinate;
  };
  std::vector<Part> parts;  ///< most significant first

  Coords At(int64_t i) const {
    Coords c{};
    for (const Part& p : parts) {
      c[p.coordinate] += i / p.weight * p.stride;
      i %= p.weight;
    }
    return c;
  }
};

struct SideMap {
  Coords base{};
  std::vector<AxisMap> axes;
  std::vector<std::pair<int64_t, Coords>> copies;  ///< size, step
  std::array<bool, kMostLevels> named{};
  std::array<std::set<int64_t>, kMostLevels> copied;  ///< sums of the copies' steps, if any
  int level = 0;                                      ///< of the memory
};

SideMap MapOf(const Machine& m, const TensorAt& t) {
  SideMap s;
  s.level = m.memories[t.memory].level;
  const Layout l = Canonical(t.layout, m, s.level);  // copies over a whole level: it is not named
  const auto coordinate = [&](const std::string& level) {
    return level == kAddress ? kWord : m.LevelNamed(level);
  };
  s.base[kWord] = t.base;
  for (const auto& [level, v] : l.offset) s.base[coordinate(level)] += v;
  for (const auto& axis : l.axes) {
    AxisMap map;
    int64_t weight = 1;
    for (size_t k = axis.size(); k-- > 0;) {
      map.parts.insert(map.parts.begin(),
                       {weight, axis[k].size, axis[k].stride, coordinate(axis[k].level)});
      weight *= axis[k].size;
    }
    s.axes.push_back(std::move(map));
  }
  for (const Digit& d : l.copies) {
    Coords c{};
    c[coordinate(d.level)] = d.stride;
    s.copies.emplace_back(d.size, c);
    std::set<int64_t>& set = s.copied[coordinate(d.level)];
    if (d.size == 1) continue;
    set.insert(0);
    const std::set<int64_t> before = set;
    for (int64_t k = 1; k < d.size; ++k) {
      for (const int64_t v : before) set.insert(v + k * d.stride);
    }
  }
  for (int k = 0; k <= s.level; ++k) s.named[k] = Names(l, m.levels[k].name);
  return s;
}

/// A stretch of an axis: index start + sum of digits.
struct Piece {
  int64_t start = 0;
  std::vector<Step> steps;
};

class AxisCutter {
 public:
  AxisCutter(const AxisMap& from, const AxisMap& to, int64_t size) : from_(from), to_(to) {
    std::set<int64_t> all;
    for (const AxisMap* map : {&from, &to}) {
      for (const auto& p : map->parts) {
        if (p.weight > 1) all.insert(p.weight);
      }
    }
    chain_.push_back(1);
    for (const int64_t w : all) {
      const bool fits =
          std::all_of(all.begin(), all.end(), [&](int64_t v) { return v % w == 0 || w % v == 0; });
      if (fits) {
        chain_.push_back(w);
      } else {
        inner_.push_back(w);
      }
    }
    Cut(chain_.size() - 1, 0, size);
  }
  std::vector<Piece> Take() { return std::move(pieces_); }

 private:
  Step StepOf(int64_t weight, int64_t n) const { return {n, from_.At(weight), to_.At(weight)}; }

  /// Indices [start, start + size), start a multiple of the block above chain_[k].
  void Cut(size_t k, int64_t start, int64_t size) {
    if (size == 0) return;
    const int64_t w = chain_[k], n = size / w;
    if (n > 0) {
      std::vector<Step> below;
      Blocks(k, start, n, below);
    }
    if (k > 0) Cut(k - 1, start + n * w, size - n * w);
  }

  /// n blocks of chain_[k] from start on, and all that is in a block.
  void Blocks(size_t k, int64_t start, int64_t n, std::vector<Step>& above) {
    const int64_t w = chain_[k];
    const int64_t end = k + 1 < chain_.size() ? chain_[k + 1] : INT64_MAX;
    std::set<int64_t> cuts{start, start + n * w};
    for (const int64_t v : inner_) {
      if (v < w || v > end) continue;
      // Multiples of v count from the beginning of the block above, where start may lie inside.
      const int64_t block = end == INT64_MAX ? 0 : start / end * end;
      for (int64_t at = block + (start - block) / v * v; at < start + n * w; at += v) {
        if (at > start) cuts.insert(at);
      }
    }
    for (auto it = cuts.begin(); std::next(it) != cuts.end(); ++it) {
      const int64_t run = (*std::next(it) - *it) / w;
      std::vector<Step> steps = above;
      if (run > 1) steps.push_back(StepOf(w, run));
      if (k == 0) {
        pieces_.push_back({*it, std::move(steps)});
      } else {
        Blocks(k - 1, *it, w / chain_[k - 1], steps);
      }
    }
  }

  const AxisMap &from_, &to_;
  std::vector<int64_t> chain_, inner_;
  std::vector<Piece> pieces_;
};

void Add(Coords& a, const Coords& b, int64_t times = 1) {
  for (size_t k = 0; k < a.size(); ++k) a[k] += b[k] * times;
}

}  // namespace

std::vector<Box> Refine(const Machine& m, const TensorAt& from, const TensorAt& to, int64_t most) {
  const SideMap a = MapOf(m, from), b = MapOf(m, to);
  std::vector<Box> boxes(1);
  for (size_t x = 0; x < a.axes.size(); ++x) {
    const std::vector<Piece> pieces = AxisCutter(a.axes[x], b.axes[x], from.layout.shape[x]).Take();
    WEFT_CHECK(int64_t(pieces.size() * boxes.size()) <= most, kLimit,
               "the move from {} to {} takes over {} pieces", PrintLayout(from.layout),
               PrintLayout(to.layout), most);
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (const Piece& p : pieces) {
        Box n = box;
        Add(n.from, a.axes[x].At(p.start));
        Add(n.to, b.axes[x].At(p.start));
        n.steps.insert(n.steps.end(), p.steps.begin(), p.steps.end());
        next.push_back(std::move(n));
      }
    }
    boxes = std::move(next);
  }
  // With copies over part of a level: does every target place have the word itself?
  const bool there = !a.copies.empty() && Satisfies(Canonical(from.layout, m, a.level),
                                                    Canonical(to.layout, m, b.level));
  for (Box& box : boxes) {
    const size_t elements = box.steps.size();
    Add(box.from, a.base);
    Add(box.to, b.base);
    for (const auto& [n, step] : b.copies) {
      if (n > 1) box.steps.push_back({n, Coords{}, step});
    }
    for (int k = 1; k <= b.level; ++k) {
      if (!b.named[k] && m.levels[k].count > 1) {
        Step s;
        s.size = m.levels[k].count;
        s.to[k] = 1;
        box.steps.push_back(s);
      }
    }
    for (int k = 1; k <= std::min(a.level, b.level); ++k) {
      if (a.named[k] && !there) {
        // The same copies on both sides: each from its own place.
        if (a.copied[k].empty() || box.from[k] != box.to[k]) continue;
        bool follow = b.named[k] && std::includes(a.copied[k].begin(), a.copied[k].end(),
                                                  b.copied[k].begin(), b.copied[k].end());
        for (size_t x = 0; x < elements; ++x) {
          follow = follow && box.steps[x].from[k] == box.steps[x].to[k];
        }
        for (size_t x = elements; x < box.steps.size() && follow; ++x) {
          box.steps[x].from[k] = box.steps[x].to[k];
        }
        continue;
      }
      box.from[k] = box.to[k];  // the source has it in every place: where the target wants it
      for (Step& s : box.steps) s.from[k] = s.to[k];
    }
  }
  return boxes;
}

bool CutByDifference(const std::vector<Box>& boxes, bool words_too, int64_t most,
                     std::vector<Box>& out) {
  out.clear();
  for (const Box& box : boxes) {
    std::vector<Step> moving;
    Box still = box;
    still.steps.clear();
    int64_t n = 1;
    for (const Step& s : box.steps) {
      bool differs = false;
      for (int k = 0; k <= (words_too ? kWord : kMostLevels - 1); ++k) {
        differs = differs || s.from[k] != s.to[k];
      }
      if (!differs) {
        still.steps.push_back(s);
        continue;
      }
      moving.push_back(s);
      if (s.size > most / n) return false;
      n *= s.size;
    }
    if (int64_t(out.size()) + n > most) return false;
    for (int64_t v = 0; v < n; ++v) {
      Box cut = still;
      int64_t rest = v;
      for (size_t k = moving.size(); k-- > 0;) {
        Add(cut.from, moving[k].from, rest % moving[k].size);
        Add(cut.to, moving[k].to, rest % moving[k].size);
        rest /= moving[k].size;
      }
      out.push_back(std::move(cut));
    }
  }
  return true;
}

int CommonLevel(const std::vector<Box>& boxes, int most) {
  for (const Box& box : boxes) {
    for (int k = 0; k <= most; ++k) {
      bool agree = box.from[k] == box.to[k];
      for (const Step& s : box.steps) agree = agree && s.from[k] == s.to[k];
      if (!agree) most = k - 1;
    }
  }
  return most;
}

bool SamePlaces(const Box& box) {
  for (int k = 0; k < kMostLevels; ++k) {
    if (box.from[k] != box.to[k]) return false;
    for (const Step& s : box.steps) {
      if (s.from[k] != s.to[k]) return false;
    }
  }
  return true;
}

bool Stays(const Box& box) {
  if (!SamePlaces(box) || box.from[kWord] != box.to[kWord]) return false;
  return std::all_of(box.steps.begin(), box.steps.end(),
                     [](const Step& s) { return s.from[kWord] == s.to[kWord]; });
}

}  // namespace hsimd
