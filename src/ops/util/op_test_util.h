/// op_test_util.h: for the tests of this room: graphs of one op, its execution by the reference
/// evaluator, finite differences, and a RewriteContext over an inferred graph.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/code_of.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/attr_text.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft::ops {

using Tensors = std::vector<TensorPtr>;

/// The element-wise operators, by name.
inline std::vector<std::string> ElementwiseOps() {
  std::istringstream names(
      "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot "
      "BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp "
      "Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less "
      "LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu "
      "Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu "
      "Where Xor");
  return {std::istream_iterator<std::string>(names), std::istream_iterator<std::string>()};
}

inline const Evaluator& Reference() {
  const Evaluator* e = GetEvaluator();
  REQUIRE(e != nullptr);
  return *e;
}

/// Text graph of one node: "f32[2, n]" makes an input, "i64[2] = [1, 0]" a Constant, "_" an absent
/// input.
inline Graph GraphOfRow(const Op& op, const std::vector<std::string>& inputs,
                        const std::string& attrs) {
  std::string header, body, args, results, types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "%x" + std::to_string(i);
    const size_t eq = inputs[i].find(" = ");
    args += i ? ", " : "";
    if (inputs[i] == "_") {
      args += "_";
      continue;
    }
    args += name;
    if (eq == std::string::npos) {
      header += (header.empty() ? "" : ", ") + name + ": " + inputs[i];
    } else {
      body += "  " + name + " = Constant() {value = tensor " + inputs[i].substr(0, eq) + " " +
              inputs[i].substr(eq + 3) + "} : ?\n";
    }
  }
  NodeAttrs node;
  node.op = &op;
  node.dict = ParseAttrDict("{" + attrs + "}");
  const uint32_t count = op.OutputCount(node);
  for (uint32_t k = 0; k < count; ++k) {
    results += (k ? ", %y" : "%y") + std::to_string(k);
    types += k ? ", ?" : "?";
  }
  return ParseGraph("weft 1\ngraph @row(" + header + ") -> (" + results + ") {\n" + body + "  " +
                    results + " = " + op.name + "(" + args + ")" +
                    (attrs.empty() ? "" : " {" + attrs + "}") + " : " + types + "\n}\n");
}

inline Graph Inferred(Graph g) { return ApplyPasses(std::move(g), "InferType,InferShape"); }

/// A graph of one op over inputs x0, x1 ... of the types of `tensors` (null: absent), all its
/// outputs asked for.
inline Graph GraphOfOp(const std::string& op, const Tensors& tensors, AttrDict attrs = {}) {
  Graph g;
  std::vector<NodeEntry> entries;
  for (size_t i = 0; i < tensors.size(); ++i) {
    NodeEntry e;
    if (tensors[i])
      e = NodeEntry(g.AddInput("x" + std::to_string(i), tensors[i]->type(), tensors[i]->shape()));
    entries.push_back(e);
  }
  const NodePtr n = g.AddNode(op, entries, std::move(attrs), "y");
  std::vector<NodeEntry> outputs;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) outputs.push_back({n, k});
  g.outputs = outputs;
  return g;
}

inline Tensors Present(const Tensors& tensors) {
  Tensors out;
  for (const TensorPtr& t : tensors)
    if (t) out.push_back(t);
  return out;
}

/// Outputs of one op; in double precision unless `typed`.
inline Tensors RunOp(const std::string& op, const Tensors& inputs, AttrDict attrs = {},
                     bool typed = true) {
  EvalOptions options;
  options.typed = typed;
  return Reference().Eval(GraphOfOp(op, inputs, std::move(attrs)), Present(inputs), options);
}

inline TensorPtr T(DType t, std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(t, std::move(dims), v);
}
inline TensorPtr F64(const std::vector<double>& v) {
  return T(DType::kF64, {int64_t(v.size())}, v);
}
inline TensorPtr F32(const std::vector<double>& v) {
  return T(DType::kF32, {int64_t(v.size())}, v);
}
inline TensorPtr Scalar64(double v) { return T(DType::kF64, {}, {v}); }

inline std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.at(i));
  return out;
}

