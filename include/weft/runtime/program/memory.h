/// memory.h: who holds the memory of a program's runs, before any of them.
#pragma once

#include "weft/runtime/memory/report.h"
#include "weft/runtime/program/program.h"

namespace weft {

/// Of a run of the program at these values of its symbols, in the way that it would take; nothing
/// is run. Throws kBadBinding for a symbol without a value, kUnsupported for a program that plans
/// nothing (the reference), and kOutOfMemory where no way meets the program's budget.
WEFT_API MemoryReport ReportMemory(const Program& program, const SymBindings& bindings);

}  // namespace weft
