/// build.cc: what the rules of several groups build and read.
#include "build.h"

#include <algorithm>
#include <cmath>

#include "weft/core/graph/builtin_ops.h"

namespace weft::simplify {

NodeEntry ExtentVector(Graph& g, const std::vector<SymInt>& dims) {
  const SymTensor v{{int64_t(dims.size())}, dims};
  if (v.is_const()) return g.AddConstant(Tensor::Ints(v.ints()));
  return NodeEntry(g.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape(dims)}}));
}

NodeEntry AddOp(RewriteContext& ctx, std::string_view op, const std::vector<NodeEntry>& inputs,
                AttrDict attrs) {
  return NodeEntry(ctx.graph().AddNode(op, inputs, std::move(attrs)));
}

NodeEntry ReshapeTo(Graph& g, const NodeEntry& x, const std::vector<SymInt>& dims) {
  return NodeEntry(g.AddNode("Reshape", {x, ExtentVector(g, dims)}, {{"allowzero", 1}}));
}

NodeEntry ExpandTo(RewriteContext& ctx, const NodeEntry& x, const NodePtr& n) {
  const NodeEntry extents = ExtentVector(ctx.graph(), ctx.shape(NodeEntry(n)).dims());
  return AddOp(ctx, "Expand", {x, extents});
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

bool ProvedSame(const Shape& a, const Shape& b, const Facts& facts) {
  return a.fully_known() && b.fully_known() &&
         std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end(),
                    [&](SymInt x, SymInt y) { return x == y || facts.ProvedEqual(x, y); });
}

bool AllFinite(const Tensor& t) {
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (!std::isfinite(t.at(i))) return false;
  return true;
}

}  // namespace weft::simplify
