/// watchdog.h: says which input a process was at when it died, and ends it when one input takes too
/// long.
#pragma once

#include <string>

namespace weft::safety {

/// Installs what is below; once.
void StartWatchdog();
/// What is being tried from now on; the processor time that it may take, in whole seconds.
void Watch(const std::string& what, unsigned cpu_seconds);

}  // namespace weft::safety
