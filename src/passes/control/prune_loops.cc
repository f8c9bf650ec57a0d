/// prune_loops.cc: PruneLoops. States and results of Loop and Scan that nothing reads go, with what
/// their bodies compute for them, and so do slices that no body reads.
///   needs      shape
///   provides   -
///   preserves  -
///   never      drops what tells a body a size, or the last slice, which says how often
///   cost       linear in nodes of the bodies, times the states that read each other in a chain
///
///   s, d, y = Scan(s0, d0, x) {s, d, x -> s + x, d * s, s}, y read
///     ->  s, y = Scan(s0, x) {s, x -> s + x, s}
///
/// An LSTM gives its last states, whether they are asked for or not, and the gradient of a loop
/// sums what each of its captures would get.
#include <algorithm>
#include <memory>

#include "loop_parts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

class Pruner {
 public:
  Pruner(Graph& g, const NodePtr& n) : g_(g), n_(n), body_(*n->attr<GraphPtr>("body")) {
    const LoopParts parts(n);
    first_state_ = parts.first_state;
    first_output_ = parts.first_output;
    slices_ = parts.slices;
    states_ = parts.states;
    stays_.assign(n->num_inputs(), true);
    tells_.assign(n->num_inputs(), false);
    given_.assign(n->num_outputs(), false);
  }
  /// Is there anything that goes?
  bool Find() {
    for (uint32_t k = 0; k < n_->num_outputs(); ++k) given_[k] = IsRead(NodeEntry(n_, k));
    if (std::none_of(given_.begin(), given_.end(), [](bool b) { return b; })) return false;
    Settle();
    for (bool more = true; more;) {
      more = false;
      const std::vector<SymInt> told = Told();
      for (size_t i = 0; i < stays_.size(); ++i) {
        if (stays_[i] || TellsNothingElse(i, told)) continue;
        stays_[i] = tells_[i] = more = true;
        if (IsState(i)) given_[i - first_state_] = true;
      }
      if (more) Settle();
    }
    const auto goes = [](bool b) { return !b; };
    return std::any_of(stays_.begin(), stays_.end(), goes) ||
           std::any_of(given_.begin(), given_.end(), goes);
  }
  void Apply() {
    std::vector<NodePtr> inputs;
    std::vector<NodeEntry> operands, outputs;
    std::vector<std::string> names;
    for (size_t i = 0; i < stays_.size(); ++i)
      if (stays_[i]) {
        inputs.push_back(body_.inputs()[i]);
        operands.push_back(n_->inputs[i]);
      }
    for (size_t i = 0; i < body_.outputs.size(); ++i)
      if (i < first_output_ || given_[i - first_output_]) {
        outputs.push_back(body_.outputs[i]);
        names.push_back(body_.OutputName(i));
      }
    AttrDict attrs = n_->attrs.dict;
    if (slices_ > 0) {
      const auto slice = stays_.begin() + long(first_state_ + states_);
      const std::vector<bool> slices(slice, slice + long(slices_)),
          results(given_.begin() + long(states_), given_.end());
      attrs["num_scan_inputs"] = int64_t(std::count(slices.begin(), slices.end(), true));
      for (const char* name : {"scan_input_axes", "scan_input_directions"})
        if (n_->has_attr(name)) attrs[name] = Kept(n_->attr<Ints>(name), slices);
      for (const char* name : {"scan_output_axes", "scan_output_directions"})
        if (n_->has_attr(name)) attrs[name] = Kept(n_->attr<Ints>(name), results);
    }
    body_.outputs = outputs;
    for (size_t i = 0; i < names.size(); ++i) body_.SetOutputName(i, names[i]);
    body_.SetInputs(inputs);
    body_.EraseDead();
    attrs["body"] = std::make_shared<const Graph>(std::move(body_));
    const NodePtr made = g_.AddNode(n_->op(), operands, std::move(attrs), n_->attrs.name);
    std::vector<NodeEntry> to(n_->num_outputs());
    for (uint32_t k = 0, at = 0; k < n_->num_outputs(); ++k)
      if (given_[k]) to[k] = NodeEntry(made, at++);
    ReplaceLoop(g_, n_, to);
  }
  int64_t dropped() const {
    return std::count(stays_.begin(), stays_.end(), false) +
           std::count(given_.begin(), given_.end(), false);
  }

