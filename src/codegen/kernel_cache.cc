/// kernel_cache.cc: compiled kernels by canonical content, in memory and on disk.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "weft/codegen/kernel_compilers.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/hash.h"
#include "weft/support/log.h"

namespace weft {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'K', 'R', 'N', '1'};
/// Raised when a printer changes what it generates for an unchanged kernel.
constexpr uint32_t kGeneratorVersion = 1;

std::string KeyText(const Kernel& kernel, const std::string& target) {
  return fmt::format("generator {}\ntarget {}\n{}", kGeneratorVersion, target,
                     kernel.CanonicalText());
}

void PutU64(std::string* out, uint64_t v) {
  out->append(reinterpret_cast<const char*>(&v), sizeof v);
}
bool TakeU64(std::string_view* in, uint64_t* v) {
  if (in->size() < sizeof *v) return false;
  std::memcpy(v, in->data(), sizeof *v);
  in->remove_prefix(sizeof *v);
  return true;
}

/// magic | key length | key | payload length | payload | hash of all before.
std::string Pack(const std::string& key, const std::string& payload) {
  std::string out(kMagic, sizeof kMagic);
  PutU64(&out, key.size());
  out += key;
  PutU64(&out, payload.size());
  out += payload;
  const Hash128 h = HashBytes(out.data(), out.size());
  PutU64(&out, h.hi);
  PutU64(&out, h.lo);
  return out;
}
/// The payload, when every byte of the file is as written for this key.
std::optional<std::string> Unpack(const std::string& file, const std::string& key) {
  std::string_view in(file);
  if (in.size() < sizeof kMagic + 4 * sizeof(uint64_t) ||
      std::memcmp(in.data(), kMagic, sizeof kMagic) != 0)
    return std::nullopt;
  const Hash128 h = HashBytes(in.data(), in.size() - 2 * sizeof(uint64_t));
  std::string_view tail = in.substr(in.size() - 2 * sizeof(uint64_t));
  uint64_t hi = 0, lo = 0, n = 0;
  TakeU64(&tail, &hi);
  TakeU64(&tail, &lo);
  if (h.hi != hi || h.lo != lo) return std::nullopt;
  in.remove_prefix(sizeof kMagic);
  if (!TakeU64(&in, &n) || n != key.size() || in.size() < n || in.substr(0, n) != key)
    return std::nullopt;
  in.remove_prefix(n);
  if (!TakeU64(&in, &n) || in.size() != n + 2 * sizeof(uint64_t)) return std::nullopt;
  return std::string(in.substr(0, n));
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
  const std::string dir = JoinPath(JoinPath(base, "weft"), "kernels");
  struct stat s;
  if (lstat(dir.c_str(), &s) == 0 &&
      (!S_ISDIR(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & (S_IWGRP | S_IWOTH))))
    return *why =
               fmt::format("{} is not a directory of this user that only they can write to", dir),
           "";
  return dir;
}

}  // namespace

struct KernelCache::Impl {
  mutable std::mutex mutex;
  std::unordered_map<std::string, CompiledKernelPtr> memory;  // looked up only
  std::string directory, why;
  std::string PathOf(const std::string& key) const {
    return JoinPath(directory, HashBytes(key.data(), key.size()).ToHex() + ".wk");
  }
};

KernelCache::KernelCache() : impl_(new Impl) { impl_->directory = ChooseDirectory(&impl_->why); }
KernelCache::~KernelCache() = default;
KernelCache& KernelCache::Process() {
  static KernelCache* cache = new KernelCache;
  return *cache;
}
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
    std::optional<std::string> payload = Unpack(ReadFile(path, int64_t{256} << 20), key);
    if (!payload) {
      WEFT_LOG(kWarning, "kernel cache: {} is damaged or of another version; it will be replaced",
               path);
      return nullptr;
    }
    auto found = std::make_shared<CompiledKernel>();
    found->target = target;
    found->binary = std::move(*payload);
    found->from_cache = true;
    std::lock_guard lock(impl_->mutex);
    return impl_->memory.emplace(key, found).first->second;
  } catch (const std::exception& e) {
    WEFT_LOG(kWarning, "kernel cache: {}", e.what());
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
    WriteFileAtomic(impl_->PathOf(key), Pack(key, compiled->binary));
  } catch (const std::exception& e) {
    WEFT_LOG(kInfo, "kernel cache: {}", e.what());
  }
}

}  // namespace weft
