/// attention.cc: Attention. Makes one library call of soft-max attention, so that its square of
/// scores is never in memory.
///   needs      shape, dtype, value
///   preserves  shape, dtype, value
///   never      takes scores or weights that another node reads as well, so a graph with gradients
///              keeps them; does anything where the target's library has no call for it
///   changes    rounding: the scale goes to the queries, rows are divided by their sum at the end
///   cost       linear in the nodes
///   source     Dao et al. 2022, FlashAttention; fusions of ONNX Runtime and OpenVINO
///              for the same pattern
///
///   before  %s = MatMul(%q, %kt)  %t = Mul(%s, c)  %u = Add(%t, %mask)
///           %p = Softmax(%u)  %y = MatMul(%p, %v)
///   after   %y = weft::Attention(%q, %k, %v, %mask) {scale = c, k_perm = [.., 1, 0]}
///
/// The factor may stand on q, on k, on the product, or on several of them. A Transpose of an
/// operand or of the result whose only reader this is becomes an axis order of the call; views that
/// only add or drop axes of extent 1 are seen through. PyTorch's safe soft-max, Where(IsNaN(%p), 0,
/// %p), gives rows that a mask hides zeros; then so does the call, {safe = 1}. A soft cap,
/// c tanh(x / c) between the products and the mask, is the call's too. What a cache holds
/// (weft::Prefix) is read in the cache: the call is told how many keys there are. Keys and values
/// that each head of a group reads (Expand of an axis behind the heads, then a Reshape that joins
/// both) stay as they are, and queries and result get an axis for the group.
///
/// Every extent will do. On 2 cores of an Intel Xeon with AVX-512 the call is faster than what it
/// replaces from one row of queries on (512 keys, 8 heads of 64 features); with 2048 rows of as
/// many keys a layer takes 0.77 of the time and a twentieth of the arena, with 4096 rows 0.43.
#include <cmath>
#include <optional>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/cache_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/match.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

constexpr const char* kAttention = "weft::Attention";

/// A tensor read in another axis order: axis k is axis `axes[k]` of `source`, or of extent 1
/// where that is kNone.
struct View {
  static constexpr int kNone = -1;
  NodeEntry source;
  std::vector<int> axes;
};

class Former {
 public:
  Former(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), edit_(g) {}

  void Run() {
    for (NodePtr n : g_.TopoOrder())
      if (IsOp(n, "Softmax") && !Form(n)) break;
    g_.EraseDead();
  }

 private:
  /// What stands around one soft-max.
  struct Match {
    NodePtr scores, softmax, result;  ///< the two products, and what is between
    NodePtr safe;                     ///< that makes zeros of NaN; null: none
    NodeEntry mask;                   ///< null: none
    double scale = 1, softcap = 0;
  };
  /// Heads that read the same keys and values.
  struct Group {
    NodeEntry keys, values;  ///< before they are repeated, [.., heads, s, d]
    SymInt heads, size;
  };

  bool Form(const NodePtr& softmax) {
    std::optional<Match> m = Find(softmax);
    if (!m) return true;
    const int rank = edit_.shape(NodeEntry(softmax)).rank();
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
    if (m->softcap > 0) attrs["softcap"] = m->softcap;
    Ints y_perm;
    if (const NodePtr t = OnlyReader(g_, last); t && IsOp(t, "Transpose")) {
      y_perm = TransposePerm(t, rank);
      last = t;
    }
    const std::optional<Group> group = FindGroup(q, k, v, rank);
    if (group) {
      Divide(&q, *group);
      k = Shared(k, group->keys);
      v = Shared(v, group->values);
      if (m->mask) m->mask = DividedMask(m->mask, rank, *group);
    } else {
      const Shape& square = edit_.shape(NodeEntry(m->scores));
      SkipRepeats(&k, square);
      SkipRepeats(&v, square);
    }
    NodeEntry keys = HeldRows(&k, &v, rank + (group ? 1 : 0));
    std::vector<NodeEntry> in;
    const auto operand = [&](const View& view, const char* name) {
      Ints perm;
      in.push_back(Arranged(view, &perm));
      if (!perm.empty()) attrs[name] = perm;
    };
    operand(q, "q_perm");
    operand(k, "k_perm");
    operand(v, "v_perm");
    if (m->mask || keys) in.push_back(m->mask);
    if (keys) in.push_back(keys);
    const Shape whole = edit_.shape(NodeEntry(last));
    Shape divided = whole;
    if (group) {
      if (y_perm.empty())
        for (int a = 0; a < rank; ++a) y_perm.push_back(a);
      std::vector<SymInt> dims;
      Ints perm;
      for (int a = 0; a < rank; ++a) {
        const int64_t from = y_perm[size_t(a)];
        if (from != kHeads) {
          perm.push_back(from > kHeads ? from + 1 : from);
          dims.push_back(whole[a]);
          continue;
        }
        perm.insert(perm.end(), {int64_t{kHeads}, int64_t{kHeads + 1}});
        dims.insert(dims.end(), {group->heads, group->size});
      }
      y_perm = std::move(perm);
      divided = Shape(std::move(dims));
      ctx_.Count("groups", 1);
    }
    if (!y_perm.empty()) attrs["y_perm"] = y_perm;
    NodeEntry y = edit_.Add(kAttention, in, attrs, {divided, edit_.type(NodeEntry(last)), nullptr});
    const NodePtr call = y.node;
    if (group) y = edit_.AddReshape(y, whole);
    for (const NodePtr& n : {m->scores, softmax, m->result, last}) g_.MergeOrigin(call, n);
    if (m->safe) g_.MergeOrigin(call, m->safe);
    edit_.Replace(last, {y});
    ctx_.Count("calls", 1);
    return true;
  }

