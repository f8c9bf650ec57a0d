/// edges_test.cc: gradients at ties, kinks, zeros and edges of domains against the values that
/// PyTorch gives (edges.txt, written by make_edges.py).
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "check.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/error.h"

namespace weft::gradient {
namespace {

using Numbers = std::vector<double>;

Numbers ParseNumbers(const std::string& text) {
  Numbers out;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    if (word != "empty") out.push_back(std::stod(word));
  return out;
}
std::vector<Numbers> ParseGradients(const std::string& text) {
  std::vector<Numbers> out;
  for (const std::string& part : Split(text, ';')) out.push_back(ParseNumbers(part));
  return out;
}

bool Same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= 1e-12 * (1 + std::fabs(b));
}
bool Same(const std::vector<Numbers>& a, const std::vector<Numbers>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].size() != b[k].size()) return false;
    for (size_t i = 0; i < a[k].size(); ++i)
      if (!Same(a[k][i], b[k][i])) return false;
  }
  return true;
}
std::string Print(const std::vector<Numbers>& all) {
  std::ostringstream out;
  for (const Numbers& one : all) {
    for (const double v : one) out << v << ' ';
    out << "; ";
  }
  return out.str();
}

/// Gradients of the sum of the first result, by FGradient.
std::vector<Numbers> GradientsOfSum(const Case& c) {
  const Tensors ys = Eval(c.MakeGraph(), c.Variables());
  Vjp v = MakeVjp(c, ys, {0});
  auto ones = std::make_shared<Tensor>(DType::kF64, ys[0]->dims());
  for (int64_t i = 0; i < ones->num_elements(); ++i) ones->set(i, 1);
  std::vector<Numbers> out;
  for (const TensorPtr& g : EvalGradient(v, c, {ones})) {
    CHECK(g->dims() == c.inputs[v.slots[out.size()]]->dims());
    Numbers& numbers = out.emplace_back();
    for (int64_t i = 0; i < g->num_elements(); ++i) numbers.push_back(g->at(i));
  }
  return out;
}

}  // namespace

TEST_CASE("gradients at edges are PyTorch's, or the documented choice") {
  int rows = 0;
  std::set<std::string> ops;
  for (const std::string& line : Lines("edges.txt")) {
    CAPTURE(line);
    std::vector<std::string> part = Split(line, '|');
    REQUIRE(part.size() >= 5);
    const std::vector<Numbers> torch = ParseGradients(part[3]);
    std::vector<Numbers> want = torch;
    if (part.size() > 5) {
      REQUIRE(part[5].rfind("ours ", 0) == 0);
      want = ParseGradients(part[5].substr(5));
      CHECK_MESSAGE(!Same(want, torch), "no longer another choice than PyTorch's");
      CHECK_MESSAGE(!part[4].empty(), "says why");
    }
    try {
      const std::vector<Numbers> got = GradientsOfSum(ParseCase(part[0], part[1], part[2]));
      CAPTURE(Print(got));
      CAPTURE(Print(want));
      CHECK(Same(got, want));
    } catch (const UserError& e) {
      FAIL_CHECK(std::string(e.what()));
    }
    ++rows;
    ops.insert(part[0]);
  }
  CHECK(rows >= 100);
  CHECK(ops.size() >= 50);
}

TEST_CASE("a branch that Where does not take still makes NaN where its own gradient is infinite") {
  // As in PyTorch: 0 * inf. The remedy is to mask the operand of the branch as well.
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF64, {2}));
  const NodeEntry zero = ScalarLike(x, DType::kF64, 0), one = ScalarLike(x, DType::kF64, 1);
  const NodeEntry positive = ApplyOp("Greater", {x, zero});
  const auto at = [&](const NodeEntry& y) {
    const NodeEntry ones = ApplyOp("Expand", {one, ApplyOp("Shape", {y})});
    g.outputs = Backward({y}, {ones}, {x});
    return Eval(g, {Tensor::FromDoubles(DType::kF64, {2}, {0, 4})})[0];
  };
  const TensorPtr plain = at(ApplyOp("Where", {positive, ApplyOp("Sqrt", {x}), zero}));
  CHECK(std::isnan(plain->at(0)));
  CHECK(plain->at(1) == 0.25);
  const NodeEntry safe = ApplyOp("Where", {positive, x, one});
  const TensorPtr masked = at(ApplyOp("Where", {positive, ApplyOp("Sqrt", {safe}), zero}));
  CHECK(masked->at(0) == 0);
  CHECK(masked->at(1) == 0.25);
}

}  // namespace weft::gradient
