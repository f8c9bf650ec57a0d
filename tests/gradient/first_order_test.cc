/// first_order_test.cc: the gradient of every operator against central differences in double
/// precision, coordinate by coordinate and as <v, J u> = <J' v, u>; J u also without a difference,
/// by differentiating J' v with respect to v.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

#include "check.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft::gradient {
namespace {

constexpr size_t kCasesAnOp = 10;
/// Coordinates of one operand that are looked at one by one; the others enter by the direction.
constexpr int64_t kCoordinates = 8;

/// Results of the case, or none where the operands drawn for it are refused (an
/// index out of range).
std::optional<Tensors> Forward(const Case& c) {
  try {
    return Eval(c.MakeGraph(), c.Variables());
  } catch (const UserError&) {
    return std::nullopt;
  }
}

bool HasDouble(const Tensors& t) {
  for (const TensorPtr& x : t)
    if (x->dtype() == DType::kF64) return true;
  return false;
}

Tensors Select(const Tensors& from, const std::vector<uint32_t>& which) {
  Tensors out;
  for (const uint32_t k : which) out.push_back(from[k]);
  return out;
}

/// The f64 results as a function of the f64 variables, the others held.
std::function<Tensors(const Tensors&)> FunctionOf(const Case& c, const Vjp& v) {
  const Graph forward = c.MakeGraph();
  return [&c, &v, forward](const Tensors& x) {
    Tensors all = c.Variables();
    for (size_t k = 0; k < x.size(); ++k) all[v.variables[k]] = x[k];
    return Select(Eval(forward, all), v.results);
  };
}

/// J u exactly: the derivative of <J' v, u> with respect to v. Nullopt where the rule of some
/// operator in J' is missing (second_order_test.cc judges that).
std::optional<Tensors> ForwardProduct(const Case& c, const Tensors& ys, const Vjp& like,
                                      const Tensors& seeds, const Tensors& u) {
  Vjp v = MakeVjp(c, ys, like.results);
  std::vector<NodeEntry> heads, weights;
  Tensors in = c.Variables();
  in.insert(in.end(), seeds.begin(), seeds.end());
  for (size_t k = 0; k < v.gradient.size(); ++k) {
    if (!v.gradient[k]) continue;
    heads.push_back(v.gradient[k]);
    weights.push_back(
        NodeEntry(v.graph.AddInput("u" + std::to_string(k), DType::kF64, u[k]->shape())));
    in.push_back(u[k]);
  }
  std::vector<NodeEntry> product;
  try {
    product = Backward(heads, weights, v.seeds);
  } catch (const UserError& e) {
    if (e.code() == ErrorCode::kUnsupported) return std::nullopt;
    throw;
  }
  std::vector<NodeEntry> asked;
  for (const NodeEntry& e : product)
    if (e) asked.push_back(e);
  Tensors values, out;
  if (!asked.empty()) {
    v.graph.outputs = asked;
    values = Eval(v.graph, in);
  }
  for (size_t k = 0, a = 0; k < product.size(); ++k)
    out.push_back(product[k] ? values[a++]
                             : std::make_shared<Tensor>(DType::kF64, ys[v.results[k]]->dims()));
  return out;
}

/// One case; counts the numbers compared.
void CheckCase(const Case& c, const Tensors& ys, const std::vector<uint32_t>& seeded,
               int* compared) {
  CAPTURE(c.label);
  Vjp v = MakeVjp(c, ys, seeded);
  const Tensors seeds = RandomLike(Select(ys, v.results), 71);
  Tensors x;
  for (const size_t s : v.slots) x.push_back(c.inputs[s]);
  const Tensors grads = EvalGradient(v, c, seeds);
  for (size_t k = 0; k < grads.size(); ++k) {
    CAPTURE(v.slots[k]);
    REQUIRE(grads[k]->dtype() == DType::kF64);
    REQUIRE(grads[k]->dims() == x[k]->dims());
  }
  if (!Finite(ys)) return;
  const auto f = FunctionOf(c, v);
  const double scale = std::sqrt(Dot(Select(ys, v.results), Select(ys, v.results)));
  std::vector<bool> exempt;
  for (size_t k = 0; k < x.size(); ++k)
    exempt.push_back(!v.gradient[k] && MayBeNull(c.op->name, v.slots[k]));
  const auto zeros = [&] {
    Tensors z;
    for (const TensorPtr& t : x) z.push_back(std::make_shared<Tensor>(DType::kF64, t->dims()));
    return z;
  };
  std::mt19937_64 rng(19);
  for (size_t k = 0; k < x.size(); ++k) {
    if (exempt[k]) continue;
    CAPTURE(v.slots[k]);
    const int64_t n = x[k]->num_elements();
    for (int64_t i = 0; i < std::min(n, kCoordinates); ++i) {
      const int64_t at = n <= kCoordinates ? i : int64_t(rng() % uint64_t(n));
      Tensors direction = zeros();
      auto unit = std::make_shared<Tensor>(DType::kF64, x[k]->dims());
      unit->set(at, 1);
      direction[k] = unit;
      const Difference d = CentralDifference(f, x, direction);
      if (!d.smooth) continue;
      const double want = Dot(d.value, seeds), got = grads[k]->at(at);
      CAPTURE(at);
      CAPTURE(x[k]->at(at));
      CAPTURE(want);
      CAPTURE(got);
      CHECK(Near(got, want, scale));
      ++*compared;
    }
  }
  Tensors u = RandomLike(x, 23);
  for (size_t k = 0; k < x.size(); ++k)
    if (exempt[k]) u[k] = std::make_shared<Tensor>(DType::kF64, x[k]->dims());
  const Difference d = CentralDifference(f, x, u);
  if (!d.smooth) return;
  const double vju = Dot(seeds, d.value), jvu = Dot(grads, u);
  CAPTURE(vju);
  CAPTURE(jvu);
  CHECK(Near(vju, jvu, scale));
  const auto ju = ForwardProduct(c, ys, v, seeds, u);
  if (!ju) return;
  for (size_t k = 0; k < ju->size(); ++k) {
    REQUIRE((*ju)[k]->dims() == d.value[k]->dims());
    for (int64_t i = 0; i < d.value[k]->num_elements(); ++i) {
      CAPTURE(i);
      CHECK(Near((*ju)[k]->at(i), d.value[k]->at(i), scale));
    }
  }
  // The identity again, with no difference in it.
  const double exact = Dot(seeds, *ju);
  CAPTURE(exact);
  CHECK(std::fabs(exact - jvu) <= 1e-10 * (1 + std::fabs(exact) + scale));
}

bool Stateful(const Op* op) { return Op::GetAttr<TIsStateful>("TIsStateful").get(op, false); }

}  // namespace

