/// kernel_cache_file.h: the form of one file of the kernel cache.
///   magic | key length | key | payload length | payload | hash of all before
/// The key is text: "generator N\ntarget T\n" and the kernel's canonical text; the file is named
/// by its hash. Kernels that were compiled together share a binary: it is an entry of its own,
/// whose key ends in "binary <hash of its content>", and the payload of theirs is that hash
/// (their magic says so).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

constexpr int64_t kCacheEntryMaxBytes = int64_t{256} << 20;

std::string PackCacheEntry(const std::string& key, const std::string& payload,
                           bool is_reference = false);
/// Name of the file that holds `key`.
std::string CacheEntryName(std::string_view key);

struct UnpackedEntry {
  std::string_view key, payload;  // into the file's bytes
  bool is_reference = false;      // the payload is the hash of a shared binary
};
/// Nothing, and why, unless every byte is as it was written.
std::optional<UnpackedEntry> UnpackCacheEntry(std::string_view file, std::string* why);

/// Where the folder holds more than `bound` bytes, removes the longest unused until nine tenths
/// of it are left.
void KeepKernelCacheBelow(const std::string& directory, int64_t bound);

}  // namespace weft
