/// fold_batch_norm_test.cc: random products with random affine maps behind them, folded, against
/// the double precision results of the graph as it was.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

class Maker {
 public:
  explicit Maker(uint64_t seed) : rng_(seed) {}
  int64_t Below(int64_t n) { return int64_t(rng_() % uint64_t(n)); }
  int64_t Between(int64_t lo, int64_t hi) { return lo + Below(hi - lo + 1); }
  NodeEntry Param(Graph& g, DType t, std::vector<int64_t> dims, double lo, double hi) {
    auto tensor = std::make_shared<Tensor>(t, std::move(dims));
    for (int64_t i = 0; i < tensor->num_elements(); ++i)
      tensor->set(i, lo + (hi - lo) * double(rng_() >> 11) * 0x1p-53);
    return NodeEntry(g.AddParam("p" + std::to_string(g.num_nodes()), tensor));
  }

 private:
  std::mt19937_64 rng_;
};

/// A product over `rank - 2` spatial axes and its number of channels.
NodeEntry MakeProduct(Maker& m, Graph& g, DType t, int rank, int64_t* channels) {
  const bool bias = m.Below(2) == 0;
  if (rank == 2) {
    const int64_t inner = m.Between(1, 4), out = m.Between(1, 4), trans = m.Below(2);
    const NodeEntry x(g.AddInput("x", t, Shape{SymInt::Symbol("n"), inner}));
    std::vector<NodeEntry> in{
        x,
        m.Param(g, t, trans ? std::vector<int64_t>{out, inner} : std::vector<int64_t>{inner, out},
                -1, 1)};
    static const std::vector<std::vector<int64_t>> kForms{{}, {1}, {1, 1}};
    const int64_t form = m.Below(5);
    if (bias)
      in.push_back(m.Param(g, t,
                           form < 3    ? kForms[size_t(form)]
                           : form == 3 ? std::vector<int64_t>{out}
                                       : std::vector<int64_t>{1, out},
                           -1, 1));
    *channels = out;
    return NodeEntry(g.AddNode("Gemm", in, {{"alpha", 0.5}, {"beta", 1.5}, {"transB", trans}}));
  }
  const int64_t group = m.Between(1, 3), per_in = m.Between(1, 2), per_out = m.Between(1, 3);
  const bool transposed = m.Below(2) == 0;
  std::vector<SymInt> dims{SymInt::Symbol("n"), group * per_in};
  std::vector<int64_t> w{transposed ? group * per_in : group * per_out,
                         transposed ? per_out : per_in};
  for (int k = 2; k < rank; ++k) {
    dims.push_back(m.Between(3, 5));
    w.push_back(m.Between(1, 3));
  }
  std::vector<NodeEntry> in{NodeEntry(g.AddInput("x", t, Shape(dims))), m.Param(g, t, w, -1, 1)};
  *channels = group * per_out;
  if (bias) in.push_back(m.Param(g, t, {*channels}, -1, 1));
  return NodeEntry(g.AddNode(transposed ? "ConvTranspose" : "Conv", in, {{"group", group}}));
}

NodeEntry MakeAffine(Maker& m, Graph& g, DType t, int rank, int64_t channels, const NodeEntry& x) {
  if (m.Below(3) == 0)
    return NodeEntry(
        g.AddNode("BatchNormalization",
                  {x, m.Param(g, t, {channels}, -2, 2), m.Param(g, t, {channels}, -1, 1),
                   m.Param(g, t, {channels}, -1, 1), m.Param(g, t, {channels}, 0.1, 2)},
                  {{"epsilon", 1e-3}}));
  std::vector<int64_t> dims(size_t(rank - 1), 1);
  dims[0] = m.Below(4) ? channels : 1;
  if (m.Below(2)) dims.insert(dims.begin(), 1);
  static constexpr const char* kOps[] = {"Add", "Sub", "Mul", "Div"};
  const char* op = kOps[m.Below(4)];
  const NodeEntry c = m.Param(g, t, dims, 0.5, 2);
  const bool first = op[0] != 'D' && m.Below(2) == 0;
  return NodeEntry(first ? g.AddNode(op, {c, x}) : g.AddNode(op, {x, c}));
}

