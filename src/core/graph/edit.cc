/// edit.cc: changing a graph that is there: other inputs and attributes, replacing, erasing, moving
/// and importing nodes. Use lists and marks of what became stale are the store's (store.cc).
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "attr_value.h"
#include "entry_attrs.h"
#include "make_node.h"
#include "store.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/operands.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft {

void Graph::Touch(NodePtr node) { store_->MarkStale(node.get()); }

void Graph::SetInput(NodePtr user, size_t slot, NodeEntry e) {
  store_->CheckOwns(user, "the user");
  if (!e.node) CheckMayBeAbsent(*user, slot);
  store_->SetInput(user.get(), uint32_t(slot), e);
  store_->MarkStale(user.get());
}

void Graph::SetAttr(NodePtr node, std::string_view name, AttrValue value) {
  store_->CheckOwns(node, "the node");
  NodeAttrs before = node->attrs;
  node->attrs.dict[name] = std::move(value);
  if (node->attrs.op) {
    try {
      ParseAttributes(*node);
    } catch (...) {
      node->attrs = std::move(before);
      throw;
    }
  }
  store_->ForgetMutations(node.get());
  store_->MarkStale(node.get());
}

void Graph::ReplaceUses(NodeEntry from, NodeEntry to) {
  store_->CheckOwns(from, "the replaced entry");
  store_->CheckOwns(to, "the replacement");
  WEFT_CHECK(from.node && to.node, kApiMisuse, "ReplaceUses needs two entries");
  if (from == to) return;
  // Where all derived rows agree, what the users' own rows were computed from has not changed.
  bool same_rows = true;
  for (const auto& [name, value] : attrs) {
    const AttrType* t = AttrTypeOf(name, value);
    if (t && t->kind == AttrKind::kDerived && t->rows_equal)
      same_rows = same_rows && t->rows_equal(*value, from, to);
  }
  std::vector<Use> uses;
  for (const Use& u : from.node->uses())
    if (!u.control && u.user != to.node.get() && u.user->inputs[u.slot].index == from.index)
      uses.push_back(u);
  // Reversed: each removal fills its place in the use list from the end.
  for (auto u = uses.rbegin(); u != uses.rend(); ++u) {
    store_->SetInput(u->user, u->slot, to);
    if (!same_rows) store_->MarkStale(u->user);
  }
  for (size_t i : store_->OutputsThatAre(from)) outputs.set(i, to);
  FollowReplacement(attrs, from, to);
  MergeOrigin(to.node, from.node);
  // What was put behind `from` is another value.
  const bool behind = std::any_of(to.node->inputs.begin(), to.node->inputs.end(),
                                  [&](const NodeEntry& e) { return e == from; });
  if (behind || from.node->is_variable() || to.node->is_variable()) return;
  HandOnName(*this, from, to);
  HandOnSizes(*this, from, to);
}

void Graph::ReplaceNode(NodePtr from, const std::vector<NodeEntry>& to) {
  store_->CheckOwns(from, "the replaced node");
  NodePtr heir;
  for (const NodeEntry& e : to)
    if (!heir && e.node && e.node != from) heir = e.node;
  if (!heir) return;
  store_->CheckOwns(heir, "the replacement");
  // An heir that nothing uses yet comes before nothing, so it may come after what `from` came
  // after. One that is used may come before that already (Identity replaced by its own input): its
  // new users are the ones to wait then.
  const bool fresh_heir = heir->uses().empty() && !heir->is_variable() && !ConstantOf(heir);
  std::vector<Node*> users;
  if (!from->control_deps.empty() && !fresh_heir) {
    for (const Use& u : from->uses()) {
      if (u.control) continue;
      const uint32_t index = u.user->inputs[u.slot].index;
      if (index < to.size() && to[index].node && to[index].node != from &&
          to[index].node.get() != u.user)
        users.push_back(u.user);
    }
    std::sort(users.begin(), users.end(),
              [](const Node* a, const Node* b) { return a->id() < b->id(); });
    users.erase(std::unique(users.begin(), users.end()), users.end());
  }
  for (uint32_t i = 0; i < to.size(); ++i)
    if (to[i].node) ReplaceUses({from, i}, to[i]);

  std::vector<Node*> after;
  for (const Use& u : from->uses())
    if (u.control) after.push_back(u.user);
  const std::vector<Node*> before(from->control_deps.begin(), from->control_deps.end());
  for (Node* user : after) {
    std::vector<Node*> kept(user->control_deps.begin(), user->control_deps.end());
    store_->ClearControl(user);
    for (Node* d : kept) {
      if (d != from.get()) {
        store_->PushControl(user, d);
        continue;
      }
      if (heir.get() != user) store_->PushControl(user, heir.get());
      if (fresh_heir) continue;
      for (Node* b : before)
        if (b != user && b != heir.get()) store_->PushControl(user, b);
    }
  }
  if (fresh_heir) users = {heir.get()};
  for (Node* user : users)
    for (Node* d : before)
      if (d != user) store_->PushControl(user, d);
}

void Graph::Erase(NodePtr node) {
  store_->CheckOwns(node, "the erased node");
  WEFT_CHECK(node->uses().empty() && !is_output(node), kApiMisuse,
             "{} is still used and cannot be erased", node->Describe());
  if (auto& in = store_->inputs; node->is_variable())
    in.erase(std::remove(in.begin(), in.end(), node), in.end());
  store_->Destroy(node.get());
}

