/// top_k.cc: TopK over keys (ordered_keys.h): of a few out of many a threshold keeps all others
/// out, sixteen at a time; of many the digits are counted. The least keys of some parts of a line
/// tell a first threshold: k parts hold k keys that are not above the k-th of these. Lines go to
/// the threads, and so do the pieces of one long line. What it computes is said in
/// src/ops/movement/select.cc.
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <exception>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/wide.h"
#include "ordered_keys.h"
#include "sort_items.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

constexpr int64_t kBlock = 4096;  ///< keys that are made at once, for the first cache
constexpr int64_t kColumns = 16;  ///< lines that are read together where they lie side by side
constexpr int64_t kAlone =
    16384;  ///< elements below which a second thread costs more than it helps
constexpr int64_t kLongLine = 131072;  ///< elements of a line that is worth cutting
constexpr int64_t kMostParts = 256;    ///< whose least keys tell a threshold

/// Of how many parts for the k least of n; 0: it does not pay.
int64_t PartsFor(int64_t k, int64_t n) {
  int64_t parts = 16;
  while (parts < 2 * k && parts < kMostParts) parts *= 2;
  return 2 * k <= parts && 4 * parts <= n ? parts : 0;
}

int ThreadNumber() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

/// The `k` smallest items of keys that are offered in order.
template <class Key>
class Chooser {
 public:
  using Items = ItemOf<Key>;
  using Item = typename Items::Item;

  static int64_t Capacity(int64_t k) { return std::max<int64_t>(2 * k, 64); }

  Chooser(int64_t k, Item* room) : k_(k), capacity_(Capacity(k)), room_(room) {}

  /// `k` keys to come, or more, are not above this one.
  void Limit(Key key) {
    if (key == std::numeric_limits<Key>::max()) return;
    limit_ = key + 1;
    limited_ = true;
  }
  /// One key, if it is below the threshold.
  void OfferOne(Key key, int64_t place) {
    if (!limited_ || key < limit_) Push(key, place);
  }
  void Offer(const Key* keys, int64_t n, int64_t first) {
    int64_t i = 0;
    while (i < n && !limited_) {
      const int64_t end = std::min(n, i + capacity_ - size_);
      for (; i < end; ++i) room_[size_++] = Items::Make(keys[i], first + i);
      if (size_ == capacity_) Reduce();
    }
#if defined(__x86_64__)
    if (HasWide()) i = OfferWide(keys, i, n, first);
#endif
    for (; i < n; ++i)
      if (keys[i] < limit_) Push(keys[i], first + i);
  }
  /// The best of what was offered: room[0, k), in any order.
  int64_t Finish() {
    if (size_ > k_) Reduce();
    return size_;
  }

 private:
  void Push(Key key, int64_t place) {
    room_[size_++] = Items::Make(key, place);
    if (size_ == capacity_) Reduce();
  }
  void Reduce() {
    std::nth_element(room_, room_ + k_ - 1, room_ + size_);
    size_ = k_;
    // A key that is no smaller comes later, and stays out.
    limit_ = Items::KeyOfItem(room_[k_ - 1]);
    limited_ = true;
  }
#if defined(__x86_64__)
  WEFT_WIDE int64_t OfferWide(const Key* keys, int64_t i, int64_t n, int64_t first) {
    constexpr int64_t kLanes = int64_t(64 / sizeof(Key));
    for (; i + kLanes <= n; i += kLanes) {
      const __m512i v = _mm512_loadu_si512(keys + i);
      uint32_t some;
      if constexpr (sizeof(Key) == 4)
        some = _mm512_cmplt_epi32_mask(v, _mm512_set1_epi32(limit_));
      else
        some = _mm512_cmplt_epi64_mask(v, _mm512_set1_epi64(limit_));
      for (; some; some &= some - 1) {
        const int64_t at = i + __builtin_ctz(some);
        if (keys[at] < limit_) Push(keys[at], first + at);
      }
    }
    return i;
  }
#endif

  const int64_t k_, capacity_;
  Item* const room_;
  int64_t size_ = 0;
  Key limit_ = 0;
  bool limited_ = false;
};

