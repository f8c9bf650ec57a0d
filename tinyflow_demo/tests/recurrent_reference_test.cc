/// recurrent_reference_test.cc: recurrent layers and a language model give PyTorch's numbers, from
/// the same parameters and operands: reference/make_recurrent_reference.py wrote them, in float64.
#include <nlohmann/json.hpp>

#include "tests/util.h"
#include "tinyflow/random.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

using Json = nlohmann::json;

// As in the script.
enum Purpose : uint64_t { kProject = 103, kParameter = 111, kOperand = 112, kWeight = 113 };
constexpr int64_t kSteps = 7, kBatch = 3, kInputs = 5, kUnits = 6;
constexpr int kLayers = 2, kProjections = 8;
constexpr double kTolerance = 2e-5;

const Json& Reference() {
  static const Json json = Json::parse(weft::ReadFile("tinyflow_demo/reference/recurrent.json"));
  return json;
}

/// In [-bound, bound).
Array NumbersOf(uint64_t purpose, uint64_t t, const Ints& dims, double bound = 1) {
  auto value = std::make_shared<weft::Tensor>(float32, dims);
  for (int64_t i = 0; i < value->num_elements(); ++i)
    value->set(i, bound * (2 * double(Mix(purpose, t, uint64_t(i)) >> 40) * 0x1p-24 - 1));
  return value;
}
void SetNumbers(Session* sess, const Tensor& variable, uint64_t t, double bound) {
  sess->set(variable, NumbersOf(kParameter, t, variable.shape().ints(), bound));
}

/// Projections and norm of a gradient, as `want` lists them.
void CheckGradient(uint64_t t, const weft::Tensor& g, const std::vector<double>& want) {
  std::vector<double> got(kProjections + 1, 0);
  for (int64_t i = 0; i < g.num_elements(); ++i) {
    const uint64_t bits = Mix(kProject, t, uint64_t(i));
    const double v = g.at(i);
    for (int k = 0; k < kProjections; ++k) got[size_t(k)] += (bits >> k) & 1 ? -v : v;
    got[kProjections] += v * v;
  }
  got[kProjections] = std::sqrt(got[kProjections]);
  REQUIRE(want.size() == got.size());
  for (size_t k = 0; k < want.size(); ++k) {
    CAPTURE(t);
    CAPTURE(k);
    CHECK(std::abs(got[k] - want[k]) <= kTolerance * std::max(1.0, want[kProjections]));
  }
}

nn::Sequence Apply(const Json& c, const Tensor& x, const Tensors& state, const Tensor& lengths) {
  const nn::RecurrentOptions options{kLayers, 0, c["both_ways"].get<bool>()};
  if (c["kind"] == "LSTM") return nn::LSTM(kInputs, kUnits, options)(x, state, lengths);
  return nn::GRU(kInputs, kUnits, options)(x, state, lengths);
}

