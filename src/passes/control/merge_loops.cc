/// merge_loops.cc: MergeLoops. Two Loops or Scans that go the same way, of which one computes what
/// the other does and perhaps more, are one that gives what both give.
///   needs      -
///   provides   -
///   preserves  -
///   never      merges loops of which one waits for the other, which may not run equally often, or
///              of which each has a state that the other lacks: a loop of both is no less work
///   cost       linear in nodes; for each loop, in nodes of its body times the rounds in which its
///              states are told apart, and that for each pair of loops over the same first operand
///   source     optimistic value numbering (Alpern, Wegman, Zadeck 1988), over two bodies at once
///
///   s, y = Scan(s0, x) {s, x -> f(s, x), s}      t, S = Scan(s0, x) {t, x -> f(t, x), t}
///     -> s, y = Scan(s0, x) {s, x -> f(s, x), s}, and s, y for t, S
///
/// The gradient of a loop reads what the states have been, from a loop that runs for that; the
/// program has run it before.
///
/// States are equal as long as nothing tells them apart: they begin with equal values, and what the
/// bodies make of equal states is equal. That is found by supposing that all states of equal first
/// values are equal, and parting those of unequal next ones until none are left.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "loop_parts.h"
#include "value_numbers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

using Number = uint32_t;
constexpr Number kAbsent = ~Number{0};

/// A loop of the graph, and the numbers of its operands.
struct Candidate {
  explicit Candidate(const NodePtr& n) : parts(n), body(n->attr<GraphPtr>("body")) {}
  LoopParts parts;
  GraphPtr body;
  std::vector<Number> operands = {};
};

/// What the bodies of two loops compute, in numbers: equal ones of what is equal in every
/// iteration.
class Comparison {
 public:
  Comparison(const Candidate& a, const Candidate& b) {
    for (const Candidate* c : {&a, &b}) sides_.push_back({c, c->body->TopoOrder(), {}, {}});
    Part();
    do Count();
    while (Part());
  }
  Number number(size_t side, const NodeEntry& e) const {
    return e.node ? sides_[side].numbers.at(e.key()) : kAbsent;
  }
  /// Without the condition of a Loop.
  std::vector<Number> StatesOf(size_t side) const {
    const auto begin = sides_[side].classes.begin();
    return {begin, begin + long(sides_[side].loop->parts.states)};
  }
  Number state(size_t side, size_t k) const { return sides_[side].classes[k]; }
  const std::vector<NodePtr>& order(size_t side) const { return sides_[side].order; }
  /// Of Loops: the conditions are equal.
  bool EndTogether() const { return sides_[0].classes.back() == sides_[1].classes.back(); }
  /// Every state of `side` is one of the other.
  bool LacksNoStateOf(size_t side) const {
    const std::vector<Number> all = StatesOf(1 - side), own = StatesOf(side);
    return std::all_of(own.begin(), own.end(),
                       [&](Number c) { return std::count(all.begin(), all.end(), c) != 0; });
  }
  /// Something is computed twice.
  bool ShareWork() const {
    std::set<Number> first;
    const auto is_work = [](const NodePtr& n) { return !n->is_variable() && n->num_inputs() > 0; };
    for (const NodePtr& n : sides_[0].order)
      if (is_work(n)) first.insert(number(0, NodeEntry(n)));
    return std::any_of(sides_[1].order.begin(), sides_[1].order.end(), [&](const NodePtr& n) {
      return is_work(n) && first.count(number(1, NodeEntry(n))) != 0;
    });
  }

 private:
  enum Kind { kIteration, kState, kSlice, kCapture };
  using InputKey = std::tuple<Kind, Number, int64_t, int64_t>;
  struct Side {
    const Candidate* loop;
    std::vector<NodePtr> order;   // of the body
    std::vector<Number> classes;  // of the states; of a Loop, that of the condition behind them
    std::unordered_map<EntryKey, Number> numbers;
  };

