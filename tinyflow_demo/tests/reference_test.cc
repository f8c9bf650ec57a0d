/// reference_test.cc: the same numbers as PyTorch's, from the same parameters and pictures:
/// losses and gradients at five states along a run of each network, and the first steps of
/// free runs. PyTorch's side was written by reference/make_reference.py; parameters are
/// functions of few numbers (reference/common.py).
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "programs/program.h"
#include "tests/util.h"
#include "tinyflow/random.h"
#include "weft/core/tensor/npy.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

using Json = nlohmann::json;

enum Purpose : uint64_t { kFirst = 101, kPlace = 102, kProject = 103 };  // as in common.py
constexpr int kBucketsLog2 = 10, kProjections = 16, kStates = 5;

/// The name that PyTorch's module gives the parameter.
std::string TorchName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  const auto ends = [&](const std::string& end, const std::string& by) {
    if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
      name.replace(name.size() - end.size(), end.size(), by);
  };
  ends(".scale", ".weight");
  ends(".offset", ".bias");
  return name;
}

struct Parameter {
  Tensor variable;
  std::string name;
  double bound = 0, offset = 0, scale = 0;
};

/// A program of the tree with the parameters and pictures of the reference.
class Network {
 public:
  Network(const std::string& name, const std::string& config)
      : reference_(Json::parse(weft::ReadFile("tinyflow_demo/reference/" + name + ".json"))),
        states_(weft::ReadNpy("tinyflow_demo/reference/" + name + "_states.npy")),
        gradients_(weft::ReadNpy("tinyflow_demo/reference/" + name + "_gradients.npy")),
        program_(programs::Find(name)) {
    const std::string offsets = "tinyflow_demo/reference/" + name + "_offsets.npy";
    if (weft::FileExists(offsets)) offsets_ = weft::ReadNpy(offsets);
    reset_default_graph();
    programs::Settings settings;
    settings.rate = 1e-3;
    settings.steps_per_epoch = 1e12;  // the schedule stands still
    model_ = program_.build(settings);
    for (const Tensor& v : trainable_variables()) parameters_.push_back({v, TorchName(v.name())});
    std::sort(parameters_.begin(), parameters_.end(),
              [](const Parameter& a, const Parameter& b) { return a.name < b.name; });
    for (Parameter& p : parameters_) SetSpread(&p);
    std::vector<Tensor> variables;
    for (const Parameter& p : parameters_) variables.push_back(p.variable);
    fetches_ = gradients(model_.loss, variables);
    fetches_.push_back(model_.loss);
    session_ = std::make_unique<Session>(config);
    session_->run(initialize_all_variables());
    pictures_ = data::ReadFashionMnist().train;
    order_.resize(size_t(pictures_.count));
    std::iota(order_.begin(), order_.end(), 0u);
  }

  void CheckStates() {
    const std::vector<std::string> names = reference_["tensors"];
    REQUIRE(names.size() == parameters_.size());
    double worst = 0;
    for (int s = 0; s < kStates; ++s) {
      SetState(s);
      const std::vector<Array> got = session_->run(fetches_, FeedsOf(s));
      const double loss = reference_["loss_of_state"][size_t(s)];
      CAPTURE(s);
      CHECK(std::abs(got.back()->at(0) - loss) <= 1e-5 * loss);
      for (size_t t = 0; t < parameters_.size(); ++t) {
        REQUIRE(names[t] == parameters_[t].name);
        const int64_t row = (int64_t(s) * int64_t(names.size()) + int64_t(t)) * (kProjections + 1);
        const double norm = gradients_->at(row + kProjections);
        const std::vector<double> projections = Project(t, *got[t]);
        for (int k = 0; k < kProjections; ++k) {
          CAPTURE(names[t]);
          const double error = std::abs(projections[size_t(k)] - gradients_->at(row + k)) / norm;
          CHECK(error <= 1e-3);
          worst = std::max(worst, error);
        }
      }
    }
    MESSAGE(program_.name << ": worst projection differs by " << worst
                          << " of the gradient's norm");
  }

