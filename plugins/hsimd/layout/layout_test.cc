/// layout_test.cc: the algebra of layouts against tables of places made element by element.
#include "layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "../tests/indices.h"
#include "weft/support/error.h"

namespace hsimd {
namespace {

/// Written again from the definition: all places of an element, coordinates of named levels.
std::set<Place> Table(const Layout& l, const Index& index) {
  Place first(l.offset.begin(), l.offset.end());
  for (size_t a = 0; a < l.shape.size(); ++a) {
    int64_t below = 1;
    for (size_t k = l.axes[a].size(); k-- > 0;) {
      const Digit& d = l.axes[a][k];
      first[d.level] += index[a] / below % d.size * d.stride;
      below *= d.size;
    }
  }
  std::set<Place> places{first};
  for (const Digit& d : l.copies) {
    std::set<Place> more;
    for (Place p : places) {
      for (int64_t k = 0; k < d.size; ++k) {
        Place q = p;
        q[d.level] += k * d.stride;
        more.insert(q);
      }
    }
    places = more;
  }
  std::set<Place> out;  // an address is always there
  for (Place p : places) p[kAddress] += 0, out.insert(p);
  return out;
}

std::string MapText(const Layout& l) {
  std::string text;
  for (const Index& i : AllIndices(l.shape)) {
    for (const Place& p : Table(l, i)) {
      for (const auto& [level, v] : p) text += level + "=" + std::to_string(v) + " ";
      text += "|";
    }
    text += ";";
  }
  return text;
}

int64_t Product(const std::vector<Digit>& digits) {
  int64_t n = 1;
  for (const Digit& d : digits) n *= d.size;
  return n;
}

/// Any sizes, copies, padding, offsets, time; strides lead to different places by construction.
Layout RandomLayout(Rng& rng, int64_t most = 200) {
  static const char* const kLevels[] = {kAddress, "PE", "MAB", kTime};
  while (true) {
    Layout l;
    const int rank = int(Between(rng, 0, 3));
    std::map<std::string, std::vector<Digit*>> by_level;
    l.axes.resize(rank);
    for (int a = 0; a < rank; ++a) {
      const int n = int(Between(rng, 0, 3));
      for (int k = 0; k < n; ++k) {
        l.axes[a].push_back({Between(rng, 1, 5), kLevels[Between(rng, 0, 3)], 0});
      }
      const int64_t product = Product(l.axes[a]);
      const int64_t least = Between(rng, 0, 2) == 0 ? std::max<int64_t>(1, product - 3) : product;
      l.shape.push_back(Between(rng, least, product));
    }
    const int copies = int(Between(rng, -2, 2));
    for (int k = 0; k < copies; ++k) {
      l.copies.push_back({Between(rng, 1, 3), kLevels[Between(rng, 1, 3)], 0});
    }
    if (l.elements() > most) continue;
    for (auto& axis : l.axes) {
      for (Digit& d : axis) by_level[d.level].push_back(&d);
    }
    for (Digit& d : l.copies) by_level[d.level].push_back(&d);
    for (auto& [level, digits] : by_level) {
      if (Between(rng, 0, 2) != 0) std::shuffle(digits.begin(), digits.end(), rng);
      if (Between(rng, 0, 1) != 0) std::reverse(digits.begin(), digits.end());
      int64_t stride = 1;
      for (Digit* d : digits) {
        if (Between(rng, 0, 5) == 0) stride += Between(rng, 1, 3);
        d->stride = stride;
        stride *= d->size;
      }
    }
    for (const char* level : kLevels) {
      if (Between(rng, 0, 6) == 0) l.offset[level] = Between(rng, 1, 9);
    }
    for (const char* level : kLevels) {
      if (level[0] != 0 && !Names(l, level) && Between(rng, 0, 3) == 0) {
        l.broadcast.push_back(level);
      }
    }
    return l;
  }
}

/// The same map said otherwise: digits split, digits of size 1, larger padding.
Layout Disguise(Rng& rng, Layout l) {
  for (auto& axis : l.axes) {
    for (size_t k = 0; k < axis.size(); ++k) {
      const Digit d = axis[k];
      for (int64_t inner = 2; inner < d.size; ++inner) {
        if (d.size % inner != 0 || Between(rng, 0, 1) == 0) continue;
        axis[k] = {d.size / inner, d.level, d.stride * inner};
        axis.insert(axis.begin() + k + 1, {inner, d.level, d.stride});
        break;
      }
    }
    if (Between(rng, 0, 3) == 0) {
      // A digit of size 1 on a level that is named anyway.
      const std::string level = axis.empty() ? kAddress : axis[0].level;
      axis.insert(axis.begin() + Between(rng, 0, int64_t(axis.size())), {1, level, 7});
    }
  }
  std::shuffle(l.copies.begin(), l.copies.end(), rng);
  return l;
}

weft::ErrorCode CodeOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const weft::Error& e) {
    return e.code();
  }
  return weft::ErrorCode::kInternal;
}

