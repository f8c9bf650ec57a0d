/// match.h: patterns over graphs.
///
/// A pattern says what an entry is computed by, from the entry down to its operands, and notes what
/// it meets:
///
///   NodeEntry x;
///   if (m::Match(e, m::Either("Mul", m::Any(&x), m::Op("Sigmoid", m::Same(&x))))) ...
///   double c;
///   if (m::Match(e, m::Op("Div", m::Any(&x), m::Number(&c)).ReadOnlyBy(g, reader))) ...
///
/// Operands are matched from left to right, so that `Same` and `Number` may speak of what stood
/// left of them. What is noted by a pattern that does not match in the end is of no meaning. A
/// pattern is a value on the stack and allocates nothing.
///
///   source  XLA's m:: (xla/service/pattern_matcher.h), Binaryen's src/ir/match.h
#pragma once

#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft::m {

/// Whatever is there, noted in `to`.
struct AnyPattern {
  NodeEntry* to;
  bool operator()(const NodeEntry& e) const {
    if (!e.node) return false;
    if (to) *to = e;
    return true;
  }
};
inline AnyPattern Any(NodeEntry* to = nullptr) { return {to}; }

/// The entry that has been noted there.
struct SamePattern {
  const NodeEntry* as;
  bool operator()(const NodeEntry& e) const { return e.node && e == *as; }
};
inline SamePattern Same(const NodeEntry* as) { return {as}; }

/// An absent operand.
struct AbsentPattern {
  bool operator()(const NodeEntry& e) const { return !e.node; }
};
inline AbsentPattern Absent() { return {}; }

/// A constant tensor, noted in `to`.
struct ConstantPattern {
  TensorPtr* to;
  bool operator()(const NodeEntry& e) const {
    TensorPtr t = e.node ? Graph::ConstantOf(e) : nullptr;
    if (t && to) *to = t;
    return bool(t);
  }
};
inline ConstantPattern Constant(TensorPtr* to = nullptr) { return {to}; }

/// A constant of one element, noted in `to`, or about `value`: within `tolerance` of it,
/// relatively. Exporters write numbers such as sqrt(2) in the precision of the model.
struct NumberPattern {
  double* to;
  double value, tolerance;
  bool operator()(const NodeEntry& e) const {
    const std::optional<double> c = ScalarConstant(e);
    if (!c || (!to && !(std::fabs(*c - value) <= tolerance * std::fabs(value)))) return false;
    if (to) *to = *c;
    return true;
  }
};
inline NumberPattern Number(double* to) { return {to, 0, 0}; }
inline NumberPattern Number(double value, double tolerance = 0) {
  return {nullptr, value, tolerance};
}

/// Output 0 of an operator, by its operands; further ones must be absent.
template <class... Operands>
struct OpPattern {
  std::string_view op;
  std::tuple<Operands...> operands;
  bool either = false;  ///< two operands, in either order
  NodePtr* to = nullptr;
  const Graph* graph = nullptr;
  NodePtr reader = {};

  /// Notes the node.
  OpPattern To(NodePtr* node) const {
    OpPattern p = *this;
    p.to = node;
    return p;
  }
  /// Nobody but `node` reads its result (OnlyReader).
  OpPattern ReadOnlyBy(const Graph& g, const NodePtr& node) const {
    OpPattern p = *this;
    p.graph = &g;
    p.reader = node;
    return p;
  }

  bool operator()(const NodeEntry& e) const {
    if (e.index != 0 || !e.node || e.node->is_variable() || !IsOp(e.node, op)) return false;
    if (graph && !IsOnlyReadBy(*graph, e, reader)) return false;
    const NodePtr& n = e.node;
    const bool fits = InOrder(n, std::index_sequence_for<Operands...>()) || (either && Swapped(n));
    if (fits && to) *to = n;
    return fits;
  }

 private:
  static NodeEntry Operand(const NodePtr& n, size_t i) {
    return i < n->num_inputs() ? n->inputs[i] : NodeEntry();
  }
  template <size_t... I>
  bool InOrder(const NodePtr& n, std::index_sequence<I...>) const {
    for (size_t i = sizeof...(I); i < n->num_inputs(); ++i)
      if (n->inputs[i].node) return false;
    return (std::get<I>(operands)(Operand(n, I)) && ...);
  }
  bool Swapped(const NodePtr& n) const {
    if constexpr (sizeof...(Operands) == 2)
      return std::get<0>(operands)(Operand(n, 1)) && std::get<1>(operands)(Operand(n, 0));
    else
      return false;
  }
};
template <class... Operands>
OpPattern<Operands...> Op(std::string_view op, Operands... operands) {
  return {op, {std::move(operands)...}};
}
/// A commutative operator: the operands in either order, the one that is written first.
template <class A, class B>
OpPattern<A, B> Either(std::string_view op, A a, B b) {
  return {op, {std::move(a), std::move(b)}, true};
}

/// The first of two patterns that matches.
template <class A, class B>
struct OneOfPattern {
  A a;
  B b;
  bool operator()(const NodeEntry& e) const { return a(e) || b(e); }
};
template <class A, class B>
OneOfPattern<A, B> OneOf(A a, B b) {
  return {std::move(a), std::move(b)};
}

template <class Pattern>
bool Match(const NodeEntry& e, const Pattern& pattern) {
  return pattern(e);
}
template <class Pattern>
bool Match(const NodePtr& n, const Pattern& pattern) {
  return pattern(NodeEntry(n));
}

}  // namespace weft::m