 private:
  bool IsState(size_t operand) const {
    return operand >= first_state_ && operand < first_state_ + states_;
  }
  bool IsSlice(size_t operand) const {
    return operand >= first_state_ + states_ && operand < first_state_ + states_ + slices_;
  }
  bool IsRead(const NodeEntry& e) const {
    for (const Use& u : n_->uses())
      if (!u.control && u.user->inputs[u.slot] == e) return true;
    return std::any_of(g_.outputs.begin(), g_.outputs.end(),
                       [&](const NodeEntry& out) { return out == e; });
  }
  /// A state that something given reads is given, too; then which operands stay.
  void Settle() {
    std::vector<bool> reached;
    for (bool more = true; more;) {
      more = false;
      reached = Reached();
      for (size_t k = 0; k < states_; ++k)
        if (reached[first_state_ + k] && !given_[k]) given_[k] = more = true;
    }
    for (size_t i = 0; i < stays_.size(); ++i) {
      if (IsState(i)) stays_[i] = given_[i - first_state_];
      if (IsSlice(i)) stays_[i] = tells_[i] || reached[i];
    }
    const auto slice = stays_.begin() + long(first_state_ + states_);
    if (slices_ > 0 && std::count(slice, slice + long(slices_), true) == 0) *slice = true;
  }
  /// The inputs of the body that what is given of it depends on.
  std::vector<bool> Reached() const {
    std::vector<char> seen(body_.id_bound(), 0);
    std::vector<const Node*> work;
    const auto visit = [&](const Node* n) {
      if (n && !seen[n->id()]) seen[n->id()] = 1, work.push_back(n);
    };
    for (size_t i = 0; i < body_.outputs.size(); ++i)
      if (i < first_output_ || given_[i - first_output_]) visit(body_.outputs[i].node.get());
    for (const NodePtr& n : body_.TopoOrder())
      if (HasEffect(n)) visit(n.get());
    while (!work.empty()) {
      const Node* n = work.back();
      work.pop_back();
      for (const NodeEntry& e : n->inputs) visit(e.node.get());
      for (const Node* d : n->control_deps) visit(d);
    }
    std::vector<bool> reached;
    for (const NodePtr& input : body_.inputs()) reached.push_back(seen[input->id()] != 0);
    return reached;
  }
  /// Sizes that a body sees of an operand: those of the others are as good.
  std::vector<SymInt> SizesOf(size_t operand) const {
    std::vector<SymInt> sizes;
    const NodeEntry& e = n_->inputs[operand];
    const Shape* s = e.node ? g_.GetAttr<ShapeMap>("shape").find(e) : nullptr;
    if (!s || !s->has_rank()) return {SymInt()};
    const int cut = IsSlice(operand) ? CutAxis(operand, s->rank()) : -1;
    for (int k = 0; k < s->rank(); ++k)
      if (const SymInt d = (*s)[k]; k != cut && (!d.known() || !d.is_const())) sizes.push_back(d);
    return sizes;
  }
  /// The axis that a slice has no more.
  int CutAxis(size_t operand, int rank) const {
    return LoopParts(n_).slice_axis(operand - first_state_ - states_, rank);
  }
  std::vector<SymInt> Told() const {
    std::vector<SymInt> told;
    for (size_t i = 0; i < stays_.size(); ++i)
      if (stays_[i] && n_->inputs[i].node)
        for (SymInt d : SizesOf(i)) told.push_back(d);
    return told;
  }
  bool TellsNothingElse(size_t operand, const std::vector<SymInt>& told) const {
    const std::vector<SymInt> sizes = SizesOf(operand);
    return std::all_of(sizes.begin(), sizes.end(), [&](SymInt d) {
      return d.known() && std::find(told.begin(), told.end(), d) != told.end();
    });
  }
  static Ints Kept(const Ints& all, const std::vector<bool>& which) {
    Ints kept;
    for (size_t i = 0; i < which.size(); ++i)
      if (which[i]) kept.push_back(i < all.size() ? all[i] : 0);
    return kept;
  }

  Graph& g_;
  const NodePtr n_;
  Graph body_;
  size_t first_state_, first_output_, states_, slices_;
  std::vector<bool> stays_;  ///< by operand
  std::vector<bool> tells_;  ///< by operand: stays for a size that no other one has
  std::vector<bool> given_;  ///< by output of the node
};

Graph PruneLoops(Graph g, PassContext& ctx) {
  // Of what is left, more may be unread: it was read by what has gone.
  for (bool more = true; more;) {
    more = false;
    g.EraseDead();
    const std::vector<NodePtr> order = g.TopoOrder();
    for (auto n = order.rbegin(); n != order.rend(); ++n) {
      if (!IsOp(*n, "Loop") && !IsOp(*n, "Scan")) continue;
      Pruner pruner(g, *n);
      if (!pruner.Find() || !ctx.Fuel("prune", *n)) continue;
      ctx.Count("dropped", pruner.dropped());
      pruner.Apply();
      more = true;
    }
  }
  return g;
}

WEFT_REGISTER_PASS(PruneLoops)
    .describe("drops states, results and slices of Loop and Scan that nothing reads")
    .set_body(PruneLoops)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .keeps_onnx()
    .rewrite("prune", "a loop that loses some")
    .statistic("dropped", "states, results and slices");

}  // namespace
}  // namespace weft
