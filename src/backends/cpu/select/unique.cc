/// unique.cc: Unique over keys (ordered_keys.h). Where few elements (slices) differ, a table in the
/// second cache finds the group of each; else they are sorted, by digits. What it computes is said
/// in src/ops/movement/select.cc.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "along_axis.h"
#include "ordered_keys.h"
#include "sort_items.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/sized_compute.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// Groups that a table takes: 2^16 places of 8 bytes.
constexpr int kTableBits = 16;
constexpr int64_t kMostGroups = int64_t{1} << (kTableBits - 1);
/// Places that are looked at for one element; more say that hashes meet.
constexpr int kMostProbes = 64;
/// Elements between two looks at the request.
constexpr int64_t kPoll = int64_t{1} << 18;

/// Elements (or slices) that are equal, in the order of their first ones.
struct Groups {
  std::vector<uint32_t> first, count;
  uint32_t* of = nullptr;  ///< of each element
};

constexpr uint64_t MixBits(uint64_t v) {
  v *= 0x9e3779b97f4a7c15u;  // 2^64 by the golden ratio, as Fibonacci hashing has it
  return v ^ v >> 32;
}

/// False: there are too many, or their hashes meet too often.
template <class Hash, class Same>
bool GroupByTable(int64_t n, const Hash& hash, const Same& same, Groups* g) {
  struct Slot {
    uint32_t hash, group;
  };
  constexpr uint32_t kFree = UINT32_MAX;
  int bits = 8;
  std::vector<Slot> table(size_t{1} << bits, Slot{0, kFree});
  const auto grow = [&] {
    bits += 2;
    std::vector<Slot> wide(size_t{1} << bits, Slot{0, kFree});
    for (const Slot& s : table) {
      if (s.group == kFree) continue;
      size_t at = s.hash >> (32 - bits);
      while (wide[at].group != kFree) at = (at + 1) & (wide.size() - 1);
      wide[at] = s;
    }
    table = std::move(wide);
  };
  for (int64_t i = 0; i < n; ++i) {
    if (i % kPoll == 0) RequestScope::Poll();
    const uint32_t h = hash(i);
    size_t at = h >> (32 - bits);
    for (int probes = 0;; at = (at + 1) & (table.size() - 1)) {
      Slot& s = table[at];
      if (s.group == kFree) {
        if (int64_t(g->first.size()) == kMostGroups) return false;
        s = {h, uint32_t(g->first.size())};
        g->of[i] = s.group;
        g->first.push_back(uint32_t(i));
        g->count.push_back(1);
        if (2 * g->first.size() > table.size()) grow();
        break;
      }
      if (s.hash == h && same(i, int64_t(g->first[s.group]))) {
        g->of[i] = s.group;
        ++g->count[s.group];
        break;
      }
      if (++probes == kMostProbes) return false;
    }
  }
  return true;
}

/// `next(k)`: the element that comes k-th by value, equal ones in their order. So do the groups.
template <class Next, class Same>
void GroupSorted(int64_t n, const Next& next, const Same& same, Groups* g,
                 std::vector<uint32_t>* rank) {
  g->first.clear();
  g->count.clear();
  int64_t before = -1;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = next(k);
    if (before < 0 || !same(before, i)) {
      g->first.push_back(uint32_t(i));
      g->count.push_back(0);
    }
    ++g->count.back();
    g->of[i] = uint32_t(g->first.size() - 1);
    before = i;
  }
  rank->resize(g->first.size());
  std::iota(rank->begin(), rank->end(), 0u);
}