Machine TestMachine() {
  Machine m;
  m.name = "test";
  m.levels = {{"Chip", 1}, {"MAB", 3}, {"PE", 4}};
  return m;
}

TEST_CASE("the four tables on four PEs") {
  const auto words = [](const char* text, int pe) {
    const Layout l = ParseLayout(text);
    std::vector<Index> out;
    for (int64_t a = 0; a < Words(l); ++a) out.push_back(*IndexAt(l, {{"PE", pe}, {kAddress, a}}));
    return out;
  };
  for (int64_t pe = 0; pe < 4; ++pe) {
    CHECK(words("(12)/((4_PE:1, 3:1))", int(pe)) ==
          std::vector<Index>{{3 * pe}, {3 * pe + 1}, {3 * pe + 2}});
    CHECK(words("(12)/((3:1, 4_PE:1))", int(pe)) == std::vector<Index>{{pe}, {pe + 4}, {pe + 8}});
    std::vector<Index> row;
    for (int64_t j = 0; j < 6; ++j) row.push_back({pe, j});
    CHECK(words("(4,6)/((4_PE:1), (6:1))", int(pe)) == row);
    const int64_t i = pe / 2 * 2, j = pe % 2 * 3;
    CHECK(words("(4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))", int(pe)) ==
          std::vector<Index>{
              {i, j}, {i, j + 1}, {i, j + 2}, {i + 1, j}, {i + 1, j + 1}, {i + 1, j + 2}});
  }
}

TEST_CASE("words per PE of the nine public layouts") {
  const std::pair<const char*, int64_t> kRows[] = {
      {"(16)/((2:1, 4_PE:1, 2_W:1))", 4},
      {"(256)/((4_L2B:2, 32:1, 2_W:1))", 64},
      {"(16,16)/((16:2), (2:1, 4_PE:1, 2_W:1))", 64},
      {"(256,16)/((8_L2B:1, 4:2, 8_L1B:1), (2:1, 4_PE:1, 2_W:1))", 16},
      {"(256,16)/((8_L2B:1, 32:2), (2:1, 4_PE:1, 2_W:1))", 128},
      {"(256,16)/((4_L2B:2, 64:2), (2:1, 4_PE:1, 2_W:1))", 256},
      {"(1024,16)/((8_L2B:1, 16:2, 8_L1B:1), (2:1, 4_PE:1, 2_W:1))", 64},
      {"(16,1024)/((16:1), (8_MAB:2, 8_L1B:1, 2_MAB:1, 4_PE:1, 2_W:1))", 32},
      {"(256,1024)/((8_L2B:1, 32:1), (8_MAB:2, 8_L1B:1, 2_MAB:1, 4_PE:1, 2_W:1))", 64},
  };
  for (const auto& [text, words] : kRows) {
    const Layout l = ParseLayout(text);
    CHECK(PrintLayout(l) == text);
    CHECK(Words(l) == words);
    CHECK(Words(FoldWide(l)) == words);
    CHECK_FALSE(Names(FoldWide(l), kWide));
  }
}

TEST_CASE("three compositions that CuTe gets wrong") {
  // CuTe counts the leftmost mode fastest: axes are written in reverse here.
  // (4,6,8):(2,3,5) o 6:3 (cutlass 3177): places 0 6 7 8 9 15, which no digits say.
  const Layout a = ParseLayout("(8,6,4)/((8:100), (6:10), (4:1))");
  CHECK_FALSE(Compose(a, ParseLayout("(6)/((6:3))")).has_value());
  // (6,2):(1,7) o (3,2):(2,3) (2955): at (2,1) number 7 = (1, 1) lies at 1 + 7 = 8, not 7.
  const Layout b = ParseLayout("(2,6)/((2:7), (6:1))");
  const auto c = Compose(b, ParseLayout("(2,3)/((2:3), (3:2))"));
  if (c) CHECK(PlaceOf(*c, {1, 2}).at(kAddress) == 8);
  CHECK_FALSE(c.has_value());
  // A divide of 384 elements by 128 (3513) must keep 384 elements: 3 x 128.
  const Layout d = ParseLayout("(384)/((384:1))");
  const auto e = Reshape(d, {3, 128});
  REQUIRE(e);
  CHECK(e->elements() == 384);
  CHECK(PrintLayout(*e) == "(3,128)/((3:128), (128:1))");
  const Layout f = ParseLayout("(2,192)/((2_PE:1), (192:1))");
  const auto g = Reshape(f, {3, 128});  // 128 does not divide 192
  CHECK_FALSE(g.has_value());
}