  std::optional<Match> Find(const NodePtr& softmax) const {
    const NodeEntry out(softmax);
    const Shape& square = edit_.shape(out);
    if (edit_.dtype(out) != DType::kF32 || !square.fully_known() || square.rank() < 2 ||
        !softmax->control_deps.empty())
      return std::nullopt;
    const int rank = square.rank();
    const auto axis = softmax->attr<int64_t>("axis");
    if (axis != -1 && axis != rank - 1) return std::nullopt;

    Match m;
    m.softmax = softmax;
    m.safe = ZerosForNaN(softmax);
    const NodeEntry weights(m.safe ? m.safe : softmax);
    m.result = OnlyReader(g_, weights.node);
    NodeEntry values;
    if (!m.result || !m::Match(m.result, m::Op("MatMul", m::Same(&weights), m::Any(&values))) ||
        values == weights)
      return std::nullopt;
    const Shape &v = edit_.shape(values), &y = edit_.shape(NodeEntry(m.result));
    if (!IsMatrices(v, rank) || !SameButLast(square, y)) return std::nullopt;

    NodeEntry at = softmax->inputs[0];
    if (m::Match(at, m::Op("Add", m::Any(), m::Any()).ReadOnlyBy(g_, softmax))) {
      const NodePtr add = at.node;
      const int side = LeadsToProduct(add->inputs[0], add)   ? 0
                       : LeadsToProduct(add->inputs[1], add) ? 1
                                                             : -1;
      if (side < 0) return std::nullopt;
      at = add->inputs[size_t(side)];
      m.mask = add->inputs[size_t(1 - side)];
    }
    NodePtr reader = m.mask ? softmax->inputs[0].node : softmax;
    SkipCap(&at, &reader, &m.softcap);
    SkipFactors(&at, &reader, &m.scale);
    NodeEntry q, k;
    if (!m::Match(at, m::Op("MatMul", m::Any(&q), m::Any(&k)).ReadOnlyBy(g_, reader)) ||
        !edit_.shape(at).same(square) || !IsMatrices(edit_.shape(q), rank) ||
        !IsMatrices(edit_.shape(k), rank))
      return std::nullopt;
    m.scores = at.node;
    return m;
  }

  /// Where(IsNaN(weights), 0, weights), where both read nothing else's; null: there is none.
  NodePtr ZerosForNaN(const NodePtr& softmax) const {
    const NodeEntry weights(softmax);
    if (softmax->uses().size() != 2 || g_.is_output(softmax)) return {};
    for (const Use& u : softmax->uses()) {
      const NodePtr where(u.user);
      if (u.control || !IsOp(where, "Where") || !where->control_deps.empty()) continue;
      const auto is_nan = m::Op("IsNaN", m::Same(&weights)).ReadOnlyBy(g_, where);
      if (m::Match(where, m::Op("Where", is_nan, m::Number(0.0), m::Same(&weights))) &&
          edit_.shape(NodeEntry(where)).same(edit_.shape(weights)))
        return where;
    }
    return {};
  }

