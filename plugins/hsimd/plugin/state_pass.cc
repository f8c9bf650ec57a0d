/// state_pass.cc: HsimdState. What a graph does with state variables as values: readers take the
/// value that the content has then, and each variable that is written is written once, last.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      changes what the graph computes or writes
///   cost       linear in nodes and edges
///   source     functionalization, as tf2xla does it
///
///   r = weft::Read(v); y = F(r); w = weft::Assign(v, y) after(r); z = G(w)
///     ->  y = F(v); z = G(y); w = weft::Assign(v, y)
///
/// A fused node that writes gives the value, and a weft::Assign of its own writes it. The words of
/// a variable lie off chip; HsimdSchedule writes over them behind the last reader of the old ones.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "l3.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

class StateAsValues {
 public:
  StateAsValues(Graph g, PassContext& ctx) : g_(std::move(g)), ctx_(ctx) {}

  Graph Run() {
    for (const NodePtr& n : ProgramOrder(g_)) {
      if (n->is_variable()) continue;
      const std::vector<std::pair<int, int>> written = WrittenInputs(n);
      if (IsOp(n, builtin::kRead)) {
        g_.ReplaceUses(NodeEntry(n), ContentOf(n->inputs[0]));
        gone_.push_back(n);
      } else if (IsOp(n, builtin::kAssign)) {
        Write(n->inputs[0], n->inputs[1]);
        g_.ReplaceUses(NodeEntry(n), n->inputs[1]);
        gone_.push_back(n);
      } else if (IsOp(n, builtin::kGroup)) {
        const auto nothing = std::make_shared<Tensor>(DType::kBool, std::vector<int64_t>{0});
        g_.ReplaceUses(NodeEntry(n), g_.AddConstant(nothing));
        gone_.push_back(n);
      } else if (!written.empty()) {
        Unfuse(n, written);
      }
    }
    // Outputs that name a variable give its content after the run.
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const NodeEntry now = ContentOf(g_.outputs[i]);
      if (now == g_.outputs[i]) continue;
      const std::string name = g_.OutputName(i);
      g_.outputs.set(i, now);
      g_.SetOutputName(i, name);
    }
    for (const NodePtr& n : gone_) DropControlEdges(n);
    for (auto n = gone_.rbegin(); n != gone_.rend(); ++n) g_.Erase(*n);
    for (const NodeEntry& v : variables_) {
      NodeEntry& now = content_.at(v.key().packed());
      // From one place off chip to another the way is through the PEs.
      if (now != v && LiesOffChip(now.node)) now = NodeEntry(g_.AddNode("Identity", {now}));
    }
    for (const NodeEntry& v : variables_) {
      const NodeEntry now = content_.at(v.key().packed());
      if (now == v) continue;  // its own old content
      std::vector<NodePtr> readers;
      for (const Use& use : v.node->uses())
        if (!use.control && use.user != now.node.get()) readers.emplace_back(use.user);
      const NodePtr write = g_.AddNode(builtin::kAssign, {v, now});
      for (const NodePtr& reader : readers) write->control_deps.push_back(reader);
      ctx_.Count("written");
    }
    g_.EraseDead();
    return std::move(g_);
  }

 private:
  NodeEntry ContentOf(const NodeEntry& v) const {
    const auto it = content_.find(v.key().packed());
    return it == content_.end() ? v : it->second;
  }
  void Write(const NodeEntry& v, const NodeEntry& value) {
    if (content_.insert_or_assign(v.key().packed(), value).second) variables_.push_back(v);
  }

  /// The same fused node with the values that it wrote as results, and without the variables that
  /// it took for that alone.
  void Unfuse(const NodePtr& n, const std::vector<std::pair<int, int>>& written) {
    WEFT_CHECK(IsOp(n, builtin::kFused), kUnsupported,
               "{}: state of an operator other than weft::Assign", n->Describe());
    Graph body = *FusedBody(n);
    std::vector<NodePtr> assigns;
    for (const auto& [input, output] : written) {
      const NodePtr assign = body.outputs[size_t(output)].node;
      assigns.push_back(assign);
      body.outputs.set(size_t(output), assign->inputs[1]);
      body.ReplaceUses(NodeEntry(assign), assign->inputs[1]);
    }
    for (const NodePtr& a : assigns) {
      for (const Use& use : std::vector<Use>(a->uses().begin(), a->uses().end()))
        if (use.control) NodePtr(use.user)->control_deps.remove(a);
      a->control_deps.clear();
      body.Erase(a);
    }
    std::vector<NodePtr> taken;
    std::vector<NodeEntry> inputs;
    const std::vector<NodePtr> all = body.inputs();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i]->uses().empty() && !body.is_output(all[i])) continue;
      taken.push_back(all[i]);
      inputs.push_back(n->inputs[i]);
    }
    body.SetInputs(taken);
    body.EraseDead();
    // A value that was a result beside being written is one.
    std::vector<uint32_t> same;
    for (const NodeEntry& y : body.outputs)
      same.push_back(
          uint32_t(std::find(body.outputs.begin(), body.outputs.end(), y) - body.outputs.begin()));
    const NodePtr twin =
        g_.AddNode(builtin::kFused, inputs,
                   {{"body", AttrValue(std::make_shared<const Graph>(std::move(body)))}});
    g_.SetOrigin(twin, n->origin());
    for (const auto& [input, output] : written)
      Write(n->inputs[size_t(input)], NodeEntry(twin, same[size_t(output)]));
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      g_.ReplaceUses(NodeEntry(n, i), NodeEntry(twin, same[i]));
    gone_.push_back(n);
  }

  static void DropControlEdges(const NodePtr& n) {
    for (const Use& use : std::vector<Use>(n->uses().begin(), n->uses().end()))
      if (use.control) NodePtr(use.user)->control_deps.remove(n);
    n->control_deps.clear();
  }

  Graph g_;
  PassContext& ctx_;
  std::vector<NodePtr> gone_;
  std::vector<NodeEntry> variables_;  ///< that are written, in the order of the program
  std::unordered_map<uint64_t, NodeEntry> content_;
};

WEFT_REGISTER_PASS(HsimdState)
    .describe("makes values of what is read and written of state variables")
    .set_body([](Graph g, PassContext& ctx) { return StateAsValues(std::move(g), ctx).Run(); })
    .set_change_graph(true)
    .statistic("written", "variables that get new content");

}  // namespace
}  // namespace hsimd