TEST_CASE("dense layouts on four PEs are counted") {
  // Every order of the digits over every factorisation, by brute force over digit lists.
  const auto count = [](const std::vector<int64_t>& shape) {
    int64_t elements = 1;
    for (const int64_t s : shape) elements *= s;
    const int64_t words = elements / 4;
    std::set<std::string> seen;
    // Lists of factors of each axis; each factor to PE or address; then orders give strides.
    std::vector<std::vector<std::vector<int64_t>>> lists;
    std::function<void(int64_t, std::vector<int64_t>&, std::vector<std::vector<int64_t>>&)> factor =
        [&](int64_t n, std::vector<int64_t>& head, std::vector<std::vector<int64_t>>& out) {
          if (n == 1) out.push_back(head);
          for (int64_t f = 2; f <= n; ++f) {
            if (n % f != 0) continue;
            head.push_back(f);
            factor(n / f, head, out);
            head.pop_back();
          }
        };
    for (const int64_t s : shape) {
      std::vector<int64_t> head;
      lists.emplace_back();
      factor(s, head, lists.back());
    }
    std::function<void(size_t, Layout)> choose = [&](size_t a, Layout l) {
      if (a < shape.size()) {
        for (const auto& list : lists[a]) {
          for (int on = 0; on < 1 << list.size(); ++on) {
            Layout m = l;
            m.axes.emplace_back();
            for (size_t k = 0; k < list.size(); ++k) {
              m.axes.back().push_back({list[k], on >> k & 1 ? "PE" : kAddress, 0});
            }
            choose(a + 1, m);
          }
        }
        return;
      }
      std::vector<std::pair<int, int>> digits;
      int64_t pes = 1;
      for (size_t x = 0; x < l.axes.size(); ++x) {
        for (size_t k = 0; k < l.axes[x].size(); ++k) {
          digits.emplace_back(int(x), int(k));
          if (l.axes[x][k].level == "PE") pes *= l.axes[x][k].size;
        }
      }
      if (pes != 4) return;
      std::sort(digits.begin(), digits.end());
      do {
        std::map<std::string, int64_t> next{{kAddress, 1}, {"PE", 1}};
        for (const auto& [x, k] : digits) {
          Digit& d = l.axes[x][k];
          d.stride = next[d.level];
          next[d.level] *= d.size;
        }
        CHECK(next[kAddress] == words);
        seen.insert(PrintLayout(Canonical(l)));
      } while (std::next_permutation(digits.begin(), digits.end()));
    };
    Layout l;
    l.shape = shape;
    choose(0, l);
    return seen.size();
  };
  CHECK(count({8}) == 6);
  CHECK(count({12}) == 6);
  CHECK(count({2, 4}) == 6);
  CHECK(count({4, 4}) == 24);
  CHECK(count({4, 6}) == 22);
}

