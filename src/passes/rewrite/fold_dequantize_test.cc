/// fold_dequantize_test.cc: random products of weights of few bits before and after the pass
/// FoldDequantize, in all forms that the two operators have.
#include <doctest/doctest.h>

#include <random>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/compute.h"

namespace weft {
namespace {

// That there are calls is all that passes ask.
const FCompute kCall = [](const ComputeRequest&) -> std::unique_ptr<PreparedCall> {
  return nullptr;
};
WEFT_REGISTER_OP(Gemm).set_attr<FCompute>("FCompute.dequantize_test", kCall);
WEFT_REGISTER_OP_IN(weft, TransposedMatMul).set_attr<FCompute>("FCompute.dequantize_test", kCall);
WEFT_REGISTER_OP_IN(weft, DequantizedMatMul).set_attr<FCompute>("FCompute.dequantize_test", kCall);

Graph Run(Graph g, const std::string& passes, const char* target = "dequantize_test") {
  PassOptions options;
  options.target = target;
  options.checks.equivalent = true;
  options.checks.preserved = true;
  return ApplyPasses(std::move(g), Pipeline::Parse(passes), options);
}
int Count(const Graph& g, const char* op) {
  int count = 0;
  for (NodePtr n : g.TopoOrder()) count += IsOp(n, op);
  return count;
}

TensorPtr Whole(DType t, const std::vector<int64_t>& dims, std::mt19937* random) {
  std::vector<double> v;
  const bool few = DTypeBits(t) == 2;
  for (int64_t i = 0; i < NumElements(dims); ++i) v.push_back(double((*random)() % (few ? 2 : 6)));
  return Tensor::FromDoubles(t, dims, v);
}

TEST_CASE("fold-dequantize: random weights, scales, zeros and products") {
  std::mt19937 random(5);
  const DType types[] = {DType::kI2,     DType::kU2, DType::kI4,       DType::kU4,
                         DType::kF4E2M1, DType::kI8, DType::kF8E4M3FN, DType::kU8};
  for (int i = 0; i < 150; ++i) {
    CAPTURE(i);
    const DType t = types[random() % 8], wide = random() % 4 ? DType::kF32 : DType::kF16;
    const int64_t k = int64_t(random() % 9) + 1, n = int64_t(random() % 5) + 1,
                  block = int64_t(random() % 5) + 1, blocks = (k + block - 1) / block;
    const bool turned = random() % 2;
    const bool zeros = random() % 2 && t != DType::kF4E2M1 && t != DType::kF8E4M3FN;
    const int which = int(random() % 3);  // of the scale: one, one a column, one a block
    std::vector<int64_t> scale_dims, weight{k, n}, blocked{blocks, n};
    if (turned) std::swap(weight[0], weight[1]);
    if (turned) std::swap(blocked[0], blocked[1]);
    if (which == 1) scale_dims = {n};
    if (which == 2) scale_dims = blocked;
    Graph g;
    AttrDict attrs{{"axis", int64_t(which == 2 ? turned : !turned)}};
    if (which == 2) attrs["block_size"] = block;
    std::vector<double> scales;
    for (int64_t s = 0; s < NumElements(scale_dims); ++s)
      scales.push_back(double(int(random() % 9)) / 4 - 1);
    std::vector<NodeEntry> in{g.AddConstant(Whole(t, weight, &random)),
                              g.AddConstant(Tensor::FromDoubles(wide, scale_dims, scales))};
    if (zeros) in.push_back(g.AddConstant(Whole(t, scale_dims, &random)));
    NodeEntry w(g.AddNode("DequantizeLinear", in, attrs));
    const bool gemm = random() % 3 == 0;
    if (turned && !gemm) w = NodeEntry(g.AddNode("Transpose", {w}, {{"perm", Ints{1, 0}}}));
    std::vector<SymInt> dims(random() % 2 || gemm ? 1 : 2, SymInt::Symbol("m"));
    const bool turned_a = gemm && random() % 2;
    dims.insert(turned_a ? dims.begin() : dims.end(), SymInt(k));
    const NodeEntry a(g.AddInput("a", wide, Shape(dims)));
    std::vector<NodeEntry> operands{a, w};
    if (gemm && random() % 2) operands.push_back(NodeEntry(g.AddInput("c", wide, Shape({n}))));
    AttrDict factors;
    if (gemm) {
      factors = {{"transB", int64_t(turned)}, {"transA", int64_t(turned_a)}};
      if (random() % 2) factors["alpha"] = 0.5;
      if (random() % 2) factors["beta"] = random() % 2 ? 2.0 : 0.0;
    }
    g.outputs = {NodeEntry(g.AddNode(gemm ? "Gemm" : "MatMul", operands, factors))};
    const Graph made =
        Run(g, "InferType,InferShape,Simplify,FoldConstants,FoldTranspose,FoldDequantize");
    // Simplify makes a Reshape of the Transpose of a row or a column, whose few numbers are folded.
    const bool is_view = turned && !gemm && (k == 1 || n == 1);
    CHECK(Count(made, "weft::DequantizedMatMul") == (is_view ? 0 : 1));
    CHECK(Count(made, "DequantizeLinear") == 0);
    // All stays as it was where the library has no such call.
    const Graph other = Run(g, "InferType,InferShape,FoldDequantize", "ref");
    CHECK(Count(other, "weft::DequantizedMatMul") == 0);
  }
}

}  // namespace
}  // namespace weft
