/// guarded_memory.h: buffers whose neighbours cannot be touched unseen; for tests only.
///
/// Each lies in pages of its own between two that no access may touch, as close to one of them as
/// its alignment allows; the bytes around it hold a pattern that is checked afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::cuda {

class GuardedMemory {
 public:
  enum class Place {
    kFront,       ///< aligned as by an allocator, directly behind the lower guard
    kBack,        ///< on 16 bytes, before the upper guard
    kMisaligned,  ///< on one element and not on 16 bytes, before the upper guard
  };
  static constexpr unsigned char kPattern = 0xab;

  GuardedMemory() = default;
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  /// A new buffer, filled with the pattern. `element`: bytes of one, at most 16.
  void* Get(size_t bytes, size_t element, Place place);
  /// Which bytes around the buffers were written; empty when none. Numbers buffers in
  /// the order of Get.
  std::string Damage() const;
  /// Takes all buffers back; pages are used again.
  void Release();

  /// "4 bytes behind buffer 2": the buffer of any GuardedMemory that is nearest to `address`,
  /// for reports of faults.
  static std::string Describe(const void* address);

 private:
  struct Region {
    unsigned char* data = nullptr;  ///< between the guards
    size_t bytes = 0;
    unsigned char* buffer = nullptr;  ///< null: free
    size_t used = 0;
  };
  std::vector<Region> regions_;
  std::vector<size_t> order_;  ///< regions in the order of Get
};

}  // namespace weft::cuda
