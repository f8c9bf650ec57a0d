/// layout_networks_test.cc: networks and their gradients with tensors in every layout: as the pass Layout chooses, all
/// with their channels last, every second one so. The oracle is the plain program or the interpreter.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "e2e_util.h"
#include "weft/codegen/attr_types.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/gradient.h"
#include "weft/core/layout.h"
#include "weft/core/tensor.h"
#include "weft/runtime/backend.h"
#include "weft/runtime/saved_program.h"

namespace {

using namespace weft;
using namespace weft::e2e;

std::string Forced(const std::string& layout) {
  std::string pipeline = GetBackend("cpu")->default_pipeline();
  const std::string name = ",Layout,";
  const size_t at = pipeline.find(name);
  REQUIRE(at != std::string::npos);
  return pipeline.replace(at, name.size(), layout.empty() ? "," : "," + layout + ",");
}
const char* const kForms[] = {"Layout", "Layout{force=last}", "Layout{force=odd}"};

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
    return Apply("Conv", in,
                 {{"pads", Ints{pad, pad, pad, pad}}, {"strides", Ints{stride, stride}}});
  }
  NodeEntry Norm(const NodeEntry& x, int64_t channels) {
    const std::vector<int64_t> dims{channels};
    const NodeEntry gamma = Parameter(dims), beta = Parameter(dims);
    auto ones = std::make_shared<Tensor>(DType::kF32, dims);
    for (int64_t i = 0; i < channels; ++i) ones->mutable_data_as<float>()[i] = 1;
    return Apply("BatchNormalization",
                 {x, gamma, beta, ConstantLike(x, ones), ConstantLike(x, ones)},
                 {{"training_mode", 1}});
  }
  NodeEntry Dense(const NodeEntry& x, int64_t from, int64_t to) {
    return Apply("Gemm", {x, Parameter({from, to}), Parameter({to})});
  }
  /// The loss, and its gradients by every parameter.
  Graph Step(const NodeEntry& logits) {
    std::vector<NodeEntry> outputs{Apply("SoftmaxCrossEntropyLoss", {logits, labels_})};
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

NodeEntry Relu(const NodeEntry& x) { return Apply("Relu", {x}); }

NodeEntry LeNet(Network* n) {
  const AttrDict pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  NodeEntry y = Apply("MaxPool", {Relu(n->Conv(n->x(), 1, 6, 5, 1, true))}, AttrDict(pool));
  y = Apply("AveragePool", {Apply("Tanh", {n->Conv(y, 6, 16, 5, 1, true)})}, AttrDict(pool));
  y = Apply("Flatten", {y});
  return n->Dense(Relu(n->Dense(y, 16 * 7 * 7, 30)), 30, 10);
}
NodeEntry ResNet(Network* n, int blocks) {
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
  y = Apply("Flatten", {Apply("GlobalAveragePool", {y})});
  return n->Dense(y, width, 10);
}

/// The largest difference in each tensor, in parts of its largest value.
void CheckClose(const std::vector<TensorPtr>& got, const std::vector<TensorPtr>& want,
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

void CheckTraining(const Graph& step, const std::vector<TensorPtr>& inputs, double tolerance) {
  Session plain(CompileFor(step, "cpu", Forced("")));
  const std::vector<TensorPtr> want = plain.Run(inputs);
  for (const char* form : kForms) {
    CAPTURE(form);
    const auto program = CompileFor(step, "cpu", Forced(form));
    CHECK(program->stats().interpreted == 0);
    Session session(program);
    for (int run = 0; run < 2; ++run) CheckClose(session.Run(inputs), want, tolerance);
  }
}

}  // namespace

TEST_CASE("a training step of LeNet is the same in every layout") {
  if (!HasCpu()) return;
  Network n(3, 1, 28);
  const Graph step = n.Step(LeNet(&n));
  CheckTraining(step, n.Inputs(3, 1, 28), 1e-4);
}

TEST_CASE("a training step of ResNet-20 is the same in every layout") {
  if (!HasCpu()) return;
  Network n(SymInt::Symbol("n"), 3, 16);
  const Graph step = n.Step(ResNet(&n, 3));
  // Differences of rounding grow through twenty normalisations over few positions.
  CheckTraining(step, n.Inputs(4, 3, 16), 5e-3);
}

TEST_CASE("means over a middle axis: the lanes fill one vector, the rows are cut into chunks") {
  if (!HasCpu()) return;
  const char* const text = R"(graph (%x: f32[$N, $R, $C]) -> (%m, %y) {
    %axes = Constant() {value = tensor i64[1] [1]} : ?
    %m = ReduceMean(%x, %axes) {keepdims = 1} : ?
    %y = Sub(%x, %m) : ?
  })";
  for (const char* batch : {"n", "16"})
    for (const char* rows : {"64", "200"})
      for (const char* channels : {"16", "32", "48", "64"}) {
        std::string filled = text;
        for (auto [what, by] : {std::pair{"$N", batch}, {"$R", rows}, {"$C", channels}})
          filled.replace(filled.find(what), 2, by);
        CAPTURE(filled);
        for (const bool alone : {true, false}) {
          Graph g = FromText(filled);
          if (alone) g.outputs = std::vector<NodeEntry>{g.outputs[0]};
          Session session(CompileFor(g, "cpu"));
          for (const int64_t n : {int64_t{16}, int64_t{12}, int64_t{24}, int64_t{2}}) {
            const Reference want = RunReference(g, 3, {{"n", n}});
            CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
          }
        }
      }
}