  /// Tells states apart by their first values, then by their next ones; false: no more than before.
  bool Part() {
    std::map<std::pair<Number, Number>, Number> parted;
    for (Side& s : sides_) {
      const LoopParts& p = s.loop->parts;
      const size_t count = p.states + (p.is_scan ? 0 : 1);
      const bool is_first = s.classes.empty();
      s.classes.resize(count);
      for (size_t k = 0; k < count; ++k) {
        const bool is_state = k < p.states;
        const NodeEntry next = s.loop->body->outputs[is_state ? p.first_output + k : 0];
        const auto key =
            is_first ? std::pair(s.loop->operands[is_state ? p.first_state + k : 1], kAbsent)
                     : std::pair(s.classes[k], next.node ? s.numbers.at(next.key()) : kAbsent);
        s.classes[k] = parted.emplace(key, Number(parted.size())).first->second;
      }
    }
    const bool more = parted.size() > count_;
    count_ = parted.size();
    return more;
  }
  static InputKey KeyOf(const Side& s, size_t i) {
    const LoopParts& p = s.loop->parts;
    if (i < p.first_state)
      return {i == 0 ? kIteration : kState, i == 0 ? 0 : s.classes.back(), 0, 0};
    if (i < p.first_slice()) return {kState, s.classes[i - p.first_state], 0, 0};
    const Number operand = s.loop->operands[i];
    const size_t k = i - p.first_slice();
    if (i < p.first_capture()) return {kSlice, operand, p.slice_axis(k), p.slice_direction(k)};
    return {kCapture, operand, 0, 0};
  }
  void Count() {
    ValueNumbers values;
    std::map<InputKey, Number> inputs;
    for (Side& s : sides_) {
      s.numbers.clear();
      const std::vector<NodePtr>& variables = s.loop->body->inputs();
      for (size_t i = 0; i < variables.size(); ++i) {
        const auto [it, is_new] = inputs.emplace(KeyOf(s, i), 0);
        if (is_new) it->second = values.New();
        s.numbers[NodeEntry(variables[i]).key()] = it->second;
      }
      for (const NodePtr& n : s.order) {
        if (n->is_variable()) {
          const TensorPtr value = Graph::ConstantOf(NodeEntry(n));
          if (!s.numbers.count(NodeEntry(n).key()))
            s.numbers[NodeEntry(n).key()] = value ? values.Of(value) : values.New();
          continue;
        }
        std::vector<Number> operands;
        for (const NodeEntry& e : n->inputs)
          operands.push_back(e.node ? s.numbers.at(e.key()) : kAbsent);
        const Number first = values.Of(n, operands);
        for (uint32_t k = 0; k < n->num_outputs(); ++k)
          s.numbers[NodeEntry(n, k).key()] = first + k;
      }
    }
  }

  std::vector<Side> sides_;
  size_t count_ = 0;  // of classes
};

/// Both slice something alike: so they run equally often.
bool ShareSlices(const Candidate& a, const Candidate& b) {
  for (size_t k = 0; k < a.parts.slices; ++k)
    for (size_t j = 0; j < b.parts.slices; ++j)
      if (a.operands[a.parts.first_slice() + k] == b.operands[b.parts.first_slice() + j] &&
          a.parts.slice_axis(k) == b.parts.slice_axis(j))
        return true;
  return false;
}

/// One loop of two: `host` with what `guest` computes besides.
class Merger {
 public:
  /// `host` is that side of the comparison.
  Merger(Graph& g, const Comparison& c, size_t host, const Candidate& of_host,
         const Candidate& of_guest)
      : g_(g), c_(c), host_(host), h_(of_host), guest_(of_guest), body_(*of_host.body) {
    for (const NodePtr& n : c.order(host))
      for (uint32_t k = 0; k < n->num_outputs(); ++k)
        at_.emplace(c.number(host, NodeEntry(n, k)), body_.at(NodeEntry(n, k)));
    for (const NodePtr& n : h_.body->inputs())
      at_.emplace(c.number(host, NodeEntry(n)), body_.at(NodeEntry(n)));
  }

  void Run() {
    const LoopParts &p = h_.parts, &q = guest_.parts;
    for (size_t k = 0; k < p.results; ++k)
      results_.push_back({c_.number(host_, h_.body->outputs[p.first_result() + k]),
                          p.result_axis(k), p.result_direction(k)});
    std::vector<uint32_t> to;  // of the outputs of the guest, those of the merged loop
    for (size_t k = 0; k < q.states; ++k) {
      uint32_t j = 0;
      while (c_.state(host_, j) != c_.state(1 - host_, k)) ++j;
      to.push_back(j);
    }
    TakeNodes();
    std::vector<NodeEntry> outputs(body_.outputs.begin(), body_.outputs.end());
    for (size_t k = 0; k < q.results; ++k) {
      const Result r = {c_.number(1 - host_, guest_.body->outputs[q.first_result() + k]),
                        q.result_axis(k), q.result_direction(k)};
      const auto it = std::find(results_.begin(), results_.end(), r);
      to.push_back(uint32_t(p.states + size_t(it - results_.begin())));
      if (it != results_.end()) continue;
      results_.push_back(r);
      outputs.push_back(at_.at(std::get<0>(r)));
    }
    body_.outputs = outputs;
    const NodePtr made = MakeNode();
    std::vector<NodeEntry> of_host, of_guest;
    for (uint32_t k = 0; k < p.node->num_outputs(); ++k) of_host.emplace_back(made, k);
    for (uint32_t k : to) of_guest.emplace_back(made, k);
    g_.ReplaceNode(p.node, of_host);
    g_.ReplaceNode(q.node, of_guest);
  }

