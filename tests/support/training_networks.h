/// training_networks.h: training steps of small networks, built layer by layer.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"
#include "weft/runtime/program/program.h"

namespace weft::e2e {

/// Builds a network layer by layer; parameters are inputs.
class Network {
 public:
  explicit Network(SymInt batch, int64_t channels, int64_t size)
      : x_(g_.AddInput("x", DType::kF32, Shape{batch, channels, size, size})),
        labels_(g_.AddInput("labels", DType::kI64, Shape{batch})) {}

  NodeEntry x() const { return x_; }
  NodeEntry Parameter(const std::vector<int64_t>& dims) {
    params_.emplace_back(
        g_.AddInput("p" + std::to_string(params_.size()), DType::kF32, Shape::OfInts(dims)));
    dims_.push_back(dims);
    return params_.back();
  }
  NodeEntry Conv(const NodeEntry& x, int64_t from, int64_t to, int64_t size, int64_t stride,
                 bool bias) {
    std::vector<NodeEntry> in{x, Parameter({to, from, size, size})};
    if (bias) in.push_back(Parameter({to}));
    const int64_t pad = size / 2;
    return ApplyOp("Conv", in,
                   {{"pads", Ints{pad, pad, pad, pad}}, {"strides", Ints{stride, stride}}});
  }
  NodeEntry Norm(const NodeEntry& x, int64_t channels) {
    const std::vector<int64_t> dims{channels};
    const NodeEntry gamma = Parameter(dims), beta = Parameter(dims);
    auto ones = std::make_shared<Tensor>(DType::kF32, dims);
    for (int64_t i = 0; i < channels; ++i) ones->mutable_data_as<float>()[i] = 1;
    return ApplyOp("BatchNormalization",
                   {x, gamma, beta, ConstantLike(x, ones), ConstantLike(x, ones)},
                   {{"training_mode", 1}});
  }
  NodeEntry Dense(const NodeEntry& x, int64_t from, int64_t to) {
    return ApplyOp("Gemm", {x, Parameter({from, to}), Parameter({to})});
  }
  /// The loss, and its gradients by every parameter.
  Graph Step(const NodeEntry& logits) {
    std::vector<NodeEntry> outputs{ApplyOp("SoftmaxCrossEntropyLoss", {logits, labels_})};
    g_.outputs = outputs;
    for (const NodeEntry& dp : Gradients(g_, outputs, params_, {})) outputs.push_back(dp);
    g_.outputs = outputs;
    return g_;
  }
  /// Weights as one begins with, so that sums are of about 1.
  std::vector<TensorPtr> Inputs(int64_t batch, int64_t channels, int64_t size) const {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto tensor = [&](const std::vector<int64_t>& dims, float scale, float mean) {
      auto t = std::make_shared<Tensor>(DType::kF32, dims);
      for (int64_t i = 0; i < t->num_elements(); ++i)
        t->mutable_data_as<float>()[i] = mean + scale * normal(random);
      return t;
    };
    auto labels = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{batch});
    for (int64_t i = 0; i < batch; ++i) labels->set_int(i, i % 10);
    std::vector<TensorPtr> in{tensor({batch, channels, size, size}, 1, 0), labels};
    for (const auto& dims : dims_) {
      const int64_t fan = dims.size() == 4   ? dims[1] * dims[2] * dims[3]
                          : dims.size() == 2 ? dims[0]
                                             : 100;
      in.push_back(tensor(dims, 1 / std::sqrt(float(fan)), dims.size() == 1 ? 0.5f : 0));
    }
    return in;
  }

 private:
  Graph g_;
  NodeEntry x_, labels_;
  std::vector<NodeEntry> params_;
  std::vector<std::vector<int64_t>> dims_;
};

inline NodeEntry Relu(const NodeEntry& x) { return ApplyOp("Relu", {x}); }

