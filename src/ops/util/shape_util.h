/// shape_util.h: what movement, reduction and neural-network ops share beyond op_util.h: axes,
/// followed values, index expressions, accumulating sums and the small graphs that gradients are
/// made of.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "op_util.h"

namespace weft::ops {

// ---- inference ----

/// Axes in [-rank, rank) to [0, rank), in the order given; throws kBadAttribute on a bad or a
/// repeated one.
std::vector<int> NormalizeAxes(const std::vector<int64_t>& axes, int rank, const NodePtr& node);
/// NormalizeAxis that names the node.
int AxisOf(int64_t axis, int rank, const NodePtr& node);
/// Followed value of input i as integers; nullopt where it is absent or not wholly known.
std::optional<std::vector<int64_t>> InputInts(InferShapeContext& ctx, int i);
inline bool HasInput(const InferShapeContext& ctx, int i) {
  return i < ctx.num_inputs() && ctx.has_input(i);
}
inline bool HasInput(const std::vector<TensorArg>& inputs, size_t i) {
  return i < inputs.size() && inputs[i].present;
}
inline bool HasInput(const NodePtr& n, size_t i) { return i < n->inputs.size() && n->inputs[i]; }
/// Throws kShapeMismatch unless input i has rank `rank` (unknown ranks pass). Returns whether the
/// rank is known.
bool CheckRank(InferShapeContext& ctx, int i, int rank, const char* what);
/// Number of elements of a 1-D input (shape, axes, pads ...); nullopt where unknown.
std::optional<int64_t> VectorLength(InferShapeContext& ctx, int i);
/// One extent from two that a run needs to be equal: a constant wins; records the equality. Throws
/// kShapeMismatch.
SymInt UnifyDims(InferShapeContext& ctx, SymInt a, SymInt b, const char* what);
/// Min and Max that use what is proved.
SymInt MinOf(SymInt a, SymInt b, const Facts& facts);
SymInt MaxOf(SymInt a, SymInt b, const Facts& facts);
/// Is the sign of `e` known? -1 negative, +1 zero or more, 0 unknown.
int SignOf(SymInt e, const Facts& facts);
/// Sets the value of output k when it has static extents of at most kMaxSymTensor elements and `at`
/// knows any of them.
void SetValue(InferShapeContext& ctx, int k, const Shape& shape,
              const std::function<SymInt(int64_t)>& at);
/// Leaves output k unknown and says why.
void Unknown(InferShapeContext& ctx, int k, std::string reason);
/// Output k has the shape that the followed value of input i spells; data-dependent extents become
/// unbacked symbols. Unknown rank where the length of that vector is unknown.
Shape ShapeFromInput(InferShapeContext& ctx, int i);
/// FInferType: output 0 has the dtype of input `i`, which must be in `set`; the inputs
/// `index_inputs` hold i32 / i64.
FInferType TypeOfDataInput(DTypeSet set, std::vector<int> index_inputs);
/// FInferShape of an op whose output 0 has the shape that input `i` holds (gradients of movement
/// ops).
FInferShape ShapeOfValueInput(int i);

// ---- code ----

/// The integers of a small input; throws kUnsupported naming `what` where they are not known at
/// compile time.
std::vector<int64_t> KnownInts(const NodePtr& node, const TensorArg& arg, const char* what);
/// Element `i` of a 1-D (or 0-D) integer input as i64: known, or read at run time.
Expr ElementI64(const TensorArg& arg, int64_t i);
/// An index that counts from the end when negative.
Expr WrapIndex(const Expr& index, const Expr& extent);
/// 0 <= i < n.
Expr InRange(const Expr& i, const Expr& n);
inline Expr FloorDivExpr(const Expr& a, const Expr& b) {
  return Expr::Binary(BinOp::kFloorDiv, a, b);
}
inline Expr FloorModExpr(const Expr& a, const Expr& b) {
  return Expr::Binary(BinOp::kFloorMod, a, b);
}
/// Reduce that gives the body itself where there is nothing to reduce over.
Expr ReduceOver(ReduceOp op, const std::vector<SymInt>& extents,
                const std::function<Expr(const Indices&)>& body);
/// Sum of `body` accumulated in AccumulatorOf(its dtype), rounded back once.
Expr SumOver(const std::vector<SymInt>& extents, const std::function<Expr(const Indices&)>& body);
/// `value` where `condition`, else `otherwise`; nothing that `value` loads is read where the
/// condition is false.
Expr ReadWhere(const Expr& condition, const Expr& value, const Expr& otherwise);
/// Both branches guarded: for reads that are in range on one side of the condition only.
Expr ReadEither(const Expr& condition, const Expr& yes, const Expr& no);
/// The number of points of `extents` as a value of dtype t.
Expr CountOf(const std::vector<SymInt>& extents, DType t);
inline Expr Zero(DType t) { return Expr::ConstInt(t, 0); }

// ---- gradients ----

NodeEntry ShapeOf(const NodeEntry& x);
NodeEntry ReshapeLike(const NodeEntry& dy, const NodeEntry& x);
NodeEntry ExpandLike(const NodeEntry& dy, const NodeEntry& x);
NodeEntry ZerosLike(const NodeEntry& x);
/// Absent entries of a gradient become zeros of the shape of the outputs of n.
std::vector<NodeEntry> MaterializeGrads(const NodePtr& n, const std::vector<NodeEntry>& dy);
bool AllNull(const std::vector<NodeEntry>& dy);
/// Copy of a node's attributes.
AttrDict AttrsOf(const NodePtr& n);

}  // namespace weft::ops
