/// pretty.cc: orders and names nodes for printing.
///
/// The topological order that takes the smallest id first is, for a graph that was just parsed, the
/// order of the text: that is what makes printing after parsing a fixed point.
#include "pretty.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <unordered_set>

#include "core/graph/entry_attrs.h"
#include "util.h"

namespace weft {

TextLayout::TextLayout(const Graph& g) {
  OrderVariables(g);
  OrderNodes(g);
  Name(g);
}

TensorPtr VariableValue(const Node& variable) {
  const AttrValue* v = variable.attrs.dict.find("value");
  return v && v->is<TensorPtr>() ? v->get<TensorPtr>() : nullptr;
}

void TextLayout::OrderVariables(const Graph& g) {
  std::vector<uint8_t> placed(g.id_bound(), 0);
  for (const NodePtr p : g.inputs()) {
    placed[p->id()] = 1;
    variables.push_back(p.get());
  }
  for (const bool with_value : {true, false}) {
    for (NodeId id = 0; id < g.id_bound(); ++id) {
      const NodePtr n = g.node(id);
      if (n && n->is_variable() && !placed[id] && (VariableValue(*n) != nullptr) == with_value)
        variables.push_back(n.get());
    }
  }
}

void TextLayout::OrderNodes(const Graph& g) {
  bool sorted = true;
  for (NodeId id = 0; id < g.id_bound(); ++id) {
    const NodePtr n = g.node(id);
    if (!n || n->is_variable()) continue;
    nodes.push_back(n.get());
    for (const NodeEntry& e : n->inputs)
      sorted = sorted && (!e.node || e.node->is_variable() || e.node->id() < id);
    for (const Node* d : n->control_deps) sorted = sorted && (d->is_variable() || d->id() < id);
  }
  if (sorted) return;
  std::vector<uint32_t> waits_for(g.id_bound(), 0);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<NodeId>> ready;
  for (const Node* n : nodes) {
    for (const NodeEntry& e : n->inputs) waits_for[n->id()] += e.node && !e.node->is_variable();
    for (const Node* d : n->control_deps) waits_for[n->id()] += !d->is_variable();
    if (waits_for[n->id()] == 0) ready.push(n->id());
  }
  std::vector<const Node*> order;
  std::vector<uint8_t> placed(g.id_bound(), 0);
  while (!ready.empty()) {
    const NodePtr n = g.node(ready.top());
    ready.pop();
    order.push_back(n.get());
    placed[n->id()] = 1;
    for (const Use& u : n->uses()) {
      if (--waits_for[u.user->id()] == 0) ready.push(u.user->id());
    }
  }
  // What stands on a cycle comes last: a broken graph can be looked at, though not be parsed.
  for (const Node* n : nodes) {
    if (!placed[n->id()]) order.push_back(n);
  }
  nodes = std::move(order);
}

void TextLayout::Name(const Graph& g) {
  names.resize(g.id_bound());
  ordinals.assign(g.id_bound(), ~0u);
  std::unordered_set<std::string_view> taken;
  std::unordered_map<std::string_view, int> next_suffix;
  std::deque<std::string> made;
  taken.reserve(variables.size() + nodes.size());
  int64_t unnamed = 0;
  NodeId ordinal = 0;
  const bool has_own_names = g.attrs.count("value_name") != 0;
  const auto make_unique = [&](const std::string& name) {
    std::string_view unique = name;
    while (!taken.insert(unique).second) {
      int& suffix = next_suffix.try_emplace(name, 2).first->second;
      unique = made.emplace_back(name + "." + std::to_string(suffix++));
    }
    return unique;
  };
  const auto append = [](std::string* printed, std::string_view name) {
    IsPlainName(name) ? void(*printed += name) : AppendQuoted(printed, name);
  };
  const auto name_one = [&](const Node* n) {
    ordinals[n->id()] = ordinal++;
    std::string& printed = names[n->id()];
    printed = "%";
    const std::string& name = n->attrs.name;
    if (name.empty()) {
      AppendInt(&printed, unnamed++);
    } else {
      const std::string_view unique = make_unique(name);
      if (unique.data() != name.data()) renamed.emplace(n->id(), unique);
      append(&printed, unique);
    }
    for (uint32_t k = 1; has_own_names && k < n->num_outputs(); ++k) {
      const std::string* own = NameRow(g, {n, k});
      if (!own) continue;
      const std::string_view unique = make_unique(*own);
      OwnName& entry = own_names[NodeEntry(n, k).key().packed()];
      entry = {std::string(unique), "%"};
      append(&entry.printed, unique);
    }
  };
  for (const Node* n : variables) name_one(n);
  for (const Node* n : nodes) name_one(n);
}

}  // namespace weft
