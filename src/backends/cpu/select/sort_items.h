/// sort_items.h: keys with the places that they come from, as single numbers to choose from and to
/// sort: of equal keys the lower place comes first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft::cpu {

__extension__ typedef unsigned __int128 Uint128;

template <class Key>
struct ItemOf;
/// Places are below 2^32.
template <>
struct ItemOf<int32_t> {
  using Item = uint64_t;
  static constexpr int kPlaceBits = 32;
  static Item Make(int32_t key, int64_t place) {
    return Item(uint32_t(key) ^ 0x80000000u) << 32 | Item(place);
  }
  static int64_t PlaceOf(Item i) { return int64_t(uint32_t(i)); }
  static int32_t KeyOfItem(Item i) { return int32_t(uint32_t(i >> 32) ^ 0x80000000u); }
};
template <>
struct ItemOf<int64_t> {
  using Item = Uint128;
  static constexpr int kPlaceBits = 64;
  static Item Make(int64_t key, int64_t place) {
    return Item(uint64_t(key) ^ (uint64_t{1} << 63)) << 64 | Item(uint64_t(place));
  }
  static int64_t PlaceOf(Item i) { return int64_t(uint64_t(i)); }
  static int64_t KeyOfItem(Item i) { return int64_t(uint64_t(i >> 64) ^ (uint64_t{1} << 63)); }
};

/// Below this many items comparisons are faster than counting digits.
constexpr int64_t kFewItems = 192;

/// Stable, by bits [from, to) of the items; digits of `kDigit` bits, and those that are the same in
/// all items cost a look. `other` has room for as many. Gives which of the two holds the result.
template <int kDigit, class Item>
Item* RadixSortBy(Item* items, Item* other, int64_t n, int from, int to) {
  constexpr int64_t kBuckets = int64_t{1} << kDigit;
  uint32_t at[kBuckets];
  for (int shift = from; shift < to; shift += kDigit) {
    const Item mask = (Item(1) << std::min(kDigit, to - shift)) - 1;
    const auto digit = [&](Item i) { return size_t((i >> shift) & mask); };
    std::memset(at, 0, sizeof at);
    for (int64_t i = 0; i < n; ++i) ++at[digit(items[i])];
    if (int64_t(at[digit(items[0])]) == n) continue;
    uint32_t sum = 0;
    for (uint32_t& count : at) {
      const uint32_t own = count;
      count = sum;
      sum += own;
    }
    for (int64_t i = 0; i < n; ++i) other[at[digit(items[i])]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

/// Ascending. `in_order`: items of equal keys have their places in order. `places`: all are below
/// it. Gives where the result is, `items` or `other`.
template <class Key>
typename ItemOf<Key>::Item* SortItems(typename ItemOf<Key>::Item* items,
                                      typename ItemOf<Key>::Item* other, int64_t n, bool in_order,
                                      int64_t places) {
  using Item = typename ItemOf<Key>::Item;
  if (n < kFewItems) {
    std::sort(items, items + n);
    return items;
  }
  constexpr int kKeyAt = ItemOf<Key>::kPlaceBits;
  int place_bits = 0;
  while (!in_order && place_bits < 62 && (int64_t{1} << place_bits) < places) ++place_bits;
  const auto by = [&](auto sort) {
    Item* const placed = sort(items, other, n, 0, place_bits);
    return sort(placed, placed == items ? other : items, n, kKeyAt, 2 * kKeyAt);
  };
  return n < 4096 ? by(RadixSortBy<8, Item>) : by(RadixSortBy<11, Item>);
}

}  // namespace weft::cpu
