/// op_codegen.h: `FCodeGen`, the operator attribute that says what an operator means, once.
///
/// Two forms, one attribute:
///   element-wise  FCodeGen(node, inputs) -> one Expr per output; `inputs` are the
///                 scalars at the output's position (broadcasting is done by the caller),
///                 e.g. {inputs[0] + inputs[1]}
///   general       FCodeGen(node, inputs, at) -> one Expr per output: the value of
///                 output k at index at(k), written over inputs read at indices, e.g.
///                 for Transpose {inputs[0](permuted at(0))}
/// Numbers of few bits are their values here (ValueTypeOf of weft/core/tensor/dtype.h), operands
/// and results; an operator whose code knows them says so by TTakesLowBit.
/// From it come the interpreter, constant folding, the CPU kernel, the CUDA kernel and fusion.
#pragma once

#include <functional>
#include <type_traits>
#include <vector>

#include "weft/codegen/expr/expr.h"
#include "weft/core/graph/graph.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {

/// An input tensor as a general FCodeGen sees it. Shapes are fully known (integers or expressions)
/// when it is called.
struct TensorArg {
  Shape shape;
  DType dtype = DType::kUnknown;
  /// Value of a small integer tensor as far as shape inference knows it; null otherwise.
  const SymTensor* value = nullptr;
  /// False for an absent optional input; then nothing else holds.
  bool present = true;
  std::function<Expr(const Indices&)> read;

  /// The element at `at` (one i64 expression per dimension), of ValueTypeOf(dtype).
  Expr operator()(const Indices& at) const { return read(at); }
  int rank() const { return shape.rank(); }
  Expr dim(int i) const { return Expr::Dim(shape[i]); }
};

/// Where the outputs are asked for.
struct OutputAt {
  std::vector<Indices> index;  ///< per output: one expression per dimension
  std::vector<Shape> shape;
  std::vector<DType> dtype;
  const Indices& operator()(int k) const { return index[k]; }
};

class FCodeGen {
 public:
  using Elementwise = std::function<Exprs(const NodePtr&, const Exprs&)>;
  using General =
      std::function<Exprs(const NodePtr&, const std::vector<TensorArg>&, const OutputAt&)>;

  FCodeGen() = default;
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FCodeGen>>>
  FCodeGen(F f) {  // NOLINT: any of the two callables
    if constexpr (std::is_invocable_v<F, const NodePtr&, const Exprs&>)
      elementwise = std::move(f);
    else
      general = std::move(f);
  }
  explicit operator bool() const { return elementwise || general; }

  Elementwise elementwise;
  General general;
};

/// True for operators whose FCodeGen takes and gives numbers of few bits (IsLowBit): those that
/// others name as operand or result stay with FHostEval.
using TTakesLowBit = bool;

/// Expressions of all outputs of `node` at `at`. For an element-wise op the inputs are read with
/// numpy broadcasting (right-aligned; an extent that is 1, or may be 1, is read at 0) and cast
/// to nothing. Throws kMissingOpAttr.
WEFT_API Exprs ExpandNode(const NodePtr& node, const std::vector<TensorArg>& inputs,
                          const OutputAt& at);

/// Index expression that reads an operand of extent `from` where the output has extent `to`: `i`,
/// 0, or a select at run time.
WEFT_API Expr BroadcastIndex(SymInt from, SymInt to, const Expr& i);
/// Row-major linear offset of `at` in a tensor of extents `dims`, and its inverse.
WEFT_API Expr Linearize(const Indices& at, const std::vector<SymInt>& dims);
WEFT_API Indices Delinearize(const Expr& offset, const std::vector<SymInt>& dims);

}  // namespace weft
