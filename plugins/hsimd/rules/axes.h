/// axes.h: what the Expr of an operator says about its dimensions; private to rules/.
///
/// Reductions are taken apart: each becomes a value of its own over the axes that it depends on,
/// and its bound variables become axes too, numbered behind those of the results.
///
/// Where an index is divided, as windows that lie side by side do for the position in a window, the
/// axis is taken apart by the divisor: x[i / 2, i % 2] is x[j, 0] at i = 2j and x[j, 1] at
/// i = 2j + 1. A reduced axis becomes two. Reads at positions that are data become selections
/// where few positions are possible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/codegen/lower/lower.h"

namespace hsimd {

using weft::Expr;
using weft::Exprs;

/// constant + sum of coefficient * Index(axis).
struct Affine {
  int64_t constant = 0;
  std::map<int, int64_t> terms;
  /// The one axis that it is, as it is; -1.
  int pure() const {
    return constant == 0 && terms.size() == 1 && terms.begin()->second == 1 ? terms.begin()->first
                                                                            : -1;
  }
};

std::optional<Affine> AffineOf(const Expr& e);
/// True where the expression reads nothing but Index and constants.
bool IsIndexOnly(const Expr& e);
/// Its value at a position, integers and booleans; nullopt: it has other operations.
std::optional<int64_t> EvalIndex(const Expr& e, const std::vector<int64_t>& at);
/// Axes that occur, ascending.
std::vector<int> AxesOf(const Expr& e);

/// What an expression computes from indices alone: comparisons, and integers of one axis, that are
/// values or guards of it. Where all of them are known, it is the same at every point.
std::vector<Expr> IndexConditions(const Expr& e);

/// A reduction: its value is a tensor over `kept`, called buffer `buffer`.
struct ReducePart {
  weft::ReduceOp op = weft::ReduceOp::kSum;
  weft::DType dtype = weft::DType::kF32;
  std::vector<int> kept, reduced;  ///< axes
  Expr body;                       ///< over Index and Load; inner reductions are loads
  int buffer = 0;
};

struct ResultPart {
  int output = 0;
  std::vector<int> axes;   ///< of its dimensions, each its own
  std::vector<Affine> at;  ///< by dimension, of its axis: where the value is put
  Expr value;              ///< over Index and Load
};

struct OperatorParts {
  weft::ComputeSpec spec;
  std::vector<std::vector<int64_t>> input_shapes, output_shapes;
  std::vector<int64_t> extents;     ///< by axis
  std::vector<ReducePart> reduces;  ///< inner ones first
  std::vector<ResultPart> results;
  std::vector<bool> local;  ///< by axis: may not be dealt out over places
  /// By axis: its class, the smallest axis of it.
  std::vector<int> classes;
  /// By input, by dimension: the axis that it is read along as it is, or -1.
  std::vector<std::vector<int>> input_axes;
  std::vector<bool> read;  ///< by input: others, as the shapes of results, say nothing here
};

/// Throws kUnsupported with the reason: dtypes beyond 32 bits, indices that are not affine,
/// symbolic extents, reductions without an operation of the ALU.
OperatorParts TakeApart(const weft::Graph& graph, const weft::NodePtr& node);

/// A sum of products of two loads, as a ReducePart may be: which operand is which, and the axes.
struct ProductPart {
  Expr a, b;                                     ///< loads
  std::vector<int> only_a, only_b, both, inner;  ///< kept axes of one or both; reduced axes
};
std::optional<ProductPart> ProductOf(const ReducePart& part);

}  // namespace hsimd
