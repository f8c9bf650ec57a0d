/// rules_test.cc: rules on random graphs of the kind they are for, against the double
/// precision results of the graph as it was; and that they leave nothing behind that they
/// promise to take away.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using Rng = std::mt19937_64;
int64_t Between(Rng& rng, int64_t lo, int64_t hi) {
  return lo + int64_t(rng() % uint64_t(hi - lo + 1));
}

int Count(const Graph& g, const char* op) {
  int n = 0;
  for (NodePtr node : g.TopoOrder()) n += IsOp(node, op);
  return n;
}

/// Every output equal, element for element, in double precision.
void CheckSame(const Graph& before, const Graph& after, uint64_t seed) {
  const RandomInputs in = MakeRandomInputs(before, seed);
  EvalOptions exact;
  exact.typed = false;
  const auto want = GetEvaluator()->Eval(before, in.tensors, exact),
             got = GetEvaluator()->Eval(after, in.tensors, exact);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(CompareTensors(*got[i], *want[i], 0, 1e-12) <= 1);
}

TEST_CASE("simplify: positions selected from a transposed tensor") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const int rank = int(Between(rng, 2, 5));
    Graph g;
    std::vector<SymInt> dims;
    for (int d = 0; d < rank; ++d)
      dims.push_back(d == 0 && seed % 2 ? SymInt::Symbol("n") : SymInt(Between(rng, 1, 4)));
    Ints perm(size_t(rank), 0);
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), rng);
    NodeEntry whole(g.AddNode("Transpose", {NodeEntry(g.AddInput("x", DType::kF64, Shape(dims)))},
                              {{"perm", perm}}));
    std::vector<SymInt> after;
    for (int64_t d : perm) after.push_back(dims[size_t(d)]);
    if (seed % 3 == 0) {  // axes of extent 1 come and go
      Ints target;
      std::vector<SymInt> kept;
      for (SymInt d : after) {
        if (d.is(1) && Between(rng, 0, 1)) continue;
        if (Between(rng, 0, 2) == 0) kept.push_back(1);
        kept.push_back(d);
      }
      for (SymInt d : kept) target.push_back(d.is_const() ? d.value() : -1);
      if (kept.empty()) continue;
      after = kept;
      whole = NodeEntry(g.AddNode("Reshape", {whole, g.AddConstant(Tensor::Ints(target))}));
    }
    const int64_t axis = Between(rng, 0, int64_t(after.size()) - 1);
    if (!after[size_t(axis)].is_const()) continue;
    const int64_t extent = after[size_t(axis)].value();
    for (int64_t k = Between(rng, 1, extent); k > 0; --k)
      g.outputs.push_back(NodeEntry(g.AddNode(
          "Gather",
          {whole,
           g.AddConstant(Tensor::Scalar(DType::kI64, double(Between(rng, -extent, extent - 1))))},
          {{"axis", Between(rng, 0, 1) ? axis : axis - int64_t(after.size())}})));
    if (seed % 5 == 0) g.outputs.push_back(whole);  // somebody wants all of it
    const Graph simple = ApplyPasses(g, "InferType,InferShape,Simplify");
    CheckSame(g, simple, seed);
  }
  // The three parts of one projection.
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF64, Shape{1, 6, 2, 3, 4}));
  const NodeEntry t(g.AddNode("Transpose", {x}, {{"perm", Ints{3, 1, 2, 0, 4}}}));
  const NodeEntry r(g.AddNode("Reshape", {t, g.AddConstant(Tensor::Ints({3, 6, 2, 4}))}));
  for (int k = 0; k < 3; ++k)
    g.outputs.push_back(NodeEntry(
        g.AddNode("Gather", {r, g.AddConstant(Tensor::Scalar(DType::kI64, k))}, {{"axis", 0}})));
  const Graph simple = ApplyPasses(g, "InferType,InferShape,Simplify");
  CHECK(Count(simple, "Transpose") == 0);
  CHECK(Count(simple, "Gather") == 3);
  CheckSame(g, simple, 1);
}