TEST_CASE("fold batch norm: random products and affine maps") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Maker m(seed);
    static constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
    const DType t = kTypes[m.Below(4)];
    const int rank = int(m.Between(2, 4));
    Graph g;
    int64_t channels = 0;
    NodeEntry y = MakeProduct(m, g, t, rank, &channels);
    for (int64_t k = m.Between(1, 3); k > 0; --k) y = MakeAffine(m, g, t, rank, channels, y);
    g.outputs = {y};

    const Graph folded = ApplyPass(g, "FoldBatchNorm");
    int64_t computing = 0;
    for (NodePtr n : folded.TopoOrder())
      computing += !n->is_variable() && !IsOp(n, builtin::kConstant);
    // A weight of f16 or bf16 has no digits to spare.
    const bool half = t == DType::kF16 || t == DType::kBF16;
    CHECK((half ? computing >= 1 : computing == 1));

    const RandomInputs in = MakeRandomInputs(g, seed);
    EvalOptions exact;
    exact.typed = false;  // what is left is the rounding of the weights
    const TensorPtr want = GetEvaluator()->Eval(g, in.tensors, exact)[0];
    const TensorPtr got = GetEvaluator()->Eval(folded, in.tensors, exact)[0];
    double largest = 1;
    for (int64_t i = 0; i < want->num_elements(); ++i)
      largest = std::max(largest, std::fabs(want->at(i)));
    const double eps = t == DType::kF64   ? 1e-14
                       : t == DType::kF32 ? 1e-6
                       : t == DType::kF16 ? 8e-3
                                          : 6e-2;
    CHECK(CompareTensors(*got, *want, eps, eps * largest) <= 1);
  }
}

/// Conv, ConvTranspose or Gemm with weights about 1 and a factor or an offset behind it.
Graph ProductAnd(DType t, DType values, int kind, const char* op, const std::vector<double>& k,
                 uint64_t seed) {
  Maker m(seed);
  Graph g;
  const NodeEntry x(g.AddInput("x", t, kind == 2 ? Shape{3, 5} : Shape{2, 5, 6}));
  const auto param = [&](const TensorPtr& v) {
    auto as = std::make_shared<Tensor>(t, v->dims());
    for (int64_t i = 0; i < v->num_elements(); ++i) as->set(i, v->at(i));
    return NodeEntry(g.AddParam("p" + std::to_string(g.num_nodes()), as));
  };
  const auto list = [&](const std::vector<double>& v, const std::vector<int64_t>& dims) {
    return param(Tensor::FromDoubles(values, dims, v));
  };
  const std::vector<int64_t> dims = kind == 0   ? std::vector<int64_t>{4, 5, 3}
                                    : kind == 1 ? std::vector<int64_t>{5, 4, 3}
                                                : std::vector<int64_t>{5, 4};
  Graph other;
  const NodeEntry w = param(Graph::ConstantOf(m.Param(other, values, dims, -1, 1)));
  const NodeEntry y(g.AddNode(kind == 0 ? "Conv" : kind == 1 ? "ConvTranspose" : "Gemm", {x, w}));
  if (std::string(op) == "BatchNormalization") {
    std::vector<double> scale;
    for (size_t c = 0; c < 4; ++c) scale.push_back(k[k.size() == 1 ? 0 : c]);
    const NodeEntry zeros = list({0, 0, 0, 0}, {4}), ones = list({1, 1, 1, 1}, {4});
    g.outputs = {
        NodeEntry(g.AddNode(op, {y, list(scale, {4}), zeros, zeros, ones}, {{"epsilon", 0.0}}))};
    return g;
  }
  std::vector<int64_t> channels{int64_t(k.size())};
  if (kind != 2) channels.push_back(1);
  g.outputs = {NodeEntry(g.AddNode(op, {y, list(k, channels)}))};
  return g;
}

/// The number of nodes after folding, and the errors of the graph and of what it is folded to
/// against float64, in units of the largest element.
struct Folded {
  int nodes;
  double before, after;
};
Folded FoldBehind(DType t, int kind, const char* op, const std::vector<double>& k, double input,
                  uint64_t seed) {
  const Graph g = ProductAnd(t, t, kind, op, k, seed),
              wide = ProductAnd(DType::kF64, t, kind, op, k, seed);
  Maker m(seed + 1);
  const std::vector<int64_t> dims =
      kind == 2 ? std::vector<int64_t>{3, 5} : std::vector<int64_t>{2, 5, 6};
  auto in = std::make_shared<Tensor>(t, dims),
       wide_in = std::make_shared<Tensor>(DType::kF64, dims);
  for (int64_t i = 0; i < in->num_elements(); ++i) {
    in->set(i, input * (double(m.Below(2001)) / 1000 - 1));
    wide_in->set(i, in->at(i));
  }
  const TensorPtr want = GetEvaluator()->Eval(wide, {wide_in}, {})[0];
  double largest = 0;
  for (int64_t i = 0; i < want->num_elements(); ++i)
    largest = std::max(largest, std::fabs(want->at(i)));
  const auto error = [&](const Graph& graph) {
    const TensorPtr got = GetEvaluator()->Eval(graph, {in}, {})[0];
    double worst = 0;
    for (int64_t i = 0; i < got->num_elements(); ++i) {
      const double off = std::fabs(got->at(i) - want->at(i)) / largest;
      if (!(off <= worst)) worst = off;
    }
    return worst;
  };
  const Graph folded = ApplyPass(g, "FoldBatchNorm");
  Folded f{0, error(g), error(folded)};
  for (NodePtr n : folded.TopoOrder()) f.nodes += !n->is_variable();
  return f;
}

