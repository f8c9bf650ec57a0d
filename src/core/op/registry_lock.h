/// registry_lock.h: the one lock of all registries. Readers share it; a transaction
/// (staging.h) holds it alone.
#pragma once

#include <shared_mutex>

namespace weft {
std::shared_mutex& RegistryMutex();
/// This thread holds it alone already.
bool InRegistryTransaction();
}  // namespace weft
