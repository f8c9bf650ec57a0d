/// training_test.cc: whole training steps as one machine program each, against the backend cpu:
/// the losses of twenty steps, and what the first one makes of the state.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <variant>

#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/core/module/plugin.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/runtime/program/program.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;

constexpr int kSteps = 20;
constexpr double kTolerance = 1e-4;

Graph ReadModel(const std::string& name) {
  static const PluginInfo plugin = LoadPlugin(HSIMD_PLUGIN);
  std::ifstream file(std::string(HSIMD_MODELS) + "/" + name + ".weft");
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return ParseGraph(text.str(), name);
}

TensorPtr Filled(const NodePtr& variable, const std::function<double()>& next) {
  auto t = std::make_shared<Tensor>(DeclaredType(variable).dtype, DeclaredShape(variable)->ints());
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    const double v = next();
    if (t->dtype() == DType::kI64)
      static_cast<int64_t*>(t->mutable_data())[i] = int64_t(v);
    else
      static_cast<float*>(t->mutable_data())[i] = float(v);
  }
  return t;
}

/// Weights around 0 by the size of what they sum, moments 0, powers of Adam's betas 1.
TensorPtr FirstValue(const NodePtr& v, std::mt19937* random) {
  const std::vector<int64_t> dims = DeclaredShape(v)->ints();
  const std::string& name = v->attrs.name;
  if (dims.empty()) return Filled(v, [] { return 1.0; });
  if (name.find('_') != std::string::npos) return Filled(v, [] { return 0.0; });
  int64_t fan = 1;
  for (size_t d = dims.size() == 4 ? 1 : 0; d + (dims.size() == 2) < dims.size(); ++d)
    fan *= dims[d];
  std::uniform_real_distribution<double> around(-1 / std::sqrt(double(fan)),
                                                1 / std::sqrt(double(fan)));
  return Filled(v, [&] { return around(*random); });
}

/// Images that tell their label by where they are bright.
std::vector<TensorPtr> Batch(const Graph& g, std::mt19937* random) {
  std::normal_distribution<double> noise(0, 0.3);
  std::uniform_int_distribution<int> classes(0, 9);
  const std::vector<NodePtr> inputs = g.AllInputs();
  REQUIRE(inputs.size() == 2);
  const TensorPtr label = Filled(inputs[1], [&] { return double(classes(*random)); });
  const int64_t pixels = NumElements(DeclaredShape(inputs[0])->ints()) / label->num_elements();
  int64_t i = 0;
  const TensorPtr x = Filled(inputs[0], [&] {
    const int64_t which = static_cast<const int64_t*>(label->data())[i / pixels];
    const bool bright = i % pixels * 10 / pixels == which;
    ++i;
    return noise(*random) + (bright ? 1.0 : 0.0);
  });
  return {x, label};
}

/// The largest difference as a part of the largest value.
double Difference(const Tensor& got, const Tensor& want) {
  REQUIRE(got.num_elements() == want.num_elements());
  double most = 0, off = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double a = static_cast<const float*>(got.data())[i];
    const double b = static_cast<const float*>(want.data())[i];
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? off : 1;
    most = std::max(most, std::abs(b));
    off = std::max(off, std::abs(a - b));
  }
  return off / std::max(most, 1e-30);
}

int64_t FieldOf(const std::vector<ProgramField>& fields, const std::string& name) {
  for (const ProgramField& f : fields)
    if (f.name == name) return std::get<int64_t>(f.value);
  FAIL("no field ", name);
  return -1;
}

void Train(const std::string& model) {
  CAPTURE(model);
  const Graph g = ReadModel(model);
  const bool adam = model.find("adam") != std::string::npos;
  std::mt19937 random(7);
  auto machine_store = std::make_shared<VariableStore>();
  auto cpu_store = std::make_shared<VariableStore>();
  for (const NodePtr& v : StateVariables(g)) {
    const TensorPtr first = FirstValue(v, &random);
    machine_store->Set(v->attrs.name, first);
    cpu_store->Set(v->attrs.name, first);
  }
  CompileOptions options;
  options.backend = "hsimd:tree64";
  Session machine(Compile(g, options), machine_store);
  options.backend = "cpu";
  Session cpu(Compile(g, options), cpu_store);
  for (int step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    const std::vector<TensorPtr> batch = Batch(g, &random);
    const std::vector<TensorPtr> got = machine.Run(batch), want = cpu.Run(batch);
    CHECK(Difference(*got[0], *want[0]) <= kTolerance);
    CHECK(got[1]->num_elements() == 0);
    // Of the first step, gradients as they are in weights or in Adam's moments; later steps start
    // from other weights by what the backends round.
    for (const NodePtr& v : StateVariables(g)) {
      const std::string& name = v->attrs.name;
      if (step > 0 || (adam && name.find('_') == std::string::npos)) continue;
      CAPTURE(name);
      CHECK(Difference(*machine_store->Get(name), *cpu_store->Get(name)) <= kTolerance);
    }
    CHECK(FieldOf(machine.fields(), "cycles") == FieldOf(machine.fields(), "predicted_cycles"));
  }
}

TEST_CASE("training steps of the perceptron") {
  Train("mlp_sgd");
  Train("mlp_adam");
}

TEST_CASE("training steps of LeNet") {
  Train("lenet_sgd");
  Train("lenet_adam");
}

}  // namespace