/// The `k` smallest of all items of a line in order, many of them: by the first digit, and within
/// the digit that is cut by comparison. `room`: three times n items. Ascending.
template <class Key>
const typename ItemOf<Key>::Item* ChooseMany(const Key* keys, int64_t n, int64_t k,
                                             typename ItemOf<Key>::Item* room) {
  using Items = ItemOf<Key>;
  using Item = typename Items::Item;
  Item *const chosen = room, *const cut = room + n, *const other = room + 2 * n;
  if (n < kFewItems || k == n) {
    for (int64_t i = 0; i < n; ++i) chosen[i] = Items::Make(keys[i], i);
    if (k < n) std::nth_element(chosen, chosen + k - 1, chosen + n);
    return SortItems<Key>(chosen, other, k, true, n);
  }
  constexpr int kShift = int(sizeof(Key)) * 8 - 11;
  constexpr Key kSign = std::numeric_limits<Key>::min();
  const auto digit = [](Key key) {
    return size_t(std::make_unsigned_t<Key>(key ^ kSign) >> kShift);
  };
  uint32_t counts[2048] = {};
  for (int64_t i = 0; i < n; ++i) ++counts[digit(keys[i])];
  int64_t below = 0;
  size_t last = 0;
  while (below + int64_t(counts[last]) < k) below += int64_t(counts[last++]);
  int64_t taken = 0, tied = 0;
  for (int64_t i = 0; i < n; ++i) {
    // Both are written, and the places move by what holds.
    const size_t d = digit(keys[i]);
    const Item item = Items::Make(keys[i], i);
    chosen[taken] = item;
    cut[tied] = item;
    taken += d < last;
    tied += d == last;
  }
  const int64_t rest = k - taken;
  if (rest < tied) {
    std::copy_n(cut, tied, other);
    std::nth_element(other, other + rest - 1, other + tied);
    const Item limit = other[rest - 1];
    for (int64_t i = 0; i < tied; ++i)
      if (cut[i] <= limit) chosen[taken++] = cut[i];
  } else {
    std::copy_n(cut, tied, chosen + taken);
  }
  return SortItems<Key>(chosen, other, k, true, n);
}

/// The least keys of `parts` parts, each every so-manyth key.
template <class Key>
inline __attribute__((always_inline)) void LeastOfParts(const Key* keys, int64_t n, int64_t parts,
                                                        Key* least) {
  // Four vectors at least, so that none waits for itself.
  const int64_t wide = std::max<int64_t>(parts, 64);
  std::copy_n(keys, wide, least);
  for (int64_t i = wide; i + wide <= n; i += wide)
#pragma omp simd
    for (int64_t j = 0; j < wide; ++j) least[j] = std::min(least[j], keys[i + j]);
  for (int64_t w = wide; w > parts; w /= 2)
    for (int64_t j = 0; j < w / 2; ++j) least[j] = std::min(least[j], least[j + w / 2]);
}
template <class Key>
void LeastOfPartsPlain(const Key* keys, int64_t n, int64_t parts, Key* least) {
  LeastOfParts(keys, n, parts, least);
}
#if defined(__x86_64__)
template <class Key>
WEFT_WIDE void LeastOfPartsWide(const Key* keys, int64_t n, int64_t parts, Key* least) {
  LeastOfParts(keys, n, parts, least);
}
/// Sixteen columns: bits of the keys that are not above the limit of their column.
WEFT_WIDE uint32_t NotAbove(const int32_t* row, const int32_t* limit) {
  return _mm512_cmple_epi32_mask(_mm512_loadu_si512(row), _mm512_loadu_si512(limit));
}
WEFT_WIDE uint32_t NotAbove(const int64_t* row, const int64_t* limit) {
  const auto half = [&](int i) WEFT_WIDE {
    return uint32_t(
        _mm512_cmple_epi64_mask(_mm512_loadu_si512(row + i), _mm512_loadu_si512(limit + i)));
  };
  return half(0) | half(8) << 8;
}
#endif
template <class Key>
uint32_t NotAbovePlain(const Key* row, const Key* limit) {
  uint32_t some = 0;
  for (int c = 0; c < kColumns; ++c) some |= uint32_t(row[c] <= limit[c]) << c;
  return some;
}

/// Sets the threshold of keys of which these are some.
template <class Key>
void LimitBy(const Key* keys, int64_t n, int64_t k, Chooser<Key>* chooser) {
  const int64_t parts = PartsFor(k, n);
  if (parts == 0) return;
  Key least[kMostParts];
#if defined(__x86_64__)
  if (HasWide())
    LeastOfPartsWide(keys, n, parts, least);
  else
#endif
    LeastOfPartsPlain(keys, n, parts, least);
  std::nth_element(least, least + k - 1, least + parts);
  chooser->Limit(least[k - 1]);
}

