/// conv_norm.h: the unit of residual networks.
#pragma once

#include <string>

#include "tinyflow/tinyflow.h"

namespace programs {

/// A convolution of size x size that keeps the extents at stride 1, without a bias, which the
/// normalization behind it has.
inline tf::Tensor ConvNorm(const tf::Tensor& x, int64_t filters, int64_t size, int64_t stride,
                           const std::string& name) {
  tf::nn::Conv2d conv{filters, {size, size}, tf::nn::Window().stride(stride).pad(size / 2)};
  conv.bias = false;
  conv.init = tf::nn::Init::kHeNormal;
  return tf::nn::batch_normalization(tf::nn::conv2d(x, conv, name), name + "_norm");
}

}  // namespace programs
