/// bounded_cache.h: a map with room for so many entries; a new one makes others go when it is full.
///
///   BoundedCache<Key, std::shared_ptr<Plan>> plans{64};
///   return plans.GetOrMake(key, [&] { return MakePlan(key); });
///
/// Keys need `operator<`. A reference to a value, or a pointer from Find, is valid until that entry
/// goes. Nothing is locked: who shares a cache between threads brings a lock.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace weft {

/// What goes when an entry comes for which there is no room.
enum class Evict {
  kOldest,       ///< the one that has been there longest: first in, first out
  kLeastRecent,  ///< the one whose last Find or Put is longest ago
  kAll,          ///< everything: for bounds that are rarely met
};

template <class Key, class Value>
class BoundedCache {
 public:
  /// `bound`: at least 1.
  explicit BoundedCache(size_t bound, Evict evict = Evict::kOldest)
      : bound_(bound), evict_(evict) {}
  BoundedCache(const BoundedCache&) = delete;
  BoundedCache& operator=(const BoundedCache&) = delete;
  /// What was moved from can be cleared and used again.
  BoundedCache(BoundedCache&&) = default;
  BoundedCache& operator=(BoundedCache&&) = default;

  /// Null where there is none.
  Value* Find(const Key& key) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    if (evict_ == Evict::kLeastRecent) order_.splice(order_.end(), order_, it->second.at);
    return &it->second.value;
  }
  /// In place of what is under that key, which does not make that entry younger in the sense of
  /// kOldest; else after what must go has gone.
  Value& Put(Key key, Value value) {
    if (Value* known = Find(key)) return *known = std::move(value);
    if (full()) MakeRoom();
    Order last(1);
    const auto it = entries_.emplace(std::move(key), Entry{std::move(value), last.begin()}).first;
    last.front() = &it->first;
    order_.splice(order_.end(), last);
    return it->second.value;
  }
  /// Where `make()` throws, nothing has changed. It must not use the cache.
  template <class Make>
  Value& GetOrMake(const Key& key, Make&& make) {
    if (Value* known = Find(key)) return *known;
    return Put(key, make());
  }

  size_t size() const { return entries_.size(); }
  /// The next new entry makes another one go.
  bool full() const { return size() >= bound_; }
  void clear() {
    order_.clear();
    entries_.clear();
  }

 private:
  using Order = std::list<const Key*>;
  struct Entry {
    Value value;
    typename Order::iterator at;
  };
  void MakeRoom() {
    if (evict_ == Evict::kAll) return clear();
    entries_.erase(entries_.find(*order_.front()));
    order_.pop_front();
  }

  size_t bound_;
  Evict evict_;
  std::map<Key, Entry> entries_;
  Order order_;  ///< keys of entries_, those that go next first
};

}  // namespace weft