template <class Element>
void MakeKeysPlain(const typename Element::Storage* x, int64_t n, KeyOf<Element> flip,
                   KeyOf<Element>* keys) {
  for (int64_t i = 0; i < n; ++i) keys[i] = OrderedKey<Element>(x[i]) ^ flip;
}
#if defined(__x86_64__)
template <class Element>
WEFT_WIDE void MakeKeysWide(const typename Element::Storage* x, int64_t n, KeyOf<Element> flip,
                            KeyOf<Element>* keys) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) keys[i] = OrderedKey<Element>(x[i]) ^ flip;
}
#endif
template <class Element>
void MakeKeys(const typename Element::Storage* x, int64_t n, KeyOf<Element> flip,
              KeyOf<Element>* keys) {
#if defined(__x86_64__)
  if (HasWide()) return MakeKeysWide<Element>(x, n, flip, keys);
#endif
  MakeKeysPlain<Element>(x, n, flip, keys);
}

class TopKCall final : public LibraryCall {
 public:
  TopKCall(const ComputeRequest& q, size_t axis)
      : dtype_(q.input_types[0]),
        extent_(q.input_dims[0][axis]),
        k_(q.output_dims[0][axis]),
        largest_(IntAttr(q.node, "largest", 1) != 0),
        threads_(q.threads) {
    const std::vector<int64_t>& dims = q.input_dims[0];
    for (size_t d = 0; d < dims.size(); ++d) {
      if (d < axis) before_ = CheckedMul(before_, dims[d]);
      if (d > axis) inner_ = CheckedMul(inner_, dims[d]);
    }
    columns_ = std::min(inner_, kColumns);
    // Of a quarter or more, all are counted.
    many_ = k_ > extent_ / 4;
    VisitElement(dtype_, [&](auto element) {
      using Key = KeyOf<decltype(element)>;
      // Of columns the keys of all; behind them those of one.
      room_items_ = many_ ? CheckedMul(extent_, 3) : CheckedAdd(Chooser<Key>::Capacity(k_), k_);
      // As much as is needed for fewer of fewer, by the other way too: what is laid out for the
      // most that data decide is enough for what they decide.
      const int64_t sorted = many_ ? extent_ : std::min(extent_, CheckedMul(k_, 4)),
                    chosen = std::min(k_, extent_ / 4);
      const int64_t keys = inner_ > 1 ? CheckedMul(kColumns + 1, extent_)
                                      : std::max(sorted, std::min(extent_, kBlock));
      const int64_t items = std::max(
          CheckedMul(sorted, 3), CheckedMul(inner_ > 1 ? kColumns : 1,
                                            CheckedAdd(Chooser<Key>::Capacity(chosen), chosen)));
      keys_bytes_ = CheckedRoundUp(CheckedMul(keys, int64_t{sizeof(Key)}), 64);
      thread_bytes_ = CheckedRoundUp(
          CheckedAdd(keys_bytes_, CheckedMul(items, int64_t{sizeof(typename ItemOf<Key>::Item)})),
          64);
    });
    cut_ = threads_ > 1 && before_ * inner_ == 1 && !many_ && extent_ >= kLongLine;
  }

  int64_t scratch_bytes() const override { return CheckedMul(thread_bytes_, threads_); }
  std::string description() const override { return many_ ? "sort" : "choice by threshold"; }

  void Run(const void* const* in, void* const* out, void* scratch) const override {
    if (k_ == 0 || before_ == 0 || inner_ == 0) return;
    const ScopedThreads scoped(threads_);
    VisitElement(dtype_, [&](auto element) {
      using Element = decltype(element);
      const auto* x = static_cast<const typename Element::Storage*>(in[0]);
      auto* y = static_cast<typename Element::Storage*>(out[0]);
      auto* places = static_cast<int64_t*>(out[1]);
      if (cut_)
        LongLine<Element>(x, y, places, static_cast<char*>(scratch));
      else
        Lines<Element>(x, y, places, static_cast<char*>(scratch));
    });
  }

 private:
  template <class Element>
  KeyOf<Element> Flip() const {
    return largest_ ? KeyOf<Element>(-1) : KeyOf<Element>(0);
  }
  template <class Element>
  auto* ItemsIn(char* room) const {
    return reinterpret_cast<typename ItemOf<KeyOf<Element>>::Item*>(room + keys_bytes_);
  }

