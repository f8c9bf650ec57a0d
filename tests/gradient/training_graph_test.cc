/// training_graph_test.cc: random graphs of all operators, a loss over their results, gradients by
/// the pass: fused kernels = every operator alone = the interpreter in double precision.
///
/// A gradient has no error bound of its own as a result has. What rounding may do to it is
/// measured: the interpreter runs again on operands moved by about a rounding error, and once
/// rounding as a device. Where that alone changes the gradient (a kink, a tie, a cancellation) the
/// bound grows with it.
///
///   WEFT_TRAINING_SEED=7000 WEFT_TRAINING_COUNT=10000 training_graph_test
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/gradient/training_graphs.h"
#include "tests/support/e2e_util.h"

namespace weft::gradient {
namespace {

Tensors Interpret(const Training& t, const Tensors& in, bool typed) {
  EvalOptions options;
  options.typed = typed;
  return GetEvaluator()->Eval(t.graph, in, options);
}
/// Float operands times 1 + up to `relative`.
Tensors Shaken(const Tensors& in, double relative, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Tensors out;
  for (const TensorPtr& x : in) {
    if (!IsFloat(x->dtype())) {
      out.push_back(x);
      continue;
    }
    auto y = std::make_shared<Tensor>(x->dtype(), x->dims());
    for (int64_t i = 0; i < x->num_elements(); ++i) {
      const double r = 2 * (double(rng() >> 11) * 0x1p-53) - 1;
      y->set(i, x->at(i) * (1 + relative * r));
    }
    out.push_back(std::move(y));
  }
  return out;
}

double Largest(const Tensor& t) {
  double m = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = std::fabs(t.at(i));
    m = std::isnan(v) ? INFINITY : std::max(m, v);
  }
  return m;
}
/// Largest difference of elements; infinite where one is not finite.
double Distance(const Tensor& a, const Tensor& b) {
  if (a.dims() != b.dims() || a.dtype() != b.dtype()) return INFINITY;
  double m = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double d = std::fabs(a.at(i) - b.at(i));
    m = std::isnan(d) ? INFINITY : std::max(m, d);
  }
  return m;
}

/// What rounding may change, per result: see the top of this file.
std::vector<double> Bounds(const Training& t, const Tensors& want, int runs, double relative) {
  std::vector<double> bounds;
  for (const TensorPtr& w : want) bounds.push_back(256 * t.epsilon * (Largest(*w) + 1e-3));
  const auto widen = [&](const Tensors& other) {
    for (size_t k = 0; k < want.size(); ++k)
      bounds[k] = std::max(bounds[k], 16 * Distance(*other[k], *want[k]));
  };
  widen(Interpret(t, t.inputs, true));
  for (int i = 0; i < runs; ++i)
    widen(Interpret(t, Shaken(t.inputs, relative, uint64_t(i) + 1), false));
  return bounds;
}

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

}  // namespace

TEST_CASE("random training graphs: fused = unfused = interpreter") {
  const int64_t first = FromEnvironment("WEFT_TRAINING_SEED", 1),
                count = FromEnvironment("WEFT_TRAINING_COUNT", 1000);
  const bool cpu = e2e::HasCpu();
  std::vector<std::pair<std::string, std::string>> variants{{"ref", ""}};
  if (cpu) {
    variants = {
        {"cpu", ""},
        {"cpu",
         e2e::WithPass(StandardPipeline(), "Fusion", {{"Fusion", {{"max_ops", 1}}}}).ToString()}};
  }
  int graphs = 0, none = 0, tensors = 0, not_finite = 0, loose = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    std::string why;
    const auto training = MakeTraining(uint64_t(seed), &why);
    if (!training) {
      ++none;
      if (std::getenv("WEFT_FUZZ_VERBOSE")) MESSAGE(seed << ": " << why);
      continue;
    }
    const Training& t = *training;
    Tensors want;
    std::vector<double> bounds;
    try {
      want = Interpret(t, t.inputs, false);
      bounds = Bounds(t, want, 2, t.epsilon);
    } catch (const Error& e) {
      FAIL_CHECK(std::string(e.what()));
      continue;
    }
    ++graphs;
    for (const std::pair<std::string, std::string>& variant : variants) {
      const std::string &backend = variant.first, &pipeline = variant.second;
      CAPTURE(pipeline);
      Tensors got;
      try {
        Session session(e2e::CompileFor(t.graph, backend, pipeline));
        got = session.Run(t.inputs);
      } catch (const Error& e) {
        PrintOptions print;
        print.inline_all = true;
        FAIL_CHECK(std::string(e.what()) << "\n" << PrintGraph(t.graph, print));
        continue;
      }
      REQUIRE(got.size() == want.size());
      for (size_t k = 0; k < want.size(); ++k) {
        REQUIRE(got[k]->dims() == want[k]->dims());
        REQUIRE(got[k]->dtype() == want[k]->dtype());
        if (!std::isfinite(bounds[k])) {
          ++not_finite;
          continue;
        }
        ++tensors;
        const double size = Largest(*want[k]), off = Distance(*got[k], *want[k]);
        if (off <= bounds[k]) {
          loose += bounds[k] > 0.1 * size && size > 1e-6;
          continue;
        }
        // Rounding elsewhere than in the operands may cross a kink that two runs did not.
        const std::vector<double> wider = Bounds(t, want, 24, 8 * t.epsilon);
        CAPTURE(t.graph.OutputName(k));
        CAPTURE(off);
        CAPTURE(size);
        CAPTURE(wider[k]);
        CHECK(off <= wider[k]);
      }
    }
  }
  MESSAGE(graphs << " graphs, " << tensors << " tensors compared, " << not_finite << " not finite, "
                 << loose << " with a wide bound; " << none << " without a gradient");
  if (count < 500) return;
  CHECK(graphs >= count * 6 / 10);
  CHECK(not_finite < tensors / 10);
  CHECK(loose < tensors / 3);
}

}  // namespace weft::gradient
