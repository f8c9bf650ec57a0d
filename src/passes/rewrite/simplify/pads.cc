/// pads.cc: Pad by a window's neutral value becomes the window's own padding.
///   Conv(Pad(x, p), W)          -> Conv(x, W) {pads += p}
///                                  Pad by zeros; W constant and finite, since 0 times inf is not 0
///   MaxPool(Pad(x, p, lowest))  -> MaxPool(x) {pads += p}
///                                  output 1 (positions in the padded x) is not used
///   AveragePool(Pad(x, p))      -> AveragePool(x) {pads += p, count_include_pad = 1}
/// Where only spatial axes are padded, by constants that are not negative. AveragePool divides by
/// whole windows before and after: its own padding is absent or counts as well. Rounding up
/// (ceil_mode) drops windows that start in the own padding, so there a Pad is no padding; SAME_*
/// derives its padding from the extents; no window of a pool may lie in padding alone.
#include <limits>
#include <optional>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/support/checked.h"

namespace weft::simplify {
namespace {

/// Elements that `pad` adds before and after each spatial axis, in the order of the attribute
/// `pads`: all begins, then all ends. None where it does something else, or not by numbers.
std::optional<std::vector<int64_t>> SpatialPads(RewriteContext& ctx, const NodePtr& pad, int rank) {
  if (pad->attr<std::string>("mode") != "constant") return {};
  const SymTensorPtr amounts = ctx.value(pad->inputs[1]);
  if (!amounts || !amounts->is_const()) return {};
  std::vector<int64_t> axes;
  if (pad->num_inputs() > 3 && pad->inputs[3].node) {
    const SymTensorPtr given = ctx.value(pad->inputs[3]);
    if (!given || !given->is_const()) return {};
    axes = given->ints();
  } else {
    for (int64_t k = 0; k < rank; ++k) axes.push_back(k);
  }
  const std::vector<int64_t> p = amounts->ints();
  if (p.size() != 2 * axes.size()) return {};
  const size_t spatial = size_t(rank - 2);
  std::vector<int64_t> out(2 * spatial, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    const int64_t begin = p[i], end = p[i + axes.size()];
    if (axis < 0 || axis >= rank || begin < 0 || end < 0) return {};
    if (axis < 2) {
      if (begin != 0 || end != 0) return {};
      continue;
    }
    out[size_t(axis - 2)] = begin;
    out[size_t(axis - 2) + spatial] = end;
  }
  return out;
}

/// What `pad` fills with; none where that is not known.
std::optional<double> FillOf(RewriteContext& ctx, const NodePtr& pad) {
  if (pad->num_inputs() < 3 || !pad->inputs[2].node) return 0;
  const TensorPtr t = ctx.constant(pad->inputs[2]);
  if (!t || t->num_elements() != 1 || !IsComputable(t->dtype())) return {};
  return t->at(0);
}

/// The own padding of a window, zeros where none is given; none where it follows from the extents.
std::optional<std::vector<int64_t>> OwnPads(const NodePtr& n, size_t spatial) {
  const std::string mode = n->attr<std::string>("auto_pad");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") return {};
  const Ints given = n->attr<Ints>("pads");
  if (mode == "VALID" || given.empty()) return std::vector<int64_t>(2 * spatial, 0);
  if (given.size() != 2 * spatial) return {};
  return given;
}

/// The value that never wins in a maximum.
double Lowest(DType t) {
  if (IsFloat(t)) return -std::numeric_limits<double>::infinity();
  return t == DType::kI8 ? INT8_MIN : 0;
}

std::vector<NodeEntry> PadIntoWindow(RewriteContext& ctx, const NodePtr& n) {
  const bool conv = IsOp(n, "Conv"), max = IsOp(n, "MaxPool");
  const NodePtr pad = n->inputs[0].node;
  if (!IsOp(pad, "Pad")) return {};
  const Shape& x = ctx.shape(pad->inputs[0]);
  if (!x.has_rank() || x.rank() < 3) return {};
  const auto added = SpatialPads(ctx, pad, x.rank());
  const auto own = OwnPads(n, size_t(x.rank() - 2));
  const auto fill = FillOf(ctx, pad);
  if (!added || !own || !fill) return {};

  AttrDict attrs = n->attrs.dict;
  if (conv) {
    const TensorPtr weights = ctx.constant(n->inputs[1]);
    if (*fill != 0 || !weights || !AllFinite(*weights)) return {};
  } else if (n->attr<int64_t>("ceil_mode") != 0) {
    return {};
  } else if (max) {
    if (*fill != Lowest(ctx.dtype(n->inputs[0])) || IsRead(ctx.graph(), NodeEntry(n, 1))) return {};
  } else {
    const bool pads_itself = *own != std::vector<int64_t>(own->size(), 0);
    if (*fill != 0 || (pads_itself && n->attr<int64_t>("count_include_pad") == 0)) return {};
    attrs["count_include_pad"] = 1;
  }
  Ints pads;
  for (size_t i = 0; i < own->size(); ++i) pads.push_back(CheckedAdd((*own)[i], (*added)[i]));
  if (!conv) {
    // A window of nothing but padding has no value that every library agrees on.
    const Ints kernel = n->attr<Ints>("kernel_shape");
    for (size_t i = 0; i < pads.size(); ++i)
      if (pads[i] >= kernel[i % kernel.size()]) return {};
  }
  attrs["pads"] = pads;
  attrs.erase("auto_pad");
  std::vector<NodeEntry> inputs = n->inputs;
  inputs[0] = pad->inputs[0];
  return {AddOp(ctx, n->op()->name, inputs, std::move(attrs))};
}
WEFT_REGISTER_REWRITE_RULE("pad-into-window")
    .group("pads")
    .root("Conv", "MaxPool", "AveragePool")
    .describe("Pad that convolution and pooling do by themselves")
    .apply(PadIntoWindow);

}  // namespace
}  // namespace weft::simplify
