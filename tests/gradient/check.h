/// check.h: gradient graphs by the operators' FGradient alone, without the pass `Gradient` (which
/// is tested against them), and their comparison with central differences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cases.h"

namespace weft::gradient {

/// Reverse accumulation: the gradients of the sum of <seeds[k], ys[k]> with respect to `xs`, null
/// where there is none. Throws kUnsupported naming an operator on the path that has no FGradient.
std::vector<NodeEntry> Backward(const std::vector<NodeEntry>& ys,
                                const std::vector<NodeEntry>& seeds,
                                const std::vector<NodeEntry>& xs);

/// The vector-Jacobian product of one case as a graph.
struct Vjp {
  Graph graph;                      ///< inputs: the variables of the case, then one seed a result
  NodePtr node;                     ///< the node of the case
  std::vector<NodeEntry> xs;        ///< f64 variables
  std::vector<size_t> slots;        ///< of xs: operands of the case
  std::vector<size_t> variables;    ///< of xs: positions among the variables
  std::vector<uint32_t> results;    ///< f64 results of the node
  std::vector<NodeEntry> seeds;     ///< one each
  std::vector<NodeEntry> gradient;  ///< one an entry of xs, as FGradient gave it; may be null
};
/// `ys`: the results of the case, for their extents. Only those in `seeded` get
/// a seed (empty: all).
Vjp MakeVjp(const Case& c, const Tensors& ys, const std::vector<uint32_t>& seeded = {});

/// Values of the gradient of each x at the case and `seeds`; zeros where it is null.
Tensors EvalGradient(Vjp& v, const Case& c, const Tensors& seeds);

/// Random tensors in [-1, 1] of the extents of `like`.
Tensors RandomLike(const Tensors& like, uint64_t seed);
double Dot(const Tensors& a, const Tensors& b);
/// a + h d.
TensorPtr Moved(const Tensor& a, double h, const Tensor& d);
/// Every element finite.
bool Finite(const Tensors& t);

/// Central difference of the vector function f along `direction` at x, and whether it can be told:
/// false where f jumps, has a kink or is not finite within the step, judged by a second step.
struct Difference {
  Tensors value;
  bool smooth = true;
};
Difference CentralDifference(const std::function<Tensors(const Tensors&)>& f, const Tensors& x,
                             const Tensors& direction);

/// |a - b| within the error of a central difference, at a scale.
bool Near(double a, double b, double scale = 1);

}  // namespace weft::gradient
