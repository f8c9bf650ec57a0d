/// fold_dequantize.cc: FoldDequantize. Lets matrix products read constant weights of few bits as
/// they are stored, so that no f32 copy of them is ever made.
///   needs      shape, dtype
///   preserves  shape, dtype
///   never      takes weights that are not constant, scales that are not finite, or zeros of
///              floats; makes a call that the target's library lacks
///   changes    rounding: weights of f16 and bf16 networks are not rounded to these first
///   cost       linear in the nodes and in the elements of scales
///   source     com.microsoft MatMulNBits; weight decompression of oneDNN's matmul
///
///   before  %w = DequantizeLinear(%q, %s, %z) {axis = 1, block_size = 32}
///           %y = Gemm(%a, %w, %c) {transB = 1}
///   after   %p = weft::DequantizedMatMul(%a, %q, %s, %z) {block_size = 32, transB = 1}
///           %y = Add(%p, %c)
///
/// The scale may be one, one a column, or one a block of the axis that is summed over; it is
/// brought into the last form.
#include <cmath>
#include <optional>
#include <vector>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/takes_dtype.h"

namespace weft {
namespace {

constexpr const char* kDequantizedMatMul = "weft::DequantizedMatMul";

bool IsFewBits(DType t) { return t == DType::kI8 || t == DType::kU8 || IsLowBit(t); }

bool AllFinite(const Tensor& t) {
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (!std::isfinite(t.at(i))) return false;
  return true;
}
bool AllZero(const Tensor& t) {
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (t.at(i) != 0) return false;
  return true;
}

/// A weight as the call wants it.
struct Weight {
  NodeEntry codes, scale, zero;  ///< zero null: none
  int64_t block = 0;
  bool transposed = false;
};

class Folder {
 public:
  Folder(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), edit_(g) {}

  void Run() {
    for (NodePtr n : g_.TopoOrder())
      if (IsProduct(n) && !Fold(n)) break;
    g_.EraseDead();
  }

 private:
  static bool IsProduct(const NodePtr& n) {
    return IsOp(n, "MatMul") || IsOp(n, "Gemm") || IsOp(n, "weft::TransposedMatMul");
  }
  bool IsTaken(DType t) const {
    return weft::IsTaken(TakesDTypeOf(ctx_.target(), Op::Find(kDequantizedMatMul)), t);
  }

  /// False: stop here.
  bool Fold(const NodePtr& n) {
    const NodeEntry y(n);
    if (!n->control_deps.empty() || !edit_.shape(n->inputs[0]).has_rank() ||
        edit_.shape(n->inputs[0]).rank() == 0 || !IsTaken(edit_.dtype(y)))
      return true;
    const bool gemm = IsOp(n, "Gemm");
    bool transposed = gemm && IntAttr(n, "transB", 0) != 0;
    Ints a_perm;
    if (gemm && IntAttr(n, "transA", 0) != 0) a_perm = {1, 0};
    if (!gemm && n->has_attr("a_perm")) a_perm = n->attr<Ints>("a_perm");
    if (!gemm && n->has_attr("b_perm")) transposed = !IsIdentityPerm(n->attr<Ints>("b_perm"));
    const std::optional<Weight> w = WeightOf(n->inputs[1].node, transposed);
    if (!w) return true;
    if (!ctx_.Fuel("fold-dequantize", n)) return false;

    std::vector<NodeEntry> in{n->inputs[0], w->codes, w->scale};
    if (w->zero) in.push_back(w->zero);
    if (!a_perm.empty() && !IsIdentityPerm(a_perm)) {
      const Shape& a = edit_.shape(in[0]);
      std::vector<SymInt> dims;
      for (const int64_t axis : a_perm) dims.push_back(a[int(axis)]);
      in[0] = edit_.Add("Transpose", {in[0]}, {{"perm", a_perm}},
                        KnownRow{Shape(std::move(dims)), edit_.type(in[0]), nullptr});
    }
    NodeEntry made = edit_.Add(kDequantizedMatMul, in,
                               {{"block_size", w->block}, {"transB", int64_t(w->transposed)}}, y);
    g_.MergeOrigin(made.node, n);
    g_.MergeOrigin(made.node, n->inputs[1].node);
    if (gemm) made = WithTerms(n, made);
    edit_.Replace(n, {made});
    ctx_.Count("products");
    return true;
  }

