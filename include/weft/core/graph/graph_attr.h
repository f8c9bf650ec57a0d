/// graph_attr.h: typed attributes of a graph: per entry (`EntryMap`), per node (`NodeMap`) or of
/// the whole graph, and the table in which their types are registered.
///
/// A registered attribute has one C++ type, a scope, a text form and a kind:
///   given    hints, origins, requests: carried through every rewrite, never dropped
///   derived  computed from the graph (`shape`, `dtype`, `order`): an edit clears the rows
///            of touched nodes and of what depends on them (entry and node scope) or the
///            whole value (graph scope); a pass that changes the graph drops those it
///            neither preserves nor provides
/// Values store node ids, never handles. An attribute that is not registered is opaque,
/// graph-scoped and dropped by a pass that changes the graph.
#pragma once

#include <any>
#include <functional>
#include <optional>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// A value per node, by id. `find` is null where there is none.
template <class T>
class NodeMap {
 public:
  const T* find(NodeId id) const { return id < has_.size() && has_[id] ? &values_[id] : nullptr; }
  const T* find(NodePtr n) const { return find(n->id()); }
  void set(NodeId id, T value) {
    if (id >= has_.size()) grow(id + 1);
    has_[id] = 1;
    values_[id] = std::move(value);
  }
  void set(NodePtr n, T value) { set(n->id(), std::move(value)); }
  void erase(NodeId id) {
    if (id < has_.size() && has_[id]) has_[id] = 0, values_[id] = T();
  }
  /// The row of `id`, if any, becomes that of `to_id` in `to`.
  void move_row(NodeId id, NodeMap& to, NodeId to_id) {
    if (id >= has_.size() || !has_[id]) return to.erase(to_id);
    to.set(to_id, std::move(values_[id]));
    erase(id);
  }
  void reserve(NodeId bound) {
    if (bound > has_.size()) grow(bound);
  }
  NodeId id_bound() const { return NodeId(has_.size()); }

 private:
  void grow(size_t n) {
    if (n > values_.capacity()) {
      values_.reserve(n + n / 2);
      has_.reserve(n + n / 2);
    }
    values_.resize(n);
    has_.resize(n);
  }
  std::vector<T> values_;
  std::vector<uint8_t> has_;
};

/// A value per entry. Output 0 is stored densely, the others (few nodes have them) beside it.
template <class T>
class EntryMap {
 public:
  const T* find(NodeId id, uint32_t index) const {
    if (index == 0) return first_.find(id);
    auto it = more_.find(key(id, index));
    return it == more_.end() ? nullptr : &it->second;
  }
  const T* find(const NodeEntry& e) const { return find(e.node->id(), e.index); }
  /// The value, or a default-made one (unknown shape, unknown dtype) where there is none.
  const T& operator[](const NodeEntry& e) const {
    static const T kNone{};
    const T* p = find(e);
    return p ? *p : kNone;
  }
  void set(NodeId id, uint32_t index, T value) {
    if (index == 0) return first_.set(id, std::move(value));
    more_[key(id, index)] = std::move(value);
    uint32_t* n = const_cast<uint32_t*>(outputs_.find(id));
    if (!n)
      outputs_.set(id, index + 1);
    else if (*n <= index)
      *n = index + 1;
  }
  void set(const NodeEntry& e, T value) { set(e.node->id(), e.index, std::move(value)); }
  void erase(NodeId id) {
    first_.erase(id);
    if (const uint32_t* n = outputs_.find(id)) {
      for (uint32_t i = 1; i < *n; ++i) more_.erase(key(id, i));
      outputs_.erase(id);
    }
  }
  /// All rows of `id` become those of `to_id` in `to`.
  void move_rows(NodeId id, EntryMap& to, NodeId to_id) {
    const uint32_t outputs = num_outputs(id);
    if (to.num_outputs(to_id) > 1) to.erase(to_id);
    first_.move_row(id, to.first_, to_id);
    if (outputs <= 1) return;
    for (uint32_t i = 1; i < outputs; ++i)
      if (auto it = more_.find(key(id, i)); it != more_.end())
        to.set(to_id, i, std::move(it->second));
    erase(id);
  }
  void reserve(NodeId bound) { first_.reserve(bound); }
  NodeId id_bound() const { return std::max(first_.id_bound(), outputs_.id_bound()); }
  /// 1 + largest index that may have a value.
  uint32_t num_outputs(NodeId id) const {
    const uint32_t* n = outputs_.find(id);
    return n ? *n : (first_.find(id) ? 1 : 0);
  }

