/// epilogue_test_util.h: steps behind a library call, and what they mean in double precision.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/conv/conv_test_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/checked.h"

namespace weft::cpu {

/// A step behind a call: an operator on what has been computed and on constants, or on a tensor.
struct Step {
  std::string op;
  AttrDict attrs = {};
  std::vector<double> constants = {};  ///< NaN: absent
  TensorPtr operand = nullptr;
  std::function<double(double value, double operand)> meaning;
  int slot = 0;
};

inline Layout layout_of_operands = Layout::kPlain;

/// `c` with `steps` behind its node.
inline void Add(Case* c, const std::vector<Step>& steps) {
  NodeEntry value(c->request.node);
  for (const Step& s : steps) {
    CallStep call;
    std::vector<NodeEntry> inputs{value};
    for (const double v : s.constants)
      inputs.push_back(std::isnan(v) ? NodeEntry() : ScalarLike(value, DType::kF32, v));
    if (s.operand) {
      inputs.emplace_back(c->graph.AddInput("r", DType::kF32, s.operand->shape()));
      call.operand = int(c->operands.size());
      call.operand_dims = s.operand->dims();
      call.operand_type = DType::kF32;
      call.operand_layout = layout_of_operands;
      c->operands.push_back(layout_of_operands == Layout::kPlain ? s.operand
                                                                 : Reordered(*s.operand, true));
    }
    if (s.slot == 1) std::swap(inputs[0], inputs[1]);
    call.node = c->graph.AddNode(s.op.c_str(), inputs, s.attrs, "step");
    call.slot = s.slot;
    c->request.epilogue.push_back(call);
    value = NodeEntry(call.node);
  }
}
inline std::vector<double> Apply(std::vector<double> y, const std::vector<Step>& steps) {
  for (const Step& s : steps)
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = s.meaning(y[i], s.operand ? s.operand->at(int64_t(i) % s.operand->num_elements()) : 0);
  return y;
}

/// Runs with the result where the last operand, the addend, lies: as the planner places it.
inline TensorPtr RunInPlace(const Case& c, const LibraryCall& call) {
  std::vector<const void*> in;
  for (const TensorPtr& t : c.operands) in.push_back(t ? t->data() : nullptr);
  const Tensor& addend = *c.operands.back();
  const auto y = std::make_shared<Tensor>(DType::kF32, addend.dims());
  std::copy_n(addend.data_as<float>(), addend.num_elements(), y->mutable_data_as<float>());
  void* out = y->mutable_data();
  in.back() = out;
  const size_t bytes = size_t(CheckedRoundUp(call.scratch_bytes() + 64, 64));
  std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
  call.Run(in.data(), &out, scratch.get());
  return y;
}

inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The first argument of std::max and std::min is what a NaN gives.
inline double Unit(double x) { return std::min(std::max(x, 0.0), 1.0); }

inline std::vector<Step> Activations() {
  const double none = NAN;
  const auto unary = [](const char* op, auto f, AttrDict attrs = {}) {
    return Step{op, std::move(attrs), {}, nullptr, [f](double x, double) { return f(x); }};
  };
  const auto clip = [](double low, double high) {
    return Step{"Clip", {}, {low, high}, nullptr, [=](double x, double) {
                  return std::min(std::max(x, std::isnan(low) ? -INFINITY : low),
                                  std::isnan(high) ? INFINITY : high);
                }};
  };
  return {
      unary("Relu", [](double x) { return std::max(x, 0.0); }),
      unary("LeakyRelu", [](double x) { return x < 0 ? 0.01f * x : x; }),
      unary("LeakyRelu", [](double x) { return x < 0 ? -0.5 * x : x; }, {{"alpha", -0.5}}),
      unary("Abs", [](double x) { return std::abs(x); }),
      unary("Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }),
      unary("Elu", [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }, {{"alpha", 0.5}}),
      unary("Sigmoid", Sigmoid),
      unary("Tanh", [](double x) { return std::tanh(x); }),
      unary("HardSigmoid", [](double x) { return Unit(0.2f * x + 0.5); }),
      unary("HardSigmoid", [](double x) { return Unit(-0.5 * x + 0.25); },
            {{"alpha", -0.5}, {"beta", 0.25}}),
      unary("HardSwish", [](double x) { return x * Unit(x / 6 + 0.5); }),
      unary("Gelu", [](double x) { return x * 0.5 * (1 + std::erf(x * std::sqrt(0.5))); }),
      unary("Gelu",
            [](double x) {
              return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
            },
            {{"approximate", "tanh"}}),
      unary("Swish", [](double x) { return x * Sigmoid(x); }),
      unary("Swish", [](double x) { return x * Sigmoid(1.5 * x); }, {{"alpha", 1.5}}),
      clip(0, 6),
      clip(-0.25, 0.5),
      clip(none, 0.25),
      clip(-0.5, none),
  };
}
/// A factor and an offset behind an activation; both sides.
inline std::vector<std::vector<Step>> Affine() {
  const Step mul{"Mul", {}, {-1.5}, nullptr, [](double x, double) { return x * -1.5; }, 1},
      div{"Div", {}, {4.0}, nullptr, [](double x, double) { return x / 4; }},
      add{"Add", {}, {0.75}, nullptr, [](double x, double) { return x + 0.75; }, 1},
      sub{"Sub", {}, {0.25}, nullptr, [](double x, double) { return x - 0.25; }};
  return {{mul}, {add}, {div, add}, {mul, sub}};
}
inline Step Addend(const Ns& dims, int slot = 0) {
  return {"Add", {}, {}, RandomTensor(dims, 9), [](double x, double r) { return x + r; }, slot};
}

}  // namespace weft::cpu
