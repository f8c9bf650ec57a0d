/// plan_variables.cc: the contents of a variable over the steps of a program.
///
/// Every write begins a new content. What shows a content (a weft::Read, a view, the result of the
/// write) may lie in the variable's storage as long as it is not asked for after the next write; a
/// step that writes may ask for the old content where it reads every element only to write it. The
/// plan goes through the writes of each variable in order:
///
///   %y = Conv(..)         the result of step p is what Assign at step w would copy: where nothing
///   %w = Assign(%v, %y)   asks for the old content after p, %y is written into the variable at
///                         once and Assign does nothing
///   %r = Read(%v)         asked for after the next write: it copies
///   %f = Fused(.., %v)    writes the variable itself; or a block that is copied, where the kernel
///                         reads old elements that it may have written, or the result is asked for
///                         after the next write
#include "plan_variables.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "plan_inplace.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {
namespace {

constexpr int kNever = INT_MAX;

struct Write {
  int step;
  NodePtr node;
  int input, output;
};

class Contents {
 public:
  Contents(const Graph& g, const Order& order, const KernelMap* kernels,
           const std::function<bool(const NodeEntry&, const NodeEntry&)>& sizes_agree)
      : g_(g), order_(order), kernels_(kernels), sizes_agree_(sizes_agree) {}

  VariablePlan Run() {
    CollectWrites();
    if (writes_.empty()) return {};
    FollowViews();
    FindReaders();
    for (const auto& [id, writes] : writes_) PlanOne(g_.node(id), writes);
    return std::move(plan_);
  }

 private:
  void CollectWrites() {
    step_of_.assign(g_.id_bound(), -1);
    for (size_t step = 0; step < order_.nodes.size(); ++step) {
      const NodePtr n = g_.node(order_.nodes[step]);
      step_of_[n->id()] = int(step);
      for (auto [i, k] : WrittenInputs(n))
        if (k >= 0) writes_[n->inputs[size_t(i)].node->id()].push_back({int(step), n, i, k});
    }
  }
  bool IsWritten(NodePtr v) const { return v && v->is_variable() && writes_.count(v->id()); }

  /// What an entry shows: of a chain of views its beginning; that of a variable is its first view.
  NodeEntry Root(NodeEntry e) const {
    const NodeEntry* r = root_.find(e);
    return r ? *r : e;
  }
  void FollowViews() {
    for (NodeId id : order_.nodes) {
      const NodePtr n = g_.node(id);
      if (n->is_variable() || n->num_inputs() == 0 || !n->inputs[0].node) continue;
      const bool view = view_.get(n->op(), false);
      if (!view && !IsOp(n, builtin::kRead)) continue;
      if (IsWritten(n->inputs[0].node))
        shows_[n->inputs[0].node->id()].push_back(n);  // the content from when it runs
      else if (view)
        SetRoot(NodeEntry(n), Root(n->inputs[0]));
    }
  }
  void SetRoot(const NodeEntry& e, const NodeEntry& root) {
    root_.set(e, root);
    views_[root.key()].push_back(e);
  }
  void FindReaders() {
    for (size_t step = 0; step < order_.nodes.size(); ++step) {
      const NodePtr n = g_.node(order_.nodes[step]);
      if (IsOp(n, builtin::kGroup)) continue;
      std::vector<bool> target(n->num_inputs(), false);
      for (auto [i, k] : WrittenInputs(n)) target[size_t(i)] = true;
      for (size_t i = 0; i < n->num_inputs(); ++i) {
        const NodeEntry& e = n->inputs[i];
        if (!e.node) continue;
        if (!IsWritten(e.node)) {
          last_read_[Root(e).key()] = int(step);
          continue;
        }
        if (!target[i] || Loads(n, int(i))) reads_[e.node->id()].push_back(int(step));
      }
    }
    for (const NodeEntry& e : g_.outputs) last_read_[Root(e).key()] = int(order_.nodes.size());
  }
  int LastRead(const NodeEntry& e) const { return LastReadOwn(Root(e)); }
  /// The node looks at the elements of its input (an Assign does not look at the variable).
  bool Loads(NodePtr n, int input) { return AccessOf(n).loads[size_t(input)]; }
  /// How a node looks at its operands; large launches are asked about every one of theirs.
  struct Access {
    std::vector<bool> loads;
    std::set<std::pair<int, int>> in_place;
    std::vector<std::pair<EntryKey, int>> operands;  ///< entry and input, ascending
  };
  const Access& AccessOf(NodePtr n) {
    const auto [it, fresh] = access_.try_emplace(n->id());
    Access& a = it->second;
    if (!fresh) return a;
    const int inputs = int(n->num_inputs());
    a.loads.assign(size_t(inputs), true);
    const LoweredKernel* kernel = kernels_ ? kernels_->find(n) : nullptr;
    if (kernel) a.loads = LoadedOperands(*kernel, inputs);
    if (!kernel && IsOp(n, builtin::kAssign)) {
      a.loads[0] = false;
    } else {
      const std::vector<std::pair<int, int>> pairs = InplacePairs(n, kernels_);
      a.in_place.insert(pairs.begin(), pairs.end());
    }
    for (int i = 0; i < inputs; ++i)
      if (const NodeEntry& e = n->inputs[size_t(i)]; e.node) a.operands.emplace_back(e.key(), i);
    std::sort(a.operands.begin(), a.operands.end());
    return a;
  }
  /// Every operand of `n` that lies in the storage of `v`, which holds `shown`, is read only where
  /// output k is written.
  bool ReadsInPlace(NodePtr n, int k, NodePtr v, const std::vector<NodeEntry>& shown) {
    const Access& access = AccessOf(n);
    const auto in_place = [&](const NodeEntry& e) {
      auto o = std::lower_bound(access.operands.begin(), access.operands.end(),
                                std::pair(e.key(), INT_MIN));
      for (; o != access.operands.end() && o->first == e.key(); ++o)
        if (access.loads[size_t(o->second)] && !access.in_place.count({o->second, k})) return false;
      return true;
    };
    if (!in_place(NodeEntry(v))) return false;
    for (const NodeEntry& e : shown) {
      if (!root_.find(e) && !in_place(e)) return false;
      if (const auto it = views_.find(e.key()); it != views_.end())
        if (!std::all_of(it->second.begin(), it->second.end(), in_place)) return false;
    }
    return true;
  }

