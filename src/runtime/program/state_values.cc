/// state_values.cc: see state_values.h.
#include "state_values.h"

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// What entries are at the place of the program where they are read.
class Values {
 public:
  NodeEntry At(const NodeEntry& e) const {
    if (!e.node) return e;
    if (IsState(e.node)) {
      const auto held = holds_.find(e.node->id());
      return held == holds_.end() ? e : held->second;
    }
    const auto stands = stands_for_.find(e.key());
    return stands == stands_for_.end() ? e : stands->second;
  }
  void Write(const NodePtr& variable, const NodeEntry& value) { holds_[variable->id()] = value; }
  void StandsFor(const NodeEntry& e, const NodeEntry& value) { stands_for_[e.key()] = value; }
  const std::map<NodeId, NodeEntry>& written() const { return holds_; }

 private:
  std::map<NodeId, NodeEntry> holds_;                   ///< by variable, once it is written
  std::unordered_map<EntryKey, NodeEntry> stands_for_;  ///< reads, and results of writes
};

}  // namespace

StateValues::StateValues(Graph* graph) : before_(*graph) {
  Graph& g = *graph;
  g.EraseDead();
  Values values;
  std::vector<std::tuple<NodePtr, size_t, NodeEntry>> edits;
  std::vector<NodePtr> gone;
  for (const NodePtr& n : ProgramOrder(g)) {
    const bool writes = IsOp(n, builtin::kAssign), reads = IsOp(n, builtin::kRead);
    WEFT_CHECK(
        writes || WrittenInputs(n).empty(), kUnsupported,
        "{}: writes a variable in a program whose sizes depend on data; give the new content "
        "as a result and weft::Assign it",
        n->Describe());
    if (writes || reads) {
      const NodeEntry value = values.At(n->inputs[writes ? 1 : 0]);
      if (writes) values.Write(n->inputs[0].node, value);
      values.StandsFor(NodeEntry(n), value);
      gone.push_back(n);
      continue;
    }
    for (size_t i = 0; i < n->num_inputs(); ++i)
      if (const NodeEntry e = values.At(n->inputs[i]); !(e == n->inputs[i]))
        edits.emplace_back(n, i, e);
  }
  for (const auto& [n, slot, e] : edits) g.SetInput(n, slot, e);
  for (size_t i = 0; i < g.outputs.size(); ++i)
    if (const NodeEntry e = values.At(g.outputs[i]); !(e == g.outputs[i])) g.outputs.set(i, e);
  for (const NodePtr& n : gone) {
    const auto uses = n->uses();
    for (const Use& u : uses)
      if (u.control) u.user->control_deps.remove(n);
    n->control_deps.clear();
  }
  for (auto n = gone.rbegin(); n != gone.rend(); ++n) g.Erase(*n);
  for (const auto& [id, value] : values.written()) {
    written_.push_back(before_.node(id));
    g.outputs.push_back(value);
  }
}

void StateValues::Restore(Graph* graph) const {
  Graph& g = *graph;
  std::map<std::string, NodePtr> there;
  for (const NodePtr& v : StateVariables(g)) there[v->attrs.name] = v;
  const size_t own = g.outputs.size() - written_.size();
  std::vector<NodeEntry> values;
  for (size_t k = 0; k < written_.size(); ++k) values.push_back(g.outputs[own + k]);
  g.outputs.resize(own);
  for (size_t k = 0; k < written_.size(); ++k) {
    NodePtr& v = there[written_[k]->attrs.name];
    if (!v) {  // nothing reads it
      const AttrValue* first = written_[k]->attrs.dict.find("value");
      v = AddState(g, written_[k]->attrs.name, DeclaredType(written_[k]),
                   DeclaredShape(written_[k]).value_or(Shape()),
                   first ? first->get<TensorPtr>() : nullptr);
    }
    Assign(NodeEntry(v), values[k]);
  }
}

}  // namespace weft
