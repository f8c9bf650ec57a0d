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
#include "weft/core/graph/match.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

constexpr double kNear = 1e-6;
bool Near(double a, double b) { return std::fabs(a - b) <= kNear * std::fabs(b); }

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
                Activation(p->factors[size_t(k)], p->factors[size_t(1 - k)], p->coefficient);
            made.node)
          return {made};
    return {};
  }

 private:
  /// Factors of the products and quotients by constants that make `e`, a few at most.
  std::optional<Product> ProductOf(const NodeEntry& e) const {
    Product p;
    std::vector<NodeEntry> open{e};
    for (int looked = 0; !open.empty(); ++looked) {
      if (looked > 8) return std::nullopt;
      const NodeEntry f = open.back();
      open.pop_back();
      if (const std::optional<double> c = ScalarConstant(f)) {
        p.coefficient *= *c;
      } else if (IsOp(f.node, "Mul")) {
        open.insert(open.end(), f.node->inputs.begin(), f.node->inputs.end());
      } else if (const std::optional<double> d =
                     IsOp(f.node, "Div") ? ScalarConstant(f.node->inputs[1]) : std::nullopt) {
        p.coefficient /= *d;
        open.push_back(f.node->inputs[0]);
      } else {
        p.factors.push_back(f);
      }
    }
    return p;
  }
  bool IsScaled(const NodeEntry& e, double c, const NodeEntry& x) const {
    const std::optional<Product> p = ProductOf(e);
    return p && p->factors.size() == 1 && p->factors[0] == x && Near(p->coefficient, c);
  }

  NodeEntry Activation(const NodeEntry& x, const NodeEntry& gate, double c) {
    const auto plus = [](const auto& e, double number) {
      return m::Either("Add", e, m::Number(number, kNear));
    };
    NodePtr hard;
    if (Near(c, 1) && m::Match(gate, m::Op("Sigmoid", m::Same(&x))))
      return AddOp(ctx_, "Swish", {x});
    if (Near(c, 1) && m::Match(gate, m::Op("HardSigmoid", m::Same(&x)).To(&hard)) &&
        Near(hard->attr<double>("alpha"), 1.0 / 6) && Near(hard->attr<double>("beta"), 0.5))
      return AddOp(ctx_, "HardSwish", {x});
    if (Near(c, 1.0 / 6) &&
        m::Match(gate, m::Op("Clip", plus(m::Same(&x), 3), m::Number(0.0), m::Number(6.0))))
      return AddOp(ctx_, "HardSwish", {x});
    NodeEntry in;
    if (Near(c, 0.5) && m::Match(gate, plus(m::Op("Erf", m::Any(&in)), 1)) &&
        IsScaled(in, std::sqrt(0.5), x))
      return AddOp(ctx_, "Gelu", {x});
    if (Near(c, 0.5) && m::Match(gate, plus(m::Op("Tanh", m::Any(&in)), 1)) && IsCubic(in, x))
      return AddOp(ctx_, "Gelu", {x}, {{"approximate", std::string("tanh")}});
    return {};
  }
  /// sqrt(2 / pi) * (x + 0.044715 x^3)
  bool IsCubic(const NodeEntry& e, const NodeEntry& x) const {
    const std::optional<Product> outer = ProductOf(e);
    NodeEntry rest;
    if (!outer || outer->factors.size() != 1 ||
        !Near(outer->coefficient, std::sqrt(2 / std::acos(-1.0))) ||
        !m::Match(outer->factors[0], m::Either("Add", m::Same(&x), m::Any(&rest))))
      return false;
    const std::optional<Product> cube = ProductOf(rest);
    if (!cube || !Near(cube->coefficient, 0.044715)) return false;
    const std::vector<NodeEntry>& f = cube->factors;
    return f == std::vector<NodeEntry>{x, x, x} ||
           (f.size() == 1 && m::Match(f[0], m::Op("Pow", m::Same(&x), m::Number(3.0))));
  }

  RewriteContext& ctx_;
};

WEFT_REGISTER_REWRITE_RULE("written-out-activation")
    .group("activations")
    .root("Mul", "Div")
    .describe("activations written out made Swish, HardSwish or Gelu")
    .apply([](RewriteContext& ctx, const NodePtr& n) { return Matcher(ctx).Run(n); });

}  // namespace
}  // namespace weft::simplify