 private:
  using Result = std::tuple<Number, int64_t, int64_t>;  // value, axis, direction

  /// What results of the guest need and the host does not compute.
  void TakeNodes() {
    const LoopParts& q = guest_.parts;
    std::set<const Node*> needed;
    const auto need = [&](const NodeEntry& e) {
      if (e.node && !at_.count(c_.number(1 - host_, e))) needed.insert(e.node.get());
    };
    for (size_t k = 0; k < q.results; ++k) need(guest_.body->outputs[q.first_result() + k]);
    const std::vector<NodePtr>& order = c_.order(1 - host_);
    for (auto n = order.rbegin(); n != order.rend(); ++n)
      if (needed.count(n->get()))
        for (const NodeEntry& e : (*n)->inputs) need(e);
    const std::vector<NodePtr>& variables = guest_.body->inputs();
    for (size_t i = q.first_slice(); i < variables.size(); ++i)
      if (needed.count(variables[i].get())) TakeInput(i, variables[i]);
    for (const NodePtr& n : order) {
      if (!needed.count(n.get())) continue;
      if (const TensorPtr constant = Graph::ConstantOf(NodeEntry(n)); constant && n->is_variable())
        at_.emplace(c_.number(1 - host_, NodeEntry(n)), body_.AddConstant(constant));
      if (n->is_variable()) continue;
      std::vector<NodeEntry> in;
      for (const NodeEntry& e : n->inputs)
        in.push_back(e.node ? at_.at(c_.number(1 - host_, e)) : NodeEntry());
      const NodePtr made = body_.AddCopy(n, in);
      for (uint32_t k = 0; k < n->num_outputs(); ++k)
        at_.emplace(c_.number(1 - host_, NodeEntry(n, k)), NodeEntry(made, k));
    }
  }
  void TakeInput(size_t i, const NodePtr& variable) {
    const NodePtr input = body_.AddInput(variable->attrs.name);
    at_[c_.number(1 - host_, NodeEntry(variable))] = NodeEntry(input);
    const LoopParts& q = guest_.parts;
    if (i >= q.first_capture()) {
      captures_.push_back(q.node->inputs[i]);
      capture_inputs_.push_back(input);
      return;
    }
    slices_.push_back(q.node->inputs[i]);
    slice_inputs_.push_back(input);
    slice_axes_.push_back(q.slice_axis(i - q.first_slice()));
    slice_directions_.push_back(q.slice_direction(i - q.first_slice()));
  }
  NodePtr MakeNode() {
    const LoopParts& p = h_.parts;
    std::vector<NodePtr> inputs = h_.body->inputs();
    for (NodePtr& n : inputs) n = body_.at(n);
    std::vector<NodeEntry> operands(p.node->inputs.begin(), p.node->inputs.end());
    inputs.insert(inputs.begin() + long(p.first_capture()), slice_inputs_.begin(),
                  slice_inputs_.end());
    operands.insert(operands.begin() + long(p.first_capture()), slices_.begin(), slices_.end());
    inputs.insert(inputs.end(), capture_inputs_.begin(), capture_inputs_.end());
    operands.insert(operands.end(), captures_.begin(), captures_.end());
    body_.SetInputs(inputs);
    AttrDict attrs = p.node->attrs.dict;
    attrs["num_captures"] = int64_t(p.captures + captures_.size());
    if (p.is_scan) {
      Ints axes, directions, result_axes, result_directions;
      for (size_t k = 0; k < p.slices; ++k) {
        axes.push_back(p.slice_axis(k));
        directions.push_back(p.slice_direction(k));
      }
      axes.insert(axes.end(), slice_axes_.begin(), slice_axes_.end());
      directions.insert(directions.end(), slice_directions_.begin(), slice_directions_.end());
      for (const auto& [value, axis, direction] : results_) {
        result_axes.push_back(axis);
        result_directions.push_back(direction);
      }
      attrs["num_scan_inputs"] = int64_t(p.slices + slices_.size());
      SetScanList(&attrs, "scan_input_axes", axes);
      SetScanList(&attrs, "scan_input_directions", directions);
      SetScanList(&attrs, "scan_output_axes", result_axes);
      SetScanList(&attrs, "scan_output_directions", result_directions);
    }
    attrs["body"] = std::make_shared<const Graph>(std::move(body_));
    return g_.AddNode(p.node->op(), operands, std::move(attrs), p.node->attrs.name);
  }

  Graph& g_;
  const Comparison& c_;
  const size_t host_;
  const Candidate &h_, &guest_;
  Graph body_;
  std::unordered_map<Number, NodeEntry> at_;  // of the merged body
  std::vector<Result> results_;
  std::vector<NodeEntry> slices_, captures_;  // operands of the guest alone
  std::vector<NodePtr> slice_inputs_, capture_inputs_;
  Ints slice_axes_, slice_directions_;
};