TEST_CASE("100,000 random layouts: places invert, text and canonical form hold") {
  Rng rng(1);
  for (int round = 0; round < 100000; ++round) {
    const Layout l = RandomLayout(rng, round % 50 == 0 ? 2000 : 100);
    CheckLayout(l);
    const std::string text = PrintLayout(l);
    CHECK(ParseLayout(text) == l);
    std::map<Place, Index> table;
    for (const Index& i : AllIndices(l.shape)) {
      const std::set<Place> places = Table(l, i);
      std::set<Place> said;
      for (Place p : PlacesOf(l, i)) p[kAddress] += 0, said.insert(p);
      if (places != said) FAIL_CHECK(text);
      for (const Place& p : places) {
        if (!table.emplace(p, i).second) FAIL_CHECK("overlap: " << text);
        if (IndexAt(l, p) != i) FAIL_CHECK("inverse: " << text);
      }
    }
    for (int k = 0; k < 5 && !table.empty(); ++k) {
      // Near an element: a hole or another element, as the table says.
      auto it = table.begin();
      std::advance(it, Between(rng, 0, int64_t(table.size()) - 1));
      Place p = it->first;
      auto c = p.begin();
      std::advance(c, Between(rng, 0, int64_t(p.size()) - 1));
      c->second += Between(rng, -2, 3);
      const auto at = table.find(p);
      if (IndexAt(l, p) != (at == table.end() ? std::nullopt : std::optional<Index>(at->second))) {
        FAIL_CHECK("hole: " << text);
      }
    }
    const Layout c = Canonical(l), d = Disguise(rng, l);
    if (MapText(c) != MapText(l)) FAIL_CHECK("canonical: " << text);
    if (PrintLayout(Canonical(d)) != PrintLayout(c)) FAIL_CHECK(PrintLayout(d) << " of " << text);
    if (!(Canonical(c) == c)) FAIL_CHECK("twice: " << text);
  }
}

TEST_CASE("canonical forms are equal exactly where maps are") {
  // Small layouts, so that different texts often mean one map.
  Rng rng(2);
  std::map<std::string, std::string> canonical_of_map, map_of_canonical;
  int64_t met = 0;
  for (int round = 0; round < 60000; ++round) {
    Layout l = RandomLayout(rng, 12);
    l.broadcast.clear();
    std::string shape;
    for (const int64_t s : l.shape) shape += std::to_string(s) + ",";
    const std::string map = shape + MapText(l), text = PrintLayout(Canonical(l));
    const auto [at, fresh] = canonical_of_map.emplace(map, text);
    met += !fresh;
    if (at->second != text) FAIL_CHECK(text << " and " << at->second);
    if (map_of_canonical.emplace(text, map).first->second != map) FAIL_CHECK(text);
  }
  CHECK(met > 10000);
}

TEST_CASE("random digits overlap exactly where the table does") {
  Rng rng(3);
  int64_t wrong = 0;
  for (int round = 0; round < 20000; ++round) {
    Layout l = RandomLayout(rng, 60);
    for (auto& axis : l.axes) {
      for (Digit& d : axis) {
        if (Between(rng, 0, 2) == 0) d.stride = Between(rng, 0, 6);
      }
    }
    std::set<Place> seen;
    bool overlaps = false;
    for (const Index& i : AllIndices(l.shape)) {
      const std::set<Place> places = Table(l, i);
      overlaps = overlaps || int64_t(places.size()) != Product(l.copies);
      for (const Place& p : places) overlaps = overlaps || !seen.insert(p).second;
    }
    bool refused = false;
    try {
      CheckLayout(l);
    } catch (const weft::Error&) {
      refused = true;
    }
    if (refused != overlaps) FAIL_CHECK(PrintLayout(l));
    wrong += overlaps;
  }
  CHECK(wrong > 1000);
}

Index Unflatten(int64_t n, const std::vector<int64_t>& shape) {
  Index i(shape.size());
  for (size_t a = shape.size(); a-- > 0;) {
    i[a] = n % shape[a];
    n /= shape[a];
  }
  return i;
}

