/// fold_transpose_test.cc: random products of transposed operands before and after the pass
/// FoldTranspose, in all types of floats, with vectors, broadcasts and gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/compute.h"

namespace weft {
namespace {

// That there are calls is all that passes ask.
const FCompute kCall = [](const ComputeRequest&) -> std::unique_ptr<PreparedCall> {
  return nullptr;
};
WEFT_REGISTER_OP(Gemm).set_attr<FCompute>("FCompute.fold_test", kCall);
WEFT_REGISTER_OP_IN(weft, TransposedMatMul).set_attr<FCompute>("FCompute.fold_test", kCall);

Graph Run(Graph g, const std::string& passes) {
  PassOptions options;
  options.target = "fold_test";
  options.checks.equivalent = true;
  options.checks.preserved = true;
  return ApplyPasses(std::move(g), Pipeline::Parse(passes), options);
}
int Count(const Graph& g, const char* op) {
  int count = 0;
  for (NodePtr n : g.TopoOrder()) count += IsOp(n, op);
  return count;
}

/// An operand of a product with the extents `dims`, as a Transpose of an input by a
/// random order of axes.
NodeEntry Operand(Graph* g, const char* name, DType t, const std::vector<SymInt>& dims,
                  std::mt19937* random, bool* keeps_dense) {
  Ints perm(dims.size());
  for (size_t k = 0; k < perm.size(); ++k) perm[k] = int64_t(k);
  std::shuffle(perm.begin(), perm.end(), *random);
  std::vector<SymInt> source(dims.size());
  for (size_t k = 0; k < perm.size(); ++k) source[size_t(perm[k])] = dims[k];
  const NodeEntry x(g->AddInput(name, t, Shape(source)));
  const auto last = int64_t(dims.size()) - 1;
  *keeps_dense = std::is_sorted(perm.begin(), perm.end()) || perm.back() == last ||
                 perm[perm.size() - 2] == last;
  return NodeEntry(g->AddNode("Transpose", {x}, {{"perm", perm}}));
}

TEST_CASE("fold-transpose: random orders of axes, types and extents") {
  std::mt19937 random(3);
  const DType types[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  int folded = 0;
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    const DType t = types[random() % 4];
    const auto extent = [&](const char* name) {
      return random() % 2 ? SymInt::Symbol(name) : SymInt(int64_t(random() % 4) + 1);
    };
    const SymInt m = extent("m"), k = extent("k"), n = extent("n");
    const size_t batch = random() % 3;
    std::vector<SymInt> a, b;
    for (size_t j = 0; j < batch; ++j) {
      const SymInt d = j ? extent("h") : extent("b");
      a.push_back(random() % 4 ? d : SymInt(1));
      b.push_back(random() % 4 ? d : SymInt(1));
    }
    if (random() % 3 == 0) b.clear();
    a.insert(a.end(), {m, k});
    b.insert(b.end(), {k, n});
    Graph g;
    bool a_dense = false, b_dense = false;
    const NodeEntry x = Operand(&g, "a", t, a, &random, &a_dense),
                    y = Operand(&g, "b", t, b, &random, &b_dense);
    const bool gemm = a.size() == 2 && b.size() == 2 && random() % 2;
    g.outputs = {NodeEntry(gemm ? g.AddNode("Gemm", {x, y}, {{"alpha", 0.5}})
                                : g.AddNode("MatMul", {x, y}))};
    const bool gradient = random() % 2;
    if (gradient && t == DType::kF64) {
      const std::vector<NodeEntry> d =
          Gradients(g, {g.outputs[0]}, {x.node->inputs[0], y.node->inputs[0]});
      for (const NodeEntry& e : d) g.outputs.push_back(e);
    }
    const Graph made = Run(g, "InferType,InferShape,Simplify,FoldTranspose");
    if (g.outputs.size() > 1) continue;
    folded += Count(made, "weft::TransposedMatMul") + Count(made, "Gemm");
    if (a_dense && b_dense) CHECK(Count(made, "Transpose") == 0);
  }
  CHECK(folded > 60);
}

}  // namespace
}  // namespace weft
