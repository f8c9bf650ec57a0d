/// graph_attr.cc: the table of attribute types, and how a graph keeps attribute values true
/// while it is edited.
///
/// Staleness is cleared lazily: edits only note the touched nodes; the next read of a
/// registered attribute sweeps forward from them once, clearing the derived rows of everything
/// that depends on them.
#include "weft/core/graph/graph_attr.h"

#include <algorithm>
#include <map>
#include <utility>

#include "attr_providers.h"
#include "attr_value.h"
#include "store.h"
#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using AttrTable = std::map<std::string, std::unique_ptr<AttrType>>;
AttrTable& Table() {
  static AttrTable* table = new AttrTable;  // outlives every static object that registers into it
  return *table;
}

}  // namespace

void RegisterAttrType(AttrType type) {
  // Called by static initialisers: conflicts are kept, not thrown.
  CommitRegistration([type = std::move(type)] {
    auto it = Table().find(type.name);
    if (it == Table().end()) {
      auto added = std::make_unique<AttrType>(type);
      added->owner = RegisteringModule(type.owner);
      OnRollback([name = type.name] { Table().erase(name); });
      Table()[type.name] = std::move(added);
      NoteRegistration("graph attribute", type.name);
      return;
    }
    const AttrType& old = *it->second;
    WEFT_CHECK(old.type == type.type && old.kind == type.kind, kTypeConflict,
               "graph attribute '{}' is registered by {} with another type or kind than by {}",
               type.name, old.owner, type.owner);
  });
}

const AttrType* FindAttrType(const std::string& name) {
  RegistryRead lock;
  auto it = Table().find(name);
  return it == Table().end() ? nullptr : it->second.get();
}

std::vector<const AttrType*> ListAttrTypes() {
  RegistryRead lock;
  std::vector<const AttrType*> list;
  for (const auto& [name, type] : Table()) list.push_back(type.get());
  return list;
}

bool Graph::HasAttr(const std::string& name) const {
  FlushStale();
  auto it = attrs.find(name);
  return it != attrs.end() && it->second != nullptr;
}

const std::any& Graph::FindAttr(const std::string& name, const std::type_info& type) const {
  FlushStale();
  auto it = attrs.find(name);
  if (it == attrs.end() || !it->second) {
    const std::string providers = PassesThatProvide(name);
    ThrowError(ErrorCode::kDependency, fmt::format("the graph has no attribute '{}'", name), "",
               providers.empty() ? "no registered pass provides it"
                                 : "it is provided by the pass " + providers);
  }
  WEFT_CHECK(it->second->type() == type, kApiMisuse,
             "graph attribute '{}' holds another C++ type than the one asked for", name);
  return *it->second;
}

std::any& Graph::MutableAny(const std::string& name, const std::type_info& type) {
  FindAttr(name, type);
  return OwnValue(attrs[name]);
}

void Graph::StoreAttr(const std::string& name, std::shared_ptr<std::any> value) {
  FlushStale();
  if (const AttrType* t = FindAttrType(name))
    WEFT_CHECK(std::type_index(value->type()) == t->type, kTypeConflict,
               "graph attribute '{}' is registered by {} with another C++ type", name, t->owner);
  attrs[name] = std::move(value);
  store_->partial.erase(name);
}

bool Graph::IsComplete(const std::string& name) const {
  return HasAttr(name) && !store_->partial.count(name);
}

void Graph::FlushStale() const {
  if (store_->stale.empty() && !store_->structure_changed) return;
  store_->structure_changed = false;
  std::vector<NodeId> work;
  work.swap(store_->stale);
  auto& map = const_cast<GraphAttrMap&>(
      attrs);  // clearing what is no longer true is not a change of meaning
  std::vector<std::pair<const AttrType*, std::any*>> rows;
  std::vector<std::string> dropped;
  for (auto& [name, value] : map) {
    const AttrType* t = FindAttrType(name);
    if (!t || !value || t->kind != AttrKind::kDerived || store_->preserved.count(name)) continue;
    if (t->scope == AttrScope::kGraph) {
      // Any edit counts, also one that leaves every row true: an edge that
      // only orders, another output.
      store_->partial.insert(name);
      dropped.push_back(name);
      continue;
    }
    if (work.empty()) continue;
    store_->partial.insert(name);
    rows.emplace_back(t, &OwnValue(value));
  }
  for (const std::string& name : dropped) map.erase(name);
  if (rows.empty()) return;
  // A node with thousands of inputs was touched as often.
  std::vector<uint8_t> seen(store_->nodes.size(), 0);
  work.erase(std::remove_if(work.begin(), work.end(),
                            [&](NodeId id) { return std::exchange(seen[id], 1) != 0; }),
             work.end());
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    for (auto& [type, value] : rows) type->erase(*value, id);
    const Node* n = store_->nodes[id];
    if (!n) continue;
    for (const Use& u : n->uses())
      if (!u.control && !seen[u.user->id()]) seen[u.user->id()] = 1, work.push_back(u.user->id());
  }
}

// ---- the attributes that the core knows ----

namespace {

/// Two shapes of one entry that the facts of the graph prove equal, however they are written.
bool SameExtents(const std::any& a, const std::any& b, NodeId id, uint32_t index,
                 const Graph& graph) {
  const Shape *x = std::any_cast<ShapeMap>(&a)->find(id, index),
              *y = std::any_cast<ShapeMap>(&b)->find(id, index);
  if (!x || !y || !x->has_rank() || !y->has_rank() || x->rank() != y->rank()) return false;
  const Facts facts = graph.AttrOr<Facts>("facts");
  for (int d = 0; d < x->rank(); ++d)
    if (!(*x)[d].same((*y)[d]) &&
        !((*x)[d].known() && (*y)[d].known() && facts.ProvedEqual((*x)[d], (*y)[d])))
      return false;
  return true;
}

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(shape, kDerived, ShapeMap)
    .describe("shape of every entry; absent where nothing is known")
    .consistent(SameExtents)
    .text([](const Shape& s) { return s.ToString(); },
          [](const std::string& s) { return Shape::Parse(s); });

WEFT_REGISTER_GRAPH_ATTR(dtype, kDerived, TypeMap)
    .describe("type of every entry")
    .text([](const Type& t) { return t.ToString(); },
          [](const std::string& s) {
            auto d = ParseDType(s);
            WEFT_CHECK(d.has_value(), kSyntax, "unknown dtype '{}'", s);
            return Type(*d);
          });

}  // namespace weft