/// Groups, and their order: rank[k] is the group that comes k-th by value.
template <class Element>
void GroupElements(const typename Element::Storage* x, int64_t n, char* room, Groups* g,
                   std::vector<uint32_t>* rank) {
  using Key = KeyOf<Element>;
  using Items = ItemOf<Key>;
  auto* items = reinterpret_cast<typename Items::Item*>(room);
  auto* const other = items + n;
  const auto key = [&](int64_t i) { return OrderedKey<Element>(x[i]); };
  const auto same = [&](int64_t i, int64_t j) { return key(i) == key(j); };
  const auto hash = [&](int64_t i) { return uint32_t(MixBits(uint64_t(key(i)))); };
  if (GroupByTable(n, hash, same, g)) {
    const int64_t groups = int64_t(g->first.size());
    for (int64_t k = 0; k < groups; ++k) items[k] = Items::Make(key(g->first[size_t(k)]), k);
    const auto* sorted = SortItems<Key>(items, other, groups, true, groups);
    rank->resize(size_t(groups));
    for (int64_t k = 0; k < groups; ++k) (*rank)[size_t(k)] = uint32_t(Items::PlaceOf(sorted[k]));
    return;
  }
  for (int64_t i = 0; i < n; ++i) items[i] = Items::Make(key(i), i);
  RequestScope::Poll();
  const auto* sorted = SortItems<Key>(items, other, n, true, n);
  RequestScope::Poll();
  GroupSorted(
      n, [&](int64_t k) { return Items::PlaceOf(sorted[k]); }, same, g, rank);
}
/// The same for slices, whose keys are brought together.
template <class Element>
void GroupSlices(const typename Element::Storage* x, const AlongAxis& s, char* room, Groups* g,
                 std::vector<uint32_t>* rank) {
  using Key = KeyOf<Element>;
  const int64_t slice = s.slice();
  auto* const keys = reinterpret_cast<Key*>(room);
  for (int64_t b = 0; b < s.before; ++b) {
    RequestScope::Poll();
    for (int64_t e = 0; e < s.extent; ++e) {
      const auto* from = x + (b * s.extent + e) * s.inner;
      Key* to = keys + e * slice + b * s.inner;
      for (int64_t i = 0; i < s.inner; ++i) to[i] = OrderedKey<Element>(from[i]);
    }
  }
  const auto row = [&](int64_t i) { return keys + i * slice; };
  const auto same = [&](int64_t i, int64_t j) {
    return std::memcmp(row(i), row(j), size_t(slice) * sizeof(Key)) == 0;
  };
  const auto hash = [&](int64_t i) {
    const Key* k = row(i);
    uint64_t h = 0;
    for (int64_t j = 0; j < slice; ++j) h = MixBits(h ^ uint64_t(k[j]));
    return uint32_t(h);
  };
  const auto less = [&](int64_t i, int64_t j) {
    const Key *a = row(i), *b = row(j);
    for (int64_t k = 0; k < slice; ++k)
      if (a[k] != b[k]) return a[k] < b[k];
    return false;
  };
  // The first key beside the number spares most looks at the rows.
  struct Head {
    Key key;
    uint32_t number;
  };
  std::vector<Head> heads;
  const auto sort = [&](const auto& element) {  // of head's number
    std::sort(heads.begin(), heads.end(), [&](const Head& a, const Head& b) {
      if (a.key != b.key) return a.key < b.key;
      const int64_t i = element(a.number), j = element(b.number);
      if (less(i, j)) return true;
      return !less(j, i) && a.number < b.number;
    });
  };
  if (GroupByTable(s.extent, hash, same, g)) {
    for (uint32_t k = 0; k < g->first.size(); ++k) heads.push_back({row(g->first[k])[0], k});
    sort([&](uint32_t k) { return int64_t(g->first[k]); });
    rank->resize(heads.size());
    for (size_t k = 0; k < heads.size(); ++k) (*rank)[k] = heads[k].number;
    return;
  }
  for (int64_t i = 0; i < s.extent; ++i) heads.push_back({row(i)[0], uint32_t(i)});
  sort([](uint32_t i) { return int64_t(i); });
  RequestScope::Poll();
  GroupSorted(
      s.extent, [&](int64_t k) { return int64_t(heads[size_t(k)].number); }, same, g, rank);
}

bool RunUnique(const NodePtr& n, const std::vector<TensorPtr>& in, int, SizedResults* results) {
  const Tensor& x = *in[0];
  if (!IsComputable(x.dtype())) return false;
  const AlongAxis s(n, x);
  std::vector<int64_t> dims = s.dims;
  // Slices without elements are all equal; numbers of elements have 32 bits.
  const int64_t slice = s.slice(), extent = s.extent;
  if (slice == 0 || extent >= int64_t{UINT32_MAX}) return false;
  return VisitElement(x.dtype(), [&](auto element) {
    using Element = decltype(element);
    using T = typename Element::Storage;
    using Key = KeyOf<Element>;
    const int64_t group_bytes = CheckedRoundUp(CheckedMul(extent, int64_t{sizeof(uint32_t)}), 64);
    const int64_t room_bytes =
        slice == 1 ? CheckedMul(extent, int64_t{2 * sizeof(typename ItemOf<Key>::Item)})
                   : CheckedMul(CheckedMul(extent, slice), int64_t{sizeof(Key)});
    char* const room = static_cast<char*>(results->Scratch(CheckedAdd(group_bytes, room_bytes)));
    Groups g;
    g.of = reinterpret_cast<uint32_t*>(room);
    std::vector<uint32_t> rank;
    const T* from = x.data_as<T>();
    if (slice == 1)
      GroupElements<Element>(from, extent, room + group_bytes, &g, &rank);
    else
      GroupSlices<Element>(from, s, room + group_bytes, &g, &rank);
    if (IntAttr(n, "sorted", 1) == 0)
      std::sort(rank.begin(), rank.end(),
                [&](uint32_t a, uint32_t b) { return g.first[a] < g.first[b]; });
    const int64_t count = int64_t(rank.size());
    dims[s.axis] = count;
    T* y = static_cast<T*>(results->Place(0, x.dtype(), dims));
    for (int64_t b = 0; b < s.before; ++b)
      for (int64_t k = 0; k < count; ++k, y += s.inner)
        std::copy_n(from + (b * extent + g.first[rank[size_t(k)]]) * s.inner, s.inner, y);
    const auto ints = [&](size_t k, int64_t size) {
      return static_cast<int64_t*>(results->Place(k, DType::kI64, {size}));
    };
    const uint32_t outputs = n->num_outputs();
    if (outputs > 1) {
      int64_t* const to = ints(1, count);
      for (size_t k = 0; k < size_t(count); ++k) to[k] = g.first[rank[k]];
    }
    if (outputs > 2) {
      std::vector<uint32_t> place(rank.size());
      for (size_t k = 0; k < rank.size(); ++k) place[rank[k]] = uint32_t(k);
      int64_t* const to = ints(2, extent);
      for (int64_t i = 0; i < extent; ++i) to[i] = place[g.of[i]];
    }
    if (outputs > 3) {
      int64_t* const to = ints(3, count);
      for (size_t k = 0; k < size_t(count); ++k) to[k] = g.count[rank[k]];
    }
    return true;
  });
}

WEFT_REGISTER_OP(Unique).set_attr<FSizedCompute>("FSizedCompute.cpu", RunUnique);

}  // namespace
}  // namespace weft::cpu
