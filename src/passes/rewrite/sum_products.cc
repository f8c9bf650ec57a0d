/// sum_products.cc: SumProducts. A sum of matrix products is one product over longer rows.
///   needs      shape, dtype
///   provides   -
///   preserves  shape, dtype
///   never      takes a product, or a part of a sum, that something else reads; takes one whose
///              operands cost more to be put side by side than its result to be added
///   cost       linear in the nodes
///   source     gradients of weights that a graph reads many times, as those of a recurrent network
///              that an exporter has written out; BatchResults does the same behind loops
///
///   before  %p = MatMul(%a, %b)  %q = MatMul(%c, %d)  %y = Sum(%p, %q, %r)
///   after   %l = Concat(%a, %c) {axis = 1}  %m = Concat(%b, %d) {axis = 0}
///           %p = MatMul(%l, %m)  %y = Add(%p, %r)
///
/// Left sides that are transposed are put together as they lie, and transposed as one. Sums are
/// made in another order.
#include <algorithm>
#include <optional>
#include <vector>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// A term [m, n] = left [m, k] right [k, n].
struct Product {
  NodePtr node;
  NodeEntry left;     ///< null where it is not at hand
  NodeEntry upright;  ///< the left side as [k, m]; null where it does not lie so
  NodeEntry right;
  int64_t k = 0;
};

/// A Gemm that only multiplies.
bool IsPlainGemm(const NodePtr& n) {
  return IsOp(n, "Gemm") && n->attr<double>("alpha") == 1 &&
         (n->num_inputs() < 3 || !n->inputs[2].node);
}

class Joiner {
 public:
  Joiner(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), edit_(g) {}

  void Run() {
    for (const NodePtr& n : g_.TopoOrder())
      if (IsSum(n) && !IsInner(n) && !Join(n)) break;
    g_.EraseDead();
  }

 private:
  bool IsMatrix(const NodeEntry& e) const {
    const Shape& s = edit_.shape(e);
    return s.has_rank() && s.rank() == 2 && s.is_static();
  }
  /// Of matrices of its own shape.
  bool IsSum(const NodePtr& n) const {
    if (!IsOp(n, "Add") && !IsOp(n, "Sum")) return false;
    const NodeEntry y(n);
    return IsMatrix(y) && IsFloat(edit_.dtype(y)) && n->control_deps.empty() &&
           std::all_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
             return e.node && edit_.shape(e).same(edit_.shape(y));
           });
  }
  /// Part of a larger sum that alone reads it.
  bool IsInner(const NodePtr& n) const {
    const NodePtr reader = OnlyReader(g_, n);
    return reader && IsSum(reader);
  }

  std::optional<Product> ProductOf(const NodeEntry& e, const NodePtr& reader) const {
    const NodePtr& n = e.node;
    const bool gemm = IsPlainGemm(n);
    if ((!gemm && !IsOp(n, "MatMul")) || !IsOnlyReadBy(g_, e, reader) || !n->control_deps.empty() ||
        !IsMatrix(n->inputs[0]) || !IsMatrix(n->inputs[1]))
      return std::nullopt;
    if (gemm && n->attr<int64_t>("transB") != 0) return std::nullopt;
    const bool lies_upright = gemm && n->attr<int64_t>("transA") != 0;
    Product p{n, lies_upright ? NodeEntry() : n->inputs[0],
              lies_upright ? n->inputs[0] : NodeEntry(), n->inputs[1], 0};
    if (p.left.node && IsOp(p.left.node, "Transpose") &&
        (!p.left.node->has_attr("perm") || p.left.node->attr<Ints>("perm") == Ints{1, 0}))
      p.upright = p.left.node->inputs[0];
    const int64_t m = edit_.shape(e)[0].value(), width = edit_.shape(e)[1].value();
    p.k = edit_.shape(p.right)[0].value();
    if (p.k == 0 || CheckedMul(p.k, CheckedAdd(m, width)) > CheckedMul(m, width))
      return std::nullopt;
    return p;
  }

  /// False: stop here.
  bool Join(const NodePtr& root) {
    std::vector<Product> products;
    std::vector<NodeEntry> others;
    std::vector<NodePtr> sums{root};
    for (size_t i = 0; i < sums.size(); ++i) {
      const NodePtr sum = sums[i];
      for (const NodeEntry& e : sum->inputs) {
        if (const auto p = ProductOf(e, sum))
          products.push_back(*p);
        else if (IsOnlyReadBy(g_, e, sum) && IsSum(e.node))
          sums.push_back(e.node);
        else
          others.push_back(e);
      }
    }
    if (products.size() < 2) return true;
    if (!ctx_.Fuel("sum-products", root)) return false;
    const bool upright = std::all_of(products.begin(), products.end(),
                                     [](const Product& p) { return p.upright.node || p.k == 1; });
    const Shape y = edit_.shape(NodeEntry(root));
    int64_t k = 0;
    std::vector<NodeEntry> lefts, rights;
    const Type type = edit_.type(NodeEntry(root));
    const auto transposed = [&](const NodeEntry& e, Shape shape) {
      return edit_.Add("Transpose", {e}, {{"perm", Ints{1, 0}}}, {std::move(shape), type, nullptr});
    };
    for (const Product& p : products) {
      k = CheckedAdd(k, p.k);
      rights.push_back(p.right);
      if (upright)
        lefts.push_back(p.upright.node ? p.upright : edit_.AddReshape(p.left, Shape({1, y[0]})));
      else
        lefts.push_back(p.left.node ? p.left : transposed(p.upright, Shape({y[0], p.k})));
    }
    const auto joined = [&](const std::vector<NodeEntry>& parts, int64_t axis, Shape shape) {
      return edit_.Add("Concat", parts, {{"axis", axis}}, {std::move(shape), type, nullptr});
    };
    const Shape flat({y[0], SymInt(k)});
    NodeEntry left = upright ? joined(lefts, 0, Shape({SymInt(k), y[0]})) : joined(lefts, 1, flat);
    if (upright) left = transposed(left, flat);
    const NodeEntry right = joined(rights, 0, Shape({SymInt(k), y[1]}));
    const NodeEntry all = edit_.Add("MatMul", {left, right}, {}, NodeEntry(root));
    for (const Product& p : products) g_.MergeOrigin(all.node, p.node);
    NodeEntry result = all;
    if (!others.empty()) {
      others.insert(others.begin(), all);
      result = edit_.Add(others.size() == 2 ? "Add" : "Sum", others, {}, NodeEntry(root));
      for (const NodePtr& s : sums) g_.MergeOrigin(result.node, s);
    }
    edit_.Replace(root, {result});
    ctx_.Count("products", int64_t(products.size()));
    ctx_.Count("sums");
    return true;
  }

  Graph& g_;
  PassContext& ctx_;
  TypedEdit edit_;
};

Graph SumProducts(Graph g, PassContext& ctx) {
  Joiner(g, ctx).Run();
  return g;
}

WEFT_REGISTER_PASS(SumProducts)
    .describe("makes one matmul of the sum of several")
    .set_body(SumProducts)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .fuses()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .statistic("sums", "sums of matmuls that are one matmul")
    .statistic("products", "matmuls that went into them")
    .rewrite("sum-products", "a sum of matmuls as one");

}  // namespace
}  // namespace weft
