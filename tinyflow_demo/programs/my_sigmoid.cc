/// my_sigmoid.cc: an activation that the framework does not have, written by its user: the
/// article's example. Its gradient and its fused kernel follow from the formula.
#include "programs/program.h"

namespace programs {
namespace {

tf::Tensor MySigmoid(const tf::Tensor& x) { return 1 / (1 + tf::exp(-x)); }

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 784}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  const tf::Tensor h = MySigmoid(tf::nn::linear(x, 128, "fc1"));
  const tf::Tensor logits = tf::nn::linear(h, 10, "fc2");

  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);
  const tf::Tensor train_step = tf::train::AdamOptimizer(settings.rate).minimize(loss);
  return {x, label, logits, loss, train_step, {}};
}

}  // namespace

Program MySigmoid() {
  return {"my_sigmoid",  "", "a custom activation in user code", Build, 3, 100, 2e-3,
          FlatPictures()};
}

}  // namespace programs
