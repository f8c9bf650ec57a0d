/// small_vector.h: a vector of trivially copyable elements with room for N of
/// them inside the object.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace weft {

template <class T, uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  SmallVector() {}
  SmallVector(const SmallVector& o) { assign(o.begin(), o.end()); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) assign(o.begin(), o.end());
    return *this;
  }
  ~SmallVector() { release(); }

  T* data() { return on_heap() ? heap_ : reinterpret_cast<T*>(inline_); }
  const T* data() const { return on_heap() ? heap_ : reinterpret_cast<const T*>(inline_); }
  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](uint32_t i) { return data()[i]; }
  const T& operator[](uint32_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(const T& v) {
    const T copy = v;  // v may live in this vector
    if (size_ == capacity_) reserve(capacity_ * 2);
    new (data() + size_++) T(copy);
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(uint32_t n, const T& fill = T()) {
    reserve(n);
    for (uint32_t i = size_; i < n; ++i) new (data() + i) T(fill);
    size_ = n;
  }
  template <class It>
  void assign(It first, It last) {
    size_ = 0;
    for (; first != last; ++first) push_back(*first);
  }
  void reserve(uint32_t n) {
    if (n <= capacity_) return;
    T* grown = static_cast<T*>(::operator new(n * sizeof(T)));
    if (size_ != 0)
      std::memcpy(static_cast<void*>(grown), static_cast<const void*>(data()), size_ * sizeof(T));
    release();
    heap_ = grown;
    capacity_ = n;
  }

 private:
  bool on_heap() const { return capacity_ > N; }
  void release() {
    if (on_heap()) ::operator delete(heap_);
  }
  uint32_t size_ = 0, capacity_ = N;
  union {
    T* heap_;
    alignas(T) unsigned char inline_[N * sizeof(T)];
  };
};

}  // namespace weft
