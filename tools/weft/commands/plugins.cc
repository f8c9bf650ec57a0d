/// plugins.cc: `weft plugins`: the plugins that `--plugin` loaded and what each registered; with
/// --check, whether one would load, found out in a child process.

#include "command_line.h"
#include "common.h"
#include "weft/core/module/plugin.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

struct Args {
  std::vector<std::string> check;
  double seconds = -1;
  bool json = false;
};

/// Items of each kind in the order in which they came.
std::vector<std::pair<std::string, std::vector<std::string>>> ByKind(const PluginInfo& p) {
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;
  for (const RegisteredItem& i : p.items) {
    auto it = kinds.begin();
    while (it != kinds.end() && it->first != i.kind) ++it;
    if (it == kinds.end()) it = kinds.insert(it, {i.kind, {}});
    it->second.push_back(i.name);
  }
  return kinds;
}

Json ToJson(const PluginInfo& p) {
  Json items = Json::array();
  for (const RegisteredItem& i : p.items) items.push_back({{"kind", i.kind}, {"name", i.name}});
  return {{"name", p.name},
          {"version", p.version},
          {"doc", p.doc},
          {"tier", p.tier},
          {"api", p.api},
          {"path", p.path},
          {"registers", std::move(items)}};
}

std::string ToText(const PluginInfo& p) {
  std::string out = p.name + (p.version.empty() ? "" : " " + p.version);
  if (!p.doc.empty()) out += ": " + p.doc;
  out += fmt::format("\n  {} tier, from {}\n", p.tier, p.path);
  for (const auto& [kind, names] : ByKind(p))
    out += fmt::format("  {}: {}\n", kind, Join(names, ", "));
  if (p.items.empty()) out += "  registers nothing\n";
  return out;
}

int RunPlugins(const Args& a) {
  Json rows = Json::array();
  std::string text;
  auto add = [&](const PluginInfo& p) {
    rows.push_back(ToJson(p));
    text += ToText(p);
  };
  if (a.check.empty()) {
    for (const PluginInfo& p : LoadedPlugins()) add(p);
    if (text.empty()) text = "no plugin is loaded; --plugin F loads one\n";
  }
  PluginOptions options;
  options.trial_seconds = a.seconds;
  for (const std::string& path : a.check) add(TryPlugin(path, options));
  if (a.json)
    PrintJson({{"abi_id", AbiId()}, {"plugins", std::move(rows)}});
  else
    PrintText(text);
  return 0;
}

}  // namespace

Command MakePlugins(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("plugins", "list loaded plugins, or try one in a child process");
  app.Add("--check F", &a->check, "try this file in a child process instead (repeatable)");
  app.Add("--seconds S", &a->seconds,
          "how long its start may take (10, or WEFT_PLUGIN_TRIAL_SECONDS)")
      .Positive();
  app.AddFlag("--json", &a->json, "one JSON object on stdout");
  return {app, [a] { return RunPlugins(*a); }};
}

}  // namespace weft::tool
