/// loop_to_scan.cc: LoopToScan. A Loop that runs a number of times that is known, with states that
/// keep their shapes, is a Scan.
///   needs      shape, dtype, value
///   provides   -
///   preserves  -
///   never      guesses a count: M with a condition that cannot fail, a size of some tensor or a
///              number, or a counter that a condition compares with a constant
///   cost       linear in nodes and bodies
///
///   Loop(5, _, h, x) {i, _, h, x -> true, h + Gather(x, i)}  ->  Scan(h, x) {h, v -> h + v}
///
/// Of a Scan more is known: how long its results are, and which of its operands are slices, so that
/// other passes take products of them out of it. A counter is the number of the iteration, or a
/// state that grows by one; where it is read otherwise than to select, the counter itself, or the
/// numbers of all iterations, stay.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>

#include "loop_parts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

/// Beyond, whoever wrote the count meant no bound.
constexpr int64_t kMostTrips = 1 << 20;

NodeEntry BehindIdentity(NodeEntry e) {
  while (e.node && IsOp(e.node, builtin::kIdentity)) e = e.node->inputs[0];
  return e;
}

class Converter {
 public:
  /// `body` with what is known of its operands.
  Converter(Graph& g, const NodePtr& loop, Graph body)
      : g_(g),
        loop_(loop),
        body_(std::move(body)),
        shapes_(body_.GetAttr<ShapeMap>("shape")),
        types_(body_.GetAttr<TypeMap>("dtype")),
        values_(body_.AttrOr<ValueMap>("value")),
        facts_(g.AttrOr<Facts>("facts")),
        captures_(LoopParts(loop).captures),
        states_(LoopParts(loop).states) {}

  bool Can() {
    if (HasEffect(loop_) || !KeepsStates()) return false;
    trips_ = Trips();
    return trips_.known() && !trips_.is(0);
  }
  void Apply() {
    const std::vector<NodePtr> inputs = body_.inputs();
    body_.ReplaceUses(NodeEntry(inputs[1]), body_.AddConstant(Tensor::Scalar(DType::kBool, 1)));
    for (const NodePtr& n : body_.TopoOrder()) Slice(n);
    std::vector<NodeEntry> outputs;
    std::vector<std::string> names;
    for (size_t i = 1; i < body_.outputs.size(); ++i) {
      outputs.push_back(body_.outputs[i]);
      names.push_back(body_.OutputName(i));
    }
    body_.outputs = outputs;
    for (size_t i = 0; i < names.size(); ++i) body_.SetOutputName(i, names[i]);
    body_.EraseDead();
    // A Scan needs a slice to know how long it is.
    const bool number_read = !inputs[0]->uses().empty() || body_.is_output(inputs[0]);
    if (number_read || slices_.empty()) slices_.push_back({Numbers(), inputs[0]});
    std::vector<NodePtr> ordered(inputs.begin() + 2, inputs.begin() + 2 + long(states_));
    std::vector<NodeEntry> operands(loop_->inputs.begin() + 2,
                                    loop_->inputs.begin() + 2 + long(states_));
    for (const Sliced& s : slices_) {
      ordered.push_back(s.inside);
      operands.push_back(s.outside);
    }
    ordered.insert(ordered.end(), inputs.begin() + 2 + long(states_), inputs.end());
    operands.insert(operands.end(), loop_->inputs.begin() + 2 + long(states_), loop_->inputs.end());
    body_.SetInputs(ordered);
    body_.EraseDead();
    const AttrDict attrs{{"body", std::make_shared<const Graph>(std::move(body_))},
                         {"num_scan_inputs", int64_t(slices_.size())},
                         {"num_captures", int64_t(captures_)}};
    const NodePtr made = g_.AddNode("Scan", operands, attrs, loop_->attrs.name);
    ReplaceLoop(g_, loop_, made);
  }
  int64_t num_selected() const { return int64_t(selected_.size()); }

 private:
  struct Sliced {
    NodeEntry outside;
    NodePtr inside;
  };

