/// recur.cc: Recur. Small products in the body of a Loop or Scan become parts of the kernels around
/// them, so that an iteration is one kernel, or one for each product that needs all of another.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      takes a matrix that does not stay in the caches, or that an iteration computes; a
///              product of which a library call is the better part; one of integers
///   cost       linear in nodes and bodies
///   rounding   changes: the terms of a sum are added one after the other
///
///   h, c = Scan(h, c, xw) {a, b, d, e = Split(xw_t + MatMul(h, %r)); ..}
///     ->  Scan(h, c, xw) {a = xw_t[:, :n] + weft::SmallMatMul(h, %r) {columns = n}, b = ..; ..}
///
/// The call of a small product takes as long as the product, and what it gives goes through memory
/// to the kernel behind it. Where columns of a product are read apart (the gates of a recurrent
/// cell), each range is a product of its own over the same matrix: then all of them are over the
/// points of a state, and Fusion makes one kernel of the cell. What stands between the product and
/// the cut goes with it. A capture that is multiplied transposed (loops of gradients do) is
/// transposed in front of the loop, which costs nothing where it was there before.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "body_exit.h"
#include "loop_parts.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

/// Some columns of a tensor.
struct Columns {
  int64_t begin = 0, count = 0;
  int64_t end() const { return begin + count; }
  friend bool operator<(const Columns& a, const Columns& b) {
    return std::pair(a.begin, a.count) < std::pair(b.begin, b.count);
  }
};

/// rows b + addend.
struct SmallProduct {
  NodeEntry rows, matrix, addend;
  bool transposed = false;  ///< the matrix is to be transposed
};

/// What is small.
struct Most {
  int64_t bytes, products, bytes_of_any_rows, bytes_to_transpose;
};

/// The matrix that this one is the transposed of; an entry without a node: none that is there.
NodeEntry Untransposed(const NodeEntry& e) {
  const bool is = !e.node->is_variable() && IsOp(e.node, "Transpose") &&
                  e.node->attr<Ints>("perm") == Ints{1, 0};
  return is ? e.node->inputs[0] : NodeEntry();
}

std::optional<int64_t> Known(SymInt d) {
  if (!d.known() || !d.is_const()) return std::nullopt;
  return d.value();
}

class Recurrence {
 public:
  Recurrence(Graph body, const NodePtr& loop, const Most& most)
      : body_(std::move(body)),
        shapes_(body_.GetAttr<ShapeMap>("shape")),
        types_(body_.GetAttr<TypeMap>("dtype")),
        most_(most),
        order_(body_.TopoOrder()) {
    for (size_t i = LoopParts(loop).first_capture(); i < body_.inputs().size(); ++i)
      captures_.emplace(body_.inputs()[i]->id(), loop->inputs[i]);
    for (const NodePtr& n : order_)
      if (std::optional<SmallProduct> p = ProductOf(n)) products_.emplace(n->id(), *p);
    FindChains();
  }
  bool any() const { return !products_.empty(); }
  size_t count() const { return products_.size(); }
  Graph Finish() {
    // Other columns of a chain may read what is replaced: first all of them.
    std::vector<std::pair<NodeEntry, NodeEntry>> replaced;
    for (const auto& [columns, cuts] : CutsByColumns()) {
      const auto made = ChainsOf(columns);
      for (const auto& [from, cut] : cuts) replaced.emplace_back(cut, made.at(from.key()));
    }
    for (const auto& [cut, made] : replaced) body_.ReplaceUses(cut, made);
    for (const NodePtr& n : order_)
      if (products_.count(n->id()) && chains_.count(n->id()) == 0)
        body_.ReplaceUses(NodeEntry(n), Multiply(products_.at(n->id()), std::nullopt));
    body_.EraseDead();
    return std::move(body_);
  }

