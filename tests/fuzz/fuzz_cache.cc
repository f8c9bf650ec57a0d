/// fuzz_cache.cc: the reader of kernel cache files. A file of any content gives nothing, or the
/// payload that was stored under this key, byte for byte. An input that begins with an odd byte
/// gets a valid hash, so that what comes after the hash is tried as well.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "targets.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/codegen/lower/lower.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"
#include "weft/support/hash.h"

namespace weft::fuzz {
namespace {

/// A variable of the environment for as long as this object lives; null: not set.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    Set(value);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { Set(before_ ? before_->c_str() : nullptr); }

 private:
  void Set(const char* value) {
    if (value)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

/// One entry in a cache of its own, which goes with the process.
struct Entry {
  KernelPtr kernel;
  std::string folder, path, content;
  std::string payload = std::string("machine code\0of a kernel", 24);
  std::unique_ptr<KernelCache> cache;

  Entry() {
    folder =
        (std::filesystem::temp_directory_path() / ("weft_fuzz_cache_" + std::to_string(getpid())))
            .string();
    {
      const ScopedVariable on("WEFT_CACHE", nullptr), here("WEFT_CACHE_DIR", folder.c_str());
      cache = std::make_unique<KernelCache>();
    }
    const Graph g = ApplyPasses(
        ParseGraph("weft 1\ngraph (%x: f32[8]) -> (%y) {\n  %a = Relu(%x)\n  %y = Neg(%a)\n}\n"),
        "Fusion,CodeGen");
    const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
    for (NodeId id = 0; id < kernels.id_bound(); ++id)
      if (const LoweredKernel* k = kernels.find(id)) kernel = k->kernel;
    auto compiled = std::make_shared<CompiledKernel>();
    compiled->target = "fuzz";
    compiled->binary = payload;
    cache->Store(*kernel, compiled);
    for (const auto& e : std::filesystem::recursive_directory_iterator(folder))
      if (e.is_regular_file()) path = e.path().string();
    Require(!path.empty(), "a stored kernel is in a file");
    content = ReadFile(path, 1 << 20);
  }
  ~Entry() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

Entry& TheEntry() {
  static Entry entry;
  return entry;
}

}  // namespace

void RunCache(std::string_view input) {
  Entry& e = TheEntry();
  if (input.empty()) return;
  std::string content(input.substr(1));
  if ((input[0] & 1) && content.size() >= 16) {
    content.resize(content.size() - 16);
    const Hash128 h = HashBytes(content.data(), content.size());
    for (uint64_t v : {h.hi, h.lo}) content.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  std::ofstream(e.path, std::ios::binary | std::ios::trunc) << content;
  e.cache->ClearMemory();
  const CompiledKernelPtr found = e.cache->Find(*e.kernel, "fuzz");
  Require(!found || (input[0] & 1) || found->binary == e.payload,
          "a damaged cache file gives nothing or what was stored");
}

std::vector<std::string> CacheSeeds() {
  const std::string& content = TheEntry().content;
  return {std::string(1, '\0') + content, std::string(1, '\1') + content};
}

}  // namespace weft::fuzz