/// Does an operand of `n` that is none of `other`'s depend on `other`?
bool WaitsFor(const Candidate& n, const Candidate& other) {
  const std::set<Number> shared(other.operands.begin(), other.operands.end());
  std::vector<NodeEntry> own;
  for (size_t i = 0; i < n.operands.size(); ++i)
    if (n.parts.node->inputs[i].node && !shared.count(n.operands[i]))
      own.push_back(n.parts.node->inputs[i]);
  bool waits = false;
  if (!own.empty())
    DFSVisit(own, [&](const NodePtr& m) { waits = waits || m == other.parts.node; });
  return waits;
}

/// Equal nodes mean the same in both of two such bodies, and can be copied from one to the other:
/// nothing has the name of a size, or a variable of its own.
bool IsComparable(const Graph& body) {
  const std::vector<NodePtr>& inputs = body.inputs();
  for (const NodePtr& n : body.TopoOrder()) {
    if (n->is_variable() && !Graph::ConstantOf(NodeEntry(n)) &&
        std::find(inputs.begin(), inputs.end(), n) == inputs.end())
      return false;
    if (IsOp(n, builtin::kShapeTensor) && !n->attr<Shape>("dims").is_static()) return false;
  }
  return true;
}

/// The loops of `g` that may be merged, by what they begin with.
std::map<std::vector<Number>, std::vector<Candidate>> CandidatesOf(const Graph& g) {
  std::map<std::vector<Number>, std::vector<Candidate>> found;
  const std::vector<NodePtr> order = g.TopoOrder();
  const auto is_loop = [](const NodePtr& n) { return IsOp(n, "Loop") || IsOp(n, "Scan"); };
  if (std::count_if(order.begin(), order.end(), is_loop) < 2) return found;
  ValueNumbers values;
  std::unordered_map<EntryKey, Number> numbers;
  for (const NodePtr& n : order) {
    std::vector<Number> operands;
    for (const NodeEntry& e : n->inputs) operands.push_back(e.node ? numbers.at(e.key()) : kAbsent);
    const bool mergeable = is_loop(n) && IsRepeatable(n) && n->control_deps.empty() &&
                           IsComparable(*n->attr<GraphPtr>("body"));
    const TensorPtr value = Graph::ConstantOf(NodeEntry(n));
    Number first = value                            ? values.Of(value)
                   : n->is_variable() || is_loop(n) ? values.New()
                                                    : values.Of(n, operands);
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      numbers[NodeEntry(n, k).key()] = !is_loop(n) ? first + k : k == 0 ? first : values.New();
    if (!mergeable) continue;
    Candidate c(n);
    c.operands = operands;
    // Equal Loops have one bound and one condition at the beginning.
    std::vector<Number> key{c.parts.is_scan ? 1u : 0u};
    if (!c.parts.is_scan) key.insert(key.end(), operands.begin(), operands.begin() + 2);
    if (c.parts.states > 0) key.push_back(operands[c.parts.first_state]);
    found[key].push_back(std::move(c));
  }
  return found;
}

/// Merges two of them; false: there are no two.
bool MergeTwo(Graph& g, const std::vector<Candidate>& loops, PassContext& ctx) {
  for (size_t j = 1; j < loops.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      const bool scans = loops[i].parts.is_scan;
      if (scans && !ShareSlices(loops[i], loops[j])) continue;
      const Comparison c(loops[i], loops[j]);
      if ((!scans && !c.EndTogether()) || !c.ShareWork()) continue;
      // The one that has all states takes in the other.
      const size_t host = c.LacksNoStateOf(1) ? 0 : 1;
      if (host == 1 && !c.LacksNoStateOf(0)) continue;
      if (WaitsFor(loops[i], loops[j]) || WaitsFor(loops[j], loops[i])) continue;
      if (!ctx.Fuel("merged", loops[j].parts.node)) return false;
      Merger(g, c, host, loops[host == 0 ? i : j], loops[host == 0 ? j : i]).Run();
      ctx.Count("merged");
      return true;
    }
  return false;
}

Graph MergeLoops(Graph g, PassContext& ctx) {
  // Of what is merged the operands of other loops may be made.
  for (bool more = true; more;) {
    more = false;
    for (const auto& [key, loops] : CandidatesOf(g)) more = MergeTwo(g, loops, ctx) || more;
    if (more) g.EraseDead();
  }
  return g;
}

WEFT_REGISTER_PASS(MergeLoops)
    .describe("makes one of Loops or Scans of which one computes what the other does")
    .set_body(MergeLoops)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .statistic("merged", "loops that went into another one");

}  // namespace
}  // namespace weft