TEST_CASE("what was compiled for one layout stays right when the graph is edited") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[2, 6, 5, 4], %b: f32[6, 1, 1]) -> (%y) {
    %a = Add(%x, %b) : ?
    %t = Tanh(%a) : ?
    %y = Mul(%t, %t) : ?
  })");
  PassOptions options;
  options.target = "cpu";
  const Graph made = ApplyPasses(g, "Fusion{max_ops=1},Layout{force=last},CodeGen,RTCGen", options);
  std::vector<NodePtr> kernels;
  for (const NodePtr& n : made.TopoOrder())
    if (IsOp(n, builtin::kFused)) kernels.push_back(n);
  REQUIRE(kernels.size() == 3);
  REQUIRE(made.GetAttr<LayoutMap>("layout")[NodeEntry(kernels[1])] == Layout::kChannelsLast);

  const auto check = [&](Graph edited) {
    const Graph plain = ApplyPasses(edited, "InferShape");
    const Reference want = RunReference(plain, 3);
    Session session(CompileFor(edited, "cpu", "Schedule,PlanMemory"));
    CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
    // Again through code generation, and through the whole pipeline.
    for (const char* again : {"CodeGen,RTCGen,Schedule,PlanMemory", ""}) {
      Session other(CompileFor(edited, "cpu", again));
      CHECK(Difference(other.Run(want.inputs), want.outputs) <= 1);
    }
  };
  check(made);
  Graph shown = made;  // somebody wants to see what lies otherwise
  shown.outputs = std::vector<NodeEntry>{NodeEntry(shown.at(kernels[1]))};
  check(shown);
  Graph view = made;  // or a view of it
  const NodeEntry t(view.at(kernels[1]));
  view.outputs = std::vector<NodeEntry>{Apply("Reshape", {t, IntsLike(t, {2, 30, 4})})};
  check(view);
  Graph other = made;  // or reads something else
  other.SetInput(other.at(kernels[1]), 0, NodeEntry(other.inputs()[0]));
  check(other);
}

TEST_CASE("layouts are saved; what a file says of them is not believed") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[2, 6, 5, 4], %b: f32[6, 1, 1]) -> (%y) {
    %a = Add(%x, %b) : ?
    %y = AveragePool(%a) {kernel_shape = [2, 2]} : ?
  })");
  const Reference want = RunReference(g, 3);
  for (const char* form : kForms) {
    const auto program = CompileFor(g, "cpu", Forced(form));
    Graph made = program->graph();
    LayoutMap lies;  // everything, also what the caller sees
    for (const NodePtr& n : made.TopoOrder()) lies.set(NodeEntry(n), Layout::kChannelsLast);
    for (const bool honest : {true, false}) {
      if (!honest) made.SetAttr("layout", lies);
      auto bytes =
          std::make_shared<std::string>(PackProgram(made, "cpu", GetBackend("cpu")->target()));
      Session session(LoadProgramFromMemory(bytes->data(), bytes->size(), bytes, "saved"));
      CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
    }
  }
}
