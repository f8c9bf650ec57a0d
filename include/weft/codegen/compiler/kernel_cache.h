/// kernel_cache.h: the folder of compiled kernels, as those see it who look after it
/// (`weft cache`). Kernels are put in and found through KernelCache (kernel_compilers.h).
///
/// Size. The folder is kept below $WEFT_CACHE_BYTES (K, M, G, T as in limits; 1G by default): about
/// one store in 64 looks, and also the first after a process has stored a sixteenth of that; then
/// the entries that have been unused for longest go until nine tenths are left. It may be larger in
/// between. Use is the later of a file's times of access and change; a hit sets the former.
/// Only files that are named like entries, or like what a process leaves that was ended while it
/// wrote one, are ever looked at or removed; whatever else lies in the folder stays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

struct CacheEntry {
  std::string file;    ///< its name in the folder
  std::string target;  ///< that it was compiled for; empty unless examined
  int64_t bytes = 0;
  int64_t used_ns = 0;     ///< last use, since 1970
  bool temporary = false;  ///< the rest of a write that did not end
  std::string damage;      ///< why it would not be used; empty: nothing, or not examined
};
/// Entries by name; a folder that does not exist has none. `examine`: reads each one and checks
/// every byte. Throws kIo where the folder cannot be read.
WEFT_API std::vector<CacheEntry> ListKernelCache(const std::string& directory, bool examine);

struct CacheChange {
  int64_t removed = 0, removed_bytes = 0, kept = 0, kept_bytes = 0;
};
/// Removes entries unused for `older_than_s` (negative: none), then the longest unused while the
/// rest exceeds `max_bytes` (negative: no bound), and temporaries of an hour ago. An entry that
/// another process removes meanwhile is no error. Throws kIo where a file cannot be removed.
WEFT_API CacheChange PruneKernelCache(const std::string& directory, int64_t max_bytes,
                                      double older_than_s = -1);
/// Removes every entry and temporary.
WEFT_API CacheChange ClearKernelCache(const std::string& directory);

/// What is wrong with the content of an entry called `file`; empty where nothing is.
WEFT_API std::string KernelEntryDamage(std::string_view content, const std::string& file);

/// "64M": a number with an optional K, M, G or T. Throws kUsage naming `what`.
WEFT_API int64_t ParseByteCount(std::string_view text, std::string_view what);
/// $WEFT_CACHE_BYTES or its default; a value that cannot be read counts as the
/// default, with a warning.
WEFT_API int64_t KernelCacheBound();

}  // namespace weft
