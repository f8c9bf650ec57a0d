/// my_optimizer.cc: an optimizer that the framework does not have, written by its user: Lion (Chen
/// et al. 2023), which moves every parameter by the sign of a mean of gradients.
#include "programs/program.h"

namespace programs {
namespace {

class Lion : public tf::train::Optimizer {
 public:
  Lion(tf::train::Rate rate, double decay) : Optimizer(std::move(rate)), decay_(decay) {}

 protected:
  void Update(const tf::Tensor& x, const tf::Tensor& g, std::vector<tf::Tensor>* updates) override {
    const tf::Tensor m = Slot(x, "lion_m");
    const tf::Tensor direction = tf::sign(0.9 * m + 0.1 * g);
    updates->push_back(tf::assign(x, x - learning_rate() * (direction + decay_ * x)));
    updates->push_back(tf::assign(m, 0.99 * m + 0.01 * g));
  }

 private:
  double decay_;
};

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 784}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  tf::Tensor h = tf::nn::relu(tf::nn::linear(x, 128, "fc1"));
  h = tf::nn::dropout(h, 0.2);
  const tf::Tensor logits = tf::nn::linear(h, 10, "fc2");

  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);
  const tf::Tensor train_step = Lion(settings.rate, 0.1).minimize(loss);
  return {x, label, logits, loss, train_step, {}};
}

}  // namespace

Program MyOptimizer() {
  return {"my_optimizer", "", "a custom optimizer in user code", Build, 3, 100, 2e-4,
          FlatPictures()};
}

}  // namespace programs
