/// layout.cc: places of elements, elements of places, and the checks of a layout.
#include "layout.h"

#include <algorithm>
#include <set>

#include "digits.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace hsimd {

using weft::CheckedAdd;
using weft::CheckedMul;

std::vector<int64_t> WeightsOf(const std::vector<Digit>& digits) {
  std::vector<int64_t> weights(digits.size());
  int64_t w = 1;
  for (size_t k = digits.size(); k-- > 0;) {
    weights[k] = w;
    w = CheckedMul(w, digits[k].size);
  }
  return weights;
}

std::vector<Digit> Trimmed(const std::vector<Digit>& digits, int64_t size) {
  const std::vector<int64_t> weights = WeightsOf(digits);
  std::vector<Digit> out;
  for (size_t k = 0; k < digits.size(); ++k) {
    if (out.empty() && weights[k] >= size) continue;
    Digit d = digits[k];
    if (out.empty()) d.size = std::min(d.size, (size - 1) / weights[k] + 1);
    if (d.size > 1) out.push_back(d);
  }
  return out;
}

std::vector<Digit> Merged(const std::vector<Digit>& digits, int64_t size) {
  std::vector<Digit> out;
  for (const Digit& d : Trimmed(digits, size)) {
    if (!out.empty() && out.back().level == d.level &&
        out.back().stride == CheckedMul(d.size, d.stride)) {
      out.back().size = CheckedMul(out.back().size, d.size);
      out.back().stride = d.stride;
    } else {
      out.push_back(d);
    }
  }
  return Trimmed(out, size);
}

int64_t LargestOn(const std::string& level, const std::vector<Digit>& digits, int64_t size) {
  // Either the first digits stand at their value in size - 1 and this one is below it, with all
  // later ones free, or all stand there.
  const std::vector<int64_t> weights = WeightsOf(digits);
  std::vector<int64_t> free(digits.size() + 1, 0);
  const auto stride = [&](size_t k) { return digits[k].level == level ? digits[k].stride : 0; };
  for (size_t k = digits.size(); k-- > 0;) {
    free[k] = CheckedAdd(free[k + 1], CheckedMul(digits[k].size - 1, stride(k)));
  }
  int64_t fixed = 0, largest = 0, rest = size - 1;
  for (size_t k = 0; k < digits.size(); ++k) {
    const int64_t d = rest / weights[k];
    rest %= weights[k];
    if (d > 0) largest = std::max(largest, fixed + (d - 1) * stride(k) + free[k + 1]);
    fixed += d * stride(k);
  }
  return std::max(largest, fixed);
}

void AddPlace(const std::vector<Digit>& digits, int64_t i, Place& place) {
  for (size_t k = digits.size(); k-- > 0;) {
    const Digit& d = digits[k];
    place[d.level] += (k == 0 ? i : i % d.size) * d.stride;
    i /= d.size;
  }
}

void ForEachIndex(const std::vector<int64_t>& shape,
                  const std::function<void(const Index&)>& body) {
  Index index(shape.size(), 0);
  while (true) {
    body(index);
    size_t a = shape.size();
    while (a-- > 0) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
    if (a == size_t(-1)) return;
  }
}

int64_t Layout::elements() const { return weft::CheckedProduct(shape); }

bool Names(const Layout& l, const std::string& level) {
  for (const auto& axis : l.axes) {
    for (const Digit& d : axis) {
      if (d.level == level) return true;
    }
  }
  for (const Digit& d : l.copies) {
    if (d.level == level) return true;
  }
  return l.offset.count(level) > 0;
}

void Pin(const Layout& from, Layout& to) {
  const auto pin = [&](const std::string& level) {
    if (level != kAddress && !Names(to, level)) to.copies.push_back({1, level, 1});
  };
  for (const auto& axis : from.axes) {
    for (const Digit& d : axis) pin(d.level);
  }
  for (const Digit& d : from.copies) pin(d.level);
  for (const auto& [level, v] : from.offset) pin(level);
}