TEST_CASE("LSTM and GRU: what they give and every gradient are PyTorch's") {
  const std::vector<int64_t> lengths = Reference()["lengths"];
  for (const char* config : {"cpu fusion", "cpu"})
    for (const Json& c : Reference()["cases"]) {
      CAPTURE(config);
      CAPTURE(c["kind"].get<std::string>());
      CAPTURE(c["both_ways"].get<bool>());
      CAPTURE(c["lengths"].get<bool>());
      const Fresh fresh;
      const int64_t ways = c["both_ways"] ? 2 : 1;
      const size_t parts = c["kind"] == "LSTM" ? 2 : 1;
      const Tensor x = placeholder(float32, {kSteps, kBatch, kInputs}, "x");
      // Fed whole, [layers ways, batch, units], as PyTorch takes it.
      Tensors whole, state;
      for (size_t i = 0; i < parts; ++i)
        whole.push_back(placeholder(float32, {kLayers * ways, kBatch, kUnits}, "state"));
      for (int k = 0; k < kLayers; ++k)
        for (const Tensor& s : whole) {
          const Tensor mine = reshape(s, {kLayers, ways, kBatch, kUnits});
          state.push_back(make_node("Gather", {mine, constant(k, int64)}, {{"axis", 0}}));
        }
      Tensor ends;
      if (c["lengths"]) ends = cast(constant(weft::Tensor::Ints(lengths)), int32);
      const nn::Sequence y = Apply(c, x, state, ends);
      Tensor loss =
          reduce_sum(y.outputs * constant(NumbersOf(kWeight, 0, {kSteps, kBatch, ways * kUnits})));
      for (size_t i = 0; i < parts; ++i) {
        Tensors last;
        for (int k = 0; k < kLayers; ++k) last.push_back(y.state[size_t(k) * parts + i]);
        loss = loss +
               reduce_sum(concat(last, 0) *
                          constant(NumbersOf(kWeight, 1 + i, {kLayers * ways, kBatch, kUnits})));
      }
      const std::vector<Tensor> variables = trainable_variables();
      Tensors xs = variables;
      xs.push_back(x);
      xs.insert(xs.end(), whole.begin(), whole.end());
      Tensors fetches = gradients(loss, xs);
      fetches.push_back(loss);
      Session sess(config);
      for (size_t t = 0; t < variables.size(); ++t)
        SetNumbers(&sess, variables[t], t, 1 / std::sqrt(double(kUnits)));
      Feeds feeds{{x, NumbersOf(kOperand, 0, {kSteps, kBatch, kInputs})}};
      for (size_t i = 0; i < parts; ++i)
        feeds.emplace_back(whole[i], NumbersOf(kOperand, 1 + i, {kLayers * ways, kBatch, kUnits}));
      const std::vector<Array> got = sess.run(fetches, feeds);
      const double want = c["loss"];
      CHECK(std::abs(got.back()->at(0) - want) <= kTolerance * std::max(1.0, std::abs(want)));
      REQUIRE(c["gradients"].size() == variables.size());
      for (size_t t = 0; t < variables.size(); ++t) CheckGradient(t, *got[t], c["gradients"][t]);
      CheckGradient(100, *got[variables.size()], c["gradient_of_x"]);
      for (size_t i = 0; i < parts; ++i)
        CheckGradient(101 + i, *got[variables.size() + 1 + i], c["gradients_of_state"][i]);
    }
}

TEST_CASE("a language model trains as PyTorch's: state carried on, gradients clipped, Adam") {
  const Json& m = Reference()["model"];
  const int64_t classes = m["classes"], units = m["units"], batch = m["batch"], steps = m["steps"];
  const std::vector<std::vector<int64_t>> text = m["text"];
  const std::vector<double> losses = m["losses"], norms = m["norms"];
  for (const char* config : {"cpu fusion", "cpu"}) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor x = placeholder(int64, {steps, batch}, "x");
    const Tensor label = placeholder(int64, {steps * batch}, "label");
    const nn::Embedding embedding(classes, units);
    const nn::LSTM lstm(units, units, {kLayers});
    const nn::Linear dense(units, classes);
    const Tensors first = lstm.carried_state(batch);
    const nn::Sequence h = lstm(embedding(x), first);
    const Tensor loss = nn::mean_sparse_softmax_cross_entropy_with_logits(dense(h.outputs), label);
    nn::carry(first, h);
    const std::vector<Tensor> variables = trainable_variables();
    Tensor norm;
    const Tensors clipped =
        train::clip_by_global_norm(gradients(loss, variables), m["most"].get<double>(), &norm);
    const Tensor step =
        train::AdamOptimizer(m["rate"].get<double>()).apply_gradients(variables, clipped);
    Session sess(config);
    sess.run(initialize_all_variables());
    REQUIRE(variables.size() == 9);
    for (size_t t = 0; t < variables.size(); ++t)
      SetNumbers(&sess, variables[t], t, t == 0 ? 1 : 1 / std::sqrt(double(units)));
    int64_t clips = 0;
    for (size_t run = 0; run < losses.size(); ++run) {
      auto ids = std::make_shared<weft::Tensor>(int64, Ints{steps, batch}),
           labels = std::make_shared<weft::Tensor>(int64, Ints{steps * batch});
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t b = 0; b < batch; ++b) {
          const size_t at = run * size_t(steps) + size_t(t);
          ids->set_int(t * batch + b, text[size_t(b)][at]);
          labels->set_int(t * batch + b, text[size_t(b)][at + 1]);
        }
      const std::vector<Array> got = sess.run({step, loss, norm}, {{x, ids}, {label, labels}});
      CAPTURE(run);
      CHECK(std::abs(got[1]->at(0) - losses[run]) <= 1e-4);
      CHECK(std::abs(got[2]->at(0) - norms[run]) <= 1e-4);
      clips += norms[run] > m["most"].get<double>();
    }
    CHECK(clips > 2);
    CHECK(clips < int64_t(losses.size()));
  }
}

}  // namespace
}  // namespace tf::test
