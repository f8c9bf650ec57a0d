/// nn.h: layers. Images are [batch, channels, height, width]. A layer that is asked for by its
/// size makes its own variables; what they have to be shaped like is inferred from its input, at
/// once or by infer_variable_shapes().
///
/// Mixed precision: where the input is of 16 bits, parameters and statistics are f32 all
/// the same, and parameters are cast where a convolution or product takes them. So an
/// optimizer sees f32 alone.
#pragma once

#include <string>

#include "tinyflow/ops.h"

namespace tf::nn {

/// Where a window moves: Window().stride(2).same().
struct Window {
  Ints strides{1, 1}, dilations{1, 1};
  std::string padding = "VALID";  ///< VALID: none; SAME: output extent = ceil(extent / stride)
  Ints pads;                      ///< all begins, then all ends; goes before `padding`

  Window& stride(int64_t n) { return strides = {n, n}, *this; }
  Window& dilation(int64_t n) { return dilations = {n, n}, *this; }
  Window& same() { return padding = "SAME", *this; }
  Window& valid() { return padding = "VALID", *this; }
  Window& pad(int64_t n) { return pads = {n, n, n, n}, *this; }
};

/// How a layer's variables begin: the default is uniform in +-1 / sqrt(fan in),
/// weights and biases alike.
enum class Init { kUniform, kHeNormal };

/// `filter` is [out channels, in channels, height, width].
Tensor conv2d(const Tensor& x, const Tensor& filter, const Window& window = {});
struct Conv2d {
  int64_t filters;
  Ints kernel;
  Window window = {};
  bool bias = true;
  Init init = Init::kUniform;
};
/// Variables NAME/weight and NAME/bias.
Tensor conv2d(const Tensor& x, const Conv2d& layer, const std::string& name = "conv2d");

Tensor max_pool(const Tensor& x, const Ints& kernel, const Window& window);
Tensor avg_pool(const Tensor& x, const Ints& kernel, const Window& window);
/// Windows side by side.
Tensor max_pool(const Tensor& x, int64_t size);
Tensor avg_pool(const Tensor& x, int64_t size);
/// The mean of every channel: [batch, channels].
Tensor global_avg_pool(const Tensor& x);
/// [batch, all others in one].
Tensor flatten(const Tensor& x);

Tensor relu(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor softmax(const Tensor& x, int64_t axis = -1);
Tensor log_softmax(const Tensor& x, int64_t axis = -1);

/// x W + b with W [inputs, outputs]; x is flattened first. Variables NAME/weight and NAME/bias.
Tensor linear(const Tensor& x, int64_t outputs, const std::string& name = "linear",
              bool bias = true);
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// The same layer as an object, which may be called more than once: x [..., inputs] is taken as
/// rows of its last axis, and gives [rows, outputs].
class Linear {
 public:
  Linear(int64_t inputs, int64_t outputs, const std::string& name = "linear");
  Tensor operator()(const Tensor& x) const;

 private:
  int64_t inputs_;
  Tensor weight_, bias_;
};

/// Statistics of the batch when training; running ones, which training updates, in inference.
/// Variables NAME/scale, NAME/offset, NAME/mean and NAME/variance. `momentum` is the weight of
/// the old running statistics.
Tensor batch_normalization(const Tensor& x, const std::string& name = "batch_norm",
                           double epsilon = 1e-5, double momentum = 0.9);
/// When training, zeroes elements with probability `rate` and scales the others by 1 / (1 - rate).
Tensor dropout(const Tensor& x, double rate);

/// A loss per row; `labels` are probabilities of the shape of `logits`.
Tensor softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels);
/// The mean over the batch; `labels` are class numbers (i64 or i32).
Tensor mean_sparse_softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels);

}  // namespace tf::nn
