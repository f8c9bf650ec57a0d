/// build.cc: what the rules of several groups build and read.
#include "build.h"

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"

namespace weft::simplify {

NodeEntry ExtentVector(Graph& g, const std::vector<SymInt>& dims) {
  const SymTensor v{{int64_t(dims.size())}, dims};
  if (v.is_const()) return g.AddConstant(Tensor::Ints(v.ints()));
  return NodeEntry(g.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape(dims)}}));
}

NodeEntry ReshapeTo(Graph& g, const NodeEntry& x, const std::vector<SymInt>& dims,
                    std::string name) {
  return NodeEntry(
      g.AddNode("Reshape", {x, ExtentVector(g, dims)}, {{"allowzero", 1}}, std::move(name)));
}

Ints GivenPerm(const NodePtr& transpose) {
  return transpose->has_attr("perm") ? transpose->attr<Ints>("perm") : Ints();
}

Ints PermOf(const NodePtr& transpose, int rank) {
  Ints perm = GivenPerm(transpose);
  if (perm.empty())
    for (int d = rank; d-- > 0;) perm.push_back(d);
  return perm;
}

bool IsIdentity(const Ints& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != int64_t(i)) return false;
  return true;
}

bool IsRead(RewriteContext& ctx, const NodeEntry& e) {
  const auto reads = [&](const Use& u) { return !u.control && u.user->inputs[u.slot] == e; };
  const auto& uses = e.node->uses();
  const auto& outputs = ctx.graph().outputs;
  return std::any_of(uses.begin(), uses.end(), reads) ||
         std::find(outputs.begin(), outputs.end(), e) != outputs.end();
}

}  // namespace weft::simplify