inline NodeEntry LeNet(Network* n) {
  const AttrDict pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  NodeEntry y = ApplyOp("MaxPool", {Relu(n->Conv(n->x(), 1, 6, 5, 1, true))}, AttrDict(pool));
  y = ApplyOp("AveragePool", {ApplyOp("Tanh", {n->Conv(y, 6, 16, 5, 1, true)})}, AttrDict(pool));
  y = ApplyOp("Flatten", {y});
  return n->Dense(Relu(n->Dense(y, 16 * 7 * 7, 30)), 30, 10);
}
inline NodeEntry ResNet(Network* n, int blocks) {
  int64_t width = 16;
  NodeEntry y = Relu(n->Norm(n->Conv(n->x(), 3, width, 3, 1, false), width));
  for (int stage = 0; stage < 3; ++stage)
    for (int b = 0; b < blocks; ++b) {
      const int64_t from = width, stride = stage > 0 && b == 0 ? 2 : 1;
      if (stride == 2) width *= 2;
      const NodeEntry a = Relu(n->Norm(n->Conv(y, from, width, 3, stride, false), width));
      const NodeEntry c = n->Norm(n->Conv(a, width, width, 3, 1, false), width);
      const NodeEntry shortcut =
          stride == 1 ? y : n->Norm(n->Conv(y, from, width, 1, stride, false), width);
      y = Relu(c + shortcut);
    }
  y = ApplyOp("Flatten", {ApplyOp("GlobalAveragePool", {y})});
  return n->Dense(y, width, 10);
}
/// ResNet-50 for images of 224 x 224 (any size that 32 divides): bottlenecks of
/// 1x1, 3x3, 1x1 convolutions.
inline NodeEntry ResNet50(Network* n) {
  NodeEntry y = Relu(n->Norm(n->Conv(n->x(), 3, 64, 7, 2, false), 64));
  y = ApplyOp("MaxPool", {y},
              {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  int64_t from = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int b = 0; b < blocks[stage]; ++b) {
      const int64_t width = int64_t{64} << stage, to = 4 * width,
                    stride = stage > 0 && b == 0 ? 2 : 1;
      NodeEntry a = Relu(n->Norm(n->Conv(y, from, width, 1, 1, false), width));
      a = Relu(n->Norm(n->Conv(a, width, width, 3, stride, false), width));
      a = n->Norm(n->Conv(a, width, to, 1, 1, false), to);
      const NodeEntry shortcut = b > 0 ? y : n->Norm(n->Conv(y, from, to, 1, stride, false), to);
      y = Relu(a + shortcut);
      from = to;
    }
  y = ApplyOp("Flatten", {ApplyOp("GlobalAveragePool", {y})});
  return n->Dense(y, from, 1000);
}

/// x - rate * gradient for `count` variables, the i-th of the extents that `dims` says.
template <class Dims>
Graph UpdatesOf(int count, Dims&& dims) {
  Graph g;
  const NodeEntry rate(g.AddInput("rate", DType::kF32, Shape::OfInts({})));
  std::vector<NodeEntry> done;
  for (int i = 0; i < count; ++i) {
    const std::vector<int64_t> extents = dims(i);
    const std::string name = "p" + std::to_string(i);
    const NodeEntry gradient(g.AddInput("g" + name, DType::kF32, Shape::OfInts(extents)));
    const NodeEntry p(AddState(g, name, DType::kF32, Shape::OfInts(extents),
                               std::make_shared<Tensor>(DType::kF32, extents)));
    done.push_back(Assign(p, p - rate * gradient));
  }
  g.outputs = {Group(done)};
  return g;
}

/// Inputs of a step of such a graph, of known extents; `held`, by name: what its variables hold
/// after that, from what they held before.
inline std::vector<TensorPtr> StepOfUpdates(const Program& updates, int step,
                                            std::map<std::string, std::vector<double>>* held) {
  constexpr double kRate = 0.25;
  std::vector<TensorPtr> in;
  for (const IoSpec& s : updates.inputs()) {
    auto t = std::make_shared<Tensor>(s.dtype, s.shape.ints());
    for (int64_t i = 0; i < t->num_elements(); ++i)
      t->set(i, s.name == "rate" ? kRate : double((i * 7 + step) % 64 - 30));
    if (s.name != "rate") {
      std::vector<double>& w = (*held)[s.name.substr(1)];
      w.resize(size_t(t->num_elements()));
      for (size_t i = 0; i < w.size(); ++i) w[i] -= kRate * t->at(int64_t(i));
    }
    in.push_back(t);
  }
  return in;
}

/// The largest difference in each tensor, in parts of its largest value.
inline void CheckClose(const std::vector<TensorPtr>& got, const std::vector<TensorPtr>& want,
                       double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    double largest = 1e-6, worst = 0;
    for (int64_t k = 0; k < want[i]->num_elements(); ++k) {
      largest = std::max(largest, std::fabs(want[i]->at(k)));
      worst = std::max(worst, std::fabs(got[i]->at(k) - want[i]->at(k)));
    }
    CAPTURE(i);
    CHECK(worst <= tolerance * largest);
  }
}

/// A step of training (x, labels, parameters) -> (loss, gradients): the loss. The parameters then
/// go a little down their gradients.
inline double LearnStep(Session& session, std::vector<TensorPtr>* in) {
  const std::vector<TensorPtr> out = session.Run(*in);
  for (size_t k = 1; k < out.size(); ++k) {
    const Tensor& p = *(*in)[k + 1];
    auto next = std::make_shared<Tensor>(p.dtype(), p.dims());
    for (int64_t i = 0; i < p.num_elements(); ++i) next->set(i, p.at(i) - 0.05 * out[k]->at(i));
    (*in)[k + 1] = next;
  }
  return out[0]->at(0);
}

struct Losses {
  double first = 0, last = 0;
};
/// 20 steps of `mine`, whose losses are those of `reference`.
inline Losses CheckLearnsAlike(Session& mine, Session& reference,
                               const std::vector<TensorPtr>& inputs) {
  std::vector<TensorPtr> here = inputs, there = inputs;
  Losses losses;
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    const double want = LearnStep(reference, &there);
    losses.last = LearnStep(mine, &here);
    if (i == 0) losses.first = losses.last;
    CHECK(losses.last == doctest::Approx(want).epsilon(1e-4));
  }
  return losses;
}

}  // namespace weft::e2e