 private:
  const Shape& ShapeOf(const NodeEntry& e) const { return shapes_[e]; }
  std::optional<int64_t> LastOf(const NodeEntry& e) const {
    const Shape& s = ShapeOf(e);
    return s.has_rank() && s.rank() > 0 ? Known(s[s.rank() - 1]) : std::nullopt;
  }
  /// It is known which of its elements stand in which columns.
  bool HasColumns(const NodeEntry& e) const {
    return !e.node || (ShapeOf(e).has_rank() && (ShapeOf(e).rank() == 0 || LastOf(e)));
  }
  bool IsInvariant(const NodeEntry& e) const {
    return captures_.count(e.node->id()) != 0 || Graph::ConstantOf(e);
  }

  std::optional<SmallProduct> ProductOf(const NodePtr& n) const {
    const bool gemm = IsOp(n, "Gemm");
    if (!gemm && !IsOp(n, "MatMul")) return std::nullopt;
    SmallProduct p{n->inputs[0], n->inputs[1], {}};
    if (gemm) {
      if (n->attr<int64_t>("transA") != 0 || n->attr<double>("alpha") != 1) return std::nullopt;
      p.transposed = n->attr<int64_t>("transB") != 0;
      if (n->num_inputs() > 2 && n->inputs[2].node) {
        if (n->attr<double>("beta") != 1) return std::nullopt;
        p.addend = n->inputs[2];
      }
    } else if (IsInvariant(p.rows) && ShapeOf(p.matrix).has_rank() &&
               ShapeOf(p.matrix).rank() == 1) {
      // A matrix by a vector.
      std::swap(p.rows, p.matrix);
      p.transposed = true;
    }
    return IsSmall(p) ? std::optional(p) : std::nullopt;
  }
  bool IsSmall(const SmallProduct& p) const {
    const Shape &rows = ShapeOf(p.rows), &matrix = ShapeOf(p.matrix);
    const Type& t = types_[p.rows];
    if (!t.is_tensor() || (t.dtype != DType::kF32 && t.dtype != DType::kF64)) return false;
    if (!IsInvariant(p.matrix) || IsInvariant(p.rows)) return false;
    if (!rows.has_rank() || rows.rank() == 0 || !matrix.is_static() || matrix.rank() != 2)
      return false;
    const SymInt elements = matrix.num_elements();
    if (!elements.is_const() || elements.value() == 0 ||
        elements.value() > most_.bytes / DTypeBytes(t.dtype, 1))
      return false;
    // Transposed in every run.
    if (p.transposed && !Graph::ConstantOf(p.matrix) &&
        !Untransposed(captures_.at(p.matrix.node->id())).node &&
        elements.value() > most_.bytes_to_transpose / DTypeBytes(t.dtype, 1))
      return false;
    int64_t products = elements.value();
    for (int d = 0; d + 1 < rows.rank(); ++d) {
      const std::optional<int64_t> extent = Known(rows[d]);
      // As many as a run has: nothing is lost, however many they are, by so small a matrix.
      if (!extent) return elements.value() <= most_.bytes_of_any_rows / DTypeBytes(t.dtype, 1);
      if (*extent != 0 && products > most_.products / *extent) return false;
      products *= *extent;
    }
    return products > 0 && products <= most_.products;
  }

  /// Columns of output k of a node that cuts the last axis of its first input: a Split.
  std::optional<Columns> CutOf(const NodePtr& n, uint32_t k) const {
    if (!IsOp(n, "Split")) return std::nullopt;
    const int rank = ShapeOf(n->inputs[0]).rank();
    const int64_t axis = n->attr<int64_t>("axis");
    if (axis != rank - 1 && axis != -1) return std::nullopt;
    Columns c;
    for (uint32_t i = 0; i <= k; ++i) {
      const std::optional<int64_t> width = LastOf(NodeEntry(n, i));
      if (!width || *width == 0) return std::nullopt;
      c = {c.end(), *width};
    }
    return c;
  }
  bool IsCut(const NodePtr& n) const { return CutOf(n, n->num_outputs() - 1).has_value(); }