/// Gradients of sum(dy * y) with respect to each input, by the op's FGradient; null where there is
/// none.
inline Tensors GradientOf(const std::string& op, const Tensors& inputs, const AttrDict& attrs,
                          const TensorPtr& dy) {
  Graph g = GraphOfOp(op, inputs, attrs);
  const NodePtr n = g.outputs[0].node;
  const NodeEntry seed(g.AddInput("dy", dy->dtype(), dy->shape()));
  std::vector<NodeEntry> seeds(n->num_outputs());
  seeds[0] = seed;
  const std::vector<NodeEntry> grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, seeds);
  REQUIRE(grads.size() == inputs.size());
  std::vector<NodeEntry> asked;
  for (const NodeEntry& e : grads)
    if (e) asked.push_back(e);
  Tensors out(inputs.size());
  if (asked.empty()) return out;
  g.outputs = asked;
  Tensors values = Present(inputs);
  values.push_back(dy);
  EvalOptions options;
  options.typed = false;
  const Tensors results = Reference().Eval(g, values, options);
  for (size_t i = 0, k = 0; i < grads.size(); ++i)
    if (grads[i]) out[i] = results[k++];
  return out;
}

/// FGradient against central differences of sum(dy * y) in double precision, for every f64 input
/// that has a gradient. Every op of the gradient must be differentiable itself.
inline void CheckGradient(const std::string& op, const Tensors& inputs, const AttrDict& attrs = {},
                          double tolerance = 1e-6) {
  CAPTURE(op);
  const TensorPtr y = RunOp(op, inputs, attrs, false)[0];
  auto dy = std::make_shared<Tensor>(y->dtype(), y->dims());
  for (int64_t i = 0; i < dy->num_elements(); ++i) dy->set(i, 0.5 + 0.25 * double(i % 7));
  const auto loss = [&](const Tensors& x) {
    const TensorPtr out = RunOp(op, x, attrs, false)[0];
    double sum = 0;
    for (int64_t i = 0; i < out->num_elements(); ++i) sum += out->at(i) * dy->at(i);
    return sum;
  };
  const Tensors grads = GradientOf(op, inputs, attrs, dy);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || !grads[i]) continue;
    CAPTURE(i);
    REQUIRE(grads[i]->dims() == inputs[i]->dims());
    REQUIRE(grads[i]->dtype() == inputs[i]->dtype());
    if (inputs[i]->dtype() != DType::kF64) continue;
    for (int64_t k = 0; k < inputs[i]->num_elements(); ++k) {
      const double x = inputs[i]->at(k), h = 1e-6 * std::max(1.0, std::fabs(x));
      const auto moved = [&](double to) {
        auto t = std::make_shared<Tensor>(DType::kF64, inputs[i]->dims());
        for (int64_t j = 0; j < t->num_elements(); ++j) t->set(j, j == k ? to : inputs[i]->at(j));
        Tensors all = inputs;
        all[i] = t;
        return loss(all);
      };
      const double numeric = (moved(x + h) - moved(x - h)) / (2 * h);
      CAPTURE(k);
      CAPTURE(x);
      CHECK(grads[i]->at(k) == doctest::Approx(numeric).epsilon(tolerance * 100).scale(0.01));
    }
  }
}

/// Facts of an inferred graph for FSimplify.
class TestRewriteContext : public RewriteContext {
 public:
  explicit TestRewriteContext(Graph& g) : graph_(g) {}
  Graph& graph() override { return graph_; }
  const Shape& shape(const NodeEntry& e) const override {
    return graph_.GetAttr<ShapeMap>("shape")[e];
  }
  DType dtype(const NodeEntry& e) const override {
    return graph_.GetAttr<TypeMap>("dtype")[e].dtype;
  }
  TensorPtr constant(const NodeEntry& e) const override { return Graph::ConstantOf(e); }
  SymTensorPtr value(const NodeEntry& e) const override {
    return graph_.GetAttr<EntryMap<SymTensorPtr>>("value")[e];
  }
  const Facts& facts() const override { return facts_; }
  bool same_shape(const NodeEntry& a, const NodeEntry& b) const override {
    const Shape &x = shape(a), &y = shape(b);
    if (!x.has_rank() || !y.has_rank() || x.rank() != y.rank()) return false;
    for (int i = 0; i < x.rank(); ++i)
      if (!(x[i] == y[i])) return false;
    return true;
  }

 private:
  Graph& graph_;
  Facts facts_;
};

}  // namespace weft::ops
