/// guarded_memory.cc: pages between guards.
#include "guarded_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "weft/support/check.h"

namespace weft::cuda {
namespace {

/// Bytes of a large region that are checked on each side of its buffer.
constexpr size_t kChecked = 4096;

size_t PageBytes() { return size_t(sysconf(_SC_PAGESIZE)); }

std::vector<const GuardedMemory*>& All() {
  static auto* all = new std::vector<const GuardedMemory*>;
  return *all;
}

}  // namespace

GuardedMemory::~GuardedMemory() {
  All().erase(std::remove(All().begin(), All().end(), this), All().end());
  for (const Region& r : regions_) munmap(r.data - PageBytes(), r.bytes + 2 * PageBytes());
}

void* GuardedMemory::Get(size_t bytes, size_t element, Place place) {
  const size_t page = PageBytes();
  size_t size = page;
  while (size < bytes + 32) size *= 2;
  size_t at = 0;
  while (at < regions_.size() && (regions_[at].buffer != nullptr || regions_[at].bytes != size))
    ++at;
  if (at == regions_.size()) {
    void* all = mmap(nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WEFT_CHECK(all != MAP_FAILED, kOutOfMemory, "{} bytes for a guarded buffer", size);
    Region r;
    r.data = static_cast<unsigned char*>(all) + page;
    r.bytes = size;
    WEFT_CHECK(mprotect(r.data, size, PROT_READ | PROT_WRITE) == 0, kOutOfMemory,
               "{} bytes for a guarded buffer", size);
    if (regions_.empty()) All().push_back(this);
    regions_.push_back(r);
  }
  Region& r = regions_[at];
  r.used = bytes;
  r.buffer = r.data;
  if (place != Place::kFront) {
    const auto end = reinterpret_cast<uintptr_t>(r.data + r.bytes);
    uintptr_t base = (end - bytes) / 16 * 16;
    if (place == Place::kMisaligned) {
      // As close to the end as may be; where that is on 16 bytes, one element before.
      base = (end - bytes) / element * element;
      if (base % 16 == 0) base -= element;
    }
    r.buffer = reinterpret_cast<unsigned char*>(base);
  }
  const auto front = size_t(r.buffer - r.data);
  const size_t begin = front > kChecked ? front - kChecked : 0,
               last = std::min(r.bytes, front + bytes + kChecked);
  std::memset(r.data + begin, kPattern, last - begin);
  order_.push_back(at);
  return r.buffer;
}

std::string GuardedMemory::Damage() const {
  for (size_t i = 0; i < order_.size(); ++i) {
    const Region& r = regions_[order_[i]];
    const auto front = size_t(r.buffer - r.data);
    const size_t begin = front > kChecked ? front - kChecked : 0,
                 last = std::min(r.bytes, front + r.used + kChecked);
    for (size_t k = begin; k < last; ++k) {
      if (k == front) k += r.used;
      if (k < last && r.data[k] != kPattern)
        return fmt::format("buffer {} of {} bytes: byte {} was written", i, r.used,
                           int64_t(k) - int64_t(front));
    }
  }
  return {};
}

void GuardedMemory::Release() {
  for (Region& r : regions_) r.buffer = nullptr;
  order_.clear();
}

std::string GuardedMemory::Describe(const void* address) {
  const auto* p = static_cast<const unsigned char*>(address);
  const auto page = int64_t(PageBytes());
  for (const GuardedMemory* m : All()) {
    for (size_t i = 0; i < m->order_.size(); ++i) {
      const Region& r = m->regions_[m->order_[i]];
      if (p < r.data - page || p >= r.data + r.bytes + page) continue;
      return fmt::format("byte {} of buffer {}, which has {}", p - r.buffer, i, r.used);
    }
  }
  return "no buffer is near";
}

}  // namespace weft::cuda
