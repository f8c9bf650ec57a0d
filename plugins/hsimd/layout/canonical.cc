/// canonical.cc: one form for each map, comparisons of maps, common digits of two layouts.
///
/// An axis' map determines its digits: the lowest digit is the longest run of equal steps from 0,
/// the next begins where the run ends, and so on; Merged makes every run as long as it is. The set
/// of copies on a level is factored into runs from its smallest step up.
#include <algorithm>
#include <set>

#include "digits.h"
#include "layout.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

using weft::CheckedMul;

namespace {

/// {0 = set[0] < set[1] < ...} as sums of runs of equal steps, or false.
bool Factor(const std::vector<int64_t>& set, std::vector<std::pair<int64_t, int64_t>>& runs) {
  if (set.size() == 1) return true;
  const int64_t step = set[1];
  const auto has = [&](int64_t v) { return std::binary_search(set.begin(), set.end(), v); };
  int64_t run = 2;
  while (has(run * step)) ++run;
  for (; run >= 2; --run) {
    if (int64_t(set.size()) % run != 0) continue;
    std::vector<int64_t> starts;
    std::set<int64_t> left(set.begin(), set.end());
    bool fits = true;
    while (fits && !left.empty()) {
      const int64_t start = *left.begin();
      starts.push_back(start);
      for (int64_t k = 0; k < run && fits; ++k) fits = left.erase(start + k * step) > 0;
    }
    if (!fits) continue;
    runs.emplace_back(run, step);
    if (Factor(starts, runs)) return true;
    runs.pop_back();
  }
  return false;
}

std::vector<Digit> CanonicalCopies(const std::vector<Digit>& copies) {
  std::map<std::string, std::vector<int64_t>> sets;
  for (const Digit& d : copies) {
    std::vector<int64_t>& set = sets.emplace(d.level, std::vector<int64_t>{0}).first->second;
    const size_t n = set.size();
    WEFT_CHECK(d.size <= kMostEnumerated / int64_t(n), kLimit, "over {} copies on level {}",
               kMostEnumerated, d.level);
    for (int64_t k = 1; k < d.size; ++k) {
      for (size_t i = 0; i < n; ++i) set.push_back(set[i] + k * d.stride);
    }
  }
  std::vector<Digit> out;
  for (auto& [level, set] : sets) {
    std::sort(set.begin(), set.end());
    std::vector<std::pair<int64_t, int64_t>> runs;
    WEFT_ICHECK(Factor(set, runs), "copies without runs");
    for (size_t k = runs.size(); k-- > 0;) out.push_back({runs[k].first, level, runs[k].second});
  }
  return out;
}

void CheckShapes(const Layout& a, const Layout& b) {
  WEFT_CHECK(a.shape == b.shape, kShapeMismatch, "layouts of different shapes: {} and {}",
             PrintLayout(a), PrintLayout(b));
}

}  // namespace

Layout Canonical(const Layout& layout) {
  Layout l;
  l.shape = layout.shape;
  for (size_t a = 0; a < l.shape.size(); ++a) {
    l.axes.push_back(Merged(layout.axes[a], layout.shape[a]));
  }
  l.copies = CanonicalCopies(layout.copies);
  for (const auto& [level, v] : layout.offset) {
    if (v != 0) l.offset[level] = v;
  }
  Pin(layout, l);
  std::stable_sort(l.copies.begin(), l.copies.end(),
                   [](const Digit& x, const Digit& y) { return x.level < y.level; });
  return l;
}

Layout Canonical(const Layout& layout, const Machine& m, int level) {
  if (level < 0) level = m.pe();
  Layout l = Canonical(layout);
  for (int k = 0; k <= level; ++k) {
    const std::string& name = m.levels[k].name;
    if (m.levels[k].count == 1) {  // one place: nothing to say
      l.copies.erase(std::remove_if(l.copies.begin(), l.copies.end(),
                                    [&](const Digit& d) { return d.level == name; }),
                     l.copies.end());
      continue;
    }
    const Digit whole{m.levels[k].count, name, 1};
    const auto at = std::find(l.copies.begin(), l.copies.end(), whole);
    if (at != l.copies.end()) {
      Layout without = l;
      without.copies.erase(without.copies.begin() + (at - l.copies.begin()));
      if (!Names(without, name)) l = without;
    }
    if (!Names(l, name)) l.broadcast.push_back(name);
  }
  return l;
}

bool SameMap(const Layout& a, const Layout& b) { return Canonical(a) == Canonical(b); }