  template <class Element>
  void Lines(const typename Element::Storage* x, typename Element::Storage* y, int64_t* places,
             char* scratch) const {
    const int64_t per_row = (inner_ + columns_ - 1) / columns_;
    const int64_t groups = CheckedMul(before_, per_row);
    // Between so many a request is looked at.
    const int64_t together = std::max<int64_t>((int64_t{1} << 20) / (extent_ * columns_), threads_);
    for (int64_t begin = 0; begin < groups; begin += together) {
      RequestScope::Poll();
      const int64_t end = std::min(groups, begin + together);
#pragma omp parallel for schedule(static) if ((end - begin) * extent_ * columns_ > kAlone && \
                                              end - begin > 1)
      for (int64_t g = begin; g < end; ++g) {
        char* const room = scratch + ThreadNumber() * thread_bytes_;
        const int64_t b = g / per_row, first = g % per_row * columns_;
        const auto* from = x + b * extent_ * inner_ + first;
        const int64_t to = b * k_ * inner_ + first;
        if (inner_ == 1)
          Line<Element>(from, y + to, places + to, room);
        else
          Columns<Element>(from, std::min(columns_, inner_ - first), y + to, places + to, room);
      }
    }
  }

  /// Elements one behind the other.
  template <class Element>
  void Line(const typename Element::Storage* x, typename Element::Storage* y, int64_t* places,
            char* room) const {
    using Key = KeyOf<Element>;
    auto* keys = reinterpret_cast<Key*>(room);
    if (many_) {
      MakeKeys<Element>(x, extent_, Flip<Element>(), keys);
      return Give<Element>(ChooseMany(keys, extent_, k_, ItemsIn<Element>(room)), x, y, places);
    }
    Chooser<Key> chooser(k_, ItemsIn<Element>(room));
    OfferPiece<Element>(x, 0, extent_, keys, &chooser);
    GiveBest<Element>(&chooser, ItemsIn<Element>(room), x, y, places);
  }
  template <class Element>
  void OfferPiece(const typename Element::Storage* x, int64_t begin, int64_t end,
                  KeyOf<Element>* keys, Chooser<KeyOf<Element>>* chooser) const {
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t n = std::min(kBlock, end - first);
      MakeKeys<Element>(x + first, n, Flip<Element>(), keys);
      if (first == begin) LimitBy(keys, n, k_, chooser);
      chooser->Offer(keys, n, first);
    }
  }
  /// Lines side by side.
  template <class Element>
  void Columns(const typename Element::Storage* x, int64_t columns, typename Element::Storage* y,
               int64_t* places, char* room) const {
    using Key = KeyOf<Element>;
    auto* keys = reinterpret_cast<Key*>(room);
    for (int64_t e = 0; e < extent_; ++e)
      MakeKeys<Element>(x + e * inner_, columns, Flip<Element>(), keys + e * kColumns);
    const int64_t parts = many_ ? 0 : PartsFor(k_, extent_);
    if (parts > 0 && parts <= 64)
      return ColumnsByLimit<Element>(keys, parts, x, columns, y, places, room);
    Key* const line = keys + kColumns * extent_;
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t e = 0; e < extent_; ++e) line[e] = keys[e * kColumns + c];
      if (many_) {
        Give<Element>(ChooseMany(line, extent_, k_, ItemsIn<Element>(room)), x + c, y + c,
                      places + c);
        continue;
      }
      Chooser<Key> chooser(k_, ItemsIn<Element>(room));
      LimitBy(line, extent_, k_, &chooser);
      chooser.Offer(line, extent_, 0);
      GiveBest<Element>(&chooser, ItemsIn<Element>(room), x + c, y + c, places + c);
    }
  }
  /// Of rows of keys, all columns at once.
  template <class Element>
  void ColumnsByLimit(const KeyOf<Element>* keys, int64_t parts, const typename Element::Storage* x,
                      int64_t columns, typename Element::Storage* y, int64_t* places,
                      char* room) const {
    using Key = KeyOf<Element>;
    Key least[64 * kColumns], limits[kColumns], own[64];
    std::copy_n(keys, parts * kColumns, least);
    for (int64_t e = parts; e < extent_; ++e) {
      Key* const to = least + (e & (parts - 1)) * kColumns;
      const Key* row = keys + e * kColumns;
#pragma omp simd
      for (int64_t c = 0; c < kColumns; ++c) to[c] = std::min(to[c], row[c]);
    }
    std::vector<Chooser<Key>> choosers;
    choosers.reserve(kColumns);
    std::fill_n(limits, kColumns, std::numeric_limits<Key>::min());
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t p = 0; p < parts; ++p) own[p] = least[p * kColumns + c];
      std::nth_element(own, own + k_ - 1, own + parts);
      limits[c] = own[k_ - 1];
      choosers.emplace_back(k_, ItemsIn<Element>(room) + c * room_items_);
      choosers.back().Limit(limits[c]);
    }
    const uint32_t there = (1u << columns) - 1;
