/// kernel_compilers.h: the compilers for kernels by target, and the cache of what they made.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/target.h"

namespace weft {

/// The compiler that the target's backend module offers, made once a target. Null, with the reason
/// in `why`, where there is none.
WEFT_API std::shared_ptr<KernelCompiler> FindKernelCompiler(const Target& target, std::string* why);

/// Two levels: this process, and one self-verifying file an entry on disk.
///
/// The directory is $WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else $HOME/.cache/weft;
/// WEFT_CACHE=off turns the disk off. A default directory is made 0700 and not used when it belongs
/// to another user or others may write to it. A file holds magic, versions, the whole key, the
/// payload and a hash of both; whatever does not match is recompiled and replaced. Kernels that
/// were compiled together share one such file. The hash finds damage, not attackers. Nothing that
/// goes wrong here fails a run.
class WEFT_API KernelCache {
 public:
  static KernelCache& Process();
  /// Raised when the code generated for an unchanged kernel changes; part of every key.
  static uint32_t GeneratorVersion();
  /// From memory, then from disk; null when absent.
  CompiledKernelPtr Find(const Kernel& kernel, const std::string& target);
  void Store(const Kernel& kernel, CompiledKernelPtr compiled);
  /// The same for all; a binary that several of them have is stored once.
  void Store(const std::vector<KernelPtr>& kernels, const CompiledKernels& compiled);
  /// Short texts beside the kernels, under the same rules: the choices among library calls that
  /// timing made. The first word of `key` tells whose it is, a line "target T" what
  /// `weft cache ls` shows.
  std::optional<std::string> FindText(const std::string& key);
  void StoreText(const std::string& key, const std::string& text);
  /// Of this object, so far: texts that were asked for and there, and texts that were stored.
  struct TextCounts {
    int64_t found = 0, stored = 0;
  };
  TextCounts text_counts() const;
  /// Of this object, so far: kernels that it was asked for.
  int64_t kernels_asked() const;
  /// Forgets what is in memory (tests, cold-start measurements).
  void ClearMemory();
  /// Directory in use; empty when the disk level is off, and why.
  std::string directory() const;
  std::string why_off() const;

  KernelCache();
  ~KernelCache();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
