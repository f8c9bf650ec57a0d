/// plugins.cc: shared libraries that register operators, passes and backends.
#include <nanobind/stl/pair.h>

#include "call.h"
#include "graph.h"
#include "options.h"
#include "weft/core/module/plugin.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {

void BindPlugins(nb::module_& m) {
  nb::class_<PluginInfo>(m, "PluginInfo", "A plugin and what it has registered.")
      .def_ro("name", &PluginInfo::name)
      .def_ro("version", &PluginInfo::version)
      .def_ro("doc", &PluginInfo::doc)
      .def_ro("path", &PluginInfo::path)
      .def_ro("tier", &PluginInfo::tier, "'C' or 'C++'.")
      .def_prop_ro(
          "items",
          [](const PluginInfo& p) {
            std::vector<std::pair<std::string, std::string>> items;
            for (const RegisteredItem& i : p.items) items.emplace_back(i.kind, i.name);
            return items;
          },
          "(kind, name) of each thing, in order.")
      .def("__repr__",
           [](const PluginInfo& p) { return "<PluginInfo " + p.name + " " + p.version + ">"; });
  m.def(
      "load_plugin",
      [](nb::handle path, bool trial) {
        PluginOptions options;
        options.trial = trial;
        const std::string file = ToPath(path);
        CancelToken token;
        return WithoutGil(token, Threads::kNone, [&] { return LoadPlugin(file, options); });
      },
      "path"_a, nb::kw_only(), "trial"_a = true,
      nb::sig("def load_plugin(path: PathLike, *, trial: bool = True) -> PluginInfo"),
      "Loads a plugin, once; `trial`: in a child process first, so that one that crashes ends "
      "that. It runs its code: load only what you trust.");
  m.def(
      "loaded_plugins", [] { return LoadedPlugins(); }, "In the order of loading.");
}

}  // namespace weft::python