TEST_CASE("simplify: random paddings of random windows") {
  int folded = 0, kept = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const int spatial = int(Between(rng, 1, 2)), kind = int(Between(rng, 0, 2));
    const bool neutral = Between(rng, 0, 3) > 0;
    Graph g;
    std::vector<SymInt> dims{SymInt::Symbol("n"), 2};
    std::vector<int64_t> pads(size_t(2 * (spatial + 2)), 0), kernel, own;
    for (int k = 0; k < spatial; ++k) {
      dims.push_back(Between(rng, 2, 5));
      kernel.push_back(Between(rng, 1, 3));
      pads[size_t(2 + k)] = Between(rng, 0, 2);
      pads[size_t(2 + k + spatial + 2)] = Between(rng, 0, 2);
    }
    for (int k = 0; k < 2 * spatial; ++k) own.push_back(Between(rng, 0, 1));
    const NodeEntry x(g.AddInput("x", DType::kF64, Shape(dims)));
    const double lowest = -std::numeric_limits<double>::infinity();
    const double fill = !neutral ? 0.5 : kind == 1 ? lowest : 0;
    const NodeEntry padded(g.AddNode("Pad", {x, g.AddConstant(Tensor::Ints(pads)),
                                             g.AddConstant(Tensor::Scalar(DType::kF64, fill))}));
    AttrDict attrs{{"pads", Ints(own)}, {"strides", Ints(size_t(spatial), Between(rng, 1, 2))}};
    NodePtr y;
    if (kind == 0) {
      std::vector<int64_t> w{2, 2};
      w.insert(w.end(), kernel.begin(), kernel.end());
      auto weights = std::make_shared<Tensor>(DType::kF64, w);
      for (int64_t i = 0; i < weights->num_elements(); ++i)
        weights->set(i, double(Between(rng, -4, 4)));
      y = g.AddNode("Conv", {padded, NodeEntry(g.AddParam("w", weights))}, attrs);
    } else {
      attrs["kernel_shape"] = Ints(kernel);
      attrs["ceil_mode"] = Between(rng, 0, 5) == 0;
      if (kind == 2) attrs["count_include_pad"] = Between(rng, 0, 1);
      y = g.AddNode(kind == 1 ? "MaxPool" : "AveragePool", {padded}, attrs);
    }
    g.outputs = {NodeEntry(y)};
    Graph out;
    try {
      out = ApplyPass(g, "Simplify");
    } catch (const UserError&) {
      continue;  // the window is larger than the padded input
    }
    ++(Count(out, "Pad") ? kept : folded);
    if (!neutral && *std::max_element(pads.begin(), pads.end()) > 0) CHECK(Count(out, "Pad") == 1);
    CheckSame(g, out, seed);
  }
  CHECK(folded > 100);
  CHECK(kept > 50);
}

TEST_CASE("simplify: Transposes among views of extents of 1 end as one Transpose") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    Graph g;
    NodeEntry y(
        g.AddInput("x", DType::kF32, Shape{SymInt::Symbol("n"), 3, 1, SymInt::Symbol("m")}));
    std::vector<uint8_t> unit{0, 0, 1, 0};  // which axes have the extent 1
    for (int64_t step = Between(rng, 1, 8); step > 0; --step) {
      const size_t at = size_t(rng() % unit.size());
      const int64_t kind = Between(rng, 0, 2);
      const auto axes = [&] { return g.AddConstant(Tensor::Ints({int64_t(at)})); };
      if (kind == 0) {
        Ints perm(unit.size());
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), rng);
        y = NodeEntry(g.AddNode("Transpose", {y}, {{"perm", perm}}));
        std::vector<uint8_t> moved;
        for (int64_t k : perm) moved.push_back(unit[size_t(k)]);
        unit = moved;
      } else if (kind == 1 && unit[at]) {
        y = NodeEntry(g.AddNode("Squeeze", {y, axes()}));
        unit.erase(unit.begin() + int64_t(at));
      } else if (unit.size() < 6) {
        y = NodeEntry(g.AddNode("Unsqueeze", {y, axes()}));
        unit.insert(unit.begin() + int64_t(at), 1);
      }
    }
    g.outputs = {y};
    const Graph out = ApplyPass(g, "Simplify");
    CHECK(Count(out, "Transpose") <= 1);
    CHECK(Count(out, "Squeeze") + Count(out, "Unsqueeze") == 0);
    CHECK(Count(out, "Reshape") <= 2);
    CheckSame(g, out, seed);
  }
}

}  // namespace
}  // namespace weft
