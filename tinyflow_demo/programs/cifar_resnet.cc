/// cifar_resnet.cc: ResNet-20 (He, Zhang, Ren, Sun 2015, section 4.2, n = 3): 3x3 convolutions of
/// 16, 32 and 64 channels, three blocks of two each, a stride of 2 and a projection on the shortcut
/// where the size changes, the mean of every channel, one dense layer. Pictures are padded to
/// 32x32, their grey channel is repeated.
#include "programs/conv_norm.h"
#include "programs/program.h"

namespace programs {
namespace {

// A schedule that does not know the number of epochs: a longer run can go on from a shorter one.
constexpr double kDecayPerEpoch = 0.7;

tf::Tensor Block(const tf::Tensor& x, int64_t filters, int64_t stride, bool project) {
  tf::Tensor h = tf::nn::relu(ConvNorm(x, filters, 3, stride, "conv1"));
  h = ConvNorm(h, filters, 3, 1, "conv2");
  return tf::nn::relu(h + (project ? ConvNorm(x, filters, 1, stride, "project") : x));
}

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 3, 32, 32}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  tf::Tensor h = tf::nn::relu(ConvNorm(x, 16, 3, 1, "conv"));
  for (int stage = 0; stage < 3; ++stage)
    for (int block = 0; block < 3; ++block) {
      const tf::NameScope scope("stage" + std::to_string(stage + 1) + "_" +
                                std::to_string(block + 1));
      const bool first = stage > 0 && block == 0;
      h = Block(h, 16 << stage, first ? 2 : 1, first);
    }
  const tf::Tensor logits = tf::nn::linear(tf::nn::global_avg_pool(h), 10, "fc");

  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);
  const auto rate =
      tf::train::Rate::Decaying(settings.rate, kDecayPerEpoch, settings.steps_per_epoch);
  const tf::Tensor train_step = tf::train::AdamOptimizer(rate).minimize(loss);
  return {x, label, logits, loss, train_step, {}};
}

tf::data::Layout Pictures() {
  tf::data::Layout layout;
  layout.channels = 3;
  layout.size = 32;
  layout.mean = 0.2860;  // of the training pictures, in their 28x28 pixels
  layout.std = 0.3530;
  layout.crop = 4;
  layout.flip = true;
  return layout;
}

}  // namespace

Program CifarResnet() {
  return {"cifar_resnet", "resnet20", "ResNet-20, Adam, the rate falls by epoch", Build, 10, 64,
          2e-3,           Pictures()};
}

}  // namespace programs