TEST_CASE("fold batch norm: factors and offsets far from one lose no digit of f16 and bf16") {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    for (int kind = 0; kind < 3; ++kind) {
      for (const char* op : {"Mul", "Div", "Add", "Sub", "BatchNormalization"}) {
        for (const double k : {3e-7, 1e-5, 1e-4, 0.3, 7.0, 1e4}) {
          for (const bool each : {false, true}) {
            CAPTURE(DTypeName(t));
            CAPTURE(kind);
            CAPTURE(op);
            CAPTURE(k);
            CAPTURE(each);
            const double by = std::string(op) == "Div" ? 1 / std::max(k, 1e-4) : k;
            const std::vector<double> factors =
                each ? std::vector<double>{by, 2 * by, by / 3, -by} : std::vector<double>{by};
            // Results of f16 stay in its range.
            const Folded f =
                FoldBehind(t, kind, op, factors, std::min(100.0, 100 / std::max(k, 1.0)), 7);
            CHECK(f.after <= f.before);
          }
        }
      }
      // What is exact is folded.
      CHECK(FoldBehind(t, kind, "Mul", {0.5}, 1, 3).nodes == 1);
      CHECK(FoldBehind(t, kind, "Mul", {0.5, 2, -4, 1}, 1, 3).nodes == 1);
      CHECK(FoldBehind(t, kind, "Add", {0.3}, 1, 3).nodes == 1);
      CHECK(FoldBehind(t, kind, "Mul", {0.3}, 1, 3).nodes == 2);
    }
  }
}

TEST_CASE(
    "fold batch norm: factors that would take weights of f32 out of the normal range stay behind "
    "the product") {
  for (int kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    // Subnormal weights, weights of nothing, weights so large that sums would overflow.
    for (const auto& [k, input] : std::vector<std::pair<double, double>>{
             {1e-39, 1e30}, {1e-42, 1e38}, {1e25, 1e-20}, {1e38, 1e-30}}) {
      CAPTURE(k);
      const Folded f = FoldBehind(DType::kF32, kind, "Mul", {k}, input, 5);
      CHECK(f.after <= std::max(f.before, 1e-6));
      CHECK(f.nodes == 2);
    }
    CHECK(FoldBehind(DType::kF32, kind, "Mul", {1e-30}, 1e30, 5).nodes == 1);
    CHECK(FoldBehind(DType::kF32, kind, "Mul", {0}, 1, 5).nodes == 1);
  }
  // 1e-30 twice: one of them may go.
  Graph g;
  Maker m(9);
  const auto scalar = [&](double v) {
    return NodeEntry(
        g.AddParam("k" + std::to_string(g.num_nodes()), Tensor::FromDoubles(DType::kF32, {}, {v})));
  };
  NodeEntry y(g.AddNode("Conv", {NodeEntry(g.AddInput("x", DType::kF32, Shape{1, 1, 8})),
                                 m.Param(g, DType::kF32, {2, 1, 2}, 0.5, 1)}));
  for (int k = 0; k < 2; ++k) y = NodeEntry(g.AddNode("Mul", {y, scalar(1e-30)}));
  g.outputs = {y};
  const Graph folded = ApplyPass(g, "FoldBatchNorm");
  const TensorPtr in = Tensor::FromDoubles(DType::kF32, {1, 1, 8}, std::vector<double>(8, 1e33));
  const TensorPtr got = GetEvaluator()->Eval(folded, {in}, {})[0],
                  want = GetEvaluator()->Eval(g, {in}, {})[0];
  CHECK(want->at(0) > 0);
  CHECK(CompareTensors(*got, *want, 1e-5, 0) <= 1);
}

