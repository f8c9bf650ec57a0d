/// unet.cc: a U-Net (Ronneberger, Fischer, Brox 2015) that restores pictures from noise: three
/// scales of two 3x3 convolutions each on the way down, each scale twice as wide as the one above,
/// and up again, where every scale also sees what the way down had there. Trained on the mean
/// squared error; what it is judged by is how much of a picture's noise it takes away.
#include <cmath>

#include "programs/conv_norm.h"
#include "programs/program.h"

namespace programs {
namespace {

constexpr int64_t kWidth = 32, kSize = 28;
constexpr int kScales = 3;
constexpr double kNoise = 0.5, kDecayPerEpoch = 0.7;

tf::Tensor Block(const tf::Tensor& x, int64_t width) {
  return tf::nn::relu(
      ConvNorm(tf::nn::relu(ConvNorm(x, width, 3, 1, "conv1")), width, 3, 1, "conv2"));
}

/// Twice as high and wide, half as many channels.
tf::Tensor Up(const tf::Tensor& x, int64_t width) {
  const tf::Tensor weight =
      tf::Variable(tf::normal({2 * width, width, 2, 2}, 1 / std::sqrt(2.0 * double(width))), "up");
  return tf::make_node("ConvTranspose", {x, weight}, {{"strides", weft::Ints({2, 2})}});
}

Model Build(const Settings& settings) {
  const int64_t width = settings.size > 0 ? settings.size : kWidth;
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 1, kSize, kSize}, "x");
  const tf::Tensor label = tf::placeholder(tf::float32, {tf::None, 1, kSize, kSize}, "label");

  tf::Tensor h = x;
  tf::Tensors passed;
  for (int scale = 0; scale < kScales; ++scale) {
    const tf::NameScope scope("down" + std::to_string(scale + 1));
    if (scale > 0) h = tf::nn::max_pool(h, 2);
    passed.push_back(h = Block(h, width << scale));
  }
  for (int scale = kScales - 2; scale >= 0; --scale) {
    const tf::NameScope scope("up" + std::to_string(scale + 1));
    h = Block(tf::concat({passed[size_t(scale)], Up(h, width << scale)}, 1), width << scale);
  }
  const tf::Tensor restored = tf::nn::conv2d(h, {1, {1, 1}}, "restored");

  const tf::Tensor error = tf::reduce_mean(tf::square(restored - label), {1, 2, 3});
  const tf::Tensor loss = tf::reduce_mean(error);
  const auto rate =
      tf::train::Rate::Decaying(settings.rate, kDecayPerEpoch, settings.steps_per_epoch);
  Model model{x, label, restored, loss, tf::train::AdamOptimizer(rate).minimize(loss), {}};
  // As many "labels" a picture as it has pixels.
  const tf::Tensor noise = tf::reduce_mean(tf::square(x - label), {1, 2, 3});
  model.correct = double(kSize * kSize) * tf::reduce_sum(1 - error / noise);
  return model;
}

}  // namespace

Program Unet() {
  Program p{"unet", "", "a U-Net that restores images from noise", Build, 2, 64, 2e-3, {}};
  p.layout.noise = kNoise;
  p.size_is = "channels at full size";
  p.score = "noise removed";
  return p;
}

}  // namespace programs
