/// nn.cc: layers as nodes and variables.
#include "tinyflow/nn.h"

#include <cmath>

#include "weft/support/check.h"

namespace tf::nn {
namespace {

weft::AttrDict WindowAttrs(const Window& w, const char* what) {
  weft::AttrDict attrs{{"strides", weft::Ints(w.strides)}, {"dilations", weft::Ints(w.dilations)}};
  if (!w.pads.empty()) {
    attrs["pads"] = weft::Ints(w.pads);
  } else {
    WEFT_CHECK(w.padding == "SAME" || w.padding == "VALID", kBadAttribute,
               "{}: padding '{}' is neither SAME nor VALID", what, w.padding);
    attrs["auto_pad"] = w.padding == "SAME" ? "SAME_UPPER" : "VALID";
  }
  return attrs;
}

Tensor Pool(const char* op, const Tensor& x, const Ints& kernel, const Window& window) {
  weft::AttrDict attrs = WindowAttrs(window, op);
  attrs["kernel_shape"] = weft::Ints(kernel);
  return make_node(op, {x}, std::move(attrs));
}

int64_t FanIn(const Ints& weight, bool filters_first) {
  int64_t n = 1;
  for (size_t i = 0; i < weight.size(); ++i)
    if (i != (filters_first ? 0 : weight.size() - 1)) n *= weight[i];
  return n;
}
Tensor FirstWeight(const Ints& shape, bool filters_first, Init init) {
  const double fan_in = double(std::max<int64_t>(FanIn(shape, filters_first), 1));
  if (init == Init::kHeNormal) return normal(shape, std::sqrt(2 / fan_in));
  return uniform(shape, -1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
}

/// What parameters of a layer of such operands are kept in.
DType ParameterType(DType operand) { return weft::AccumulatorOf(operand); }
/// A parameter as an operand beside x.
Tensor Operand(const Tensor& parameter, const Tensor& x) {
  return parameter.dtype() == x.dtype() ? parameter : cast(parameter, x.dtype());
}

/// Product of all extents but the first: what a row holds when x is flattened.
weft::SymInt RowSize(const weft::Shape& x) {
  if (!x.has_rank() || x.rank() < 1) return weft::SymInt();
  weft::SymInt size = 1;
  for (int i = 1; i < x.rank(); ++i) size = size * x[i];
  return size;
}

/// A vector of one value per channel of x, which is axis 1.
Tensor PerChannel(const Tensor& x, double first, const std::string& name, bool trainable) {
  const DType dtype = ParameterType(x.dtype());
  return Variable(
      dtype,
      [x](const ShapeOf& shape_of) {
        const weft::Shape s = shape_of(x);
        return s.has_rank() && s.rank() > 1 ? weft::Shape({s[1]}) : weft::Shape();
      },
      [first, dtype](const Ints& shape) {
        return first == 0 ? zeros(shape, dtype) : ones(shape, dtype);
      },
      name, trainable);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& filter, const Window& window) {
  return make_node("Conv", {x, filter}, WindowAttrs(window, "conv2d"));
}

Tensor conv2d(const Tensor& x, const Conv2d& layer, const std::string& name) {
  const NameScope scope(name);
  const auto filter_shape = [x, layer](const ShapeOf& shape_of) {
    const weft::Shape s = shape_of(x);
    weft::Shape w = weft::Shape::OfRank(4);
    w.set(0, layer.filters);
    w.set(1, s.has_rank() && s.rank() == 4 ? s[1] : weft::SymInt());
    for (int i = 0; i < 2; ++i) w.set(2 + i, layer.kernel.at(size_t(i)));
    return w;
  };
  const DType dtype = ParameterType(x.dtype());
  const Tensor weight = Variable(
      dtype, filter_shape,
      [init = layer.init](const Ints& shape) { return FirstWeight(shape, true, init); }, "weight");
  std::vector<Tensor> operands{x, Operand(weight, x)};
  if (layer.bias) {
    // As wide as the filters' bound, which is not known before the filters' shape is.
    const Tensor bias = Variable(
        dtype,
        [filter_shape, n = layer.filters](const ShapeOf& shape_of) {
          return filter_shape(shape_of).fully_known() ? weft::Shape({n}) : weft::Shape();
        },
        [weight](const Ints& shape) {
          const double fan_in = double(FanIn(weight.shape().ints(), true));
          return uniform(shape, -1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
        },
        "bias");
    operands.push_back(Operand(bias, x));
  }
  return make_node("Conv", operands, WindowAttrs(layer.window, "conv2d"));
}

Tensor max_pool(const Tensor& x, const Ints& kernel, const Window& window) {
  return Pool("MaxPool", x, kernel, window);
}
Tensor avg_pool(const Tensor& x, const Ints& kernel, const Window& window) {
  return Pool("AveragePool", x, kernel, window);
}
Tensor max_pool(const Tensor& x, int64_t size) {
  return max_pool(x, {size, size}, Window().stride(size));
}
Tensor avg_pool(const Tensor& x, int64_t size) {
  return avg_pool(x, {size, size}, Window().stride(size));
}
Tensor global_avg_pool(const Tensor& x) { return reduce_mean(x, {2, 3}); }
Tensor flatten(const Tensor& x) { return make_node("Flatten", {x}); }

Tensor relu(const Tensor& x) { return make_node("Relu", {x}); }
Tensor tanh(const Tensor& x) { return make_node("Tanh", {x}); }
Tensor sigmoid(const Tensor& x) { return make_node("Sigmoid", {x}); }
Tensor softmax(const Tensor& x, int64_t axis) {
  return make_node("Softmax", {x}, {{"axis", axis}});
}
Tensor log_softmax(const Tensor& x, int64_t axis) {
  return make_node("LogSoftmax", {x}, {{"axis", axis}});
}

Tensor linear(const Tensor& x, int64_t outputs, const std::string& name, bool bias) {
  const NameScope scope(name);
  const auto inputs = [x](const ShapeOf& shape_of) { return RowSize(shape_of(x)); };
  const DType dtype = ParameterType(x.dtype());
  const Tensor weight = Variable(
      dtype,
      [inputs, outputs](const ShapeOf& shape_of) {
        return weft::Shape({inputs(shape_of), outputs});
      },
      [](const Ints& shape) { return FirstWeight(shape, false, Init::kUniform); }, "weight");
  const Tensor product = matmul(flatten(x), Operand(weight, x));
  if (!bias) return product;
  const Tensor offset = Variable(
      dtype,
      [inputs, outputs](const ShapeOf& shape_of) {
        return inputs(shape_of).known() ? weft::Shape({outputs}) : weft::Shape();
      },
      [weight](const Ints& shape) {
        const double bound = 1 / std::sqrt(double(FanIn(weight.shape().ints(), false)));
        return uniform(shape, -bound, bound);
      },
      "bias");
  return product + Operand(offset, x);
}
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return matmul(x, weight) + bias;
}

Linear::Linear(int64_t inputs, int64_t outputs, const std::string& name) : inputs_(inputs) {
  const NameScope scope(name);
  const double bound = 1 / std::sqrt(double(std::max<int64_t>(inputs, 1)));
  weight_ = Variable(uniform({inputs, outputs}, -bound, bound), "weight");
  bias_ = Variable(uniform({outputs}, -bound, bound), "bias");
}
Tensor Linear::operator()(const Tensor& x) const {
  return linear(reshape(x, {-1, inputs_}), weight_, bias_);
}

Tensor batch_normalization(const Tensor& x, const std::string& name, double epsilon,
                           double momentum) {
  const NameScope scope(name);
  const Tensor scale = PerChannel(x, 1, "scale", true), offset = PerChannel(x, 0, "offset", true);
  const Tensor mean = PerChannel(x, 0, "mean", false),
               variance = PerChannel(x, 1, "variance", false);
  const std::vector<Tensor> operands{x, scale, offset, mean, variance};
  const Tensor training =
      make_node("BatchNormalization", operands,
                {{"epsilon", epsilon}, {"momentum", momentum}, {"training_mode", 1}});
  const Tensor inference = make_node("BatchNormalization", operands, {{"epsilon", epsilon}});
  const weft::NodePtr node = training.entry().node;
  add_update(assign(mean, Tensor(x.graph(), {node, 1}, mean.dtype())));
  add_update(assign(variance, Tensor(x.graph(), {node, 2}, variance.dtype())));
  return when_training(training, inference);
}

Tensor dropout(const Tensor& x, double rate) {
  WEFT_CHECK(rate >= 0 && rate < 1, kBadAttribute, "dropout: rate {} is not in [0, 1)", rate);
  if (rate == 0) return x;
  const Tensor kept = cast(uniform_like(x) >= rate, x.dtype());
  return when_training(x * (kept * (1 / (1 - rate))), x);
}

Tensor softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels) {
  return -reduce_sum(labels * log_softmax(logits), {-1});
}
Tensor mean_sparse_softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels) {
  return make_node("SoftmaxCrossEntropyLoss", {logits, labels}, {{"reduction", "mean"}},
                   logits.dtype(), "loss");
}

}  // namespace tf::nn
