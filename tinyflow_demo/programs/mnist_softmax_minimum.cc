/// mnist_softmax_minimum.cc: softmax regression without an optimizer: gradients and the
/// update written by hand.
#include "programs/program.h"

namespace programs {
namespace {

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 784}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  const tf::Tensor w = tf::Variable(tf::zeros({784, 10}), "w");
  const tf::Tensor logits = tf::matmul(x, w);
  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);

  const tf::Tensor w_grad = tf::gradients(loss, {w})[0];
  const tf::Tensor train_step = tf::assign(w, w - settings.rate * w_grad);
  return {x, label, logits, loss, train_step, {}};
}

}  // namespace

Program MnistSoftmaxMinimum() {
  return {
      "mnist_softmax_minimum", "", "softmax regression, update written by hand", Build, 3, 100, 0.3,
      FlatPictures()};
}

}  // namespace programs
