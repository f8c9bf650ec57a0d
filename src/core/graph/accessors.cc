/// accessors.cc: see accessors.h.
#include "weft/core/graph/accessors.h"

#include <algorithm>

namespace weft {

NodePtr OnlyReader(const Graph& g, const NodePtr& n) {
  if (n->uses().size() != 1 || g.is_output(n) || !n->control_deps.empty()) return {};
  const Use& u = n->uses()[0];
  return u.control || !u.user->control_deps.empty() ? NodePtr() : NodePtr(u.user);
}

bool IsOnlyReadBy(const Graph& g, const NodeEntry& e, const NodePtr& reader) {
  return e.node && e.index == 0 && !e.node->is_variable() && OnlyReader(g, e.node) == reader;
}

bool IsRead(const Graph& g, const NodeEntry& e) {
  for (const Use& u : e.node->uses())
    if (!u.control && u.user->inputs[u.slot] == e) return true;
  return std::find(g.outputs.begin(), g.outputs.end(), e) != g.outputs.end();
}

std::optional<double> ScalarConstant(const NodeEntry& e) {
  const TensorPtr t = e.node ? Graph::ConstantOf(e) : nullptr;
  if (!t || t->num_elements() != 1 || !IsComputable(t->dtype())) return std::nullopt;
  return t->at(0);
}

Ints TransposePerm(const NodePtr& transpose, int rank) {
  Ints perm = transpose->has_attr("perm") ? transpose->attr<Ints>("perm") : Ints();
  for (int64_t k = int64_t(perm.size()); k < rank; ++k) perm.push_back(rank - 1 - k);
  return perm;
}

bool IsIdentityPerm(const Ints& perm) {
  for (size_t k = 0; k < perm.size(); ++k)
    if (perm[k] != int64_t(k)) return false;
  return true;
}

}  // namespace weft
