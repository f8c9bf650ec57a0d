/// transformer.cc: a language model of characters, a transformer (Vaswani et al. 2017) of twelve
/// layers that look back only, normalized before attention and perceptron (as in GPT-2), on a text
/// that is part of every Debian: the GNU General Public License. Trained, it writes.
#include <cmath>

#include "programs/program.h"

namespace programs {
namespace {

constexpr int64_t kWidth = 128, kHeadWidth = 32, kSteps = 64, kBatch = 16;
constexpr int64_t kClasses = 76;  // of the GNU General Public License, version 3
constexpr int kLayers = 12;
constexpr double kFar = -1e9, kMostNorm = 1, kDecayPerEpoch = 0.9;

class LayerNorm {
 public:
  LayerNorm(int64_t width, const std::string& name)
      : scale_(tf::Variable(tf::ones({width}), name + "/scale")),
        offset_(tf::Variable(tf::zeros({width}), name + "/offset")) {}
  tf::Tensor operator()(const tf::Tensor& x) const {
    return tf::make_node("LayerNormalization", {x, scale_, offset_}, {{"axis", -1}});
  }

 private:
  tf::Tensor scale_, offset_;
};

/// x [batch, kSteps, width] -> the same.
class Layer {
 public:
  explicit Layer(int64_t width)
      : width_(width), heads_(width % kHeadWidth == 0 ? width / kHeadWidth : 1) {}
  tf::Tensor operator()(const tf::Tensor& x, const tf::Tensor& mask) const {
    const tf::Tensor n = norm1_(x);
    const tf::Tensor scores =
        tf::matmul(Heads(query_(n), {0, 2, 1, 3}), Heads(key_(n), {0, 2, 3, 1}));
    const tf::Tensor weights =
        tf::nn::softmax(scores * (1 / std::sqrt(double(width_ / heads_))) + mask);
    const tf::Tensor seen =
        tf::transpose(tf::matmul(weights, Heads(value_(n), {0, 2, 1, 3})), {0, 2, 1, 3});
    const tf::Tensor h = x + Rows(attended_(Rows(seen)));
    return h + Rows(down_(tf::make_node("Gelu", {up_(norm2_(h))})));
  }

 private:
  tf::Tensor Rows(const tf::Tensor& x) const { return tf::reshape(x, {-1, kSteps, width_}); }
  /// [batch kSteps, width] -> a permutation of [batch, kSteps, heads, width / heads]
  tf::Tensor Heads(const tf::Tensor& x, const tf::Ints& perm) const {
    return tf::transpose(tf::reshape(x, {-1, kSteps, heads_, width_ / heads_}), perm);
  }
  int64_t width_, heads_;
  LayerNorm norm1_{width_, "norm1"}, norm2_{width_, "norm2"};
  tf::nn::Linear query_{width_, width_, "query"}, key_{width_, width_, "key"},
      value_{width_, width_, "value"}, attended_{width_, width_, "attended"},
      up_{width_, 4 * width_, "up"}, down_{4 * width_, width_, "down"};
};

/// What must not be looked at: [kSteps, kSteps], far below zero above the diagonal.
tf::Tensor Mask() {
  std::vector<double> mask;
  for (int64_t i = 0; i < kSteps; ++i)
    for (int64_t k = 0; k < kSteps; ++k) mask.push_back(k > i ? kFar : 0);
  return tf::constant(weft::Tensor::FromDoubles(tf::float32, {kSteps, kSteps}, mask), "mask");
}

Model Build(const Settings& settings) {
  const int64_t width = settings.size > 0 ? settings.size : kWidth,
                classes = settings.classes > 0 ? settings.classes : kClasses;
  const tf::Tensor x = tf::placeholder(tf::int64, {tf::None, kSteps}, "x");
  const tf::Tensor label = tf::placeholder(tf::int64, {tf::None, kSteps}, "label");

  const tf::nn::Embedding embedding(classes, width);
  const tf::Tensor position = tf::Variable(tf::normal({kSteps, width}), "position");
  std::vector<Layer> layers;
  for (int i = 0; i < (settings.blocks > 0 ? settings.blocks : kLayers); ++i) {
    const tf::NameScope scope("layer" + std::to_string(i + 1));
    layers.emplace_back(width);
  }
  const LayerNorm norm(width, "norm");
  const tf::nn::Linear decoder(width, classes, "decoder");
  const auto network = [&, mask = Mask()](const tf::Tensor& ids) {
    tf::Tensor h = embedding(ids) + position;
    for (const Layer& layer : layers) h = layer(h, mask);
    return decoder(norm(h));  // [batch kSteps, classes]
  };

  const tf::Tensor logits = network(x), labels = tf::reshape(label, {-1});
  const tf::Tensor loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, labels);
  const auto rate =
      tf::train::Rate::Decaying(settings.rate, kDecayPerEpoch, settings.steps_per_epoch);
  Model model{
      x, label, logits, loss, tf::train::AdamOptimizer(rate).minimize_clipped(loss, kMostNorm), {}};
  model.correct = tf::reduce_sum(tf::cast(tf::equal(tf::argmax(logits, 1), labels), tf::float32));

  // What it writes next follows from the last kSteps characters: they are the state.
  const tf::Tensor one = tf::placeholder(tf::int64, {1, 1}, "one");
  const tf::Tensor window = tf::placeholder(tf::int64, {1, kSteps}, "window");
  const auto last = [](const tf::Tensor& t, int64_t n, int64_t axis) {
    const auto at = [](int64_t v) { return tf::constant(weft::Tensor::Ints({v})); };
    return tf::make_node("Slice", {t, at(-n), at(INT64_MAX), at(axis)});
  };
  const tf::Tensor next = tf::concat({last(window, kSteps - 1, 1), one}, 1);
  model.writer = Writer{one, {window}, last(network(next), 1, 0), {next}};
  return model;
}

}  // namespace

Program Transformer() {
  Program p{"transformer", "", "a language model of characters, a transformer of 12 layers",
            Build,         10, kBatch,
            1e-3,          {}};
  p.classes = kClasses;
  p.size_is = "width of a layer";
  p.blocks_are = "layers";
  p.data = Data::kText;
  p.text = tf::data::kLicence;
  p.steps = kSteps;
  return p;
}

}  // namespace programs
