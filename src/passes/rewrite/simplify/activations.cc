/// activations.cc: activations that were written out become one operator, which libraries know.
///   x * Sigmoid(x)                                            -> Swish(x)
///   x * HardSigmoid(x, 1/6, 1/2), x * Clip(x + 3, 0, 6) / 6   -> HardSwish(x)
///   x * (Erf(x / sqrt(2)) + 1) / 2                            -> Gelu(x)
///   x * (Tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) + 1) / 2     -> Gelu(x), approximate = "tanh"
/// in f32 and f64, factors in any order, quotients by constants as products. Half types keep
/// every rounding that the user asked for. Equal up to rounding; constants are compared as far
/// as f32 holds them.
#include <cmath>
#include <optional>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

bool Near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

/// coefficient * factors[0] * factors[1] ..
struct Product {
  double coefficient = 1;
  std::vector<NodeEntry> factors;
};

class Matcher {
 public:
  explicit Matcher(RewriteContext& ctx) : ctx_(ctx) {}

  std::vector<NodeEntry> Run(const NodePtr& n) {
    const DType t = ctx_.dtype(NodeEntry(n));
    if (t != DType::kF32 && t != DType::kF64) return {};
    const std::optional<Product> p = ProductOf(NodeEntry(n));
    if (!p || p->factors.size() != 2) return {};
    for (int k : {0, 1})
      if (ctx_.same_shape(p->factors[size_t(k)], NodeEntry(n)))
        if (auto made =
                Activation(n, p->factors[size_t(k)], p->factors[size_t(1 - k)], p->coefficient);
            made.node)
          return {made};
    return {};
  }

 private:
  std::optional<double> Scalar(const NodeEntry& e) const {
    const TensorPtr t = e.node ? ctx_.constant(e) : nullptr;
    if (!t || t->num_elements() != 1 || !IsFloat(t->dtype())) return std::nullopt;
    return t->at(0);
  }

  /// Factors of the products and quotients by constants that make `e`, a few at most.
  std::optional<Product> ProductOf(const NodeEntry& e) const {
    Product p;
    std::vector<NodeEntry> open{e};
    for (int looked = 0; !open.empty(); ++looked) {
      if (looked > 8) return std::nullopt;
      const NodeEntry f = open.back();
      open.pop_back();
      if (const std::optional<double> c = Scalar(f)) {
        p.coefficient *= *c;
      } else if (IsOp(f.node, "Mul")) {
        open.insert(open.end(), f.node->inputs.begin(), f.node->inputs.end());
      } else if (const std::optional<double> d =
                     IsOp(f.node, "Div") ? Scalar(f.node->inputs[1]) : std::nullopt) {
        p.coefficient /= *d;
        open.push_back(f.node->inputs[0]);
      } else {
        p.factors.push_back(f);
      }
    }
    return p;
  }
  /// The other term of a sum with the number `c`; null where there is none.
  NodeEntry PlusNumber(const NodeEntry& e, double c) const {
    if (!IsOp(e.node, "Add")) return {};
    for (size_t k : {size_t(0), size_t(1)})
      if (const std::optional<double> v = Scalar(e.node->inputs[k]); v && Near(*v, c))
        return e.node->inputs[1 - k];
    return {};
  }
  bool IsScaled(const NodeEntry& e, double c, const NodeEntry& x) const {
    const std::optional<Product> p = ProductOf(e);
    return p && p->factors.size() == 1 && p->factors[0] == x && Near(p->coefficient, c);
  }

  NodeEntry Activation(const NodePtr& n, const NodeEntry& x, const NodeEntry& gate, double c) {
    if (Near(c, 1) && IsOp(gate.node, "Sigmoid") && gate.node->inputs[0] == x)
      return Make("Swish", n, x);
    if (Near(c, 1) && IsOp(gate.node, "HardSigmoid") && gate.node->inputs[0] == x &&
        Near(gate.node->attr<double>("alpha"), 1.0 / 6) &&
        Near(gate.node->attr<double>("beta"), 0.5))
      return Make("HardSwish", n, x);
    if (Near(c, 1.0 / 6) && IsHardGate(gate, x)) return Make("HardSwish", n, x);
    const NodeEntry bell = Near(c, 0.5) ? PlusNumber(gate, 1) : NodeEntry();
    if (IsOp(bell.node, "Erf") && IsScaled(bell.node->inputs[0], std::sqrt(0.5), x))
      return Make("Gelu", n, x);
    if (IsOp(bell.node, "Tanh") && IsCubic(bell.node->inputs[0], x))
      return Make("Gelu", n, x, {{"approximate", std::string("tanh")}});
    return {};
  }
  /// Clip(x + 3, 0, 6)
  bool IsHardGate(const NodeEntry& e, const NodeEntry& x) const {
    if (!IsOp(e.node, "Clip") || e.node->num_inputs() != 3) return false;
    const std::optional<double> low = Scalar(e.node->inputs[1]), high = Scalar(e.node->inputs[2]);
    return low && *low == 0 && high && *high == 6 && PlusNumber(e.node->inputs[0], 3) == x;
  }
  /// sqrt(2 / pi) * (x + 0.044715 x^3)
  bool IsCubic(const NodeEntry& e, const NodeEntry& x) const {
    const std::optional<Product> outer = ProductOf(e);
    if (!outer || outer->factors.size() != 1 ||
        !Near(outer->coefficient, std::sqrt(2 / std::acos(-1.0))))
      return false;
    const NodeEntry sum = outer->factors[0];
    if (!IsOp(sum.node, "Add")) return false;
    for (size_t k : {size_t(0), size_t(1)}) {
      if (sum.node->inputs[k] != x) continue;
      const std::optional<Product> cube = ProductOf(sum.node->inputs[1 - k]);
      if (!cube || !Near(cube->coefficient, 0.044715)) continue;
      const std::vector<NodeEntry>& f = cube->factors;
      if (f == std::vector<NodeEntry>{x, x, x}) return true;
      if (f.size() != 1 || !IsOp(f[0].node, "Pow") || f[0].node->inputs[0] != x) continue;
      const std::optional<double> power = Scalar(f[0].node->inputs[1]);
      if (power && *power == 3) return true;
    }
    return false;
  }
  NodeEntry Make(const char* op, const NodePtr& n, const NodeEntry& x, AttrDict attrs = {}) {
    return NodeEntry(ctx_.graph().AddNode(op, {x}, std::move(attrs), n->attrs.name));
  }

  RewriteContext& ctx_;
};

std::vector<NodeEntry> WrittenOut(RewriteContext& ctx, const NodePtr& n) {
  return Matcher(ctx).Run(n);
}
WEFT_REGISTER_REWRITE_RULE("written-out-activation")
    .group("activations")
    .root("Mul", "Div")
    .describe("activations written out made Swish, HardSwish or Gelu")
    .apply(WrittenOut);

}  // namespace
}  // namespace weft::simplify
