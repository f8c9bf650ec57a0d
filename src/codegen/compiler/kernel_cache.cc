/// kernel_cache.cc: compiled kernels by canonical content, in memory and on disk.
#include "weft/codegen/compiler/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "kernel_cache_file.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/hash.h"
#include "weft/support/log.h"

namespace weft {
namespace {

constexpr uint64_t kStoresPerLook = 64;
constexpr uint32_t kGeneratorVersion = 5;

std::string KeyText(const Kernel& kernel, const std::string& target) {
  return fmt::format("generator {}\ntarget {}\n{}", kGeneratorVersion, target,
                     kernel.CanonicalText());
}

/// Of a binary that several kernels share.
std::string BinaryHash(const std::string& binary) {
  return HashBytes(binary.data(), binary.size()).ToHex();
}
std::string BinaryKey(const std::string& hash, const std::string& target) {
  return fmt::format("generator {}\ntarget {}\nbinary {}\n", kGeneratorVersion, target, hash);
}

/// May this user's process put code there and run what it finds? The folder itself, and a
/// link to it, must be theirs, and no other user may write to it. Folders that do not exist yet
/// are made that way.
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
  std::unordered_map<std::string, std::string> texts;         // the same
  // Who has a shared binary in memory, by its key; looked up only.
  std::unordered_map<std::string, std::weak_ptr<const CompiledKernel>> shared;
  TextCounts counts;
  int64_t kernels_asked = 0;
  std::string directory, why;
  int64_t bound = KernelCacheBound(),
          stored = 0;  // bytes since this process last looked at the folder
  std::string PathOf(const std::string& key) const {
    return JoinPath(directory, CacheEntryName(key));
  }
  /// Is it the turn of this store to look at the folder's size? Sampled by the entry's own hash, so
  /// that many short processes look as often as one long one.
  bool TurnToPrune(const std::string& key, int64_t bytes) {
    std::lock_guard lock(mutex);
    stored += bytes;
    const bool turn =
        HashBytes(key.data(), key.size()).lo % kStoresPerLook == 0 || stored > bound / 16;
    if (turn) stored = 0;
    return turn;
  }
  struct Payload {
    std::string bytes;
    bool is_reference = false;
  };
  /// The payload of an entry on disk; nothing where there is none that is whole.
  std::optional<Payload> Read(const std::string& key) const {
    if (directory.empty()) return std::nullopt;
    const std::string path = PathOf(key);
    if (!FileExists(path)) return std::nullopt;
    try {
      const std::string file = ReadFile(path, kCacheEntryMaxBytes);
      std::string bad;
      const std::optional<UnpackedEntry> entry = UnpackCacheEntry(file, &bad);
      if (!entry || entry->key != key) {
        WEFT_LOG(kWarning, "kernel cache: {} is damaged and will be replaced: {}", path,
                 entry ? "it holds another kernel" : bad);
        return std::nullopt;
      }
      const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
      utimensat(AT_FDCWD, path.c_str(), now,
                0);  // for the least recently used; may well be forbidden
      return Payload{std::string(entry->payload), entry->is_reference};
    } catch (const std::exception& e) {
      if (FileExists(path)) WEFT_LOG(kWarning, "kernel cache: {}", e.what());
      return std::nullopt;
    }
  }
  void Write(const std::string& key, const std::string& payload, bool is_reference = false) {
    if (directory.empty()) return;
    try {
      MakeDirectories(directory, /*is_private=*/true);
      const std::string entry = PackCacheEntry(key, payload, is_reference);
      WriteFileAtomic(PathOf(key), entry);
      if (TurnToPrune(key, int64_t(entry.size()))) KeepKernelCacheBelow(directory, bound);
    } catch (const std::exception& e) {
      WEFT_LOG(kInfo, "kernel cache: {}", e.what());
    }
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
  impl_->shared.clear();
  impl_->texts.clear();
}

CompiledKernelPtr KernelCache::Find(const Kernel& kernel, const std::string& target) {
  const std::string key = KeyText(kernel, target);
  {
    std::lock_guard lock(impl_->mutex);
    ++impl_->kernels_asked;
    if (auto it = impl_->memory.find(key); it != impl_->memory.end()) return it->second;
  }
  std::optional<Impl::Payload> entry = impl_->Read(key);
  if (!entry) return nullptr;
  auto found = std::make_shared<CompiledKernel>();
  found->target = target;
  found->from_cache = true;
  std::string shared;
  if (!entry->is_reference) {
    found->binary = std::move(entry->bytes);
  } else {
    shared = BinaryKey(entry->bytes, target);
    std::shared_ptr<const CompiledKernel> other;
    {
      std::lock_guard lock(impl_->mutex);
      if (const auto it = impl_->shared.find(shared); it != impl_->shared.end())
        other = it->second.lock();
    }
    if (other) {
      found->binary = other->binary;
    } else {
      std::optional<Impl::Payload> binary = impl_->Read(shared);
      if (!binary || binary->is_reference || BinaryHash(binary->bytes) != entry->bytes)
        return nullptr;
      found->binary = std::move(binary->bytes);
    }
  }
  std::lock_guard lock(impl_->mutex);
  if (!shared.empty()) impl_->shared[shared] = found;
  return impl_->memory.emplace(key, found).first->second;
}

void KernelCache::Store(const Kernel& kernel, CompiledKernelPtr compiled) {
  if (compiled->binary.empty()) return;
  const std::string key = KeyText(kernel, compiled->target);
  {
    std::lock_guard lock(impl_->mutex);
    impl_->memory[key] = compiled;
  }
  impl_->Write(key, compiled->binary);
}

void KernelCache::Store(const std::vector<KernelPtr>& kernels, const CompiledKernels& compiled) {
  WEFT_ICHECK(kernels.size() == compiled.size(), "{} binaries of {} kernels", compiled.size(),
              kernels.size());
  std::unordered_map<std::string_view, std::vector<size_t>> users;  // of a binary; looked up only
  for (size_t i = 0; i < kernels.size(); ++i) users[compiled[i]->binary].push_back(i);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::vector<size_t>& together = users[compiled[i]->binary];
    if (together.size() == 1) {
      Store(*kernels[i], compiled[i]);
      continue;
    }
    if (together[0] != i || compiled[i]->binary.empty()) continue;
    const std::string hash = BinaryHash(compiled[i]->binary),
                      shared = BinaryKey(hash, compiled[i]->target);
    {
      std::lock_guard lock(impl_->mutex);
      impl_->shared[shared] = compiled[i];
    }
    // Before those that name it.
    impl_->Write(shared, compiled[i]->binary);
    for (size_t k : together) {
      const std::string key = KeyText(*kernels[k], compiled[k]->target);
      {
        std::lock_guard lock(impl_->mutex);
        impl_->memory[key] = compiled[k];
      }
      impl_->Write(key, hash, /*is_reference=*/true);
    }
  }
}

std::optional<std::string> KernelCache::FindText(const std::string& key) {
  {
    std::lock_guard lock(impl_->mutex);
    if (auto it = impl_->texts.find(key); it != impl_->texts.end()) {
      ++impl_->counts.found;
      return it->second;
    }
  }
  std::optional<Impl::Payload> text = impl_->Read(key);
  if (!text) return std::nullopt;
  std::lock_guard lock(impl_->mutex);
  ++impl_->counts.found;
  return impl_->texts.emplace(key, std::move(text->bytes)).first->second;
}

void KernelCache::StoreText(const std::string& key, const std::string& text) {
  {
    std::lock_guard lock(impl_->mutex);
    ++impl_->counts.stored;
    impl_->texts[key] = text;
  }
  impl_->Write(key, text);
}

KernelCache::TextCounts KernelCache::text_counts() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

int64_t KernelCache::kernels_asked() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->kernels_asked;
}

}  // namespace weft
