/// second_order_test.cc: the gradient of the gradient. For every operator whose rule is made of
/// operators that have rules themselves, the derivatives of <J'(x) v, w> with respect to x and v
/// equal central differences of the gradient. Also: what inference says of every gradient graph.
#include <doctest/doctest.h>

#include <cmath>

#include "check.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft::gradient {
namespace {

bool Stateful(const Op* op) { return Op::GetAttr<TIsStateful>("TIsStateful").get(op, false); }

/// Numbers compared in one case.
int CheckSecond(const Case& c, const Tensors& ys) {
  CAPTURE(c.label);
  Vjp v = MakeVjp(c, ys);
  const std::vector<NodePtr> inputs = v.graph.inputs();
  std::vector<NodeEntry> first, weights;
  Tensors in = c.Variables(), of_seeds, w;
  for (const uint32_t k : v.results) of_seeds.push_back(ys[k]);
  const Tensors seeds = RandomLike(of_seeds, 31);
  in.insert(in.end(), seeds.begin(), seeds.end());
  for (size_t k = 0; k < v.gradient.size(); ++k) {
    if (!v.gradient[k]) continue;
    first.push_back(v.gradient[k]);
    w.push_back(RandomLike({c.inputs[v.slots[k]]}, 41 + k)[0]);
  }
  if (first.empty()) return 0;
  Graph gradient = v.graph;
  std::vector<NodeEntry> twins;
  for (const NodeEntry& e : first) twins.push_back(gradient.at(e));
  gradient.outputs = twins;
  for (size_t k = 0; k < w.size(); ++k)
    weights.push_back(
        NodeEntry(v.graph.AddInput("w" + std::to_string(k), DType::kF64, w[k]->shape())));
  std::vector<NodeEntry> xs = v.xs;
  xs.insert(xs.end(), v.seeds.begin(), v.seeds.end());
  const std::vector<NodeEntry> second = Backward(first, weights, xs);
  std::vector<NodeEntry> asked;
  for (const NodeEntry& e : second)
    if (e) asked.push_back(e);
  Tensors values;
  if (!asked.empty()) {
    v.graph.outputs = asked;
    Tensors all = in;
    all.insert(all.end(), w.begin(), w.end());
    values = Eval(v.graph, all);
  }
  std::vector<size_t> places = v.variables;  // of xs in `in`
  for (size_t k = 0; k < v.seeds.size(); ++k) places.push_back(c.Variables().size() + k);
  Tensors x;
  for (const size_t p : places) x.push_back(in[p]);
  const auto f = [&](const Tensors& at) {
    Tensors moved = in;
    for (size_t k = 0; k < at.size(); ++k) moved[places[k]] = at[k];
    return Eval(gradient, moved);
  };
  const Tensors g = f(x);
  if (!Finite(g)) return 0;
  const double scale = std::sqrt(Dot(g, g));
  int compared = 0;
  for (size_t k = 0, a = 0; k < x.size(); ++k) {
    CAPTURE(k);
    const TensorPtr got =
        second[k] ? values[a++] : std::make_shared<Tensor>(DType::kF64, x[k]->dims());
    REQUIRE(got->dims() == x[k]->dims());
    REQUIRE(got->dtype() == DType::kF64);
    if (k < v.slots.size() && MayBeNull(c.op->name, v.slots[k])) continue;
    // One coordinate in the middle, and a direction.
    for (const bool along : {false, true}) {
      if (x[k]->num_elements() == 0) continue;
      Tensors d;
      for (const TensorPtr& t : x) d.push_back(std::make_shared<Tensor>(DType::kF64, t->dims()));
      if (along) {
        d[k] = RandomLike({x[k]}, 53)[0];
      } else {
        auto unit = std::make_shared<Tensor>(DType::kF64, x[k]->dims());
        unit->set(x[k]->num_elements() / 2, 1);
        d[k] = unit;
      }
      const Difference difference = CentralDifference(f, x, d);
      if (!difference.smooth) continue;
      const double want = Dot(difference.value, w), is = Dot({got}, {d[k]});
      CAPTURE(along);
      CAPTURE(want);
      CAPTURE(is);
      CHECK(Near(want, is, scale));
      ++compared;
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("second order: the gradient of every gradient equals central differences of it") {
  int ops = 0, numbers = 0;
  for (const Op* op : Op::List()) {
    if (!op->has("FGradient") || Stateful(op) || ExceptionFor(op->name, "second")) continue;
    int compared = 0;
    for (const Case& c : CasesOf(*op, 10)) {
      Tensors ys;
      try {
        ys = Eval(c.MakeGraph(), c.Variables());
      } catch (const UserError&) {
        continue;
      }
      if (!Finite(ys)) continue;
      try {
        compared += CheckSecond(c, ys);
      } catch (const UserError& e) {
        if (e.code() == ErrorCode::kUnsupported && ExceptionFor(op->name, "modes")) continue;
        CAPTURE(c.label);
        FAIL_CHECK(std::string(e.what()));
      }
    }
    ops += compared > 0;
    numbers += compared;
  }
  MESSAGE(ops << " operators, " << numbers << " numbers");
  CHECK(ops >= 90);
}

TEST_CASE("the pass Gradient, applied twice, gives what the rules alone give") {
  int compared = 0;
  for (const Op* op : Op::List()) {
    if (!op->has("FGradient") || Stateful(op) || ExceptionFor(op->name, "second")) continue;
    for (const Case& c : CasesOf(*op, 1)) {
      Tensors ys;
      try {
        ys = Eval(c.MakeGraph(), c.Variables());
      } catch (const UserError&) {
        continue;
      }
      CAPTURE(c.label);
      Vjp v;
      try {
        v = MakeVjp(c, ys);
      } catch (const UserError&) {
        continue;  // a mode without a gradient
      }
      if (v.results.empty() || v.xs.empty()) continue;
      std::vector<NodeEntry> results, mine, weights, asked;
      std::vector<size_t> which;  // of xs: those that have a gradient
      for (size_t k = 0; k < v.gradient.size(); ++k)
        if (v.gradient[k]) which.push_back(k);
      if (which.empty()) continue;
      for (const uint32_t k : v.results) results.emplace_back(v.node, k);
      std::vector<NodeEntry> xs;
      for (const size_t k : which) {
        xs.push_back(v.xs[k]);
        mine.push_back(v.gradient[k]);
      }
      Tensors in = c.Variables(), w;
      Tensors of_seeds;
      for (const uint32_t k : v.results) of_seeds.push_back(ys[k]);
      for (const TensorPtr& t : RandomLike(of_seeds, 3)) in.push_back(t);
      for (size_t k = 0; k < which.size(); ++k) {
        w.push_back(RandomLike({c.inputs[v.slots[which[k]]]}, 7 + k)[0]);
        weights.push_back(
            NodeEntry(v.graph.AddInput("w" + std::to_string(k), DType::kF64, w[k]->shape())));
        in.push_back(w[k]);
      }
      std::vector<NodeEntry> all = xs;
      all.insert(all.end(), v.seeds.begin(), v.seeds.end());
      const std::vector<NodeEntry> first = Gradients(v.graph, results, xs, v.seeds);
      const std::vector<NodeEntry> second = Gradients(v.graph, first, all, weights);
      const std::vector<NodeEntry> alone = Backward(mine, weights, all);
      for (size_t k = 0; k < all.size(); ++k) {
        asked.push_back(second[k]);
        if (alone[k]) asked.push_back(alone[k]);
      }
      asked.insert(asked.end(), first.begin(), first.end());
      asked.insert(asked.end(), mine.begin(), mine.end());
      v.graph.outputs = asked;
      const Tensors out = Eval(v.graph, in);
      size_t at = 0;
      const auto same = [&](const TensorPtr& a, const TensorPtr& b) {
        CHECK(CompareTensors(*a, *b, 1e-10, 1e-10) <= 1);
        ++compared;
      };
      for (size_t k = 0; k < all.size(); ++k) {
        const TensorPtr a = out[at++];
        same(a, alone[k] ? out[at++] : std::make_shared<Tensor>(DType::kF64, a->dims()));
      }
      for (size_t k = 0; k < first.size(); ++k) same(out[at + k], out[at + first.size() + k]);
    }
  }
  MESSAGE(compared << " tensors");
  CHECK(compared >= 400);
}

TEST_CASE("what is listed as not differentiable twice is not") {
  for (const std::pair<std::string, std::string>& entry : Exceptions()) {
    const std::string& name = entry.first;
    if (entry.second != "second") continue;
    CAPTURE(name);
    bool missing = false;
    for (const Case& c : CasesOf(*Op::Get(name), 10)) {
      Tensors ys;
      try {
        ys = Eval(c.MakeGraph(), c.Variables());
        CheckSecond(c, ys);
      } catch (const UserError&) {
        missing = true;
      }
    }
    CHECK(missing);
  }
}

TEST_CASE("gradient graphs: inference gives the dtype and shape of the operand, in every dtype") {
  for (const Op* op : Op::List()) {
    if (!op->has("FGradient")) continue;
    for (const char* dtype : {"f16", "bf16", "f32", "f64"}) {
      for (Case c : CasesOf(*op, 1)) {
        for (TensorPtr& t : c.inputs) {
          if (!t || t->dtype() != DType::kF64) continue;
          auto narrow = std::make_shared<Tensor>(ParseDType(dtype).value(), t->dims());
          for (int64_t i = 0; i < t->num_elements(); ++i) narrow->set(i, t->at(i));
          t = narrow;
        }
        CAPTURE(c.label);
        CAPTURE(dtype);
        Graph g = c.MakeGraph();
        try {
          g = ApplyPasses(std::move(g), "InferType,InferShape");
        } catch (const UserError&) {
          continue;  // an operator of fewer dtypes
        }
        const NodePtr n = g.outputs[0].node;
        std::vector<NodeEntry> dy;
        for (uint32_t k = 0; k < n->num_outputs(); ++k) {
          const DType t = g.GetAttr<TypeMap>("dtype")[NodeEntry(n, k)].dtype;
          const Shape s = g.GetAttr<ShapeMap>("shape")[NodeEntry(n, k)];
          dy.push_back(IsFloat(t) ? NodeEntry(g.AddInput("dy" + std::to_string(k), t, s))
                                  : NodeEntry());
        }
        std::vector<NodeEntry> dx, asked;
        std::vector<size_t> slots;
        try {
          dx = Op::GetAttr<FGradient>("FGradient")[op](n, dy);
        } catch (const UserError& e) {
          if (e.code() == ErrorCode::kUnsupported && ExceptionFor(op->name, "modes")) continue;
          FAIL_CHECK(std::string(e.what()));
          continue;
        }
        for (size_t i = 0; i < dx.size(); ++i) {
          if (!dx[i]) continue;
          asked.push_back(dx[i]);
          slots.push_back(i);
        }
        if (asked.empty()) continue;
        g.outputs = asked;
        Graph inferred;
        try {
          inferred = ApplyPasses(g, "InferType,InferShape");
        } catch (const UserError& e) {
          FAIL_CHECK(std::string(e.what()));
          continue;
        }
        for (size_t k = 0; k < slots.size(); ++k) {
          CAPTURE(slots[k]);
          const NodeEntry e = inferred.outputs[k];
          const TensorPtr x = c.inputs[slots[k]];
          CHECK(DTypeName(inferred.GetAttr<TypeMap>("dtype")[e].dtype) == DTypeName(x->dtype()));
          CHECK(inferred.GetAttr<ShapeMap>("shape")[e].ToString() == x->shape().ToString());
        }
      }
    }
  }
}

}  // namespace weft::gradient