namespace {

bool IsName(const std::string& s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

/// Sizes and strides that add up on one level.
using Terms = std::vector<std::pair<int64_t, int64_t>>;

/// Are all sums distinct because each stride is beyond all that the smaller ones reach?
bool ClearlyDistinct(Terms terms) {
  std::sort(terms.begin(), terms.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  int64_t reach = 0;
  for (const auto& [size, stride] : terms) {
    if (stride <= reach) return false;
    reach = CheckedAdd(reach, CheckedMul(size - 1, stride));
  }
  return true;
}

bool SumsDistinct(const Terms& terms) {
  std::vector<int64_t> sums{0};
  for (const auto& [size, stride] : terms) {
    const size_t n = sums.size();
    for (int64_t d = 1; d < size; ++d) {
      for (size_t i = 0; i < n; ++i) sums.push_back(sums[i] + d * stride);
    }
  }
  std::sort(sums.begin(), sums.end());
  return std::adjacent_find(sums.begin(), sums.end()) == sums.end();
}

std::string IndexText(const Index& i) {
  std::vector<std::string> s;
  for (const int64_t v : i) s.push_back(std::to_string(v));
  return "(" + weft::Join(s, ", ") + ")";
}

std::string PlaceText(const Place& p) {
  std::vector<std::string> s;
  for (const auto& [level, v] : p) {
    s.push_back(fmt::format("{} {}", level.empty() ? "address" : level, v));
  }
  return s.empty() ? "the only word" : weft::Join(s, ", ");
}

[[noreturn]] void Refuse(const Layout& l, const std::string& why, const char* hint) {
  weft::ThrowError(weft::ErrorCode::kInvalidModel, why, "layout " + PrintLayout(l), hint);
}

void CheckOverlap(const Layout& l) {
  std::map<std::string, Terms> terms;
  bool padded = false;
  int64_t words = 1;  // elements and copies, saturated
  const auto count = [&](int64_t n) {
    words = n > kMostEnumerated / words ? kMostEnumerated + 1 : words * n;
  };
  for (size_t a = 0; a < l.shape.size(); ++a) {
    int64_t product = 1;
    for (const Digit& d : Trimmed(l.axes[a], l.shape[a])) {
      terms[d.level].emplace_back(d.size, d.stride);
      product = CheckedMul(product, d.size);
    }
    padded = padded || product != l.shape[a];
    count(l.shape[a]);
  }
  for (const Digit& d : l.copies) {
    if (d.size > 1) terms[d.level].emplace_back(d.size, d.stride);
    count(d.size);
  }
  if (std::all_of(terms.begin(), terms.end(),
                  [](const auto& t) { return ClearlyDistinct(t.second); })) {
    return;
  }
  constexpr const char* kHint = "strides of one level must lead to different places";
  if (words <= kMostEnumerated) {
    std::map<Place, Index> seen;
    ForEachIndex(l.shape, [&](const Index& i) {
      for (const Place& p : PlacesOf(l, i)) {
        const auto [at, fresh] = seen.emplace(p, i);
        if (fresh) continue;
        Refuse(l,
               fmt::format("overlaps itself: elements {} and {} share {}", IndexText(at->second),
                           IndexText(i), PlaceText(p)),
               kHint);
      }
    });
    return;
  }
  for (const auto& [level, t] : terms) {
    int64_t sums = 1;
    for (const auto& [size, stride] : t) {
      sums = size > kMostEnumerated / sums ? kMostEnumerated + 1 : sums * size;
    }
    if (ClearlyDistinct(t) || (sums <= kMostEnumerated && SumsDistinct(t))) continue;
    const std::string name = level.empty() ? "local addresses" : "level " + level;
    if (padded || sums > kMostEnumerated) {
      Refuse(l, fmt::format("cannot tell that the digits on {} do not overlap", name),
             "let each stride be larger than what the smaller ones reach");
    }
    Refuse(l, fmt::format("overlaps itself on {}", name), kHint);
  }
}

}  // namespace

void CheckLayout(const Layout& l) {
  if (l.shape.size() != l.axes.size()) {
    Refuse(l, fmt::format("shape has {} axes, layout {}", l.shape.size(), l.axes.size()),
           "one parenthesis for each axis");
  }
  const auto check_digit = [&](const Digit& d) {
    if (d.size < 1 || d.stride < 0) {
      Refuse(l, fmt::format("a digit of size {} and stride {}", d.size, d.stride),
             "sizes are >= 1, strides >= 0");
    }
    if (!d.level.empty() && !IsName(d.level)) {
      Refuse(l, fmt::format("{} does not name a level", weft::Quote(d.level)),
             "letters, digits and _");
    }
  };
  for (size_t a = 0; a < l.shape.size(); ++a) {
    if (l.shape[a] < 1) {
      Refuse(l, fmt::format("axis {} has size {}", a, l.shape[a]), "sizes are >= 1");
    }
    int64_t product = 1;
    for (const Digit& d : l.axes[a]) {
      check_digit(d);
      product = CheckedMul(product, d.size);
    }
    if (product < l.shape[a]) {
      Refuse(l,
             fmt::format("the digits of axis {} number {}, its size is {}", a, product, l.shape[a]),
             "their product must reach the size");
    }
  }
  (void)l.elements();
  for (const Digit& d : l.copies) {
    check_digit(d);
    if (d.level.empty()) Refuse(l, "copies at local addresses", "B@ takes levels");
  }
  for (const auto& [level, v] : l.offset) {
    if (v < 0) Refuse(l, fmt::format("offset {}", v), "offsets are > 0");
  }
  std::set<std::string> whole;
  for (const std::string& b : l.broadcast) {
    if (!IsName(b)) Refuse(l, fmt::format("{} does not name a level", weft::Quote(b)), "B@[PE]");
    if (!whole.insert(b).second) Refuse(l, fmt::format("B@ names {} twice", b), "name it once");
    if (Names(l, b)) {
      Refuse(l, fmt::format("level {} both divides and replicates", b),
             "B@[N_LEVEL:stride] replicates over part of a level");
    }
  }
  CheckOverlap(l);
}

void Validate(const Layout& l, const Machine& m, int level) {
  CheckLayout(l);
  if (level < 0) level = m.pe();
  std::set<std::string> named(l.broadcast.begin(), l.broadcast.end());
  for (const auto& axis : l.axes) {
    for (const Digit& d : axis) named.insert(d.level);
  }
  for (const Digit& d : l.copies) named.insert(d.level);
  for (const auto& [name, v] : l.offset) named.insert(name);
  for (const std::string& name : named) {
    if (name == kAddress || name == kTime) continue;
    const int at = m.LevelNamed(name);
    if (at < 0 || at > level) {
      std::vector<std::string> known;
      for (int k = 0; k <= level; ++k) known.push_back(m.levels[k].name);
      Refuse(l,
             at < 0 ? fmt::format("machine {} has no level {}", m.name, name)
                    : fmt::format("level {} is below {}, where the memory lies", name,
                                  m.levels[level].name),
             ("levels: " + weft::Join(known, ", ")).c_str());
    }
    const auto offset = l.offset.find(name);
    int64_t last = offset == l.offset.end() ? 0 : offset->second;
    for (size_t a = 0; a < l.shape.size(); ++a) {
      last = CheckedAdd(last, LargestOn(name, Trimmed(l.axes[a], l.shape[a]), l.shape[a]));
    }
    for (const Digit& d : l.copies) {
      if (d.level == name) last = CheckedAdd(last, CheckedMul(d.size - 1, d.stride));
    }
    if (last >= m.levels[at].count) {
      Refuse(
          l,
          fmt::format("reaches {} {}, machine {} has {}", name, last, m.name, m.levels[at].count),
          "places count from 0 in each place of the level above");
    }
  }
}

Layout RowMajor(const std::vector<int64_t>& shape) {
  Layout l;
  l.shape = shape;
  l.axes.resize(shape.size());
  int64_t stride = 1;
  for (size_t a = shape.size(); a-- > 0;) {
    if (shape[a] > 1) l.axes[a].push_back({shape[a], kAddress, stride});
    stride = CheckedMul(stride, shape[a]);
  }
  return l;
}

Place PlaceOf(const Layout& l, const Index& index) {
  WEFT_CHECK(index.size() == l.shape.size(), kShapeMismatch, "index has {} axes, layout {}",
             index.size(), l.shape.size());
  Place place(l.offset.begin(), l.offset.end());
  for (size_t a = 0; a < index.size(); ++a) {
    WEFT_CHECK(index[a] >= 0 && index[a] < l.shape[a], kIndexRange,
               "index {} of axis {} is outside its size {}", index[a], a, l.shape[a]);
    AddPlace(l.axes[a], index[a], place);
  }
  for (const Digit& d : l.copies) place[d.level] += 0;
  return place;
}

std::vector<Place> PlacesOf(const Layout& l, const Index& index) {
  std::vector<Place> places{PlaceOf(l, index)};
  for (const Digit& d : l.copies) {
    const size_t n = places.size();
    for (int64_t k = 1; k < d.size; ++k) {
      for (size_t i = 0; i < n; ++i) {
        places.push_back(places[i]);
        places.back()[d.level] += k * d.stride;
      }
    }
  }
  return places;
}

namespace {

/// Searches the digits of all levels, the largest strides of a level first.
class Inverter {
 public:
  Inverter(const Layout& l, const Place& place) : layout_(l), index_(l.shape.size(), 0) {
    std::map<std::string, std::vector<Item>> by_level;
    by_level[kAddress];  // nothing names it: address 0 alone
    for (const auto& [level, v] : l.offset) by_level[level];
    for (size_t a = 0; a < l.shape.size(); ++a) {
      const std::vector<Digit> digits = Trimmed(l.axes[a], l.shape[a]);
      const std::vector<int64_t> weights = WeightsOf(digits);
      for (size_t k = 0; k < digits.size(); ++k) {
        by_level[digits[k].level].push_back({digits[k].size, digits[k].stride, int(a), weights[k]});
      }
      for (const Digit& d : l.axes[a]) by_level[d.level];
    }
    for (const Digit& d : l.copies) by_level[d.level].push_back({d.size, d.stride, -1, 0});
    for (auto& [level, items] : by_level) {
      std::stable_sort(items.begin(), items.end(),
                       [](const Item& x, const Item& y) { return x.stride > y.stride; });
      const auto at = place.find(level);
      const auto offset = l.offset.find(level);
      Group g;
      g.want =
          (at == place.end() ? 0 : at->second) - (offset == l.offset.end() ? 0 : offset->second);
      g.items = items;
      g.reach.assign(items.size() + 1, 0);
      for (size_t k = items.size(); k-- > 0;) {
        g.reach[k] = CheckedAdd(g.reach[k + 1], CheckedMul(items[k].size - 1, items[k].stride));
      }
      groups_.push_back(std::move(g));
    }
  }

  std::optional<Index> Find() {
    if (!Search(0, 0, groups_.empty() ? 0 : groups_[0].want)) return std::nullopt;
    return index_;
  }

 private:
  struct Item {
    int64_t size, stride;
    int axis;  ///< -1: a copy
    int64_t weight;
  };
  struct Group {
    int64_t want = 0;
    std::vector<Item> items;
    std::vector<int64_t> reach;  ///< what the items from k on can add
  };

  bool Search(size_t g, size_t k, int64_t rest) {
    if (g == groups_.size()) {
      for (size_t a = 0; a < index_.size(); ++a) {
        if (index_[a] >= layout_.shape[a]) return false;
      }
      return true;
    }
    const Group& group = groups_[g];
    if (rest < 0 || rest > group.reach[k]) return false;
    if (k == group.items.size()) {
      return Search(g + 1, 0, g + 1 < groups_.size() ? groups_[g + 1].want : 0);
    }
    const Item& item = group.items[k];
    if (item.stride == 0) return Search(g, k + 1, rest);
    const int64_t least =
        std::max<int64_t>(0, (rest - group.reach[k + 1] + item.stride - 1) / item.stride);
    for (int64_t d = std::min(item.size - 1, rest / item.stride); d >= least; --d) {
      if (item.axis >= 0) index_[item.axis] += d * item.weight;
      if (Search(g, k + 1, rest - d * item.stride)) return true;
      if (item.axis >= 0) index_[item.axis] -= d * item.weight;
    }
    return false;
  }

  const Layout& layout_;
  Index index_;
  std::vector<Group> groups_;
};

}  // namespace

std::optional<Index> IndexAt(const Layout& layout, const Place& place) {
  return Inverter(layout, place).Find();
}

int64_t Extent(const Layout& l, const std::string& level) {
  const auto offset = l.offset.find(level);
  int64_t last = offset == l.offset.end() ? 0 : offset->second;
  const auto add = [&](const Digit& d) {
    if (d.level == level) last = CheckedAdd(last, CheckedMul(d.size - 1, d.stride));
  };
  for (const auto& axis : l.axes) std::for_each(axis.begin(), axis.end(), add);
  std::for_each(l.copies.begin(), l.copies.end(), add);
  return CheckedAdd(last, 1);
}

int64_t Words(const Layout& l) { return CheckedMul(Extent(l, kAddress), Extent(l, kWide)); }

Layout FoldWide(const Layout& layout) {
  Layout l = layout;
  const int64_t wide = Extent(l, kWide);
  for (auto& axis : l.axes) {
    for (Digit& d : axis) {
      if (d.level == kAddress) d.stride = CheckedMul(d.stride, wide);
      if (d.level == kWide) d.level = kAddress;
    }
  }
  int64_t offset = 0;
  if (const auto at = l.offset.find(kAddress); at != l.offset.end()) {
    offset = CheckedMul(at->second, wide);
  }
  if (const auto at = l.offset.find(kWide); at != l.offset.end()) offset += at->second;
  l.offset.erase(kWide);
  l.offset.erase(kAddress);
  if (offset != 0) l.offset[kAddress] = offset;
  return l;
}

}  // namespace hsimd