TEST_CASE("composition is exact, and refuses only what no digits say") {
  Rng rng(4);
  int64_t said = 0, refused = 0;
  for (int round = 0; round < 30000; ++round) {
    const Layout outer = RandomLayout(rng, 120);
    Layout inner = RandomLayout(rng, 60);
    inner.copies.clear();
    inner.broadcast.clear();
    const int64_t offset = Between(rng, 0, 3) == 0 ? Between(rng, 0, 9) : 0;
    inner.offset.clear();
    if (offset > 0) inner.offset[kAddress] = offset;
    // Steps that often are units of the outer's radices.
    std::vector<int64_t> steps{1, 2, 3};
    int64_t w = 1;
    for (size_t a = outer.shape.size(); a-- > 0; w *= outer.shape[a]) {
      int64_t v = w;
      for (size_t k = outer.axes[a].size(); k-- > 0; v *= outer.axes[a][k].size) steps.push_back(v);
    }
    for (auto& axis : inner.axes) {
      for (Digit& d : axis)
        d = {d.size, kAddress, steps[Between(rng, 0, int64_t(steps.size()) - 1)]};
    }
    std::vector<int64_t> number;
    bool bad = false;
    for (const Index& i : AllIndices(inner.shape)) {
      number.push_back(Table(inner, i).begin()->at(kAddress));
      bad = bad || number.back() >= outer.elements();
    }
    if (std::set<int64_t>(number.begin(), number.end()).size() != number.size()) continue;
    if (bad) {
      CHECK(CodeOf([&] { (void)Compose(outer, inner); }) == weft::ErrorCode::kIndexRange);
      continue;
    }
    const auto result = Compose(outer, inner);
    if (!result) {
      ++refused;
      // Fit by brute force: the function of one copy must not be a sum of digits.
      const auto fit = FitLayout(inner.shape, [&](const Index& i) {
        return *Table(
                    [&] {
                      Layout o = outer;
                      o.copies.clear();
                      return o;
                    }(),
                    Unflatten(Table(inner, i).begin()->at(kAddress), outer.shape))
                    .begin();
      });
      if (fit) FAIL_CHECK(PrintLayout(outer) << " o " << PrintLayout(inner));
      continue;
    }
    ++said;
    CheckLayout(*result);
    size_t k = 0;
    for (const Index& i : AllIndices(inner.shape)) {
      std::set<Place> want;
      for (const Place& p : Table(outer, Unflatten(number[k++], outer.shape))) want.insert(p);
      if (Table(*result, i) != want) {
        FAIL_CHECK(PrintLayout(outer)
                   << " o " << PrintLayout(inner) << " = " << PrintLayout(*result));
        break;
      }
    }
  }
  CHECK(said > 4000);
  CHECK(refused > 500);
}

TEST_CASE("views keep every word") {
  Rng rng(5);
  int64_t reshaped = 0, sliced = 0, expanded = 0;
  for (int round = 0; round < 20000; ++round) {
    const Layout l = RandomLayout(rng, 150);
    // Reshape: two neighbouring axes joined, or an axis cut.
    std::vector<int64_t> shape = l.shape;
    if (shape.size() >= 2 && Between(rng, 0, 1) == 0) {
      shape[0] *= shape[1];
      shape.erase(shape.begin() + 1);
    } else if (!shape.empty()) {
      for (int64_t f = 2; f < shape[0]; ++f) {
        if (shape[0] % f == 0) {
          shape[0] /= f;
          shape.insert(shape.begin() + 1, f);
          break;
        }
      }
    }
    if (const auto r = Reshape(l, shape)) {
      ++reshaped;
      const auto from = AllIndices(l.shape), to = AllIndices(shape);
      for (size_t k = 0; k < from.size(); ++k) {
        if (Table(l, from[k]) != Table(*r, to[k])) FAIL_CHECK(PrintLayout(l));
      }
    }
    if (l.shape.empty()) continue;
    const int axis = int(Between(rng, 0, int64_t(l.shape.size()) - 1));
    const int64_t start = Between(rng, 0, l.shape[axis] - 1), step = Between(rng, 1, 3);
    const int64_t size = Between(rng, 1, (l.shape[axis] - 1 - start) / step + 1);
    if (const auto s = Slice(l, axis, start, size, step)) {
      ++sliced;
      for (const Index& i : AllIndices(s->shape)) {
        Index j = i;
        j[axis] = start + i[axis] * step;
        if (Table(l, j) != Table(*s, i)) FAIL_CHECK(PrintLayout(l));
      }
    }
    std::vector<int> permutation(l.shape.size());
    for (size_t a = 0; a < permutation.size(); ++a) permutation[a] = int(a);
    std::shuffle(permutation.begin(), permutation.end(), rng);
    const Layout t = Transpose(l, permutation);
    for (const Index& i : AllIndices(t.shape)) {
      Index j(i.size());
      for (size_t a = 0; a < i.size(); ++a) j[permutation[a]] = i[a];
      if (Table(l, j) != Table(t, i)) FAIL_CHECK(PrintLayout(l));
    }
    const Layout u = Unsqueeze(l, axis);
    for (const Index& i : AllIndices(u.shape)) {
      Index j = i;
      j.erase(j.begin() + axis);
      if (Table(l, j) != Table(u, i)) FAIL_CHECK(PrintLayout(l));
    }
    CHECK(SameMap(Squeeze(u, axis), l));
    const int64_t n = Between(rng, 2, 6);
    if (const auto e = Expand(u, axis, n)) {
      ++expanded;
      CheckLayout(*e);
      for (const Index& i : AllIndices(e->shape)) {
        Index j = i;
        j[axis] = 0;
        const std::set<Place> part = Table(*e, i), whole = Table(u, j);
        if (!std::includes(whole.begin(), whole.end(), part.begin(), part.end())) {
          FAIL_CHECK(PrintLayout(u));
        }
      }
    }
    // Unexpand: where l has element i on levels, the operand has element i with axis = 0.
    const Layout o = Unexpand(l, axis);
    CheckLayout(o);
    for (const Index& i : AllIndices(l.shape)) {
      Index j = i;
      j[axis] = 0;
      std::set<Place> have;
      for (Place p : Table(o, j)) p.erase(kAddress), have.insert(p);
      for (Place p : Table(l, i)) {
        p.erase(kAddress);
        if (have.count(p) == 0) FAIL_CHECK(PrintLayout(l));
      }
    }
  }
  CHECK(reshaped > 5000);
  CHECK(sliced > 5000);
  CHECK(expanded > 500);
}