namespace {

/// Where the digits of an axis begin, but for 1 and the size itself.
std::set<int64_t> BordersOf(const std::vector<Digit>& digits) {
  std::set<int64_t> borders;
  for (const int64_t w : WeightsOf(digits)) {
    if (w > 1) borders.insert(w);
  }
  return borders;
}

/// The digits of Merged `digits` cut at `borders`, which hold its own and divide each other.
std::vector<Digit> CutAt(const std::set<int64_t>& borders, const std::vector<Digit>& digits,
                         int64_t size) {
  const std::vector<int64_t> weights = WeightsOf(digits);
  std::vector<Digit> out;
  if (size == 1) return out;
  std::vector<int64_t> all{1};
  all.insert(all.end(), borders.begin(), borders.end());
  for (size_t k = all.size(); k-- > 0;) {
    const int64_t w = all[k];
    const int64_t n = k + 1 < all.size() ? all[k + 1] / w : (size - 1) / w + 1;
    size_t d = 0;
    while (weights[d] > w) ++d;
    out.push_back({n, digits[d].level, CheckedMul(digits[d].stride, w / weights[d])});
  }
  return out;
}

/// Adds every multiple of `step` below size x step to every member.
void AddRun(std::set<int64_t>& set, int64_t size, int64_t step) {
  const std::set<int64_t> before = set;
  for (int64_t k = 1; k < size; ++k) {
    for (const int64_t v : before) set.insert(v + k * step);
  }
}

/// Sizes and steps of an axis' digits that move elements on a level from `a` to `b`, whose digits
/// have equal sizes; nullopt where not every value of them belongs to an index.
std::optional<std::vector<std::pair<int64_t, int64_t>>> TermsOn(const std::string& level,
                                                                const std::vector<Digit>& a,
                                                                const std::vector<Digit>& b,
                                                                int64_t size) {
  int64_t product = 1;
  for (const Digit& d : a) product = CheckedMul(product, d.size);
  std::vector<std::pair<int64_t, int64_t>> terms;
  for (size_t k = 0; k < a.size(); ++k) {
    const int64_t by =
        (b[k].level == level ? b[k].stride : 0) - (a[k].level == level ? a[k].stride : 0);
    if (by != 0) terms.emplace_back(a[k].size, by);
  }
  if (!terms.empty() && product != size) return std::nullopt;
  return terms;
}

/// Differences of the places of b and a on a level over all elements, or nullopt. `common`: what
/// CommonRefinement says of the two.
std::optional<std::set<int64_t>> DifferencesOn(
    const std::string& level, const Layout& a, const Layout& b,
    const std::optional<std::pair<Layout, Layout>>& common) {
  const auto value = [&](const Layout& l) {
    const auto at = l.offset.find(level);
    return at == l.offset.end() ? 0 : at->second;
  };
  std::set<int64_t> differences{value(b) - value(a)};
  for (size_t x = 0; x < a.shape.size(); ++x) {
    std::set<int64_t> own;
    const auto terms =
        common ? TermsOn(level, common->first.axes[x], common->second.axes[x], a.shape[x])
               : std::nullopt;
    if (terms) {
      own.insert(0);
      for (const auto& [n, by] : *terms) {
        if (n > kMostEnumerated / int64_t(own.size())) return std::nullopt;
        AddRun(own, n, by);
      }
    } else {
      if (a.shape[x] > kMostEnumerated) return std::nullopt;
      for (int64_t i = 0; i < a.shape[x]; ++i) {
        Place pa, pb;
        AddPlace(a.axes[x], i, pa);
        AddPlace(b.axes[x], i, pb);
        own.insert(pb[level] - pa[level]);
      }
    }
    if (int64_t(own.size()) > kMostEnumerated / int64_t(differences.size())) return std::nullopt;
    std::set<int64_t> sums;
    for (const int64_t u : differences) {
      for (const int64_t v : own) sums.insert(u + v);
    }
    differences = std::move(sums);
  }
  return differences;
}

std::set<int64_t> CopiesOn(const std::string& level, const Layout& l) {
  std::set<int64_t> set{0};
  for (const Digit& d : l.copies) {
    if (d.level == level) AddRun(set, d.size, d.stride);
  }
  return set;
}

}  // namespace

bool Refines(const Layout& a, const Layout& b) {
  CheckShapes(a, b);
  for (size_t x = 0; x < a.shape.size(); ++x) {
    const std::set<int64_t> fine = BordersOf(Trimmed(a.axes[x], a.shape[x]));
    for (const int64_t w : BordersOf(Merged(b.axes[x], b.shape[x]))) {
      if (fine.count(w) == 0) return false;
    }
  }
  return true;
}

bool Satisfies(const Layout& a, const Layout& b) {
  CheckShapes(a, b);
  std::set<std::string> levels{kAddress};
  for (const Layout* l : {&a, &b}) {
    for (const auto& axis : l->axes) {
      for (const Digit& d : axis) levels.insert(d.level);
    }
    for (const Digit& d : l->copies) levels.insert(d.level);
    for (const auto& [level, v] : l->offset) levels.insert(level);
  }
  const auto common = CommonRefinement(a, b);
  for (const std::string& level : levels) {
    if (level != kAddress && !Names(a, level)) continue;  // a has it everywhere
    if (level != kAddress && !Names(b, level)) return false;
    const std::set<int64_t> have = CopiesOn(level, a), want = CopiesOn(level, b);
    const auto differences = DifferencesOn(level, a, b, common);
    if (!differences) return false;
    for (const int64_t d : *differences) {
      for (const int64_t w : want) {
        if (have.count(d + w) == 0) return false;
      }
    }
  }
  return true;
}

std::optional<std::pair<Layout, Layout>> CommonRefinement(const Layout& a, const Layout& b) {
  CheckShapes(a, b);
  std::pair<Layout, Layout> out{a, b};
  for (size_t x = 0; x < a.shape.size(); ++x) {
    const std::vector<Digit> da = Merged(a.axes[x], a.shape[x]);
    const std::vector<Digit> db = Merged(b.axes[x], b.shape[x]);
    std::set<int64_t> borders = BordersOf(da);
    borders.merge(BordersOf(db));
    int64_t last = 1;
    for (const int64_t w : borders) {
      if (w % last != 0) return std::nullopt;
      last = w;
    }
    out.first.axes[x] = CutAt(borders, da, a.shape[x]);
    out.second.axes[x] = CutAt(borders, db, a.shape[x]);
  }
  Pin(a, out.first);
  Pin(b, out.second);
  return out;
}

}  // namespace hsimd
