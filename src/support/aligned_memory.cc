/// aligned_memory.cc: see weft/support/aligned_memory.h.
#include "weft/support/aligned_memory.h"

#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdlib>

#include "weft/support/checked.h"

namespace weft {

std::shared_ptr<void> AllocateAligned(int64_t bytes) {
  constexpr int64_t kLine = 64, kLargePage = int64_t{2} << 20;
  const bool large = bytes >= kLargePage;
  const int64_t rounded = CheckedRoundUp(std::max<int64_t>(bytes, 1), kLine);
  void* memory = nullptr;
  if (posix_memalign(&memory, size_t(large ? kLargePage : kLine), size_t(rounded)) != 0)
    return nullptr;
  // Whole pages: what is left stays in small ones. Where there are none, nothing happens.
  if (large) madvise(memory, size_t(bytes / kLargePage * kLargePage), MADV_HUGEPAGE);
  return {memory, [](void* p) { std::free(p); }};
}

void ReturnFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace weft