  bool KeepsStates() const {
    const auto& shapes = g_.GetAttr<ShapeMap>("shape");
    const auto& types = g_.GetAttr<TypeMap>("dtype");
    for (size_t k = 0; k < states_; ++k) {
      const NodeEntry before = loop_->inputs[2 + k], after(loop_, uint32_t(k));
      if (!before.node || !types[before].is_tensor() || !types[before].known() ||
          !shapes[before].fully_known() || !shapes[before].same(shapes[after]))
        return false;
    }
    return true;
  }
  /// Those of all iterations.
  NodeEntry Numbers() {
    if (!trips_.is_const()) {
      const NodeEntry m(
          g_.AddNode("Reshape", {loop_->inputs[0], g_.AddConstant(Tensor::Ints({}))}));
      const auto number = [&](double v) { return g_.AddConstant(Tensor::Scalar(DType::kI64, v)); };
      return NodeEntry(g_.AddNode("Range", {number(0), m, number(1)}));
    }
    std::vector<int64_t> all(static_cast<size_t>(trips_.value()));
    std::iota(all.begin(), all.end(), 0);
    return g_.AddConstant(Tensor::Ints(all));
  }
  /// Where the last slice ends that iterations read from `first` on: i64[1].
  NodeEntry End(int64_t first) {
    if (trips_.is_const()) return g_.AddConstant(Tensor::Ints({first + trips_.value()}));
    const NodeEntry m(g_.AddNode("Reshape", {loop_->inputs[0], g_.AddConstant(Tensor::Ints({1}))}));
    return first == 0 ? m
                      : NodeEntry(g_.AddNode("Add", {m, g_.AddConstant(Tensor::Ints({first}))}));
  }
  /// Of one element, and known.
  static std::optional<int64_t> IntOf(const ValueMap& values, const NodeEntry& e) {
    if (!e.node) return std::nullopt;
    if (const TensorPtr c = Graph::ConstantOf(e))
      return c->is_tensor() && c->num_elements() == 1 && IsInteger(c->dtype())
                 ? std::optional(c->at_int(0))
                 : std::nullopt;
    const SymTensorPtr* v = values.find(e);
    if (!v || !*v || (*v)->elements.size() != 1 || !(*v)->is_const()) return std::nullopt;
    return (*v)->ints()[0];
  }
  static bool IsInteger(DType t) {
    return t == DType::kI64 || t == DType::kI32 || t == DType::kBool;
  }
  std::optional<int64_t> Outside(const NodeEntry& e) const {
    return IntOf(g_.AttrOr<ValueMap>("value"), e);
  }
  std::optional<int64_t> Inside(const NodeEntry& e) const {
    const std::optional<size_t> i = InputOf(e);
    if (i && *i >= 2 + states_) return Outside(loop_->inputs[*i]);
    return i ? std::nullopt : IntOf(values_, e);
  }
  std::optional<size_t> InputOf(const NodeEntry& e) const {
    const auto& inputs = body_.inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), e.node);
    return at == inputs.end() ? std::nullopt : std::optional(size_t(at - inputs.begin()));
  }
  /// x and c of x + c, one of which is not known; else nothing.
  std::optional<std::pair<NodeEntry, int64_t>> Sum(const NodeEntry& e) const {
    if (IsOp(e.node, "Add"))
      for (size_t i : {0, 1})
        if (const auto c = Inside(e.node->inputs[1 - i])) return {{e.node->inputs[i], *c}};
    if (IsOp(e.node, "Sub"))
      if (const auto c = Inside(e.node->inputs[1])) return {{e.node->inputs[0], -*c}};
    return std::nullopt;
  }
  /// What is added to the number of the iteration to get `e`; nothing: it is no counter.
  std::optional<int64_t> Counter(const NodeEntry& given) const {
    const DType type = types_[given].dtype;
    if (type != DType::kI64 && type != DType::kI32) return std::nullopt;  // a small one wraps
    NodeEntry e = BehindIdentity(given);
    int64_t more = 0;
    if (const auto sum = Sum(e)) {
      e = BehindIdentity(sum->first);
      more = sum->second;
    }
    const std::optional<size_t> i = InputOf(e);
    std::optional<int64_t> first;
    if (i == size_t{0}) first = 0;
    if (i && *i >= 2 && *i < 2 + states_) {
      const auto next = Sum(BehindIdentity(body_.outputs[*i - 1]));
      if (next && next->second == 1 && BehindIdentity(next->first) == e)
        first = Outside(loop_->inputs[*i]);
    }
    constexpr int64_t kFar = int64_t{1} << 30;  // an i32 does not wrap on the way
    if (!first || std::abs(*first) > kFar || std::abs(more) > kFar) return std::nullopt;
    return *first + more;
  }
  /// How often it may run: what is not known where there is no M.
  SymInt Most() const {
    const NodeEntry m = loop_->inputs[0];
    if (const auto number = Outside(m)) return std::max<int64_t>(*number, 0);
    const ValueMap values = g_.AttrOr<ValueMap>("value");
    const SymTensorPtr* v = values.find(m);
    return v && *v && (*v)->elements.size() == 1 ? (*v)->elements[0] : SymInt();
  }
  /// Something that the loop reads is as long: slices, and the numbers of all iterations, take no
  /// more memory than that.
  bool IsExtent(SymInt trips) const {
    const auto& shapes = g_.GetAttr<ShapeMap>("shape");
    for (size_t i = 2; i < loop_->num_inputs(); ++i) {
      const Shape* s = loop_->inputs[i].node ? shapes.find(loop_->inputs[i]) : nullptr;
      for (int d = 0; s && s->has_rank() && d < s->rank(); ++d)
        if ((*s)[d].known() && facts_.LessEqual(trips, (*s)[d]) == Proof::kYes) return true;
    }
    return false;
  }
  /// Not known, or of a form that no Scan has: none.
  SymInt Trips() const {
    const NodeEntry begins = loop_->inputs[1];
    if (begins.node && Outside(begins) != 1) return {};
    const bool counts = bool(loop_->inputs[0].node);
    SymInt most = counts ? Most() : SymInt();
    if (counts && !most.known()) return {};
    const NodeEntry goes_on = BehindIdentity(body_.outputs[0]);
    if (InputOf(goes_on) != size_t{1} && Inside(goes_on) != 1) {
      const auto compared = Compared(goes_on);
      if (!compared || (counts && !most.is_const())) return {};
      most = counts ? Min(most, *compared) : SymInt(*compared);
    }
    if (!most.known()) return {};
    const bool fits = most.is_const() ? most.value() <= kMostTrips
                                      : facts_.LessEqual(0, most) == Proof::kYes && IsExtent(most);
    return fits ? most : SymInt();
  }
  /// How often a loop runs that goes on while a counter is below a constant.
  std::optional<int64_t> Compared(const NodeEntry& goes_on) const {
    struct Way {
      const char* op;
      size_t counter;
      int64_t more;
    };
    for (const Way& w : {Way{"Less", 0, 0}, Way{"Greater", 1, 0}, Way{"LessOrEqual", 0, 1},
                         Way{"GreaterOrEqual", 1, 1}}) {
      if (!IsOp(goes_on.node, w.op)) continue;
      const auto first = Counter(goes_on.node->inputs[w.counter]);
      const auto end = Inside(goes_on.node->inputs[1 - w.counter]);
      // The first iteration is not asked, and iteration t is followed where first + t < end.
      if (first && end && std::abs(*end) <= 2 * kMostTrips)
        return std::max<int64_t>(*end + w.more - *first, 0) + 1;
    }
    return std::nullopt;
  }

  /// A Gather from a capture by a counter is a slice.
  void Slice(const NodePtr& n) {
    if (!IsOp(n, "Gather")) return;
    const NodeEntry x = BehindIdentity(n->inputs[0]);
    const std::optional<size_t> i = InputOf(x);
    const TensorPtr constant = Graph::ConstantOf(x);
    if ((!i || *i < 2 + states_) && !constant) return;
    const NodeEntry outer = constant ? NodeEntry() : loop_->inputs[*i];
    const Shape s = shapes_[x];
    const Shape* at = shapes_.find(n->inputs[1]);
    if ((!constant && !outer.node) || !at || !at->has_rank() || at->rank() != 0 || !s.has_rank() ||
        s.rank() == 0)
      return;
    int64_t axis = n->attr<int64_t>("axis");
    if (axis < 0) axis += s.rank();
    const SymInt extent = s[int(axis)];
    const auto first = Counter(n->inputs[1]);
    if (!first || *first < 0 || !extent.known() ||
        facts_.LessEqual(*first + trips_, extent) != Proof::kYes)
      return;
    const Selected key{x.key(), *first, axis};
    auto known = std::find_if(selected_.begin(), selected_.end(),
                              [&](const auto& have) { return have.first == key; });
    if (known == selected_.end()) {
      NodeEntry whole = constant ? g_.AddConstant(constant) : outer;
      if (*first > 0 || !facts_.ProvedEqual(trips_, extent))
        whole = NodeEntry(g_.AddNode("Slice", {whole, g_.AddConstant(Tensor::Ints({*first})),
                                               End(*first), g_.AddConstant(Tensor::Ints({axis}))}));
      if (axis > 0) {
        std::vector<int64_t> perm(size_t(s.rank()));
        std::iota(perm.begin(), perm.end(), 0);
        std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
        whole =
            NodeEntry(g_.AddNode("Transpose", {whole}, {{"perm", Ints(perm.begin(), perm.end())}}));
      }
      const NodePtr inside = body_.AddInput(n->attrs.name);
      slices_.push_back({whole, inside});
      known = selected_.insert(selected_.end(), {key, inside});
    }
    body_.ReplaceUses(NodeEntry(n), NodeEntry(known->second));
  }

  Graph& g_;
  const NodePtr loop_;
  Graph body_;
  const ShapeMap shapes_;  // of the body as it was given
  const TypeMap types_;
  const ValueMap values_;
  const Facts facts_;
  const size_t captures_, states_;
  SymInt trips_;  ///< a number, or what M is, which is none of less than 0
  std::vector<Sliced> slices_;
  using Selected = std::tuple<EntryKey, int64_t, int64_t>;  ///< tensor, first, axis
  std::vector<std::pair<Selected, NodePtr>> selected_;
};

Graph LoopToScan(Graph g, PassContext& ctx) {
  std::vector<NodePtr> loops;
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, "Loop")) loops.push_back(n);
  if (loops.empty()) return g;
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  const ValueMap values = g.GetAttr<ValueMap>("value");
  const Facts facts = g.AttrOr<Facts>("facts");
  bool any = false;
  for (const NodePtr& n : loops) {
    Converter converter(g, n, TypedBody(n, "body", shapes, types, &values, &facts));
    if (!converter.Can() || !ctx.Fuel("converted", n)) continue;
    converter.Apply();
    ctx.Count("converted");
    ctx.Count("slices", converter.num_selected());
    any = true;
  }
  if (any) g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(LoopToScan)
    .describe("makes a Scan of a Loop whose number of iterations is known in front")
    .set_body(LoopToScan)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .statistic("converted", "loops")
    .statistic("slices", "selections by a counter that became slices");

}  // namespace
}  // namespace weft
