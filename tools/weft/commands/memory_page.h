/// memory_page.h: the memory of a run as a page that stands alone: every block of the arena as a
/// rectangle of offsets over steps, and the bytes alive.
#pragma once

#include <string>

#include "weft/runtime/program/memory.h"

namespace weft::tool {

/// `before`: the same run without the budget, drawn beside; may be null.
std::string MemoryPage(const MemoryReport& report, const MemoryReport* before,
                       const MemoryBudget& budget);

}  // namespace weft::tool
