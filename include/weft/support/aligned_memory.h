/// aligned_memory.h: blocks of memory for what programs read and write again and again.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/support/api.h"

namespace weft {

/// At least `bytes`, on a cache line, not cleared. A large block is in large pages where the system
/// gives them to who asks for them: a core reads 32 MiB of those 1.6 times as fast. Null: there is
/// no memory.
WEFT_API std::shared_ptr<void> AllocateAligned(int64_t bytes);

/// Gives the system back what the process has freed, where the allocator keeps it and can: some
/// milliseconds.
WEFT_API void ReturnFreeMemory();

}  // namespace weft