  static bool IsElementwise(const NodePtr& n) {
    static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
    const FCodeGen* f = n->is_variable() ? nullptr : code.find(n->op());
    return f && f->elementwise && n->num_outputs() == 1 && n->control_deps.empty() &&
           IsRepeatable(n);
  }
  /// What can be computed of some columns alone: products, and what follows them element by
  /// element, where all that reads it cuts it in the end.
  void FindChains() {
    std::unordered_set<NodeId> behind, ends;
    for (const NodePtr& n : order_) {
      const auto product = products_.find(n->id());
      const bool follows = IsElementwise(n) && LastOf(NodeEntry(n)) &&
                           std::all_of(n->inputs.begin(), n->inputs.end(),
                                       [&](const NodeEntry& e) { return HasColumns(e); }) &&
                           std::any_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
                             return e.node && behind.count(e.node->id()) != 0;
                           });
      const bool begins = product != products_.end() && HasColumns(product->second.addend);
      if (begins || follows) behind.insert(n->id());
    }
    for (size_t i = order_.size(); i-- > 0;) {
      const NodePtr& n = order_[i];
      if (!behind.count(n->id()) || body_.is_output(n) || n->uses().empty()) continue;
      const bool all = std::all_of(n->uses().begin(), n->uses().end(), [&](const Use& u) {
        const NodePtr user(u.user);
        return !u.control && ((u.slot == 0 && !user->is_variable() && IsCut(user)) ||
                              ends.count(user->id()) != 0);
      });
      if (all) ends.insert(n->id());
    }
    chains_ = std::move(ends);
  }

  using Cuts = std::vector<std::pair<NodeEntry, NodeEntry>>;  ///< what is cut, and a piece of it
  std::map<Columns, Cuts> CutsByColumns() const {
    std::map<Columns, Cuts> cuts;
    for (const NodePtr& n : order_) {
      if (n->is_variable() || !IsOp(n, "Split")) continue;
      if (!chains_.count(n->inputs[0].node->id()) || !IsCut(n)) continue;
      for (uint32_t k = 0; k < n->num_outputs(); ++k)
        cuts[*CutOf(n, k)].emplace_back(n->inputs[0], NodeEntry(n, k));
    }
    return cuts;
  }
  /// All chains, of these columns alone.
  std::unordered_map<EntryKey, NodeEntry> ChainsOf(const Columns& c) {
    std::unordered_map<EntryKey, NodeEntry> made;
    const auto cut = [&](const NodeEntry& e) {
      if (!e.node) return e;
      const std::optional<int64_t> last = LastOf(e);
      if (!last || *last == 1) return e;  // of rank 0, or one column: the same for all of them
      if (const auto it = made.find(e.key()); it != made.end()) return it->second;
      const NodeEntry piece = Slice(e, c);
      made.emplace(e.key(), piece);
      return piece;
    };
    for (const NodePtr& n : order_) {
      if (!chains_.count(n->id()) || *LastOf(NodeEntry(n)) < c.end()) continue;
      const auto product = products_.find(n->id());
      if (product != products_.end()) {
        SmallProduct p = product->second;
        p.addend = cut(p.addend);
        made[NodeEntry(n).key()] = Multiply(p, c);
        continue;
      }
      std::vector<NodeEntry> operands;
      for (const NodeEntry& e : n->inputs) operands.push_back(cut(e));
      made[NodeEntry(n).key()] = NodeEntry(body_.AddCopy(n, operands));
    }
    return made;
  }
  NodeEntry Slice(const NodeEntry& e, const Columns& c) {
    const auto ints = [&](int64_t v) { return body_.AddConstant(Tensor::Ints({v})); };
    return NodeEntry(body_.AddNode("Slice", {e, ints(c.begin), ints(c.end()), ints(-1)}));
  }
  NodeEntry Multiply(const SmallProduct& p, const std::optional<Columns>& c) {
    const NodeEntry matrix = p.transposed ? Transposed(p.matrix) : p.matrix;
    AttrDict attrs;
    if (c) attrs = {{"begin", c->begin}, {"columns", c->count}};
    const NodeEntry y(body_.AddNode("weft::SmallMatMul", {p.rows, matrix}, std::move(attrs)));
    return p.addend.node ? NodeEntry(body_.AddNode("Add", {y, p.addend})) : y;
  }
  NodeEntry Transposed(const NodeEntry& matrix) {
    NodeEntry& made = transposed_[matrix.key()];
    if (!made.node) made = NodeEntry(body_.AddNode("Transpose", {matrix}, {{"perm", Ints{1, 0}}}));
    return made;
  }

  Graph body_;
  const ShapeMap shapes_;
  const TypeMap types_;
  const Most most_;
  const std::vector<NodePtr> order_;
  std::unordered_map<NodeId, NodeEntry> captures_;  ///< and what each is outside
  std::unordered_map<EntryKey, NodeEntry> transposed_;
  std::unordered_map<NodeId, SmallProduct> products_;
  std::unordered_set<NodeId> chains_;
};

