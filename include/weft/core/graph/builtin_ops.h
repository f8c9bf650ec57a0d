/// builtin_ops.h: names, builders and accessors of the operators that passes build. The ops
/// themselves are registered in src/ops; passes know them by this header only.
#pragma once

#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

namespace builtin {
inline constexpr const char* kConstant = "Constant";  ///< attr value: tensor
inline constexpr const char* kIdentity = "Identity";
/// attr body: graph; inputs in the order of the body's inputs
inline constexpr const char* kFused = "weft::Fused";
/// (x, like): sums x down to the shape of `like`
inline constexpr const char* kSumTo = "weft::SumTo";
inline constexpr const char* kAssign = "weft::Assign";  ///< (variable, value)
/// attr dims: shape; an i64 vector of symbolic extents, no input
inline constexpr const char* kShapeTensor = "weft::ShapeTensor";
/// attr body: graph; inputs in the order of the body's inputs. A part of a graph whose sizes are
/// known when it is entered (SplitRegions)
inline constexpr const char* kRegion = "weft::Region";
/// attrs body: graph, delegate: whose engine runs it (core/module/delegate.h); inputs in the order
/// of the body's inputs
inline constexpr const char* kDelegated = "weft::Delegated";
/// attrs body: graph of one node, dims: shape, at: pairs (output, axis). An empty bool tensor of
/// the shape [0, dims ..]: sizes of the node, told by values of its operands
inline constexpr const char* kSizes = "weft::Sizes";
/// attrs first, second: graphs that may run at the same time; the inputs of both are all operands
inline constexpr const char* kConcurrent = "weft::Concurrent";
/// attrs body: graph of one element-wise node, wrt: the body's input that the gradient is of, ys:
/// its outputs that have one; inputs: those of the body, then the gradients of outputs ys
inline constexpr const char* kDerivative = "weft::Derivative";
/// attrs code: text of expressions over the inputs (codegen/expr/expr_text.h), dtypes: of the
/// outputs
inline constexpr const char* kExpression = "weft::Expression";
}  // namespace builtin

// Builders; entries of one graph. Element-wise ones broadcast as ONNX does.
WEFT_API NodeEntry operator+(const NodeEntry& a, const NodeEntry& b);
WEFT_API NodeEntry operator-(const NodeEntry& a, const NodeEntry& b);
WEFT_API NodeEntry operator*(const NodeEntry& a, const NodeEntry& b);
WEFT_API NodeEntry operator/(const NodeEntry& a, const NodeEntry& b);
WEFT_API NodeEntry operator-(const NodeEntry& a);
/// x reduced to the shape of `like` (the reverse of broadcasting `like` to x's shape).
WEFT_API NodeEntry SumTo(const NodeEntry& x, const NodeEntry& like);
/// A constant in the graph of `near`: scalar of `dtype`, vector of int64, any tensor.
WEFT_API NodeEntry ScalarLike(const NodeEntry& near, DType dtype, double value);
WEFT_API NodeEntry IntsLike(const NodeEntry& near, const std::vector<int64_t>& values);
WEFT_API NodeEntry ConstantLike(const NodeEntry& near, TensorPtr value);
/// Scalar of the dtype of `x` at run time: CastLike(value, x). For gradients, which know no dtypes.
WEFT_API NodeEntry ScalarOf(const NodeEntry& x, double value);
/// Unary op by name in the graph of `x`.
WEFT_API NodeEntry ApplyOp(const char* op, const std::vector<NodeEntry>& inputs,
                           AttrDict attrs = {});

/// Body of a weft::Fused node.
WEFT_API GraphPtr FusedBody(const NodePtr& node);
WEFT_API bool IsOp(const NodePtr& node, std::string_view op);

}  // namespace weft
