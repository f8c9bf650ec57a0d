/// build.cc: what the rules of several groups build and read.
#include "build.h"

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

bool CutsTie(const std::vector<SymInt>& dims, const Shape& source) {
  for (SymInt d : dims) {
    for (SymInt s : d.Symbols()) {
      if (!s.is_unbacked()) continue;
      bool there = false;
      for (int k = 0; source.has_rank() && k < source.rank(); ++k)
        if (source[k].known())
          for (SymInt t : source[k].Symbols()) there |= t == s;
      if (!there) return true;
    }
  }
  return false;
}

}  // namespace weft::simplify
