/// gradient.cc: the gradient of demo::Snake against central differences, in double precision.
#include <cmath>
#include <cstdio>

#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/error.h"

using namespace weft;

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  LoadPlugin(argv[1]);
  Graph g;
  NodePtr x = g.AddInput("x", DType::kF64, {5});
  NodePtr y = g.AddNode("demo::Snake", {x}, {{"alpha", 3.0}}, "y");
  NodePtr dy = g.AddInput("dy", DType::kF64, {5});
  const auto& gradient = Op::GetAttr<FGradient>("FGradient");
  g.outputs = {NodeEntry(y), gradient[y->op()](y, {NodeEntry(dy)})[0]};

  const std::vector<double> at = {-4, -0.7, 0, 0.3, 2.5};
  const auto run = [&](double shift) {
    std::vector<double> v = at;
    for (double& e : v) e += shift;
    return GetEvaluator()->Eval(g, {Tensor::FromDoubles(DType::kF64, {5}, v),
                                    Tensor::FromDoubles(DType::kF64, {5}, {1, 1, 1, 1, 1})});
  };
  const double h = 1e-6;
  const auto lower = run(-h), here = run(0), upper = run(h);
  double worst = 0;
  for (int i = 0; i < 5; ++i)
    worst =
        std::max(worst, std::fabs((upper[0]->at(i) - lower[0]->at(i)) / (2 * h) - here[1]->at(i)));
  std::printf("gradient error %.1g\n", worst);
  return worst < 1e-8 ? 0 : 1;
} catch (const Error& e) {
  std::puts(e.what());
  return 1;
}
