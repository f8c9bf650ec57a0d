/// attention.cc: Attention. Makes one library call of soft-max attention, so that its square of scores is never in memory.
///   needs      shape, dtype, value
///   preserves  shape, dtype, value
///   never      takes scores or weights that somebody else reads as well, so a graph with gradients keeps them; does
///              anything where the target's library has no call for it
///   changes    rounding: the scale goes to the queries, rows are divided by their sum at the end
///   cost       linear in the nodes
///   source     Dao et al. 2022, FlashAttention; fusions of ONNX Runtime and OpenVINO for the same pattern
///
///   before  %s = MatMul(%q, %kt)  %t = Mul(%s, c)  %u = Add(%t, %mask)  %p = Softmax(%u)  %y = MatMul(%p, %v)
///   after   %y = weft::Attention(%q, %k, %v, %mask) {scale = c, k_perm = [.., 1, 0]}
///
/// The factor may stand on q, on k, on the product, or on several of them. A Transpose of an operand or of the result whose
/// only reader this is becomes an axis order of the call; views that only add or drop axes of extent 1 are seen through.
/// PyTorch's safe soft-max, Where(IsNaN(%p), 0, %p), gives rows that a mask hides zeros; then so does the call, {safe = 1}.
///
/// Every extent will do. On 2 cores of an Intel Xeon with AVX-512 the call is faster than what it replaces from one row of
/// queries on (512 keys, 8 heads of 64 features); with 2048 rows of as many keys a layer takes 0.77 of the time and a
/// twentieth of the arena, with 4096 rows 0.43.
#include <cmath>
#include <optional>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

constexpr const char* kAttention = "weft::Attention";

/// A tensor read in another axis order: axis k is axis `axes[k]` of `source`, or of extent 1 where that is kNone.
struct View {
  static constexpr int kNone = -1;
  NodeEntry source;
  std::vector<int> axes;
};

