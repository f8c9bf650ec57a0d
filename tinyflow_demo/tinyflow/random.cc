/// random.cc: what is drawn at random, by weft's counter-based generator: a draw is a function of
/// the seed, the step, the number of the node that draws, and the position. So nothing is kept but
/// the step, and a step that is repeated draws the same numbers.
#include "tinyflow/random.h"

#include <cmath>
#include <utility>

#include "tinyflow/ops.h"

namespace tf {
namespace {

constexpr double kTwoPi = 6.283185307179586;
constexpr int64_t kFirstValues = 0;  // the step of what is drawn before training

double Unit(uint64_t mixed) { return (double(mixed >> 11) + 0.5) * 0x1p-53; }

Array State(uint64_t seed, int64_t step) { return weft::Tensor::Ints({int64_t(seed), step}); }

/// A number that no other node of the graph draws with.
int64_t Stream() { return root_graph()->random_ops++; }

Tensor Draw(const char* op, const Ints& shape, weft::AttrDict attrs) {
  attrs["shape"] = weft::Ints(shape);
  attrs["stream"] = Stream();
  const Tensor state = constant(State(root_graph()->seed, kFirstValues));
  return make_node(op, {Tensor(), state}, std::move(attrs), float32);
}

/// The state of what is drawn anew in every step: a variable, whose step grows by one.
Tensor StepState() {
  const GraphScope root(root_graph());
  GraphState& g = *default_graph();
  if (!g.random_state) {
    const std::string scope = std::exchange(g.scope, {});
    g.random_state = Variable(constant(State(g.seed, kFirstValues + 1)), "random_state", false);
    g.scope = scope;
  }
  return g.random_state;
}

}  // namespace

double Normal(uint64_t seed, uint64_t i) {
  return std::sqrt(-2 * std::log(Unit(Mix(seed, 1, i)))) * std::cos(kTwoPi * Unit(Mix(seed, 2, i)));
}

Tensor uniform(const Ints& shape, double low, double high) {
  return Draw("weft::RandomUniform", shape, {{"low", low}, {"high", high}});
}
Tensor normal(const Ints& shape, double stddev, double mean) {
  return Draw("weft::RandomNormal", shape, {{"mean", mean}, {"scale", stddev}});
}
Tensor uniform_like(const Tensor& x) {
  const GraphScope scope(x.graph());
  return make_node("weft::RandomUniform", {x, StepState()}, {{"stream", Stream()}}, float32);
}

std::vector<Tensor> update_ops() {
  const GraphState& g = *default_graph();
  std::vector<Tensor> updates = g.updates;
  if (g.random_state)
    updates.push_back(
        assign(g.random_state, g.random_state + constant(weft::Tensor::Ints({0, 1}))));
  return updates;
}

}  // namespace tf
