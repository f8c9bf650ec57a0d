/// usable_layouts.cc: see usable_layouts.h.
#include "usable_layouts.h"

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/plan/epilogue.h"
#include "weft/core/plan/layout.h"
#include "weft/runtime/placement.h"

namespace weft {
namespace {

class Checker {
 public:
  Checker(const Graph& g, const Target& target)
      : g_(g),
        target_(target),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")),
        layouts_(g.GetAttr<LayoutMap>("layout")),
        kernels_(g.HasAttr("kernel") ? &g.GetAttr<KernelMap>("kernel") : nullptr) {}

  bool Run() const {
    for (const NodePtr& n : g_.TopoOrder())
      if (!Fits(n)) return false;
    for (const NodeEntry& e : g_.outputs)
      if (IsLast(e)) return false;
    return true;
  }

 private:
  bool IsLast(const NodeEntry& e) const {
    return e.node && layouts_[e] == Layout::kChannelsLast && !LiesAlikeInAll(shapes_[e]);
  }
  bool CanLieLast(const NodeEntry& e) const {
    const Type t = types_[e];
    const int bits = t.is_tensor() ? DTypeBits(t.dtype) : 0;
    return shapes_[e].has_rank() && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
  }
  bool Fits(const NodePtr& n) const {
    const size_t inputs = n->num_inputs(), all = inputs + n->num_outputs();
    bool any = false;
    for (size_t i = 0; i < all; ++i) {
      const NodeEntry e = Operand(n, i);
      if (!IsLast(e)) continue;
      any = true;
      if (!CanLieLast(e)) return false;
    }
    if (const LoweredKernel* k = kernels_ ? kernels_->find(n) : nullptr) {
      for (size_t i = 0; i < all; ++i) {
        const NodeEntry e = Operand(n, i);
        if (e.node && !LiesAlikeInAll(shapes_[e]) && k->layout(i) != layouts_[e]) return false;
      }
      return true;
    }
    if (!any || IsOp(n, builtin::kReorder) || IsOp(n, builtin::kGroup)) return true;
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || view_.get(n->op(), false) ||
        IsOp(n, builtin::kRead) || IsOp(n, builtin::kAssign))
      return false;
    if (!LibraryRoutine(target_, n, types_)) return true;  // the interpreter takes everything
    const LayoutWish wish = LayoutWishOf(n, target_, shapes_, types_);
    for (size_t i = 0; i < all; ++i) {
      const auto& wished = i < inputs ? wish.inputs : wish.outputs;
      const size_t at = i < inputs ? i : i - inputs;
      if (IsLast(Operand(n, i)) && (at >= wished.size() || wished[at] != Layout::kChannelsLast))
        return false;
    }
    return true;
  }
  static NodeEntry Operand(const NodePtr& n, size_t i) {
    return i < n->num_inputs() ? n->inputs[i] : NodeEntry(n, uint32_t(i - n->num_inputs()));
  }

  const Graph& g_;
  const Target& target_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const LayoutMap& layouts_;
  const KernelMap* kernels_;
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
};

}  // namespace

bool UsableLayouts(const Graph& graph, const Target& target) {
  return graph.HasAttr("layout") && Checker(graph, target).Run();
}

}  // namespace weft
