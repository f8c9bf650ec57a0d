/// registry_lock.h: the one lock of the op and pass tables. Readers share it; registration holds it alone.
#pragma once

#include <shared_mutex>

namespace weft {
std::shared_mutex& RegistryMutex();
}