/// Captures are transposed in front of the loop; or not at all, where they were there.
bool TransposeOutside(BodyExit& exit) {
  bool any = false;
  for (const NodePtr& n : exit.body().TopoOrder()) {
    if (n->is_variable() || !Untransposed(NodeEntry(n)).node) continue;
    const NodeEntry& matrix = n->inputs[0];
    if (Graph::ConstantOf(matrix) || exit.role(matrix) != BodyRole::kInvariant) continue;
    const NodeEntry outside = exit.outside(matrix);
    NodeEntry made = Untransposed(outside);
    if (!made.node)
      made = NodeEntry(exit.graph().AddNode("Transpose", {outside}, {{"perm", Ints{1, 0}}}));
    exit.Leave(n, made, BodyRole::kInvariant);
    any = true;
  }
  return any;
}

Graph Recur(Graph g, PassContext& ctx) {
  const bool shares = ctx.option<int64_t>("threads") > 1;
  std::vector<std::pair<NodePtr, Graph>> done;
  for (const NodePtr& n : g.TopoOrder()) {
    if (!IsOp(n, "Scan") && !IsOp(n, "Loop")) continue;
    // A call that several threads share is the better part of what is larger.
    const bool alone = !shares || (n->has_attr("parts") && n->attr<int64_t>("parts") > 1);
    const Most most{ctx.option<int64_t>(alone ? "most_bytes" : "shared_bytes"),
                    ctx.option<int64_t>(alone ? "most_products" : "shared_products"),
                    ctx.option<int64_t>("any_rows_bytes"), ctx.option<int64_t>("transposed_bytes")};
    Recurrence r(TypedBody(n, "body", g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype")), n,
                 most);
    if (!r.any() || !ctx.Fuel("recur", n)) continue;
    ctx.Count("matmuls", int64_t(r.count()));
    done.emplace_back(n, r.Finish());
  }
  for (auto& [n, body] : done) {
    BodyExit exit(g, n, std::move(body));
    if (TransposeOutside(exit))
      exit.Finish();
    else
      ReplaceBody(g, n, "body", exit.body());
  }
  return g;
}

WEFT_REGISTER_PASS(Recur)
    .describe("small matmuls in bodies of Loop and Scan become parts of the kernels around them")
    .set_body(Recur)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .option("threads", int64_t{1}, "that the program will have")
    .option("most_bytes", int64_t{1} << 18, "of a matrix, where one thread runs the loop")
    .option("most_products", int64_t{1} << 22, "multiplications in an iteration, there")
    .option("shared_bytes", int64_t{3} << 16, "of a matrix, where threads may share an iteration")
    .option("shared_products", int64_t{1} << 17, "multiplications, there")
    .option("transposed_bytes", int64_t{1} << 16, "of a capture that a run has to transpose first")
    .option("any_rows_bytes", int64_t{1} << 16, "of a matrix by rows that a run alone counts")
    .fuses()
    .rewrite("recur", "a loop whose matmuls become parts of kernels")
    .statistic("matmuls", "matmuls that became parts of kernels");

}  // namespace
}  // namespace weft
