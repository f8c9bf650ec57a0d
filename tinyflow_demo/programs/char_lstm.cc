/// char_lstm.cc: a language model of characters (Zaremba, Sutskever, Vinyals 2014, in small): two
/// layers of LSTM, 256 wide, through 35 characters at a time. A step begins with the state that the
/// one before has left, through which no gradient goes (truncated back-propagation); gradients are
/// clipped by their norm. Trained, it writes.
#include "programs/program.h"

namespace programs {
namespace {

constexpr int64_t kUnits = 256, kSteps = 35, kBatch = 32;
constexpr int64_t kClasses = 155;  // of the Jargon File 4.4.7
constexpr int kLayers = 2;
constexpr double kDropout = 0.2, kMostNorm = 5, kDecayPerEpoch = 0.7;

Model Build(const Settings& settings) {
  const int64_t batch = settings.batch > 0 ? settings.batch : kBatch,
                units = settings.size > 0 ? settings.size : kUnits,
                classes = settings.classes > 0 ? settings.classes : kClasses;
  const tf::Tensor x = tf::placeholder(tf::int64, {batch, kSteps}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {batch, kSteps}, "label");

  const tf::nn::Embedding embedding(classes, units);
  const tf::nn::LSTM lstm(units, units, {kLayers, kDropout});
  const tf::nn::Linear decoder(units, classes, "decoder");

  const tf::Tensors first = lstm.carried_state(batch);
  const tf::nn::Sequence h = lstm(embedding(tf::transpose(x, {1, 0})), first);
  const tf::Tensor logits = decoder(tf::nn::dropout(h.outputs, kDropout));
  const tf::Tensor labels = tf::reshape(tf::transpose(label, {1, 0}), {-1});
  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, labels);
  const tf::Tensor carry = tf::nn::carry(first, h);

  const auto rate =
      tf::train::Rate::Decaying(settings.rate, kDecayPerEpoch, settings.steps_per_epoch);
  const tf::Tensor train_step = tf::train::AdamOptimizer(rate).minimize_clipped(loss, kMostNorm);

  Model model{x, label, logits, loss, train_step, {}};
  model.correct = tf::reduce_sum(tf::cast(tf::equal(tf::argmax(logits, 1), labels), tf::float32));
  model.remembered = first;
  model.carry = carry;

  // The same layers again, for one character of one text.
  const tf::Tensor one = tf::placeholder(tf::int64, {1, 1}, "one");
  const tf::Tensors state = lstm.fed_state("writing");
  const tf::nn::Sequence next = lstm(embedding(one), state);
  model.writer = Writer{one, state, decoder(next.outputs), next.state};
  return model;
}

}  // namespace

Program CharLstm() {
  Program p{"char_lstm", "", "a language model of characters, two layers of LSTM", Build, 3, kBatch,
            2e-3,        {}};
  p.classes = kClasses;
  p.size_is = "units of a layer";
  p.data = Data::kText;
  p.steps = kSteps;
  p.remembers = true;
  return p;
}

}  // namespace programs
