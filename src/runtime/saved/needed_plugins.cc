/// needed_plugins.cc: see needed_plugins.h. What a plugin's code registers counts, not its name: it
/// may be linked into a program.
#include "needed_plugins.h"

#include <algorithm>
#include <vector>

#include "weft/core/graph/graph_attr.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/delegate.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/target.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr const char *kOp = "op", *kGraphAttr = "graph attribute", *kBackend = "backend",
                     *kDelegate = "delegate";

bool IsRegistered(const std::string& kind, const std::string& name) {
  if (kind == kOp) return Op::Find(name) != nullptr;
  if (kind == kGraphAttr) return FindAttrType(name) != nullptr;
  if (kind == kBackend) return FindBackendModule(name) != nullptr;
  const std::vector<std::string> delegates = ListDelegates();
  return kind != kDelegate || std::count(delegates.begin(), delegates.end(), name) > 0;
}

}  // namespace

NeededPlugins::NeededPlugins() {
  for (const PluginInfo& p : LoadedPlugins()) {
    versions_[p.name] = p.version;
    for (const RegisteredItem& item : p.items) owners_[{item.kind, item.name}] = p.name;
  }
}

void NeededPlugins::Add(const std::string& kind, const std::string& name) {
  const auto it = owners_.find({kind, name});
  if (it != owners_.end()) needed_[it->second].insert({kind, name});
}

void NeededPlugins::AddBackend(const std::string& name) {
  const auto [backend, delegates] = SplitDelegates(name);
  Add(kBackend, SplitTarget(backend).first);
  for (const std::string& d : Split(delegates, '+')) Add(kDelegate, d.substr(0, d.find(':')));
}

void NeededPlugins::AddGraph(const Graph& graph) {
  if (owners_.empty()) return;
  for (const auto& [attr, value] : graph.attrs) Add(kGraphAttr, attr);
  for (const NodePtr& n : graph.TopoOrder()) {
    if (!n->is_variable()) Add(kOp, n->op()->name);
    for (const std::string& name : BodyNames(n)) AddGraph(*n->attr<GraphPtr>(name));
  }
}

std::string NeededPlugins::ToText() const {
  std::string out;
  for (const auto& [plugin, items] : needed_) {
    out += plugin + "\t" + versions_.at(plugin);
    for (const auto& [kind, name] : items) out += "\t" + kind + "\t" + name;
    out += "\n";
  }
  return out;
}

void CheckPlugins(std::string_view text) {
  std::string missing, first;
  for (const std::string& line : Split(std::string(text), '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> words = Split(line, '\t');
    WEFT_CHECK(words.size() >= 4 && words.size() % 2 == 0, kInvalidModel,
               "the file is damaged: its list of plugins");
    for (size_t i = 2; i < words.size(); i += 2) {
      if (IsRegistered(words[i], words[i + 1])) continue;
      missing += fmt::format("{}plugin '{}' {} ({} '{}')", missing.empty() ? "" : ", ", words[0],
                             words[1], words[i], words[i + 1]);
      if (first.empty()) first = words[0];
      break;
    }
  }
  if (!missing.empty())
    ThrowError(ErrorCode::kPlugin, "the program needs " + missing, "",
               fmt::format("load it first: --plugin, with the path of '{}'", first));
}

}  // namespace weft