  /// Is the operand `e` of `add` a product, scaled or not, and no smaller than the sum?
  bool LeadsToProduct(NodeEntry e, const NodePtr& add) const {
    double scale = 1, softcap = 0;
    NodePtr reader = add;
    SkipCap(&e, &reader, &softcap);
    SkipFactors(&e, &reader, &scale);
    return m::Match(e, m::Op("MatMul", m::Any(), m::Any()).ReadOnlyBy(g_, reader)) &&
           edit_.shape(e).same(edit_.shape(NodeEntry(add)));
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

  /// x of e = x c or x / c with a constant number c, which goes to `scale`.
  std::optional<NodeEntry> Unscaled(const NodeEntry& e, const NodePtr& reader,
                                    double* scale) const {
    NodeEntry x;
    double c = 1;
    const bool divides = m::Match(e, m::Op("Div", m::Any(&x), m::Number(&c)));
    if (!divides && !m::Match(e, m::Either("Mul", m::Any(&x), m::Number(&c)))) return std::nullopt;
    if (!IsOnlyReadBy(g_, e, reader) || !edit_.shape(x).same(edit_.shape(e))) return std::nullopt;
    *scale = divides ? *scale / c : *scale * c;
    return x;
  }

  /// Moves `e` up over all of those.
  void SkipFactors(NodeEntry* e, NodePtr* reader, double* scale) const {
    while (const std::optional<NodeEntry> inner = Unscaled(*e, *reader, scale)) {
      *reader = e->node;
      *e = *inner;
    }
  }

  /// Moves `e` up over c tanh(x / c), whose factors may be written either way.
  void SkipCap(NodeEntry* e, NodePtr* reader, double* softcap) const {
    NodeEntry bent = *e, shares;
    NodePtr behind = *reader;
    double outer = 1, inner = 1;
    SkipFactors(&bent, &behind, &outer);
    if (!m::Match(bent, m::Op("Tanh", m::Any(&shares)).ReadOnlyBy(g_, behind))) return;
    behind = bent.node;
    const std::optional<NodeEntry> x = Unscaled(shares, behind, &inner);
    if (!x || !(outer > 0) || std::abs(outer * inner - 1) > 1e-6) return;
    *softcap = outer;
    *reader = shares.node;
    *e = *x;
  }

  // ---- groups of heads, caches ----

  static constexpr int kHeads = 1;  ///< the axis of heads, where there are groups

  /// What Reshape(Expand(x)) repeats along the heads, with the number of times.
  NodeEntry Repeated(const View& view, SymInt* size) const {
    const NodeEntry joined = view.source;
    NodeEntry repeated, one;
    if (!m::Match(joined, m::Op("Reshape", m::Any(&repeated), m::Any())) ||
        !m::Match(repeated, m::Op("Expand", m::Any(&one), m::Any())))
      return {};
    const Shape &after = edit_.shape(joined), &between = edit_.shape(repeated),
                &before = edit_.shape(one);
    if (after.rank() != 4 || between.rank() != 5 || before.rank() != 5) return {};
    for (int a = 0; a < 5; ++a)
      if (!between[a].known() || (a == 2 ? !before[a].is(1) : before[a] != between[a])) return {};
    if (after[0] != between[0] || after[1] != between[1] * between[2] || after[2] != between[3] ||
        after[3] != between[4] || view.axes[kHeads] != kHeads || view.axes[0] != 0)
      return {};
    *size = between[2];
    // [b, heads, 1, s, d] is most often a view of what has no such axis.
    NodeEntry plain;
    if (m::Match(one, m::Op("Reshape", m::Any(&plain), m::Any())) &&
        edit_.shape(plain).same(Shape({before[0], before[1], before[3], before[4]})))
      return plain;
    return one;
  }
  std::optional<Group> FindGroup(const View& q, const View& k, const View& v, int rank) const {
    if (rank != 4) return std::nullopt;
    Group g;
    SymInt again;
    g.keys = Repeated(k, &g.size);
    g.values = Repeated(v, &again);
    if (!g.keys || !g.values || g.size != again || edit_.shape(g.keys).rank() != 4 ||
        edit_.shape(g.values).rank() != 4)
      return std::nullopt;
    g.heads = edit_.shape(g.keys)[kHeads];
    // Queries of one head read those of every group.
    const int heads = q.axes[kHeads];
    if (edit_.shape(g.values)[kHeads] != g.heads ||
        (heads == View::kNone ? SymInt(1) : edit_.shape(q.source)[heads]) != g.heads * g.size)
      return std::nullopt;
    return g;
  }
  /// The heads of the queries become heads and their group.
  void Divide(View* q, const Group& g) {
    const int heads = q->axes[kHeads];
    std::vector<SymInt> dims = edit_.shape(q->source).dims();
    if (heads == View::kNone) {
      q->axes.insert(q->axes.begin() + kHeads, View::kNone);
      return;
    }
    dims[size_t(heads)] = g.heads;
    dims.insert(dims.begin() + heads + 1, g.size);
    q->source = edit_.AddReshape(q->source, Shape(std::move(dims)));
    for (int& axis : q->axes)
      if (axis > heads) ++axis;
    q->axes.insert(q->axes.begin() + kHeads + 1, heads + 1);
  }
  static View Shared(const View& view, const NodeEntry& source) {
    View shared{source, view.axes};
    shared.axes.insert(shared.axes.begin() + kHeads + 1, View::kNone);
    return shared;
  }
  NodeEntry DividedMask(const NodeEntry& mask, int rank, const Group& g) {
    const Shape& s = edit_.shape(mask);
    const int at = s.rank() - (rank - kHeads);
    if (at < 0) return mask;
    std::vector<SymInt> dims = s.dims();
    if (!dims[size_t(at)].is(1)) dims[size_t(at)] = g.heads;
    dims.insert(dims.begin() + at + 1, s[at].is(1) ? SymInt(1) : g.size);
    return edit_.AddReshape(mask, Shape(std::move(dims)));
  }

  /// Moves keys or values up over an Expand of batch axes, which the call broadcasts by itself; the
  /// queries have as many of them, or the result would have fewer.
  void SkipRepeats(View* view, const Shape& square) const {
    NodeEntry one;
    if (!m::Match(view->source, m::Op("Expand", m::Any(&one), m::Any()))) return;
    const Shape &before = edit_.shape(one), &after = edit_.shape(view->source);
    if (!before.has_rank() || before.rank() != after.rank()) return;
    const int rank = int(view->axes.size());
    for (int k = 0; k < rank; ++k) {
      const int axis = view->axes[size_t(k)];
      if (axis == View::kNone || before[axis] == after[axis]) continue;
      if (k >= rank - 2 || !before[axis].is(1) || after[axis] != square[k]) return;
    }
    const NodePtr expand = view->source.node;
    view->source = one;
    LookThrough(view, expand, nullptr);
  }

  /// Where keys and values are what two caches hold: moves both to the caches, and gives the number
  /// of rows; null: they are not.
  NodeEntry HeldRows(View* k, View* v, int rank) const {
    NodeEntry rows;
    View whole[2] = {*k, *v};
    for (View& x : whole) {
      const NodePtr n = x.source.node;
      if (!IsOp(n, builtin::kPrefix)) return {};
      const NodeEntry here = n->inputs[1];
      const SymTensorPtr count = edit_.value(here), before = rows ? edit_.value(rows) : count;
      if (!count || !before || count->elements.at(0) != before->elements.at(0)) return {};
      rows = here;
      int64_t axis = n->attr<int64_t>("axis");
      if (axis < 0) axis += edit_.shape(x.source).rank();
      if (x.axes[size_t(rank - 2)] != int(axis)) return {};
      x.source = n->inputs[0];
    }
    *k = std::move(whole[0]);
    *v = std::move(whole[1]);
    return rows;
  }

  View Whole(const NodeEntry& e, int rank) const {
    View view{e, {}};
    const int missing = rank - edit_.shape(e).rank();
    for (int k = 0; k < rank; ++k) view.axes.push_back(k < missing ? View::kNone : k - missing);
    return view;
  }

  /// Moves the source up over factors, transpositions and views of equal elements.
  void LookThrough(View* view, NodePtr reader, double* scale) const {
    while (true) {
      if (scale) SkipFactors(&view->source, &reader, scale);
      const NodeEntry e = view->source;
      if (!IsOnlyReadBy(g_, e, reader)) return;
      std::vector<int64_t> map;
      if (IsOp(e.node, "Transpose"))
        map = TransposePerm(e.node, edit_.shape(e).rank());
      else if (const bool* is_view = views_.find(e.node->op()); is_view && *is_view)
        map = AxesThroughView(edit_.shape(e.node->inputs[0]), edit_.shape(e));
      if (map.empty()) return;
      for (int& axis : view->axes)
        if (axis != View::kNone) axis = int(map[size_t(axis)]);
      view->source = e.node->inputs[0];
      reader = e.node;
    }
  }

  /// The axis of `from` that each axis of its view `to` is, kNone for those of extent 1; empty
  /// where they differ in more.
  static std::vector<int64_t> AxesThroughView(const Shape& from, const Shape& to) {
    if (!from.has_rank() || !to.has_rank()) return {};
    std::vector<int64_t> map;
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
    return next == from.rank() ? map : std::vector<int64_t>();
  }

  /// The source, with as many axes as the view has; `perm` gives them their order, empty where
  /// it is the view's.
  NodeEntry Arranged(const View& view, Ints* perm) {
    const Shape& s = edit_.shape(view.source);
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
    return edit_.AddReshape(view.source, arranged);
  }

  Graph& g_;
  PassContext& ctx_;
  const OpMap<TIsView>& views_ = Op::GetAttr<TIsView>("TIsView");
  TypedEdit edit_;
};

Graph Attention(Graph g, PassContext& ctx) {
  if (ctx.target().has_call(kAttention)) Former(g, ctx).Run();
  return g;
}

WEFT_REGISTER_PASS(Attention)
    .describe("makes one library call of soft-max attention, which stores no scores")
    .set_body(Attention)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .fuses()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .statistic("calls", "calls made")
    .statistic("groups", "calls whose heads share keys and values in groups")
    .rewrite("attention", "a softmax and its products made one call");

}  // namespace
}  // namespace weft
