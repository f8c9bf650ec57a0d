/// mnist_mlp_auto_shape_inference.cc: a perceptron whose placeholders and weights declare no
/// shapes: the sizes of the layers and of the pictures decide them.
#include "programs/program.h"

namespace programs {
namespace {

Model Build(const Settings& settings) {
  const tf::Tensor x = tf::placeholder(tf::float32, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, "label");

  tf::Tensor h = tf::nn::relu(tf::nn::linear(x, 128, "fc1"));
  h = tf::nn::relu(tf::nn::linear(h, 64, "fc2"));
  const tf::Tensor logits = tf::nn::linear(h, 10, "fc3");
  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, label);

  std::vector<tf::Tensor> first_values;
  for (const tf::InferredVariable& v :
       tf::infer_variable_shapes(loss, {{x, {100, 784}}, {label, {100}}}))
    first_values.push_back(tf::assign(
        v.variable, v.shape.size() == 1 ? tf::zeros(v.shape) : tf::normal(v.shape, 0.05)));

  const tf::Tensor train_step = tf::train::AdamOptimizer(settings.rate).minimize(loss);
  return {x, label, logits, loss, train_step, {tf::group(first_values)}};
}

}  // namespace

Program MnistMlpAutoShapeInference() {
  return {"mnist_mlp_auto_shape_inference",
          "mlp",
          "perceptron, all shapes inferred",
          Build,
          3,
          100,
          1e-3,
          FlatPictures()};
}

}  // namespace programs