 private:
  static uint64_t key(NodeId id, uint32_t index) { return uint64_t{id} << 32 | index; }
  NodeMap<T> first_;
  NodeMap<uint32_t> outputs_;
  std::unordered_map<uint64_t, T> more_;  // looked up only, never iterated
};

/// Equality of rows; overloads exist for types without operator==.
template <class T>
bool AttrRowsEqual(const T& a, const T& b) {
  return a == b;
}
inline bool AttrRowsEqual(const Shape& a, const Shape& b) { return a.same(b); }

enum class AttrScope : uint8_t { kGraph, kNode, kEntry };
enum class AttrKind : uint8_t { kGiven, kDerived };

/// Registration record of one attribute name; the functions see the stored std::any.
struct AttrType {
  std::string name;
  std::type_index type = typeid(void);
  AttrScope scope = AttrScope::kGraph;
  AttrKind kind = AttrKind::kGiven;
  std::string owner;  ///< module that registered it
  std::string doc;
  bool printed = true;  ///< shown by the text form by default
  std::function<std::any()> make;
  std::function<void(std::any&, NodeId)> erase;                           // node, entry scope
  std::function<bool(const std::any&, NodeEntry, NodeEntry)> rows_equal;  // entry scope
  /// Copies all rows of node `from` in `src` to node `to` in `dst`.
  std::function<void(const std::any& src, NodeId from, std::any& dst, NodeId to)> copy_rows;
  /// Renumbers (Compact): map[old] = new, or ~0u.
  std::function<void(std::any&, const std::vector<NodeId>&)> remap;
  /// Do two values of one row say the same though their texts differ (an equal symbolic extent
  /// written otherwise)? Null: no.
  std::function<bool(const std::any&, const std::any&, NodeId, uint32_t, const Graph&)> consistent;
  /// Text of one row (entry / node scope) or of the whole value; nullopt: none.
  /// Null function: not printable.
  std::function<std::optional<std::string>(const std::any&, NodeId, uint32_t)> format;
  std::function<void(std::any&, NodeId, uint32_t, const std::string&)> parse;
};

/// Table of registered attribute types. Registration of another C++ type under a
/// taken name throws kTypeConflict.
WEFT_API void RegisterAttrType(AttrType type);
WEFT_API const AttrType* FindAttrType(const std::string& name);
WEFT_API std::vector<const AttrType*> ListAttrTypes();

namespace detail {
template <class T>
struct AttrScopeOf {
  static constexpr AttrScope value = AttrScope::kGraph;
  using Row = T;
};
template <class T>
struct AttrScopeOf<NodeMap<T>> {
  static constexpr AttrScope value = AttrScope::kNode;
  using Row = T;
};
template <class T>
struct AttrScopeOf<EntryMap<T>> {
  static constexpr AttrScope value = AttrScope::kEntry;
  using Row = T;
};
template <class M>
AttrType MakeAttrType(std::string name, AttrKind kind);
}  // namespace detail

/// Builder behind WEFT_REGISTER_GRAPH_ATTR(name, Type, kDerived).describe(..).text(format, parse).
template <class M>
class AttrTypeBuilder {
 public:
  using Row = typename detail::AttrScopeOf<M>::Row;
  AttrTypeBuilder(std::string name, AttrKind kind, std::string owner)
      : type_(detail::MakeAttrType<M>(std::move(name), kind)) {
    type_.owner = std::move(owner);
  }
  AttrTypeBuilder& describe(std::string doc) {
    type_.doc = std::move(doc);
    return *this;
  }
  AttrTypeBuilder& hidden() {
    type_.printed = false;
    return *this;
  }
  AttrTypeBuilder& consistent(
      std::function<bool(const std::any&, const std::any&, NodeId, uint32_t, const Graph&)> f) {
    type_.consistent = std::move(f);
    return *this;
  }
  AttrTypeBuilder& remap(std::function<void(M&, const std::vector<NodeId>&)> f) {
    type_.remap = [f](std::any& a, const std::vector<NodeId>& m) { f(*std::any_cast<M>(&a), m); };
    return *this;
  }
  /// Text of one row (of the whole value for graph scope) and its inverse.
  AttrTypeBuilder& text(std::function<std::string(const Row&)> format,
                        std::function<Row(const std::string&)> parse);
  operator bool() {
    RegisterAttrType(type_);
    return true;
  }  // NOLINT: the registration macro's commit

