/// rnn.cc: see rnn.h. Layers are ONNX's operators LSTM and GRU, which Weft makes Scans of.
#include "tinyflow/rnn.h"

#include <cmath>

#include "tinyflow/nn.h"
#include "weft/support/check.h"

namespace tf::nn {
namespace {

Tensor Axes(const Ints& axes) { return constant(weft::Tensor::Ints(axes)); }

/// [steps, directions, batch, units] -> [steps, batch, directions units]
Tensor SideBySide(const Tensor& y, int64_t directions) {
  if (directions == 1) return make_node("Squeeze", {y, Axes({1})});
  return reshape(transpose(y, {0, 2, 1, 3}), {0, 0, -1});
}

}  // namespace

Embedding::Embedding(int64_t rows, int64_t width, const std::string& name) {
  const NameScope scope(name);
  weight_ = Variable(normal({rows, width}), "weight");
}
Tensor Embedding::operator()(const Tensor& ids) const {
  return make_node("Gather", {weight_, ids}, {{"axis", 0}});
}

Recurrent::Recurrent(const char* op, int gates, int states, int64_t inputs, int64_t units,
                     const RecurrentOptions& options, const std::string& name)
    : op_(op), states_(states), units_(units), options_(options) {
  WEFT_CHECK(inputs > 0 && units > 0 && options.layers > 0, kApiMisuse,
             "{}: {} layers of {} units on {} inputs", op, options.layers, units, inputs);
  const NameScope scope(name);
  const double bound = 1 / std::sqrt(double(units));
  for (int k = 0; k < options.layers; ++k) {
    const NameScope layer("layer" + std::to_string(k));
    const int64_t width = k == 0 ? inputs : directions() * units;
    const auto make = [&](const Ints& shape, const char* what) {
      return Variable(uniform(shape, -bound, bound), what);
    };
    layers_.push_back({make({directions(), gates * units, width}, "weight_input"),
                       make({directions(), gates * units, units}, "weight_hidden"),
                       make({directions(), 2 * gates * units}, "bias")});
  }
}

Sequence Recurrent::operator()(const Tensor& x, const Tensors& state, const Tensor& lengths) const {
  const size_t states = size_t(states_);
  WEFT_CHECK(state.empty() || state.size() == layers_.size() * states, kArity,
             "{}: a state of {} tensors, {} layers have {}", op_, state.size(), layers_.size(),
             layers_.size() * states);
  Sequence result{x, {}};
  for (size_t k = 0; k < layers_.size(); ++k) {
    const Layer& layer = layers_[k];
    if (k > 0) result.outputs = dropout(result.outputs, options_.dropout);
    Tensors operands{result.outputs, layer.weight_input, layer.weight_hidden, layer.bias, lengths};
    for (size_t i = 0; i < states && !state.empty(); ++i) operands.push_back(state[k * states + i]);
    weft::AttrDict attrs{{"hidden_size", units_},
                         {"direction", options_.both_ways ? "bidirectional" : "forward"}};
    if (states_ == 1) attrs["linear_before_reset"] = int64_t{1};  // of a GRU
    const Tensor y = make_node(op_, operands, std::move(attrs));
    result.outputs = SideBySide(y, directions());
    for (size_t i = 0; i < states; ++i)
      result.state.emplace_back(y.graph(), weft::NodeEntry(y.entry().node, uint32_t(1 + i)),
                                y.dtype());
  }
  return result;
}

Tensors Recurrent::StateOf(const std::function<Tensor(const std::string&)>& make,
                           const std::string& name) const {
  Tensors state;
  for (size_t k = 0; k < layers_.size(); ++k)
    for (const char* part : {"/h", "/c"})
      if (state.size() < (k + 1) * size_t(states_))
        state.push_back(make(name + part + std::to_string(k)));
  return state;
}
Tensors Recurrent::carried_state(int64_t batch, const std::string& name) const {
  return StateOf(
      [&](const std::string& part) {
        return Variable(zeros({directions(), batch, units_}), part, /*trainable=*/false);
      },
      name);
}
Tensors Recurrent::fed_state(const std::string& name) const {
  return StateOf(
      [&](const std::string& part) {
        return placeholder(float32, {directions(), None, units_}, part);
      },
      name);
}

Tensor carry(const Tensors& variables, const Sequence& sequence) {
  WEFT_CHECK(variables.size() == sequence.state.size(), kArity,
             "carry: {} variables for a state of {} tensors", variables.size(),
             sequence.state.size());
  Tensors updates;
  for (size_t i = 0; i < variables.size(); ++i) {
    updates.push_back(assign(variables[i], sequence.state[i]));
    add_update(updates.back());
  }
  return group(updates);
}

}  // namespace tf::nn