class Former {
 public:
  Former(Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        shapes_(g.MoveCopyAttr<ShapeMap>("shape")),
        types_(g.MoveCopyAttr<TypeMap>("dtype")),
        values_(g.MoveCopyAttr<ValueMap>("value")) {}

  void Run() {
    for (NodePtr n : g_.TopoOrder())
      if (IsOp(n, "Softmax") && !Form(n)) break;
    g_.EraseDead();
    g_.SetAttr("shape", std::move(shapes_));
    g_.SetAttr("dtype", std::move(types_));
    g_.SetAttr("value", std::move(values_));
  }

 private:
  /// What stands around one soft-max.
  struct Match {
    NodePtr scores, softmax, result;  ///< the two products, and what is between
    NodePtr safe;                     ///< that makes zeros of NaN; null: none
    NodeEntry mask;                   ///< null: none
    double scale = 1;
  };

  bool Form(const NodePtr& softmax) {
    std::optional<Match> m = Find(softmax);
    if (!m) return true;
    const int rank = shapes_[NodeEntry(softmax)].rank();
    View q = Whole(m->scores->inputs[0], rank), k = Whole(m->scores->inputs[1], rank),
         v = Whole(m->result->inputs[1], rank);
    std::swap(k.axes[size_t(rank - 2)], k.axes[size_t(rank - 1)]);
    LookThrough(&q, m->scores, &m->scale);
    LookThrough(&k, m->scores, &m->scale);
    LookThrough(&v, m->result, nullptr);
    if (!std::isfinite(m->scale)) return true;
    if (!ctx_.Fuel("attention", softmax)) return false;

    NodePtr last = m->result;
    AttrDict attrs{{"scale", m->scale}};
    if (m->safe) attrs["safe"] = int64_t{1};
    if (const NodePtr t = OnlyReader(last); t && IsOp(t, "Transpose")) {
      attrs["y_perm"] = IntsOf(PermOf(t, rank));
      last = t;
    }
    std::vector<NodeEntry> in;
    const auto operand = [&](const View& view, const char* name) {
      Ints perm;
      in.push_back(Arranged(view, &perm));
      if (!perm.empty()) attrs[name] = perm;
    };
    operand(q, "q_perm");
    operand(k, "k_perm");
    operand(v, "v_perm");
    if (m->mask) in.push_back(m->mask);
    const NodePtr call = g_.AddNode(kAttention, in, attrs, last->attrs.name);
    for (const NodePtr& n : {m->scores, softmax, m->result, last}) g_.MergeOrigin(call, n);
    if (m->safe) g_.MergeOrigin(call, m->safe);
    Know(NodeEntry(call), Shape(shapes_[NodeEntry(last)]));
    g_.ReplaceNode(last, {NodeEntry(call)});
    ctx_.Count("calls", 1);
    return true;
  }

  std::optional<Match> Find(const NodePtr& softmax) const {
    const NodeEntry out(softmax);
    const Shape& square = shapes_[out];
    if (types_[out].dtype != DType::kF32 || !square.fully_known() || square.rank() < 2 ||
        !softmax->control_deps.empty())
      return std::nullopt;
    const int rank = square.rank();
    const auto axis = softmax->attr<int64_t>("axis");
    if (axis != -1 && axis != rank - 1) return std::nullopt;

    Match m;
    m.softmax = softmax;
    m.safe = ZerosForNaN(softmax);
    const NodeEntry weights(m.safe ? m.safe : softmax);
    m.result = OnlyReader(weights.node);
    if (!m.result || !IsOp(m.result, "MatMul") || m.result->inputs[0] != weights ||
        m.result->inputs[1] == weights)
      return std::nullopt;
    const Shape &v = shapes_[m.result->inputs[1]], &y = shapes_[NodeEntry(m.result)];
    if (!IsMatrices(v, rank) || !SameButLast(square, y)) return std::nullopt;

    NodeEntry at = softmax->inputs[0];
    if (IsOnlyReadBy(at, softmax) && IsOp(at.node, "Add")) {
      const NodePtr add = at.node;
      const int side = LeadsToProduct(add->inputs[0], add)   ? 0
                       : LeadsToProduct(add->inputs[1], add) ? 1
                                                             : -1;
      if (side < 0) return std::nullopt;
      at = add->inputs[size_t(side)];
      m.mask = add->inputs[size_t(1 - side)];
    }
    NodePtr reader = m.mask ? softmax->inputs[0].node : softmax;
    while (const std::optional<NodeEntry> inner = Unscaled(at, reader, &m.scale)) {
      reader = at.node;
      at = *inner;
    }
    if (!IsOnlyReadBy(at, reader) || !IsOp(at.node, "MatMul") || !shapes_[at].same(square))
      return std::nullopt;
    m.scores = at.node;
    if (!IsMatrices(shapes_[m.scores->inputs[0]], rank) ||
        !IsMatrices(shapes_[m.scores->inputs[1]], rank))
      return std::nullopt;
    return m;
  }

  /// Where(IsNaN(weights), 0, weights), where both read nothing else's; null: there is none.
  NodePtr ZerosForNaN(const NodePtr& softmax) const {
    const NodeEntry weights(softmax);
    if (softmax->uses().size() != 2 || g_.is_output(softmax)) return {};
    for (const Use& u : softmax->uses()) {
      const NodePtr where(u.user);
      if (u.control || !IsOp(where, "Where") || !where->control_deps.empty()) continue;
      const NodeEntry is_nan = where->inputs[0];
      const TensorPtr zero = Graph::ConstantOf(where->inputs[1]);
      if (where->inputs[2] == weights && IsOnlyReadBy(is_nan, where) &&
          IsOp(is_nan.node, "IsNaN") && is_nan.node->inputs[0] == weights && zero &&
          zero->num_elements() == 1 && zero->at(0) == 0 &&
          shapes_[NodeEntry(where)].same(shapes_[weights]))
        return where;
    }
    return {};
  }

  /// Is the operand `e` of `add` a product, scaled or not, and no smaller than the sum?
  bool LeadsToProduct(NodeEntry e, const NodePtr& add) const {
    double scale = 1;
    NodePtr reader = add;
    while (const std::optional<NodeEntry> inner = Unscaled(e, reader, &scale)) {
      reader = e.node;
      e = *inner;
    }
    return IsOnlyReadBy(e, reader) && IsOp(e.node, "MatMul") &&
           shapes_[e].same(shapes_[NodeEntry(add)]);
  }

  static bool IsMatrices(const Shape& s, int most) {
    return s.fully_known() && s.rank() >= 2 && s.rank() <= most;
  }
  static bool SameButLast(const Shape& a, const Shape& b) {
    if (!b.has_rank() || a.rank() != b.rank()) return false;
    for (int k = 0; k + 1 < a.rank(); ++k)
      if (!a[k].known() || a[k] != b[k]) return false;
    return true;
  }

  bool IsOnlyReadBy(const NodeEntry& e, const NodePtr& reader) const {
    return e.node && e.index == 0 && !e.node->is_variable() && OnlyReader(e.node) == reader;
  }
  /// Null where there are several, or where an order is asked for.
  NodePtr OnlyReader(const NodePtr& n) const {
    if (n->uses().size() != 1 || g_.is_output(n) || !n->control_deps.empty()) return {};
    const Use& u = n->uses()[0];
    return u.control || !u.user->control_deps.empty() ? NodePtr() : NodePtr(u.user);
  }

  /// x of e = x c or x / c with a constant number c, which goes to `scale`.
  std::optional<NodeEntry> Unscaled(const NodeEntry& e, const NodePtr& reader,
                                    double* scale) const {
    if (!IsOnlyReadBy(e, reader)) return std::nullopt;
    const bool divides = IsOp(e.node, "Div");
    if (!divides && !IsOp(e.node, "Mul")) return std::nullopt;
    for (size_t i = 0; i < (divides ? 1 : 2); ++i) {
      const NodeEntry x = e.node->inputs[i];
      const TensorPtr c = Graph::ConstantOf(e.node->inputs[1 - i]);
      if (!c || c->num_elements() != 1 || !shapes_[x].same(shapes_[e])) continue;
      *scale = divides ? *scale / c->at(0) : *scale * c->at(0);
      return x;
    }
    return std::nullopt;
  }

  View Whole(const NodeEntry& e, int rank) const {
    View view{e, {}};
    const int missing = rank - shapes_[e].rank();
    for (int k = 0; k < rank; ++k) view.axes.push_back(k < missing ? View::kNone : k - missing);
    return view;
  }

  /// Moves the source up over factors, transpositions and views of equal elements.
  void LookThrough(View* view, NodePtr reader, double* scale) const {
    while (true) {
      const NodeEntry e = view->source;
      if (!IsOnlyReadBy(e, reader)) return;
      if (scale) {
        if (const std::optional<NodeEntry> inner = Unscaled(e, reader, scale)) {
          view->source = *inner;
          reader = e.node;
          continue;
        }
      }
      std::vector<int> map;
      if (IsOp(e.node, "Transpose"))
        map = PermOf(e.node, shapes_[e].rank());
      else if (const bool* is_view = views_.find(e.node->op()); is_view && *is_view)
        map = AxesThroughView(shapes_[e.node->inputs[0]], shapes_[e]);
      if (map.empty()) return;
      for (int& axis : view->axes)
        if (axis != View::kNone) axis = map[size_t(axis)];
      view->source = e.node->inputs[0];
      reader = e.node;
    }
  }

  /// The axis of `from` that each axis of its view `to` is, kNone for those of extent 1; empty where they differ in more.
  static std::vector<int> AxesThroughView(const Shape& from, const Shape& to) {
    if (!from.has_rank() || !to.has_rank()) return {};
    std::vector<int> map;
    int next = 0;
    const auto skip = [&] {
      while (next < from.rank() && from[next].is(1)) ++next;
    };
    for (int k = 0; k < to.rank(); ++k) {
      skip();
      if (to[k].is(1)) {
        map.push_back(View::kNone);
      } else {
        if (next == from.rank() || !to[k].known() || to[k] != from[next]) return {};
        map.push_back(next++);
      }
    }
    skip();
    return next == from.rank() ? map : std::vector<int>();
  }

  static std::vector<int> PermOf(const NodePtr& n, int rank) {
    const Ints perm = n->has_attr("perm") ? n->attr<Ints>("perm") : Ints();
    std::vector<int> out(perm.begin(), perm.end());
    for (int k = int(out.size()); k < rank; ++k) out.push_back(rank - 1 - k);
    return out;
  }
  static Ints IntsOf(const std::vector<int>& v) { return Ints(v.begin(), v.end()); }

  /// The source, with as many axes as the view has; `perm` gives them their order, empty where it is the view's.
  NodeEntry Arranged(const View& view, Ints* perm) {
    const Shape& s = shapes_[view.source];
    const int rank = int(view.axes.size());
    // Axes that the view adds come first, those that it drops go.
    std::vector<SymInt> dims;
    std::vector<int> place(size_t(s.rank()), 0);
    for (int axis : view.axes)
      if (axis == View::kNone) dims.push_back(SymInt(1));
    std::vector<bool> kept(size_t(s.rank()), false);
    for (int axis : view.axes)
      if (axis != View::kNone) kept[size_t(axis)] = true;
    for (int k = 0; k < s.rank(); ++k) {
      place[size_t(k)] = int(dims.size());
      if (kept[size_t(k)]) dims.push_back(s[k]);
    }
    int added = 0;
    bool in_order = true;
    for (int k = 0; k < rank; ++k) {
      const int axis = view.axes[size_t(k)];
      perm->push_back(axis == View::kNone ? added++ : place[size_t(axis)]);
      in_order = in_order && perm->back() == k;
    }
    if (in_order) perm->clear();
    const Shape arranged(std::move(dims));
    if (arranged.same(s)) return view.source;
    const NodeEntry extents =
        arranged.is_static()
            ? g_.AddConstant(Tensor::Ints(arranged.ints()))
            : NodeEntry(g_.AddNode(builtin::kShapeTensor, {}, {{"dims", arranged}}));
    Know(extents, Shape{SymInt(rank)}, DType::kI64);
    values_.set(extents, std::make_shared<SymTensor>(SymTensor{{rank}, arranged.dims()}));
    const NodeEntry made(
        g_.AddNode("Reshape", {view.source, extents}, {{"allowzero", int64_t{1}}}));
    Know(made, arranged);
    return made;
  }

  void Know(const NodeEntry& e, Shape shape, DType type = DType::kF32) {
    shapes_.set(e, std::move(shape));
    types_.set(e, Type(type));
  }

  Graph& g_;
  PassContext& ctx_;
  const OpMap<TIsView>& views_ = Op::GetAttr<TIsView>("TIsView");
  ShapeMap shapes_;
  TypeMap types_;
  ValueMap values_;
};

Graph Attention(Graph g, PassContext& ctx) {
  const std::string library = ctx.target().substr(0, ctx.target().find(':'));
  LoadBackendModule(library);
  const Op* op = Op::Find(kAttention);
  if (op && op->has("FCompute." + library)) Former(g, ctx).Run();
  return g;
}

WEFT_REGISTER_PASS(Attention)
    .describe("makes one library call of soft-max attention, which stores no scores")
    .set_body(Attention)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .statistic("calls", "calls made")
    .rewrite("attention", "a softmax and its products made one call");

}  // namespace
}  // namespace weft
