/// mnist_softmax.cc: softmax regression, the smallest program.
#include "programs/program.h"

namespace programs {
namespace {

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 784}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  const tf::Tensor w = tf::Variable(tf::zeros({784, 10}), "w");
  const tf::Tensor b = tf::Variable(tf::zeros({10}), "b");
  const tf::Tensor logits = tf::matmul(x, w) + b;

  // The loss spelled out, as in the first tutorial: labels as rows of zeros and a one.
  const tf::Tensor one_hot = tf::one_hot(label, 10);
  const tf::Tensor y = tf::nn::softmax(logits);
  const tf::Tensor loss = tf::reduce_mean(-tf::reduce_sum(one_hot * tf::log(y + 1e-12), {1}));

  const tf::Tensor train_step = tf::train::GradientDescentOptimizer(settings.rate).minimize(loss);
  return {x, label, logits, loss, train_step, {}};
}

}  // namespace

Program MnistSoftmax() {
  return {"mnist_softmax", "softmax", "softmax regression", Build, 3, 100, 0.3, FlatPictures()};
}

}  // namespace programs
