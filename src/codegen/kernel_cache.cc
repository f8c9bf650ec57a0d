/// kernel_cache.cc: compiled kernels by canonical content, in memory and on disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "kernel_cache_file.h"
#include "weft/codegen/kernel_cache.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/hash.h"
#include "weft/support/log.h"

namespace weft {
namespace {

constexpr uint64_t kStoresPerLook = 64;
constexpr uint32_t kGeneratorVersion = 2;

std::string KeyText(const Kernel& kernel, const std::string& target) {
  return fmt::format("generator {}\ntarget {}\n{}", kGeneratorVersion, target,
                     kernel.CanonicalText());
}

/// May this user's process put code there and run what it finds? The folder itself, and a link to it, must be theirs,
/// and nobody else may write to it. Folders that do not exist yet are made that way.
bool IsPrivate(const std::string& folder) {
  struct stat s {};
  if (lstat(folder.c_str(), &s) != 0) return true;
  if (S_ISLNK(s.st_mode) && (s.st_uid != geteuid() || stat(folder.c_str(), &s) != 0)) return false;
  return S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The directory to use, and why there is none.
std::string ChooseDirectory(std::string* why) {
  if (const char* off = std::getenv("WEFT_CACHE"); off && std::string_view(off) == "off")
    return *why = "WEFT_CACHE=off", "";
  if (const char* dir = std::getenv("WEFT_CACHE_DIR"); dir && *dir)
    return JoinPath(dir, "kernels");  // the user's word is taken as it is
  std::string base;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg)
    base = xdg;
  else if (const char* home = std::getenv("HOME"); home && *home)
    base = JoinPath(home, ".cache");
  if (base.empty()) return *why = "neither HOME nor XDG_CACHE_HOME is set", "";
  const std::string ours = JoinPath(base, "weft"), dir = JoinPath(ours, "kernels");
  for (const std::string& folder : {ours, dir})
    if (!IsPrivate(folder))
      return *why = fmt::format("{} is not a directory of this user that only they can write to",
                                folder),
             "";
  return dir;
}

}  // namespace

struct KernelCache::Impl {
  mutable std::mutex mutex;
  std::unordered_map<std::string, CompiledKernelPtr> memory;  // looked up only
  std::string directory, why;
  int64_t bound = KernelCacheBound(),
          stored = 0;  // bytes since this process last looked at the folder
  std::string PathOf(const std::string& key) const {
    return JoinPath(directory, CacheEntryName(key));
  }
  /// Is it the turn of this store to look at the folder's size? Sampled by the entry's own hash, so that many short
  /// processes look as often as one long one.
  bool TurnToPrune(const std::string& key, int64_t bytes) {
    std::lock_guard lock(mutex);
    stored += bytes;
    const bool turn =
        HashBytes(key.data(), key.size()).lo % kStoresPerLook == 0 || stored > bound / 16;
    if (turn) stored = 0;
    return turn;
  }
};

KernelCache::KernelCache() : impl_(new Impl) { impl_->directory = ChooseDirectory(&impl_->why); }
KernelCache::~KernelCache() = default;
KernelCache& KernelCache::Process() {
  static KernelCache* cache = new KernelCache;
  return *cache;
}
uint32_t KernelCache::GeneratorVersion() { return kGeneratorVersion; }
std::string KernelCache::directory() const { return impl_->directory; }
std::string KernelCache::why_off() const { return impl_->why; }
void KernelCache::ClearMemory() {
  std::lock_guard lock(impl_->mutex);
  impl_->memory.clear();
}

CompiledKernelPtr KernelCache::Find(const Kernel& kernel, const std::string& target) {
  const std::string key = KeyText(kernel, target);
  {
    std::lock_guard lock(impl_->mutex);
    if (auto it = impl_->memory.find(key); it != impl_->memory.end()) return it->second;
  }
  if (impl_->directory.empty()) return nullptr;
  const std::string path = impl_->PathOf(key);
  if (!FileExists(path)) return nullptr;
  try {
    const std::string file = ReadFile(path, kCacheEntryMaxBytes);
    std::string why;
    const std::optional<UnpackedEntry> entry = UnpackCacheEntry(file, &why);
    if (!entry || entry->key != key) {
      WEFT_LOG(kWarning, "kernel cache: {} is damaged and will be replaced: {}", path,
               entry ? "it holds another kernel" : why);
      return nullptr;
    }
    const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    utimensat(AT_FDCWD, path.c_str(), now,
              0);  // for the least recently used; may well be forbidden
    auto found = std::make_shared<CompiledKernel>();
    found->target = target;
    found->binary = std::string(entry->payload);
    found->from_cache = true;
    std::lock_guard lock(impl_->mutex);
    return impl_->memory.emplace(key, found).first->second;
  } catch (const std::exception& e) {
    if (FileExists(path)) WEFT_LOG(kWarning, "kernel cache: {}", e.what());
    return nullptr;
  }
}

void KernelCache::Store(const Kernel& kernel, CompiledKernelPtr compiled) {
  if (compiled->binary.empty()) return;
  const std::string key = KeyText(kernel, compiled->target);
  {
    std::lock_guard lock(impl_->mutex);
    impl_->memory[key] = compiled;
  }
  if (impl_->directory.empty()) return;
  try {
    MakeDirectories(impl_->directory, /*is_private=*/true);
    const std::string entry = PackCacheEntry(key, compiled->binary);
    WriteFileAtomic(impl_->PathOf(key), entry);
    if (impl_->TurnToPrune(key, int64_t(entry.size())))
      KeepKernelCacheBelow(impl_->directory, impl_->bound);
  } catch (const std::exception& e) {
    WEFT_LOG(kInfo, "kernel cache: {}", e.what());
  }
}

}  // namespace weft