 private:
  AttrType type_;
};

#ifndef WEFT_MODULE_NAME
#define WEFT_MODULE_NAME "application"
#endif
#define WEFT_CONCAT_(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_(a, b)
#define WEFT_REGISTER_GRAPH_ATTR(Name, Kind, ...)                                 \
  [[maybe_unused]] static const bool WEFT_CONCAT(weft_graph_attr_, __COUNTER__) = \
      ::weft::AttrTypeBuilder<__VA_ARGS__>(#Name, ::weft::AttrKind::Kind, WEFT_MODULE_NAME)

// ---- implementation of the templates ----
namespace detail {
template <class M>
AttrType MakeAttrType(std::string name, AttrKind kind) {
  AttrType t;
  t.name = std::move(name);
  t.type = typeid(M);
  t.kind = kind;
  t.scope = AttrScopeOf<M>::value;
  t.make = [] { return std::any(M()); };
  if constexpr (AttrScopeOf<M>::value != AttrScope::kGraph) {
    t.erase = [](std::any& a, NodeId id) { std::any_cast<M>(&a)->erase(id); };
    t.remap = [](std::any& a, const std::vector<NodeId>& map) {
      M& old = *std::any_cast<M>(&a);
      M fresh;
      for (NodeId id = 0; id < old.id_bound() && id < map.size(); ++id) {
        if (map[id] == ~0u) continue;
        if constexpr (AttrScopeOf<M>::value == AttrScope::kNode) {
          if (auto* p = old.find(id)) fresh.set(map[id], *p);
        } else {
          for (uint32_t i = 0; i < old.num_outputs(id); ++i)
            if (auto* p = old.find(id, i)) fresh.set(map[id], i, *p);
        }
      }
      old = std::move(fresh);
    };
    t.copy_rows = [](const std::any& s, NodeId from, std::any& d, NodeId to) {
      const M& src = *std::any_cast<M>(&s);
      M& dst = *std::any_cast<M>(&d);
      if constexpr (AttrScopeOf<M>::value == AttrScope::kNode) {
        if (auto* p = src.find(from)) dst.set(to, *p);
      } else {
        for (uint32_t i = 0; i < src.num_outputs(from); ++i)
          if (auto* p = src.find(from, i)) dst.set(to, i, *p);
      }
    };
  }
  if constexpr (AttrScopeOf<M>::value == AttrScope::kEntry) {
    t.rows_equal = [](const std::any& a, NodeEntry x, NodeEntry y) {
      const M& m = *std::any_cast<M>(&a);
      auto *p = m.find(x), *q = m.find(y);
      if (!p || !q) return !p && !q;
      return AttrRowsEqual(*p, *q);
    };
  }
  return t;
}
}  // namespace detail

template <class M>
AttrTypeBuilder<M>& AttrTypeBuilder<M>::text(std::function<std::string(const Row&)> format,
                                             std::function<Row(const std::string&)> parse) {
  constexpr AttrScope scope = detail::AttrScopeOf<M>::value;
  type_.format = [format](const std::any& a, NodeId id,
                          uint32_t index) -> std::optional<std::string> {
    (void)id, (void)index;
    const M& m = *std::any_cast<M>(&a);
    if constexpr (scope == AttrScope::kGraph) {
      return format(m);
    } else {
      const Row* p;
      if constexpr (scope == AttrScope::kNode)
        p = index == 0 ? m.find(id) : nullptr;
      else
        p = m.find(id, index);
      if (!p) return std::nullopt;
      return format(*p);
    }
  };
  type_.parse = [parse](std::any& a, NodeId id, uint32_t index, const std::string& text) {
    (void)id, (void)index;
    M& m = *std::any_cast<M>(&a);
    if constexpr (scope == AttrScope::kGraph)
      m = parse(text);
    else if constexpr (scope == AttrScope::kNode)
      m.set(id, parse(text));
    else
      m.set(id, index, parse(text));
  };
  return *this;
}

// The attributes that the core knows (registered in src/core/graph/graph_attr.cc).
using ShapeMap = EntryMap<Shape>;  ///< "shape", derived
using TypeMap = EntryMap<Type>;    ///< "dtype", derived

}  // namespace weft
