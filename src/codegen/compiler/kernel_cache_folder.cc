/// kernel_cache_folder.cc: what lies in the cache's folder: listed, examined, pruned, cleared.
/// Other processes use the folder at the same time: a file that is gone when it is looked at counts
/// as removed by them.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "kernel_cache_file.h"
#include "weft/codegen/compiler/kernel_cache.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/log.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr int64_t kDefaultBytes = int64_t{1} << 30;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTemporaryLives = 3600 * kSecond;  // no write takes as long

int64_t Nanoseconds(const timespec& t) { return int64_t{t.tv_sec} * kSecond + t.tv_nsec; }
int64_t Now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return Nanoseconds(t);
}

/// "<32 hex digits>.wk", or that with ".tmp." and more behind it.
bool IsOurs(std::string_view name, bool* temporary) {
  constexpr size_t kHex = 32;
  if (name.size() < kHex + 3 || name.substr(kHex, 3) != ".wk") return false;
  for (const char c : name.substr(0, kHex))
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  const std::string_view rest = name.substr(kHex + 3);
  *temporary = StartsWith(rest, ".tmp.");
  return rest.empty() || *temporary;
}

void Examine(const std::string& directory, CacheEntry* e) {
  try {
    const std::string content = ReadFile(JoinPath(directory, e->file), kCacheEntryMaxBytes);
    e->damage = KernelEntryDamage(content, e->file);
    std::string why;
    if (const auto entry = UnpackCacheEntry(content, &why))
      for (const std::string& line : Split(entry->key, '\n')) {
        if (StartsWith(line, "target ")) e->target = line.substr(7);
        if (!e->target.empty()) break;
      }
  } catch (const Error& error) {
    e->damage = error.message();
  }
}

/// True when it has gone, by us or by another process.
bool RemoveEntry(const std::string& directory, const CacheEntry& e) {
  const std::string path = JoinPath(directory, e.file);
  if (unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return true;
  WEFT_THROW(kIo, "cannot remove '{}': {}", path, std::strerror(errno));
}

}  // namespace

std::string KernelEntryDamage(std::string_view content, const std::string& file) {
  std::string why;
  const auto entry = UnpackCacheEntry(content, &why);
  if (!entry) return why;
  return CacheEntryName(entry->key) == file ? "" : "it holds another kernel than its name says";
}

std::vector<CacheEntry> ListKernelCache(const std::string& directory, bool examine) {
  std::vector<CacheEntry> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
  if (!dir) {
    if (errno == ENOENT) return out;
    WEFT_THROW(kIo, "cannot read the folder '{}': {}", directory, std::strerror(errno));
  }
  while (const dirent* d = readdir(dir.get())) {
    CacheEntry e;
    if (!IsOurs(d->d_name, &e.temporary)) continue;
    struct stat s {};
    if (fstatat(dirfd(dir.get()), d->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) continue;  // just gone
    if (S_ISDIR(s.st_mode)) continue;
    e.file = d->d_name;
    e.bytes = s.st_size;
    e.used_ns = std::max(Nanoseconds(s.st_atim), Nanoseconds(s.st_mtim));
    out.push_back(std::move(e));
  }
  std::sort(out.begin(), out.end(),
            [](const CacheEntry& a, const CacheEntry& b) { return a.file < b.file; });
  if (examine)
    for (CacheEntry& e : out)
      if (!e.temporary) Examine(directory, &e);
  return out;
}

CacheChange PruneKernelCache(const std::string& directory, int64_t max_bytes, double older_than_s) {
  std::vector<CacheEntry> all = ListKernelCache(directory, false);
  std::stable_sort(all.begin(), all.end(),
                   [](const CacheEntry& a, const CacheEntry& b) { return a.used_ns < b.used_ns; });
  CacheChange change;
  for (const CacheEntry& e : all) ++change.kept, change.kept_bytes += e.bytes;
  const int64_t now = Now();
  for (const CacheEntry& e : all) {
    const int64_t age = now - e.used_ns;
    const bool old = older_than_s >= 0 && double(age) > older_than_s * double(kSecond);
    const bool too_much = max_bytes >= 0 && change.kept_bytes > max_bytes;
    if (!(e.temporary ? age > kTemporaryLives : old || too_much)) continue;
    RemoveEntry(directory, e);
    ++change.removed, change.removed_bytes += e.bytes;
    --change.kept, change.kept_bytes -= e.bytes;
  }
  return change;
}

void KeepKernelCacheBelow(const std::string& directory, int64_t bound) {
  int64_t bytes = 0;
  for (const CacheEntry& e : ListKernelCache(directory, false)) bytes += e.bytes;
  if (bytes > bound) PruneKernelCache(directory, bound - bound / 10);
}

CacheChange ClearKernelCache(const std::string& directory) {
  CacheChange change;
  for (const CacheEntry& e : ListKernelCache(directory, false)) {
    RemoveEntry(directory, e);
    ++change.removed, change.removed_bytes += e.bytes;
  }
  return change;
}

int64_t ParseByteCount(std::string_view text, std::string_view what) {
  static constexpr std::string_view kUnits = "KMGT";
  std::string_view digits = Trim(text);
  int shift = 0;
  if (!digits.empty() && kUnits.find(digits.back()) != std::string_view::npos) {
    shift = 10 * int(kUnits.find(digits.back()) + 1);
    digits.remove_suffix(1);
  }
  const auto v = TryParseInt64(digits);
  WEFT_CHECK(v && *v >= 0 && *v <= (INT64_MAX >> shift), kUsage,
             "{}: expected a number >= 0 with an optional K, M, G or T, got '{}'", what, text);
  return *v << shift;
}

int64_t KernelCacheBound() {
  const char* text = std::getenv("WEFT_CACHE_BYTES");
  if (!text || !*text) return kDefaultBytes;
  try {
    return ParseByteCount(text, "WEFT_CACHE_BYTES");
  } catch (const Error& e) {
    WEFT_LOG(kWarning, "{}; 1G is used", e.message());
    return kDefaultBytes;
  }
}

}  // namespace weft
