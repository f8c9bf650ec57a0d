/// train.cc: update rules.
#include "tinyflow/train.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/support/check.h"

namespace tf::train {
namespace {

constexpr const char* kGlobalStep = "global_step";
constexpr double kPi = 3.14159265358979323846;

/// The accumulated 1 - beta^t after step t, kept as state: c = beta c + (1 - beta). In f32 the
/// power itself would cancel to 4 digits at t = 1 and beta = 0.999.
Tensor BiasCorrection(double beta, const std::string& name, std::vector<Tensor>* updates) {
  const Tensor state = Variable(zeros({}), name, false);
  const Tensor now = state * beta + (1 - beta);
  updates->push_back(assign(state, now));
  return now;
}

}  // namespace

Tensor global_step() {
  for (const VariableInfo& v : default_graph()->variables)
    if (v.tensor.name() == kGlobalStep) return v.tensor;
  const std::string scope = std::exchange(default_graph()->scope, {});
  const Tensor step = Variable(zeros({}), kGlobalStep, false);
  default_graph()->scope = scope;
  return step;
}

Rate Rate::Decaying(double start, double factor, double steps) {
  Rate rate(start);
  rate.factor_ = std::pow(factor, 1 / steps);
  return rate;
}

Tensor Rate::tensor(const std::string& name) const {
  return tensor_ ? tensor_ : Variable(constant(start_), name, false);
}
void Rate::Advance(const Tensor& rate, std::vector<Tensor>* updates) const {
  if (factor_ != 1) updates->push_back(assign(rate, rate * factor_));
}

Tensor exponential_decay(double rate, double steps, double decay) {
  return rate * pow(decay, global_step() / steps);
}
Tensor cosine_decay(double rate, double steps, double warmup, double floor) {
  const Tensor step = global_step();
  const Tensor done = minimum(maximum(step - warmup, 0) / std::max(steps - warmup, 1.0), 1);
  const Tensor wave = floor + (rate - floor) * 0.5 * (1 + cos(done * kPi));
  if (warmup <= 0) return wave;
  return where(step < warmup, rate * (step + 1) / warmup, wave);
}
Tensor piecewise_constant(const std::vector<double>& boundaries,
                          const std::vector<double>& values) {
  WEFT_CHECK(values.size() == boundaries.size() + 1, kApiMisuse,
             "piecewise_constant: {} boundaries need {} values, got {}", boundaries.size(),
             boundaries.size() + 1, values.size());
  const Tensor step = global_step();
  Tensor rate = constant(values.back());
  for (size_t i = boundaries.size(); i-- > 0;)
    rate = where(step < boundaries[i], constant(values[i]), rate);
  return rate;
}

std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients, double most,
                                        Tensor* norm) {
  WEFT_CHECK(!gradients.empty() && most > 0, kApiMisuse,
             "clip_by_global_norm: {} gradients, at most {}", gradients.size(), most);
  Tensor squares;
  for (const Tensor& g : gradients) {
    const Tensor sum = reduce_sum(square(g));
    squares = squares ? squares + sum : sum;
  }
  const Tensor length = sqrt(squares);
  if (norm) *norm = length;
  const Tensor factor = most / maximum(length, most);
  std::vector<Tensor> clipped;
  for (const Tensor& g : gradients) clipped.push_back(g * factor);
  return clipped;
}

Tensor Optimizer::Slot(const Tensor& variable, const std::string& name) {
  const weft::Shape shape = variable.shape();
  WEFT_CHECK(shape.is_static(), kShapeMismatch,
             "the shape of variable '{}' is not known yet; call infer_variable_shapes first",
             variable.name());
  const std::string scope = std::exchange(default_graph()->scope, {});
  const Tensor slot =
      Variable(zeros(shape.ints(), variable.dtype()), variable.name() + "/" + name, false);
  default_graph()->scope = scope;
  return slot;
}

Tensor Optimizer::minimize(const Tensor& loss, std::vector<Tensor> variables) {
  const GraphScope scope(loss.graph());
  if (variables.empty()) variables = trainable_variables();
  return apply_gradients(variables, gradients(loss, variables));
}

Tensor Optimizer::minimize_clipped(const Tensor& loss, double most, std::vector<Tensor> variables) {
  const GraphScope scope(loss.graph());
  if (variables.empty()) variables = trainable_variables();
  return apply_gradients(variables, clip_by_global_norm(gradients(loss, variables), most));
}

Tensor Optimizer::apply_gradients(const std::vector<Tensor>& variables,
                                  const std::vector<Tensor>& gradients) {
  WEFT_CHECK(!variables.empty() && variables.size() == gradients.size(), kApiMisuse,
             "{} variables, {} gradients", variables.size(), gradients.size());
  const NameScope names("optimizer");
  std::vector<Tensor> updates = update_ops();
  learning_rate_ = rate_.tensor("learning_rate");
  Prepare(&updates);
  for (size_t i = 0; i < variables.size(); ++i) Update(variables[i], gradients[i], &updates);
  rate_.Advance(learning_rate_, &updates);
  const Tensor step = global_step();
  updates.push_back(assign(step, step + 1));
  return group(updates);
}

void GradientDescentOptimizer::Update(const Tensor& x, const Tensor& g,
                                      std::vector<Tensor>* updates) {
  updates->push_back(assign(x, x - learning_rate() * g));
}

void MomentumOptimizer::Update(const Tensor& x, const Tensor& gradient,
                               std::vector<Tensor>* updates) {
  const Tensor v = Slot(x, "momentum");
  const Tensor g = decay_ == 0 ? gradient : gradient + decay_ * x;
  const Tensor now = momentum_ * v + g;
  updates->push_back(assign(v, now));
  updates->push_back(assign(x, x - learning_rate() * (nesterov_ ? g + momentum_ * now : now)));
}

void AdamOptimizer::Prepare(std::vector<Tensor>* updates) {
  const Tensor c1 = BiasCorrection(beta1_, "beta1_correction", updates);
  const Tensor c2 = BiasCorrection(beta2_, "beta2_correction", updates);
  step_size_ = learning_rate() / c1;
  root_scale_ = 1 / sqrt(c2);
}
void AdamOptimizer::Update(const Tensor& x, const Tensor& g, std::vector<Tensor>* updates) {
  const Tensor m = Slot(x, "adam_m"), v = Slot(x, "adam_v");
  const Tensor mean = beta1_ * m + (1 - beta1_) * g;
  const Tensor power = beta2_ * v + (1 - beta2_) * g * g;
  updates->push_back(assign(m, mean));
  updates->push_back(assign(v, power));
  updates->push_back(
      assign(x, Decayed(x) - step_size_ * mean / (sqrt(power) * root_scale_ + epsilon_)));
}

}  // namespace tf::train