TEST_CASE("split, refines, common refinement, satisfies against the table") {
  Rng rng(6);
  int64_t refines = 0, common = 0, satisfies = 0;
  for (int round = 0; round < 30000; ++round) {
    Layout a = RandomLayout(rng, 60);
    for (size_t x = 0; x < a.axes.size(); ++x) {
      for (size_t k = 0; k < a.axes[x].size(); ++k) {
        const int64_t inner = Between(rng, 1, 4);
        const auto s = Split(a, int(x), int(k), inner);
        CHECK(s.has_value() == (a.axes[x][k].size % inner == 0));
        if (s && MapText(*s) != MapText(a)) FAIL_CHECK(PrintLayout(a));
        if (s && Between(rng, 0, 2) == 0) a = *s;
      }
    }
    // Another layout of the shape: the digits permuted over levels, some radices changed.
    Layout b = a;
    const int change = int(Between(rng, 0, 3));
    for (auto& axis : b.axes) {
      if (change == 1) std::reverse(axis.begin(), axis.end());
      if (change == 2 && !axis.empty()) {
        axis = {{Product(axis), "PE", 1}};
      }
    }
    if (change == 3) b = Disguise(rng, a);
    if (Between(rng, 0, 3) == 0) b.copies.clear();
    if (Between(rng, 0, 3) == 0) b.offset.clear();
    if (Between(rng, 0, 5) == 0) a.copies.push_back({2, "MAB", 60});
    try {
      CheckLayout(a);
      CheckLayout(b);
    } catch (const weft::Error&) {
      continue;
    }
    // Refines: every coordinate of b is a sum over the digits of a.
    bool linear = true;
    for (size_t x = 0; x < a.shape.size(); ++x) {
      const auto at = [&](int64_t i) {
        Index index(a.shape.size(), 0);
        index[x] = i;
        Place p = *Table(b, index).begin();
        for (const auto& [level, v] : b.offset) p[level] -= v;
        return p;
      };
      for (int64_t i = 0; i < a.shape[x]; ++i) {
        Place sum = at(0);
        int64_t below = 1;
        for (size_t k = a.axes[x].size(); k-- > 0;) {
          const int64_t n = a.axes[x][k].size, d = i / below % n;
          if (d > 0) {
            for (const auto& [level, v] : at(below)) sum[level] += d * v;
          }
          below *= n;
        }
        linear = linear && sum == at(i);
      }
    }
    if (Refines(a, b) != linear) FAIL_CHECK(PrintLayout(a) << " refines " << PrintLayout(b));
    refines += linear;
    if (const auto both = CommonRefinement(a, b)) {
      ++common;
      if (MapText(both->first) != MapText(a) || MapText(both->second) != MapText(b)) {
        FAIL_CHECK(PrintLayout(a) << " with " << PrintLayout(b));
      }
      for (size_t x = 0; x < a.shape.size(); ++x) {
        REQUIRE(both->first.axes[x].size() == both->second.axes[x].size());
        for (size_t k = 0; k < both->first.axes[x].size(); ++k) {
          CHECK(both->first.axes[x][k].size == both->second.axes[x][k].size);
        }
      }
    }
    // Satisfies: as sets of places; a level that only one names is every place of it.
    bool enough = true;
    for (const Index& i : AllIndices(a.shape)) {
      std::set<Place> have, want;
      for (const Place& p : Table(a, i)) have.insert(p);
      for (Place p : Table(b, i)) {
        for (const auto& [level, v] : *have.begin()) {
          if (p.count(level) == 0) enough = false;
        }
        for (auto it = p.begin(); it != p.end();) {
          it = have.begin()->count(it->first) == 0 ? p.erase(it) : std::next(it);
        }
        want.insert(p);
      }
      enough = enough && std::includes(have.begin(), have.end(), want.begin(), want.end());
    }
    if (Satisfies(a, b) != enough) FAIL_CHECK(PrintLayout(a) << " satisfies " << PrintLayout(b));
    satisfies += enough;
  }
  CHECK(refines > 1000);
  CHECK(common > 1000);
  CHECK(satisfies > 1000);
}

