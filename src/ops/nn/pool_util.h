/// pool_util.h: what pooling and its gradients share: their attributes and their windows.
#pragma once

#include "ops/util/window.h"

namespace weft::ops {

struct PoolParam : OpParam<PoolParam> {
  std::string auto_pad;
  Ints dilations, kernel_shape, pads, strides;
  int64_t ceil_mode, count_include_pad, storage_order;
  WEFT_OP_PARAM(PoolParam) {
    WEFT_FIELD(auto_pad).set_default("NOTSET").describe("NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    WEFT_FIELD(ceil_mode).set_default(0).set_range(0, 1).describe("1: output dimensions round up");
    WEFT_FIELD(count_include_pad)
        .set_default(0)
        .set_range(0, 1)
        .describe("AveragePool: padding counts as zeros");
    WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");
    WEFT_FIELD(kernel_shape).describe("positive dimensions of the window");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(storage_order)
        .set_default(0)
        .set_range(0, 1)
        .describe("MaxPool: 1: Indices count column-major");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};

Window PoolWindow(const NodePtr& n, const Shape& x, const Facts* facts = nullptr);
WindowAttrs WindowOf(const PoolParam& p);
/// Every output has the extents of the windows over input 0.
void PoolShape(InferShapeContext& ctx);
/// One operation for each element of each window.
SymInt WindowFlops(const NodePtr& n, const std::vector<Shape>& in, const std::vector<Shape>& out);
/// The element of x that offset `k` of the window at `y` = [n, c, spatial...] reads; the least
/// value where it reads padding.
Expr PooledElement(const TensorArg& x, const Window& w, const Indices& y, const Indices& k);
/// The largest of them.
Expr PooledMax(const TensorArg& x, const Window& w, const Indices& y);
/// The offset in the window, row-major, of its first maximum. Padding is none, also where nothing
/// in the window is more than the least value.
Expr PooledWinner(const TensorArg& x, const Window& w, const Indices& y);
/// Elements that window o averages over; 1 where all of it is padding that does not count, so that
/// the mean is 0.
Expr WindowCount(const NodePtr& n, const Window& w, const Indices& o, DType t);
/// The type of input 0, a float, for output 0.
void FirstFloat(InferTypeContext& ctx);
/// Windows that share no element: each input position lies in one at most.
bool AreDisjoint(const Window& w);
/// The window that holds position `i` of disjoint ones, the offset in it, and whether there is one.
struct WindowSlot {
  Indices o, k;
  Expr inside;
};
WindowSlot SlotOf(const Window& w, const Indices& i);

}  // namespace weft::ops
