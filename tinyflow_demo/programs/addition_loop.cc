/// addition_loop.cc: a recurrent cell that learns to add. A step takes the last binary digit off
/// both numbers and gives one digit of their sum; what is to be carried it keeps in its state. The
/// loop runs until the longest numbers of the batch are used up: how many steps that are, the data
/// decide. Trained on numbers of up to 12 digits, it adds longer ones.
#include "programs/program.h"

namespace programs {
namespace {

constexpr int64_t kUnits = 16;
constexpr double kMostNorm = 1;

/// -log of the probability of `digit`, whose logit is z.
tf::Tensor CrossEntropy(const tf::Tensor& z, const tf::Tensor& digit) {
  return tf::maximum(z, 0) - z * digit + tf::log(1 + tf::exp(-tf::abs(z)));
}

Model Build(const Settings& settings) {
  const int64_t units = settings.size > 0 ? settings.size : kUnits;
  const tf::Tensor x = tf::placeholder(tf::int64, {tf::None, 2}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None}, "label");

  const tf::Tensor first = tf::Variable(tf::zeros({1, units}), "first_state");
  enum { kNumbers, kSum, kLeft, kPlace, kAnswer, kCell, kLoss, kSteps };
  const tf::Tensors begin{
      x,                           // digits that are left of the numbers,
      label,                       // and of their sum
      tf::reduce_sum(x, {1}),      // above 0 as long as a step can carry something
      tf::constant(1, tf::int64),  // what a one is worth at this place
      tf::zeros_like(label),       // the digits so far
      tf::cast(tf::zeros_like(tf::reshape(label, {-1, 1})), tf::float32) + first,
      tf::constant(0),  // of all digits so far
      tf::constant(0)};
  const auto goes_on = [](const tf::Tensors& s) { return tf::reduce_max(s[kLeft]) > 0; };
  const auto step = [&](const tf::Tensors& s) -> tf::Tensors {
    const tf::Tensor digits = tf::cast(tf::modulo(s[kNumbers], 2), tf::float32) - 0.5;
    const tf::Tensor h =
        tf::nn::tanh(tf::nn::linear(tf::concat({digits, s[kCell]}, 1), units, "cell"));
    const tf::Tensor z = tf::reshape(tf::nn::linear(h, 1, "digit"), {-1});
    const tf::Tensor digit = tf::cast(tf::modulo(s[kSum], 2), tf::float32);
    return {s[kNumbers] / 2,
            s[kSum] / 2,
            tf::reduce_sum(s[kNumbers], {1}),
            s[kPlace] * 2,
            s[kAnswer] + tf::cast(z > 0, tf::int64) * s[kPlace],
            h,
            s[kLoss] + tf::reduce_mean(CrossEntropy(z, digit)),
            s[kSteps] + 1};
  };
  const tf::Tensors end = tf::while_loop(goes_on, step, begin);

  const tf::Tensor loss = end[kLoss] / tf::maximum(end[kSteps], 1);
  const tf::Tensor train_step =
      tf::train::AdamOptimizer(settings.rate).minimize_clipped(loss, kMostNorm);
  Model model{x, label, end[kAnswer], loss, train_step, {}};
  model.correct = tf::reduce_sum(tf::cast(tf::equal(end[kAnswer], label), tf::float32));
  return model;
}

}  // namespace

Program AdditionLoop() {
  Program p{"addition_loop",
            "",
            "a cell that learns to add, in a loop as long as the numbers",
            Build,
            4,
            32,
            1e-2,
            {}};
  p.size_is = "units of the cell";
  p.data = Data::kSums;
  return p;
}

}  // namespace programs
