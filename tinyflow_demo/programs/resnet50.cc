/// resnet50.cc: ResNet-50 (He, Zhang, Ren, Sun 2015) with the stride in the 3x3 convolution: a 7x7
/// convolution and a pooling, then 3, 4, 6 and 3 blocks of 1x1, 3x3 and 1x1, the mean of every
/// channel, one dense layer of 1000 classes; momentum.
///
/// In bfloat16, activations and the operands of convolutions and products are rounded; sums,
/// statistics, parameters, their gradients and the state of the optimizer stay f32, and so does
/// everything behind the last convolution.
#include "programs/conv_norm.h"
#include "programs/program.h"

namespace programs {
namespace {

constexpr int64_t kSize = 224, kClasses = 1000, kWidest = 4;
constexpr int kBlocks[] = {3, 4, 6, 3};
constexpr double kMomentum = 0.9, kDecay = 1e-4;

tf::Tensor Block(const tf::Tensor& x, int64_t width, int64_t stride, bool project) {
  tf::Tensor h = tf::nn::relu(ConvNorm(x, width, 1, 1, "conv1"));
  h = tf::nn::relu(ConvNorm(h, width, 3, stride, "conv2"));
  h = ConvNorm(h, kWidest * width, 1, 1, "conv3");
  return tf::nn::relu(h + (project ? ConvNorm(x, kWidest * width, 1, stride, "project") : x));
}

Model Build(const Settings& settings) {
  const int64_t size = settings.size > 0 ? settings.size : kSize;
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 3, size, size}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  tf::Tensor h = settings.dtype == tf::float32 ? x : tf::cast(x, settings.dtype);
  h = tf::nn::relu(ConvNorm(h, 64, 7, 2, "conv"));
  h = tf::nn::max_pool(h, {3, 3}, tf::nn::Window().stride(2).pad(1));
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < (settings.blocks > 0 ? settings.blocks : kBlocks[stage]); ++block) {
      const tf::NameScope scope("stage" + std::to_string(stage + 1) + "_" +
                                std::to_string(block + 1));
      h = Block(h, 64 << stage, stage > 0 && block == 0 ? 2 : 1, block == 0);
    }
  if (settings.dtype != tf::float32) h = tf::cast(h, tf::float32);
  const tf::Tensor logits = tf::nn::linear(tf::nn::global_avg_pool(h), kClasses, "fc");

  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);
  const tf::Tensor train_step =
      tf::train::MomentumOptimizer(settings.rate, kMomentum, false, kDecay).minimize(loss);
  return {x, label, logits, loss, train_step, {}};
}

tf::data::Layout Pictures() {
  tf::data::Layout layout;
  layout.channels = 3;
  layout.size = kSize;
  return layout;
}

}  // namespace

Program Resnet50() {
  Program p{"resnet50", "",        "ResNet-50 on random images, for benchmarks", Build, 1, 128,
            1e-3,       Pictures()};
  p.classes = kClasses;
  p.synthetic = p.any_dtype = true;
  p.size_is = "height and width of images";
  p.blocks_are = "blocks of a stage";
  return p;
}

}  // namespace programs
