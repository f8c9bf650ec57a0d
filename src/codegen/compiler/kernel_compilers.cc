/// kernel_compilers.cc: the kernel compilers that have been made, by target.
#include "weft/codegen/compiler/kernel_compilers.h"

#include <map>
#include <mutex>

#include "weft/core/module/backend_module.h"
#include "weft/support/check.h"

namespace weft {

std::shared_ptr<KernelCompiler> FindKernelCompiler(const Target& target, std::string* why) {
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::shared_ptr<KernelCompiler>>;
  {
    std::lock_guard lock(mutex);
    if (auto it = made->find(target.name()); it != made->end()) return it->second;
  }
  const std::shared_ptr<const BackendModule> module = FindBackendModule(target.family(), why);
  if (!module) return nullptr;
  if (!module->compiler) {
    if (why) *why = fmt::format("backend module '{}' has no kernel compiler", target.family());
    return nullptr;
  }
  try {
    std::shared_ptr<KernelCompiler> compiler = module->compiler(target);
    std::lock_guard lock(mutex);
    return made->emplace(target.name(), std::move(compiler)).first->second;
  } catch (const Error& e) {
    if (why) *why = e.message();
    return nullptr;
  }
}

}  // namespace weft
