/// backend.cc: the table of backends.
#include "weft/runtime/backend.h"

#include <map>
#include <mutex>

#include "weft/codegen/kernel_compilers.h"
#include "weft/core/op.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

struct Backends {
  std::mutex mutex;
  std::map<std::string, std::function<std::shared_ptr<Backend>()>> factories;
  std::map<std::string, std::shared_ptr<Backend>> made;
};
Backends& Table() {
  static Backends* b = new Backends;
  return *b;
}

}  // namespace

void RegisterBackend(const std::string& name, std::function<std::shared_ptr<Backend>()> factory) {
  // Called by static initialisers: a conflict is kept for the next look-up, not thrown.
  CommitRegistration([name, factory = std::move(factory)] {
    std::lock_guard lock(Table().mutex);
    WEFT_CHECK(Table().factories.emplace(name, factory).second, kDuplicate,
               "backend '{}' is registered twice", name);
  });
}

std::vector<std::string> ListBackends() {
  std::lock_guard lock(Table().mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : Table().factories) names.push_back(name);
  return names;
}

std::shared_ptr<Backend> GetBackend(const std::string& name) {
  CheckRegistrations();
  Backends& t = Table();
  auto find = [&]() -> std::shared_ptr<Backend> {
    std::lock_guard lock(t.mutex);
    if (auto it = t.made.find(name); it != t.made.end()) return it->second;
    auto it = t.factories.find(name);
    if (it == t.factories.end()) return nullptr;
    return t.made[name] = it->second();
  };
  if (auto b = find()) return b;
  const std::string why = LoadBackendModule(name);
  if (auto b = find()) return b;
  ThrowError(ErrorCode::kUnsupported,
             fmt::format("there is no backend '{}': {}", name,
                         why.empty() ? "its module registers none" : why),
             "", "known backends: " + Join(ListBackends(), ", "));
}

}  // namespace weft