TEST_CASE("every operator with float operands has a gradient or says why not") {
  for (const Op* op : Op::List()) {
    CAPTURE(op->name);
    if (op->has("FGradient")) {
      CHECK_MESSAGE(!ExceptionFor(op->name, "rule"), "has a rule now: leave it out of the list");
    } else {
      CHECK_MESSAGE(ExceptionFor(op->name, "rule"), "no FGradient, and not in exceptions.txt");
    }
  }
  for (const std::pair<std::string, std::string>& entry : Exceptions()) {
    const std::string &op = entry.first, &scope = entry.second;
    CAPTURE(op);
    CHECK_MESSAGE(Op::Find(op), "exceptions.txt names an operator that does not exist");
    CHECK((scope == "rule" || scope == "second" || scope == "cases" || scope == "inputs" ||
           scope == "modes" || scope.rfind("input ", 0) == 0));
  }
}

TEST_CASE(
    "every operator that ONNX calls differentiable has a gradient here, or a body of others") {
  int with_rule = 0;
  for (const std::string& line : Lines("onnx_differentiable.txt")) {
    const std::vector<std::string> part = Split(line, '|');
    CAPTURE(part[0]);
    REQUIRE(part.size() == 2);
    const Op* op = Op::Find(part[0]);
    if (op && op->has("FGradient")) {
      ++with_rule;
    } else if (op) {
      CHECK(ExceptionFor(part[0], "rule"));
    } else {
      // Scatter becomes ScatterElements at import; MaxRoiPool is no operator of this library.
      CHECK((part[1] == "body" || part[0] == "Scatter" || part[0] == "MaxRoiPool"));
    }
  }
  CHECK(with_rule >= 108);
}

TEST_CASE("gradients equal central differences, and J' is the adjoint of J") {
  int ops = 0, all = 0, numbers = 0;
  for (const Op* op : Op::List()) {
    if (!op->has("FGradient") || Stateful(op)) continue;
    int cases = 0, compared = 0;
    bool floats = false;
    for (const Case& c : CasesOf(*op, kCasesAnOp + 4)) {
      const auto ys = Forward(c);
      if (!ys || !HasDouble(*ys) || !HasDouble(c.Variables())) continue;
      floats = true;
      ++cases;
      try {
        CheckCase(c, *ys, {}, &compared);
        if (ys->size() > 1)  // only one of the results has a gradient
          for (uint32_t k = 0; k < ys->size(); ++k)
            if ((*ys)[k]->dtype() == DType::kF64) CheckCase(c, *ys, {k}, &compared);
      } catch (const UserError& e) {
        if (e.code() == ErrorCode::kUnsupported && ExceptionFor(op->name, "modes")) continue;
        CAPTURE(c.label);
        FAIL_CHECK(std::string(e.what()));
      }
    }
    if (!floats) {
      // Nothing to differentiate: integers, strings, or constants made of no operand.
      continue;
    }
    CAPTURE(op->name);
    CAPTURE(compared);
    if (!ExceptionFor(op->name, "cases") && !ExceptionFor(op->name, "inputs")) {
      CHECK(cases >= int(kCasesAnOp));
      CHECK(compared >= 20);
    }
    ++ops;
    all += cases;
    numbers += compared;
  }
  MESSAGE(ops << " operators, " << all << " cases, " << numbers << " numbers");
  CHECK(ops >= 120);
}

TEST_CASE("a null gradient of the result builds nothing") {
  for (const Op* op : Op::List()) {
    if (!op->has("FGradient")) continue;
    const std::vector<Case> cases = CasesOf(*op, 1);
    if (cases.empty()) continue;
    CAPTURE(cases[0].label);
    Graph g = cases[0].MakeGraph();
    const NodePtr n = g.outputs[0].node;
    const size_t before = g.num_nodes();
    const auto dx =
        Op::GetAttr<FGradient>("FGradient")[op](n, std::vector<NodeEntry>(n->num_outputs()));
    CHECK(dx.size() == n->inputs.size());
    for (const NodeEntry& e : dx) CHECK(!e);
    CHECK(g.num_nodes() == before);
  }
}

}  // namespace weft::gradient
