/// op_attr_types.h: the types of the operator attributes that ops and passes meet in. Names
/// equal the attribute keys.
///
/// `FCodeGen` is in codegen/expr/op_codegen.h (it needs Expr); `FCompute` of
/// a backend in runtime/backend/compute.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"
#include "weft/core/tensor/sym_tensor.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

/// What FInferType sees of one node.
class InferTypeContext {
 public:
  virtual ~InferTypeContext() = default;
  virtual const NodePtr& node() const = 0;
  virtual int num_inputs() const = 0;
  virtual int num_outputs() const = 0;
  virtual bool has_input(int i) const = 0;  ///< false for an absent optional input
  virtual Type in(int i) const = 0;         ///< kUnknown dtype where not known
  virtual void set_out(int i, Type t) = 0;  ///< conflict with a known type throws kTypeMismatch
  virtual void set_in(int i, Type t) = 0;   ///< backward: only fills an unknown one
};
using FInferType = std::function<void(InferTypeContext&)>;

/// What FInferShape sees of one node: shapes, and values of small integer tensors.
class InferShapeContext {
 public:
  virtual ~InferShapeContext() = default;
  virtual const NodePtr& node() const = 0;
  virtual int num_inputs() const = 0;
  virtual int num_outputs() const = 0;
  virtual bool has_input(int i) const = 0;
  virtual const Shape& in(int i) const = 0;
  virtual Type in_type(int i) const = 0;
  virtual Type out_type(int i) const = 0;
  /// Constant or followed value of input i; null where unknown.
  virtual SymTensorPtr in_value(int i) = 0;
  /// The constant tensor behind input i (any dtype, any size); null where it is none.
  virtual TensorPtr in_constant(int i) = 0;
  virtual void set_out(int i, Shape s) = 0;  ///< conflict with a known shape throws kShapeMismatch
  virtual void set_out_value(int i, SymTensor v) = 0;
  virtual Facts& facts() = 0;  ///< of the graph; an op may add equalities
  /// A data-dependent extent: the same `u<k>` for the same (node, index) in every run of inference.
  virtual SymInt unbacked(int index) = 0;
  /// Why output i stays (partly) unknown; shown by `inspect` and by errors of later passes.
  virtual void explain(int i, std::string reason) = 0;
};
using FInferShape = std::function<void(InferShapeContext&)>;

/// Gradient: given the node and one entry per output (null entry: zero), one entry per input (null
/// entry: no gradient, or structurally none). Built from ordinary ops in the graph of the entries.
using FGradient =
    std::function<std::vector<NodeEntry>(const NodePtr&, const std::vector<NodeEntry>&)>;

/// How an op behaves in fusion where that does not follow from its FCodeGen: kAnchor for what a
/// library computes better, kElementwise for a general form that reads its inputs as broadcasting
/// does (Expand), kOpaque to stay out.
enum class FuseKind : uint8_t { kOpaque = 0, kElementwise, kInjective, kReduction, kAnchor };
using FFuseKind = FuseKind;

/// True for ops whose output 0 holds the elements of input 0 in the same row-major order (Reshape,
/// Squeeze, Identity ...): the runtime aliases it, fusion sees through it.
using TIsView = bool;

/// Operands whose values, beside the dimensions and dtypes of all operands, tell every dimension of
/// the results (the shape of a Reshape, the k of a TopK). An operator whose sizes depend on more
/// (NonZero) says nothing.
using TSizeOperands = std::vector<int>;

/// Inputs whose buffer output k may take over, element for element: pairs (input, output).
using FInplace = std::function<std::vector<std::pair<int, int>>(const NodePtr&)>;
/// Inputs that the op writes (Assign): their indices.
using FMutateInputs = std::function<std::vector<int>(const NodePtr&)>;
/// Floating point operations of one execution, as an expression over the symbolic dims.
using FFlops = std::function<SymInt(const NodePtr&, const std::vector<Shape>& in,
                                    const std::vector<Shape>& out)>;
/// True for ops with effects or state (random without seed, Assign): never removed,
/// merged, duplicated or reordered.
using TIsStateful = bool;

/// One rewrite over a single op, tried by Simplify. Returns the replacement of each output
/// (empty: no change). Must return entries of equal shape, dtype and value for every input.
/// `graph` is the node's graph.
class RewriteContext;
using FSimplify = std::function<std::vector<NodeEntry>(RewriteContext&, const NodePtr&)>;

/// Facts that a rewrite rule may ask for.
class RewriteContext {
 public:
  virtual ~RewriteContext() = default;
  virtual Graph& graph() = 0;
  virtual const Shape& shape(const NodeEntry& e) const = 0;
  virtual DType dtype(const NodeEntry& e) const = 0;
  virtual TensorPtr constant(const NodeEntry& e) const = 0;  ///< null where it is none
  virtual SymTensorPtr value(
      const NodeEntry& e) const = 0;  ///< followed value, constants included; null where unknown
  virtual const Facts& facts() const = 0;
  /// Proved: both ranks known and every extent equal.
  virtual bool same_shape(const NodeEntry& a, const NodeEntry& b) const = 0;
};

/// Ties the values an op accepts, for random inputs in checks and tests, per input.
struct InputDomain {
  enum Kind {
    kAny,
    kPositive,
    kNonZero,
    kUnit /* [-1, 1] */,
    kIndex /* [0, extent of `axis` of input `of`) */,
    kShapeValue
  } kind = kAny;
  int of = 0, axis = 0;
};
using FInputDomains = std::function<std::vector<InputDomain>(const NodePtr&)>;

}  // namespace weft
