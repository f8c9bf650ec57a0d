/// mnist_lenet.cc: LeNet as the article of 2016 trains it: tanh, max-pooling, Adam.
#include "programs/program.h"

namespace programs {
namespace {

constexpr double kDecayPerEpoch = 0.7;

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 1, 28, 28}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  tf::Tensor h = tf::nn::tanh(tf::nn::conv2d(x, {20, {5, 5}}, "conv1"));
  h = tf::nn::max_pool(h, 2);
  h = tf::nn::tanh(tf::nn::conv2d(h, {50, {5, 5}}, "conv2"));
  h = tf::nn::max_pool(h, 2);
  h = tf::nn::tanh(tf::nn::linear(h, 500, "fc1"));
  const tf::Tensor logits = tf::nn::linear(h, 10, "fc2");

  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);
  const auto rate =
      tf::train::Rate::Decaying(settings.rate, kDecayPerEpoch, settings.steps_per_epoch);
  const tf::Tensor train_step = tf::train::AdamOptimizer(rate).minimize(loss);
  return {x, label, logits, loss, train_step, {}};
}

}  // namespace

Program MnistLenet() {
  return {"mnist_lenet", "lenet", "LeNet with tanh, Adam, the rate falls by epoch", Build, 6, 64,
          1e-3,          {}};
}

}  // namespace programs