  /// What a Gemm multiplies and adds behind its product.
  NodeEntry WithTerms(const NodePtr& n, NodeEntry y) {
    const auto times = [&](const NodeEntry& x, double factor) {
      if (factor == 1) return x;
      const TensorPtr c = Tensor::FromDoubles(edit_.dtype(x), {}, {factor});
      const NodeEntry scaled = edit_.Add("Mul", {x, edit_.AddConstant(c)}, {}, x);
      g_.MergeOrigin(scaled.node, n);
      return scaled;
    };
    y = times(y, FloatAttr(n, "alpha", 1));
    const double beta = FloatAttr(n, "beta", 1);
    if (n->num_inputs() < 3 || !n->inputs[2].node || beta == 0) return y;
    const NodeEntry sum = edit_.Add("Add", {y, times(n->inputs[2], beta)}, {}, NodeEntry(n));
    g_.MergeOrigin(sum.node, n);
    return sum;
  }

  std::optional<Weight> WeightOf(const NodePtr& dq, bool transposed) {
    if (!IsOp(dq, "DequantizeLinear") || !dq->control_deps.empty()) return std::nullopt;
    Weight w;
    w.transposed = transposed;
    w.codes = dq->inputs[0];
    const TensorPtr codes = Graph::ConstantOf(w.codes), scale = Graph::ConstantOf(dq->inputs[1]);
    const bool has_zero = dq->num_inputs() > 2 && dq->inputs[2].node;
    TensorPtr zero = has_zero ? Graph::ConstantOf(dq->inputs[2]) : nullptr;
    if (!codes || !scale || (has_zero && !zero) || codes->rank() != 2 ||
        codes->num_elements() == 0 || !IsFewBits(codes->dtype()) || !AllFinite(*scale))
      return std::nullopt;
    if (zero && AllZero(*zero)) zero = nullptr;
    const bool integers = !IsLowBit(codes->dtype()) || ValueTypeOf(codes->dtype()) != DType::kF32;
    if (zero && !integers) return std::nullopt;

    const int summed = transposed ? 1 : 0;
    const int64_t depth = codes->dims()[size_t(summed)],
                  columns = codes->dims()[size_t(1 - summed)];
    const int64_t given = IntAttr(dq, "axis", 1), axis = given < 0 ? given + 2 : given;
    // One for all, one a column, or one a block.
    if (scale->rank() == 2) {
      const int64_t blocks = scale->dims()[size_t(summed)], size = IntAttr(dq, "block_size", 0);
      if (axis != summed || scale->dims()[size_t(1 - summed)] != columns ||
          (size == 0 && depth % blocks != 0))
        return std::nullopt;
      w.block = size == 0 ? depth / blocks : size;
      w.scale = dq->inputs[1];
      if (zero) w.zero = dq->inputs[2];
      return w;
    }
    if (scale->num_elements() != 1 && axis == summed) return std::nullopt;
    w.block = depth;
    const std::vector<int64_t> dims =
        transposed ? std::vector<int64_t>{columns, 1} : std::vector<int64_t>{1, columns};
    w.scale = Spread(*scale, dims);
    if (zero) w.zero = Spread(*zero, dims);
    return w;
  }

  /// A constant of these extents, whose elements are those of `t`, or its only one.
  NodeEntry Spread(const Tensor& t, const std::vector<int64_t>& dims) {
    std::vector<double> values;
    for (int64_t i = 0; i < NumElements(dims); ++i)
      values.push_back(t.at(t.num_elements() == 1 ? 0 : i));
    return edit_.AddConstant(Tensor::FromDoubles(t.dtype(), dims, values));
  }

  Graph& g_;
  PassContext& ctx_;
  TypedEdit edit_;
};

Graph FoldDequantize(Graph g, PassContext& ctx) {
  if (ctx.target().has_call(kDequantizedMatMul)) Folder(g, ctx).Run();
  return g;
}

WEFT_REGISTER_PASS(FoldDequantize)
    .describe("lets matmuls read constant weights of few bits as they are stored")
    .set_body(FoldDequantize)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .fuses()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .statistic("products", "products that read a weight of few bits as it is stored")
    .rewrite("fold-dequantize", "a product that reads its weight as it is stored");

}  // namespace
}  // namespace weft
