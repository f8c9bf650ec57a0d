/// train.h: optimizers and learning-rate schedules, each a graph of ordinary operators: an update
/// rule is written as in the paper that proposed it, and fusion makes one kernel of it. Users write
/// their own in the same way (my_optimizer.cc).
#pragma once

#include <string>
#include <vector>

#include "tinyflow/ops.h"

namespace tf::train {

/// Counts the steps of all optimizers of the default graph; f32, 0 before the first.
Tensor global_step();

/// A learning rate: a number, a number that is multiplied by `factor` in every `steps`
/// steps, or any tensor.
class Rate {
 public:
  Rate(double fixed) : start_(fixed) {}                      // NOLINT
  Rate(Tensor scheduled) : tensor_(std::move(scheduled)) {}  // NOLINT
  static Rate Decaying(double start, double factor, double steps);
  /// As an operand. A number becomes a variable NAME, which can be set while training goes on.
  Tensor tensor(const std::string& name) const;
  /// Appends what a step does to the operand, behind all that reads it.
  void Advance(const Tensor& rate, std::vector<Tensor>* updates) const;

 private:
  double start_ = 0, factor_ = 1;  // factor of one step
  Tensor tensor_;
};

/// rate decay^(step / steps)
Tensor exponential_decay(double rate, double steps, double decay);
/// From `rate` down to `floor` along half a cosine in `steps` steps; `warmup` steps
/// before that rise linearly.
Tensor cosine_decay(double rate, double steps, double warmup = 0, double floor = 0);
/// values[i] before boundaries[i], the last value after all of them.
Tensor piecewise_constant(const std::vector<double>& boundaries, const std::vector<double>& values);

/// The same gradients, scaled down where their norm, all taken together, is above `most` (Pascanu
/// et al. 2013): g most / max(norm, most). `norm` (may be null) is given what it was.
std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients, double most,
                                        Tensor* norm = nullptr);

class Optimizer {
 public:
  explicit Optimizer(Rate rate) : rate_(std::move(rate)) {}
  virtual ~Optimizer() = default;
  /// One step that lowers `loss`: gradients, updates of `variables` (none: all trainable ones), and
  /// what layers registered with add_update. Fetch it to take the step.
  Tensor minimize(const Tensor& loss, std::vector<Tensor> variables = {});
  /// The same with gradients clipped by their global norm.
  Tensor minimize_clipped(const Tensor& loss, double most, std::vector<Tensor> variables = {});
  /// The same from gradients that the caller has.
  Tensor apply_gradients(const std::vector<Tensor>& variables,
                         const std::vector<Tensor>& gradients);

 protected:
  /// Once a step, before any variable: what all of them share.
  virtual void Prepare(std::vector<Tensor>* /*updates*/) {}
  /// What one variable costs: appends assignments.
  virtual void Update(const Tensor& variable, const Tensor& gradient,
                      std::vector<Tensor>* updates) = 0;
  /// State beside a variable, zero in the beginning: "weight/Adam_m".
  static Tensor Slot(const Tensor& variable, const std::string& name);
  const Tensor& learning_rate() const { return learning_rate_; }

 private:
  Rate rate_;
  Tensor learning_rate_;
};

class GradientDescentOptimizer : public Optimizer {
 public:
  explicit GradientDescentOptimizer(Rate rate) : Optimizer(std::move(rate)) {}

 protected:
  void Update(const Tensor& variable, const Tensor& gradient,
              std::vector<Tensor>* updates) override;
};

/// v = momentum v + g;  x = x - rate v, with `nesterov` x - rate (g + momentum v).
/// `decay`: g + decay x for g.
class MomentumOptimizer : public Optimizer {
 public:
  explicit MomentumOptimizer(Rate rate, double momentum = 0.9, bool nesterov = false,
                             double decay = 0)
      : Optimizer(std::move(rate)), momentum_(momentum), nesterov_(nesterov), decay_(decay) {}

 protected:
  void Update(const Tensor& variable, const Tensor& gradient,
              std::vector<Tensor>* updates) override;

 private:
  double momentum_;
  bool nesterov_;
  double decay_;
};

/// Kingma and Ba 2015: m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
/// x = x - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon).
class AdamOptimizer : public Optimizer {
 public:
  explicit AdamOptimizer(Rate rate = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                         double epsilon = 1e-8)
      : Optimizer(std::move(rate)), beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {}

 protected:
  void Prepare(std::vector<Tensor>* updates) override;
  void Update(const Tensor& variable, const Tensor& gradient,
              std::vector<Tensor>* updates) override;
  /// What the step takes off a variable besides the gradient's part; AdamW's decay.
  virtual Tensor Decayed(const Tensor& variable) { return variable; }

 private:
  double beta1_, beta2_, epsilon_;
  Tensor step_size_, root_scale_;
};

/// Loshchilov and Hutter 2019: as Adam, from x (1 - rate decay) instead of x.
class AdamWOptimizer : public AdamOptimizer {
 public:
  explicit AdamWOptimizer(Rate rate = 1e-3, double decay = 1e-2, double beta1 = 0.9,
                          double beta2 = 0.999, double epsilon = 1e-8)
      : AdamOptimizer(std::move(rate), beta1, beta2, epsilon), decay_(decay) {}

 protected:
  Tensor Decayed(const Tensor& variable) override {
    return variable * (1 - learning_rate() * decay_);
  }

 private:
  double decay_;
};

}  // namespace tf::train