int Graph::EraseDead() {
  std::vector<uint8_t> live(store_->nodes.size(), 0);
  std::vector<Node*> work;
  auto mark = [&](Node* n) {
    if (n && !live[n->id()]) live[n->id()] = 1, work.push_back(n);
  };
  for (const NodeEntry& e : store_->outputs) mark(e.node.get());
  for (NodePtr p : store_->inputs) mark(p.get());
  ForEachAskedNode(attrs, [&](NodeId id) { mark(node(id).get()); });
  for (Node* n : store_->nodes)
    if (n && HasEffect(n)) mark(n);
  while (!work.empty()) {
    Node* n = work.back();
    work.pop_back();
    for (const NodeEntry& e : n->inputs) mark(e.node.get());
    for (Node* d : n->control_deps)
      if (d->is_variable() || HasEffect(d)) mark(d);
  }
  // It cannot be observed whether a node without effects runs: what only has to come before others
  // goes, and they come after what it came after.
  for (Node* n : store_->nodes)
    if (n && live[n->id()]) store_->SkipControls(n, live);
  // Edges among the dead need no care: only the use lists of the living are mended.
  int erased = 0;
  for (Node* n : store_->nodes) {
    if (!n || live[n->id()]) continue;
    store_->ForgetUses(n, [&](const Node* producer) { return live[producer->id()] != 0; });
  }
  for (Node*& n : store_->nodes)
    if (n && !live[n->id()]) store_->Drop(n), ++erased;
  return erased;
}

void Graph::MoveNodes(Graph& from, const NodePtr* nodes, size_t count,
                      const std::function<NodeEntry(const NodeEntry&)>& outside) {
  WEFT_CHECK(store_ != from.store_, kApiMisuse, "nodes are moved between two graphs");
  store_->Adopt(*from.store_, nodes, count, outside);
}

void Graph::SetOrigin(NodePtr node, Origin origin) { node->origin_ = std::move(origin); }

void Graph::MergeOrigin(NodePtr to, NodePtr from) {
  // A rewrite chain stands for at most this many names; more would make messages, not help.
  constexpr size_t kMaxOrigins = 16;
  if (to->is_variable() || to == from) return;
  std::vector<std::string> names;
  auto add = [&](NodePtr n) {
    if (n->origin_) {
      for (const std::string& s : *n->origin_)
        if (std::find(names.begin(), names.end(), s) == names.end()) names.push_back(s);
    } else if (!n->attrs.name.empty() &&
               std::find(names.begin(), names.end(), n->attrs.name) == names.end()) {
      names.push_back(n->attrs.name);
    }
  };
  add(to);
  add(from);
  if (names.size() > kMaxOrigins) names.resize(kMaxOrigins);
  if (!names.empty())
    to->origin_ = std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::vector<NodeEntry> Graph::Import(const std::vector<NodeEntry>& entries) {
  return ImportInto(entries, false);
}

std::vector<NodeEntry> Graph::ImportInto(const std::vector<NodeEntry>& entries,
                                         bool share_earlier) {
  for (const NodeEntry& e : entries)
    if (e.node) e.node->store()->CheckOwns(e, "an imported entry");
  std::unordered_map<Node*, Node*> twin;
  // What an earlier import has made of `n`, if neither has changed since: their operators,
  // names and edges tell.
  auto earlier = [&](Node* n) -> Node* {
    const std::vector<NodeId>& went = store_->imported[n->store()];
    Node* c = n->id() < went.size() && went[n->id()] < store_->nodes.size()
                  ? store_->nodes[went[n->id()]]
                  : nullptr;
    if (!c || c->op() != n->op() || c->attrs.name != n->attrs.name) return nullptr;
    if (c->num_inputs() != n->num_inputs() || c->control_deps.size() != n->control_deps.size())
      return nullptr;
    for (uint32_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry &e = n->inputs[i], &own = c->inputs[i];
      if (own.index != e.index || own.node.get() != (e.node ? twin.at(e.node.get()) : nullptr))
        return nullptr;
    }
    for (uint32_t i = 0; i < n->control_deps.size(); ++i)
      if (c->control_deps[i].get() != twin.at(n->control_deps[i].get())) return nullptr;
    return c->attrs.dict == n->attrs.dict ? c : nullptr;
  };
  DFSVisit(entries, [&](const NodePtr& n) {
    if (n->store() == store_.get()) {
      twin[n.get()] = n.get();
      return;
    }
    uint64_t& serial = store_->imported_serial[n->store()];
    if (serial != n->store()->serial) store_->imported[n->store()].clear();
    serial = n->store()->serial;
    if (share_earlier)
      if (Node* c = earlier(n.get())) {
        twin[n.get()] = c;
        return;
      }
    Node* c = store_->NewNode();
    c->attrs = n->attrs;
    c->origin_ = n->origin_;
    for (const NodeEntry& e : n->inputs)
      store_->PushInput(c, {e.node ? twin.at(e.node.get()) : nullptr, e.index});
    for (Node* d : n->control_deps) store_->PushControl(c, twin.at(d));
    twin[n.get()] = c;
    std::vector<NodeId>& went = store_->imported[n->store()];
    if (went.size() <= n->id()) went.resize(n->store()->nodes.size(), ~0u);
    went[n->id()] = c->id();
  });
  // Declared inputs stay declared, in their order.
  std::vector<GraphStore*> sources;
  for (const NodeEntry& e : entries)
    if (e.node && e.node->store() != store_.get() &&
        std::find(sources.begin(), sources.end(), e.node->store()) == sources.end())
      sources.push_back(e.node->store());
  std::unordered_set<Node*> declared;
  for (NodePtr p : store_->inputs) declared.insert(p.get());
  for (GraphStore* s : sources)
    for (NodePtr p : s->inputs)
      if (auto it = twin.find(p.get()); it != twin.end() && declared.insert(it->second).second)
        store_->inputs.push_back(it->second);
  std::vector<NodeEntry> out;
  for (const NodeEntry& e : entries)
    out.push_back({e.node ? twin.at(e.node.get()) : nullptr, e.index});
  return out;
}

}  // namespace weft