#if defined(__x86_64__)
    const bool wide = HasWide();
#endif
    for (int64_t e = 0; e < extent_; ++e) {
      const Key* row = keys + e * kColumns;
#if defined(__x86_64__)
      uint32_t some = (wide ? NotAbove(row, limits) : NotAbovePlain(row, limits)) & there;
#else
      uint32_t some = NotAbovePlain(row, limits) & there;
#endif
      for (; some; some &= some - 1) {
        const int c = __builtin_ctz(some);
        choosers[size_t(c)].OfferOne(row[c], e);
      }
    }
    for (int64_t c = 0; c < columns; ++c)
      GiveBest<Element>(&choosers[size_t(c)], ItemsIn<Element>(room) + c * room_items_, x + c,
                        y + c, places + c);
  }
  /// One line in a piece for each thread, whose best are joined.
  template <class Element>
  void LongLine(const typename Element::Storage* x, typename Element::Storage* y, int64_t* places,
                char* scratch) const {
    using Key = KeyOf<Element>;
    using Item = typename ItemOf<Key>::Item;
    std::vector<int64_t> found(static_cast<size_t>(threads_));
#pragma omp parallel for schedule(static)
    for (int t = 0; t < threads_; ++t) {
      char* const room = scratch + t * thread_bytes_;
      Chooser<Key> chooser(k_, ItemsIn<Element>(room));
      OfferPiece<Element>(x, extent_ * t / threads_, extent_ * (t + 1) / threads_,
                          reinterpret_cast<Key*>(room), &chooser);
      found[size_t(t)] = chooser.Finish();
    }
    RequestScope::Poll();
    Item* const best = ItemsIn<Element>(scratch);
    int64_t size = found[0];
    for (int t = 1; t < threads_; ++t) {
      // Two of at most k fit.
      std::copy_n(ItemsIn<Element>(scratch + t * thread_bytes_), found[size_t(t)], best + size);
      size += found[size_t(t)];
      if (size > k_) std::nth_element(best, best + k_ - 1, best + size);
      size = std::min(size, k_);
    }
    Item* const other = best + Chooser<Key>::Capacity(k_);
    Give<Element>(SortItems<Key>(best, other, k_, false, extent_), x, y, places);
  }

  template <class Element>
  void GiveBest(Chooser<KeyOf<Element>>* chooser, typename ItemOf<KeyOf<Element>>::Item* best,
                const typename Element::Storage* x, typename Element::Storage* y,
                int64_t* places) const {
    using Key = KeyOf<Element>;
    chooser->Finish();
    auto* const other = best + Chooser<Key>::Capacity(k_);
    Give<Element>(SortItems<Key>(best, other, k_, false, extent_), x, y, places);
  }
  template <class Element>
  void Give(const typename ItemOf<KeyOf<Element>>::Item* best, const typename Element::Storage* x,
            typename Element::Storage* y, int64_t* places) const {
    for (int64_t j = 0; j < k_; ++j) {
      const int64_t at = ItemOf<KeyOf<Element>>::PlaceOf(best[j]);
      y[j * inner_] = x[at * inner_];
      places[j * inner_] = at;
    }
  }

  DType dtype_;
  int64_t extent_, k_, before_ = 1, inner_ = 1, columns_ = 1;
  bool largest_, many_ = false, cut_ = false;
  int threads_;
  int64_t keys_bytes_ = 0, thread_bytes_ = 0, room_items_ = 0;
};

std::unique_ptr<LibraryCall> PrepareTopK(const ComputeRequest& q) {
  const std::vector<int64_t>& x = q.input_dims[0];
  const int64_t rank = int64_t(x.size());
  int64_t axis = IntAttr(q.node, "axis", -1);
  axis += axis < 0 ? rank : 0;
  if (!IsComputable(q.input_types[0]) || axis < 0 || axis >= rank) return nullptr;
  // Places have 32 bits.
  if (x[size_t(axis)] > int64_t{UINT32_MAX} || q.output_dims[0][size_t(axis)] > x[size_t(axis)])
    return nullptr;
  return std::make_unique<TopKCall>(q, size_t(axis));
}

WEFT_REGISTER_OP(TopK).set_attr<FCompute>("FCompute.cpu", PrepareTopK);

}  // namespace
}  // namespace weft::cpu
