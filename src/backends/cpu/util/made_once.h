/// made_once.h: what is costly to make and never changes, as packed weights are: one for all who
/// ask while any of them holds it.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace weft::cpu {

template <class Key, class T>
class MadeOnce {
 public:
  /// That of `key`, or what `make` gives, a std::shared_ptr<const T>; others wait meanwhile.
  template <class Make>
  std::shared_ptr<const T> Get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    for (auto it = made_.begin(); it != made_.end();)
      it = it->second.expired() ? made_.erase(it) : std::next(it);
    if (const auto it = made_.find(key); it != made_.end())
      if (auto known = it->second.lock()) return known;
    std::shared_ptr<const T> made = make();
    made_[key] = made;
    return made;
  }
  /// Null: nobody holds one.
  std::shared_ptr<const T> Find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = made_.find(key);
    return it == made_.end() ? nullptr : it->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, std::weak_ptr<const T>> made_;
};

}  // namespace weft::cpu