TEST_CASE("large sizes need no enumeration") {
  const Layout l = ParseLayout("(1048576,4096)/((16_L2B:1, 64_MAB:1, 1024:4096), (4096:1))");
  CHECK(*IndexAt(l, {{"L2B", 3}, {"MAB", 5}, {kAddress, 7 * 4096 + 9}}) ==
        Index{3 * 65536 + 5 * 1024 + 7, 9});
  const auto r = Reshape(l, {1024, 1024, 4096});
  REQUIRE(r);
  CHECK(PrintLayout(*r) == "(1024,1024,4096)/((16_L2B:1, 64_MAB:1), (1024:4096), (4096:1))");
  CHECK(Satisfies(l, l));
  CHECK(CodeOf([] { ParseLayout("(9223372036854775807,9)/((9223372036854775807:1), (9:1))"); }) ==
        weft::ErrorCode::kOverflow);
}

TEST_CASE("bad layouts: one error that says where") {
  const std::pair<const char*, const char*> kRows[] = {
      {"", "expected '(', got the end"},
      {"(4)/((4_PE:1)", "expected ',', got the end"},
      {"(4)/((4_:1))", "expected the name of a level"},
      {"(4)/((4_PE))", "expected ':'"},
      {"(4)/((4_PE:-1))", "expected a stride"},
      {"(4)/((4_PE:1)) x", "expected the end"},
      {"(4)/((4_PE:1))+0", "expected an offset that is not 0"},
      {"(4)/((4_PE:1); B@[PE])", "level PE both divides and replicates"},
      {"(4)/((3:1))", "the digits of axis 0 number 3, its size is 4"},
      {"(4)/((2:1), (2:2))", "shape has 1 axes, layout 2"},
      {"(0)/((0:1))", "axis 0 has size 0"},
      {"(4,4)/((4:1), (4:3))", "elements (0, 1) and (3, 0) share address 3"},
      {"(4)/((4_PE:1); B@[2_PE:2])", "share"},
      {"(4)/((4:1); B@[2:4])", "copies at local addresses"},
  };
  for (const auto& [text, part] : kRows) {
    CAPTURE(text);
    std::string what;
    try {
      ParseLayout(text);
    } catch (const weft::Error& e) {
      what = e.what();
    }
    CHECK(what.find(part) != std::string::npos);
    if (what.find(part) == std::string::npos) MESSAGE(what);
  }
  const Machine m = TestMachine();
  Validate(ParseLayout("(12)/((3_MAB:1, 4_PE:1))"), m);
  Validate(ParseLayout("(12)/((3_MAB:1, 4:1))"), m, 1);
  const auto code = [&](const char* text, int level) {
    return CodeOf([&] { Validate(ParseLayout(text), m, level); });
  };
  CHECK(code("(12)/((3_L1B:1, 4:1))", -1) == weft::ErrorCode::kInvalidModel);
  CHECK(code("(12)/((3_MAB:1, 4_PE:1))", 1) == weft::ErrorCode::kInvalidModel);
  CHECK(code("(12)/((2_PE:3, 6:1))", -1) == weft::ErrorCode::kInternal);  // PE 0 and 3: fits
  CHECK(code("(12)/((2_PE:4, 6:1))", -1) == weft::ErrorCode::kInvalidModel);
  CHECK(code("(12)/((12:1); B@[4_PE:1])+1_PE", -1) == weft::ErrorCode::kInvalidModel);
  CHECK(PrintLayout(Canonical(ParseLayout("(12)/((12:1); B@[4_PE:1])"), m)) ==
        "(12)/((12:1); B@[MAB, PE])");
}

}  // namespace
}  // namespace hsimd