  void PlanOne(NodePtr v, const std::vector<Write>& writes) {
    const std::vector<NodePtr>& shows = shows_[v->id()];
    size_t next_show = 0;
    std::vector<NodeEntry> shown;  // entries that may show the present content
    for (size_t w = 0; w < writes.size(); ++w) {
      const Write& write = writes[w];
      const int after = w + 1 < writes.size() ? writes[w + 1].step : kNever,
                before = w == 0 ? -1 : writes[w - 1].step;
      for (; next_show < shows.size() && step_of_[shows[next_show]->id()] < write.step; ++next_show)
        shown.emplace_back(shows[next_show]);
      // What is asked for after the write cannot stay.
      std::vector<NodeEntry> stays;
      for (const NodeEntry& e : shown) {
        if (LastRead(e) <= write.step)
          stays.push_back(e);
        else if (IsResultOfWrite(e, writes))
          plan_.apart.set(e, 1);
        else
          plan_.copied.set(e.node, 1);
      }
      const NodeEntry result(write.node, uint32_t(write.output));
      shown.clear();
      if (const NodeEntry value = Direct(v, write, before, after, stays)) {
        plan_.direct.set(value, v);
        SetRoot(result, value);
        int& last = last_read_[value.key()];
        last = std::max(last, LastReadOwn(result));
        shown = {value, result};
        continue;
      }
      if (!IsOp(write.node, builtin::kAssign) && !ReadsInPlace(write.node, write.output, v, stays))
        plan_.apart.set(result, 1);
      else
        shown.push_back(result);
    }
  }
  int LastReadOwn(const NodeEntry& e) const {
    const auto it = last_read_.find(e.key());
    return it == last_read_.end() ? -1 : it->second;
  }
  static bool IsResultOfWrite(const NodeEntry& e, const std::vector<Write>& writes) {
    return std::any_of(writes.begin(), writes.end(), [&](const Write& w) {
      return w.node == e.node && uint32_t(w.output) == e.index;
    });
  }

  /// The result that may be computed in the variable's storage instead of being copied there
  /// by `write`; null: none.
  NodeEntry Direct(NodePtr v, const Write& write, int before, int after,
                   const std::vector<NodeEntry>& stays) {
    if (!IsOp(write.node, builtin::kAssign)) return {};
    const NodeEntry value = Root(write.node->inputs[1]);
    const NodePtr p = value.node;
    if (p->is_variable() || Graph::ConstantOf(value) || IsOp(p, builtin::kRead) ||
        IsOp(p, builtin::kGroup) || view_.get(p->op(), false) || plan_.direct.find(value) ||
        !sizes_agree_(value, NodeEntry(v)))
      return {};
    for (auto [i, k] : WrittenInputs(p))
      if (uint32_t(k) == value.index) return {};  // it is another variable's content
    const int at = step_of_[p->id()];
    if (at <= before) return {};
    // Both are asked for under the variable's storage from here on.
    if (std::max(LastRead(value), LastReadOwn(NodeEntry(write.node))) > after) return {};
    // Nothing else asks for the old content after it is gone.
    for (const NodeEntry& e : stays)
      if (LastRead(e) > at || step_of_[e.node->id()] > at) return {};
    for (int step : ReadsOf(v))
      if (step > at && step <= write.step) return {};
    if (!ReadsInPlace(p, int(value.index), v, stays)) return {};
    return value;
  }
  const std::vector<int>& ReadsOf(NodePtr v) const {
    static const std::vector<int> kNone;
    const auto it = reads_.find(v->id());
    return it == reads_.end() ? kNone : it->second;
  }

  const Graph& g_;
  const Order& order_;
  const KernelMap* kernels_;
  const std::function<bool(const NodeEntry&, const NodeEntry&)>& sizes_agree_;
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
  VariablePlan plan_;
  std::vector<int> step_of_;                     // by node id
  std::map<NodeId, std::vector<Write>> writes_;  // by variable, in the order of steps
  std::map<NodeId, std::vector<NodePtr>> shows_;
  std::map<NodeId, std::vector<int>> reads_;  // steps that read the variable itself
  EntryMap<NodeEntry> root_;
  std::map<EntryKey, std::vector<NodeEntry>> views_;  // those of which an entry is the root
  std::map<NodeId, Access> access_;
  std::map<EntryKey, int> last_read_;  // by entry at the beginning of views
};

}  // namespace

VariablePlan PlanVariables(
    const Graph& graph, const Order& order, const KernelMap* kernels,
    const std::function<bool(const NodeEntry&, const NodeEntry&)>& sizes_agree) {
  return Contents(graph, order, kernels, sizes_agree).Run();
}

}  // namespace weft
