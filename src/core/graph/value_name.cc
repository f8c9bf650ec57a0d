/// value_name.cc: see value_name.h. The rows are read and written where they lie: Graph::GetAttr
/// first clears what edits made stale, and edits come through here.
#include "weft/core/graph/value_name.h"

#include "attr_value.h"
#include "entry_attrs.h"

namespace weft {
namespace {

constexpr const char* kAttr = "value_name";

}  // namespace

const std::string* NameRow(const Graph& g, const NodeEntry& e) {
  if (e.index == 0) return nullptr;
  const auto it = g.attrs.find(kAttr);
  if (it == g.attrs.end() || !it->second) return nullptr;
  return std::any_cast<ValueNames>(it->second.get())->find(e);
}

std::string ValueName(const Graph& graph, const NodeEntry& e) {
  if (e.index == 0) return e.node->attrs.name;
  const std::string* name = NameRow(graph, e);
  return name ? *name : std::string();
}

void SetValueName(Graph* graph, const NodeEntry& e, std::string name) {
  if (e.index == 0) {
    e.node->attrs.name = std::move(name);
    return;
  }
  std::shared_ptr<std::any>& rows = graph->attrs[kAttr];
  if (!rows) rows = std::make_shared<std::any>(ValueNames());
  std::any_cast<ValueNames>(&OwnValue(rows))->set(e, std::move(name));
}

void HandOnName(Graph& g, const NodeEntry& from, const NodeEntry& to) {
  if (!ValueName(g, to).empty()) return;
  std::string name = ValueName(g, from);
  if (!name.empty()) SetValueName(&g, to, std::move(name));
}

WEFT_REGISTER_GRAPH_ATTR(value_name, kGiven, ValueNames)
    .describe("what the outputs of a node behind the first are called")
    .hidden()
    .text([](const std::string& name) { return name; },
          [](const std::string& text) { return text; });

}  // namespace weft