  /// Losses of the first steps from the first state.
  std::vector<double> RunFree(int steps) {
    session_->run(initialize_all_variables());
    SetState(-1);
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i)
      losses.push_back(session_->run({model_.train_step, model_.loss}, FeedsOf(i))[1]->at(0));
    return losses;
  }
  const Json& reference() const { return reference_; }

 private:
  void SetSpread(Parameter* p) const {
    const bool norm = p->name.find("norm") != std::string::npos;
    const bool bias = p->name.size() > 5 && p->name.substr(p->name.size() - 5) == ".bias";
    if (norm) {
      p->offset = bias ? 0 : 1;
      p->scale = 0.5;
      return;
    }
    // A bias is spread as its weight is.
    const std::string weight = p->name.substr(0, p->name.rfind('.')) + ".weight";
    for (const Parameter& q : parameters_) {
      if (q.name != weight) continue;
      const Ints shape = q.variable.shape().ints();
      double fan_in = 1;
      for (size_t i = 0; i < shape.size(); ++i)
        if (i != (shape.size() == 2 ? 1 : 0)) fan_in *= double(shape[i]);
      const bool he = program_.alias == "resnet20" && p->variable.shape().rank() == 4;
      p->bound = he ? std::sqrt(6 / fan_in) : 1 / std::sqrt(fan_in);
    }
    p->scale = p->bound;
  }

  /// Parameters of state `s`; of z = 0 for -1. The offsets of normalizations are stored,
  /// one after the other.
  void SetState(int s) {
    int64_t offset = offsets_ && s >= 0 ? s * offsets_->dims()[1] : 0;
    for (size_t t = 0; t < parameters_.size(); ++t) {
      const Parameter& p = parameters_[t];
      auto value = std::make_shared<weft::Tensor>(float32, p.variable.shape().ints());
      float* to = value->mutable_data_as<float>();
      const bool stored = offsets_ && s >= 0 && p.bound == 0 && p.offset == 0;
      for (int64_t i = 0; i < value->num_elements(); ++i) {
        if (stored) {
          to[i] = float(offsets_->at(offset++));
          continue;
        }
        const double unit = double(Mix(kFirst, t, uint64_t(i)) >> 40) * 0x1p-24;
        const double first = float(p.bound * (2 * unit - 1) + p.offset);
        const uint64_t place = Mix(kPlace, t, uint64_t(i));
        const int64_t bucket = int64_t(place >> (64 - kBucketsLog2));
        const double z = s < 0 ? 0 : states_->at((int64_t(s) << kBucketsLog2) + bucket);
        to[i] = float(first + p.scale * (place & 1 ? -1.0 : 1.0) * z);
      }
      session_->set(p.variable, value);
    }
  }

  static std::vector<double> Project(size_t t, const weft::Tensor& g) {
    std::vector<double> sums(kProjections, 0);
    for (int64_t i = 0; i < g.num_elements(); ++i) {
      const uint64_t bits = Mix(kProject, t, uint64_t(i));
      const double v = g.at(i);
      for (int k = 0; k < kProjections; ++k) sums[size_t(k)] += (bits >> k) & 1 ? -v : v;
    }
    return sums;
  }

  Feeds FeedsOf(int number) const {
    data::Loader::Options o;
    o.batch = reference_["batch"];
    const data::Batch b = data::MakeBatch(pictures_, program_.layout, o, order_, number);
    return {{model_.x, b.x}, {model_.y, b.y}};
  }

  Json reference_;
  Array states_, gradients_, offsets_;
  const programs::Program& program_;
  programs::Model model_;
  std::vector<Parameter> parameters_;
  std::vector<Tensor> fetches_;
  std::unique_ptr<Session> session_;
  data::Pictures pictures_;
  std::vector<uint32_t> order_;
};

TEST_CASE("LeNet: losses and gradients are PyTorch's, at five states and running free") {
  for (const char* config : {"cpu fusion", "cpu"}) {
    CAPTURE(config);
    Network net("lenet", config);
    net.CheckStates();
    const std::vector<double> want = net.reference()["free_run_float64"];
    const std::vector<double> got = net.RunFree(int(want.size()));
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(got[i] - want[i]) <= 1e-4);
    }
  }
}

TEST_CASE("ResNet-20: losses and gradients are PyTorch's at five states") {
  Network("resnet20", "cpu fusion").CheckStates();
}

TEST_CASE("ResNet-20 running free stays where PyTorch's own variants are") {
  Network net("resnet20", "cpu fusion");
  const std::vector<double> low = net.reference()["free_run_lowest"],
                            high = net.reference()["free_run_highest"];
  const std::vector<double> got = net.RunFree(int(low.size()));
  // Variants are samples: the envelope is as much wider on either side as they are apart.
  for (size_t i = 0; i < low.size(); ++i) {
    const double apart = std::max(high[i] - low[i], 1e-6 * high[i]);
    CAPTURE(i);
    CHECK(got[i] >= low[i] - apart);
    CHECK(got[i] <= high[i] + apart);
  }
}

}  // namespace
}  // namespace tf::test