TEST_CASE("fold batch norm: weights that are next to nothing do not keep a product from folding") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{1, 1, 40}));
  std::vector<double> w(40, 1);
  w[3] = 1e-39, w[20] = 2e-38, w[35] = 1e-40;
  const NodeEntry conv(g.AddNode(
      "Conv", {x, NodeEntry(g.AddParam("w", Tensor::FromDoubles(DType::kF32, {1, 1, 40}, w)))}));
  g.outputs = {NodeEntry(g.AddNode(
      "Mul", {conv, NodeEntry(g.AddParam("k", Tensor::FromDoubles(DType::kF32, {}, {0.1})))}))};
  const Graph folded = ApplyPass(g, "FoldBatchNorm");
  CHECK(IsOp(folded.outputs[0].node, "Conv"));
}

TEST_CASE("fold batch norm: factors above 0 go through a rectifier, others stay behind it") {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    Maker m(seed);
    const int rank = int(m.Between(2, 4));
    Graph g;
    int64_t channels = 0;
    NodeEntry y = MakeProduct(m, g, DType::kF64, rank, &channels);
    if (m.Below(2)) y = MakeAffine(m, g, DType::kF64, rank, channels, y);
    y = m.Below(2) ? NodeEntry(g.AddNode("Relu", {y}))
                   : NodeEntry(g.AddNode("LeakyRelu", {y}, {{"alpha", -0.25}}));
    std::vector<int64_t> dims(size_t(rank - 1), 1);
    dims[0] = m.Below(3) ? channels : 1;
    const bool above = m.Below(3) != 0, shifts = m.Below(2) != 0;
    y = NodeEntry(
        g.AddNode("Mul", {y, m.Param(g, DType::kF64, dims, above ? 0.5 : -2, above ? 2 : -0.5)}));
    if (shifts) y = NodeEntry(g.AddNode("Add", {m.Param(g, DType::kF64, dims, 1, 2), y}));
    g.outputs = {y};
    const Graph folded = ApplyPass(g, "FoldBatchNorm");
    std::map<std::string, int> count;
    for (NodePtr n : folded.TopoOrder())
      if (!n->is_variable()) ++count[n->op()->name];
    CHECK(count["Mul"] == int(!above));
    CHECK(count["Add"] == int(shifts));
    CHECK(count["Relu"] + count["LeakyRelu"] == 1);
    const RandomInputs in = MakeRandomInputs(g, seed);
    const TensorPtr want = GetEvaluator()->Eval(g, in.tensors, {})[0],
                    got = GetEvaluator()->Eval(folded, in.tensors, {})[0];
    CHECK(CompareTensors(*got, *want, 1e-13, 1e-13) <= 1);
  }
}

TEST_CASE("fold batch norm: fuel, weights too large to copy, the second reader of a weight") {
  Graph g;
  Maker m(1);
  const NodeEntry w = m.Param(g, DType::kF32, {2, 1, 2}, -1, 1),
                  k = m.Param(g, DType::kF32, {2, 1}, 0.5, 2),
                  x(g.AddInput("x", DType::kF32, Shape{1, 1, 4}));
  const auto scaled = [&] {
    return NodeEntry(g.AddNode("Mul", {NodeEntry(g.AddNode("Conv", {x, w})), k}));
  };
  g.outputs = {scaled(), scaled()};
  const auto muls = [](const Graph& graph) {
    int n = 0;
    for (NodePtr node : graph.TopoOrder()) n += IsOp(node, "Mul");
    return n;
  };
  CHECK(muls(ApplyPass(g, "FoldBatchNorm")) == 0);
  PassOptions options;
  options.fuel = 1;
  CHECK(muls(ApplyPass(g, "FoldBatchNorm", options)) == 1);
  PassOptions small;
  small.limits.folded_bytes_each = 15;
  CHECK(muls(ApplyPass(g, "FoldBatchNorm", small)) == 2);
}

TEST_CASE("fold batch norm: a long row that no product begins is walked once") {
  Graph g;
  Maker m(2);
  const NodeEntry k = m.Param(g, DType::kF32, {1, 3, 1}, -1, 1);
  NodeEntry y(g.AddInput("x", DType::kF32, Shape{2, 3, 4}));
  constexpr int kLength = 50000;  // for each of them the whole row: minutes
  for (int i = 0; i < kLength; ++i) y = NodeEntry(g.AddNode("Add", {y, k}));
  g.outputs = {y};
  CHECK(ApplyPass(g, "FoldBatchNorm").TopoOrder().size() == size_t(kLength) + 2);
}

}  // namespace
}  // namespace weft
