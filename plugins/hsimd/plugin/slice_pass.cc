/// slice_pass.cc: HsimdSlice. What has no room in the memories of the PEs runs in slices, one after
/// another: the nodes that carry one axis (a batch) stand once for each slice, operands off chip
/// are read in parts, and results are joined off chip.
///   needs      shape, dtype; static extents; before fusion, since the bodies of fused nodes hold
///              extents
///   provides   -
///   preserves  -; a graph that has room stays as it is
///   never      slices an axis that a node of the slices sums over or reads shifted
///   cost       the candidates of all nodes, once for each number of slices that is tried
///   source     PFN's `Time` digits (notation)
///
///   y = F(x)   ->   a = F(Slice(x, 0..4)); b = F(Slice(x, 4..8)); y = Join(a, b)
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "../rules/axes.h"
#include "../rules/rule.h"
#include "banks.h"
#include "l3.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

/// One axis of a node: the dimension of each input and result that it is; -1: it is none of it.
struct NodeAxis {
  std::vector<int> inputs, outputs;
};

std::vector<int64_t> DimsOf(const Graph& g, const NodeEntry& e) {
  const Shape& shape = g.GetAttr<ShapeMap>("shape")[e];
  return shape.is_static() ? shape.ints() : std::vector<int64_t>();
}

/// Dimensions of a view and of what it looks at that are the same: as much stands before them.
std::vector<NodeAxis> AxesOfView(const Graph& g, const NodePtr& n) {
  const std::vector<int64_t> from = DimsOf(g, n->inputs[0]), to = DimsOf(g, NodeEntry(n));
  std::vector<NodeAxis> out;
  int64_t before = 1;
  for (size_t d = 0; d < from.size(); ++d) {
    int64_t ahead = 1;
    for (size_t k = 0; k < to.size(); ++k) {
      if (ahead == before && to[k] == from[d] && from[d] > 1) {
        NodeAxis axis;
        axis.inputs.assign(n->num_inputs(), -1);
        axis.inputs[0] = int(d);
        axis.outputs = {int(k)};
        out.push_back(axis);
      }
      ahead *= to[k];
    }
    before *= from[d];
  }
  return out;
}

/// The axes along which a node can be cut: every result has it, no reduction sums over it, nothing
/// reads it shifted.
std::vector<NodeAxis> AxesOfNode(const Graph& g, const NodePtr& n) {
  if (HasEffect(n) || DrawsAnew(n)) return {};
  if (IsView(n)) return AxesOfView(g, n);
  OperatorParts parts;
  try {
    parts = TakeApart(g, n);
  } catch (const UserError&) {
    return {};
  }
  std::set<int> summed;
  for (const ReducePart& part : parts.reduces)
    for (const int axis : part.reduced) summed.insert(parts.classes[size_t(axis)]);
  std::vector<NodeAxis> out;
  for (size_t a = 0; a < parts.extents.size(); ++a) {
    if (parts.classes[a] != int(a) || parts.local[a] || parts.extents[a] < 2 ||
        summed.count(int(a)))
      continue;
    NodeAxis axis;
    bool one = true;
    /// The only dimension among these that is of the class.
    const auto dim = [&](const std::vector<int>& axes) {
      int found = -1;
      for (size_t d = 0; d < axes.size(); ++d) {
        if (axes[d] < 0 || parts.classes[size_t(axes[d])] != int(a)) continue;
        one = one && found < 0;
        found = int(d);
      }
      return found;
    };
    size_t slot = 0;
    for (const NodeEntry& e : n->inputs)
      axis.inputs.push_back(e.node ? dim(parts.input_axes[slot++]) : -1);
    axis.outputs.assign(n->num_outputs(), -1);
    for (const ResultPart& part : parts.results) {
      std::vector<int> along;
      for (const Affine& at : part.at) along.push_back(at.pure());
      axis.outputs[size_t(part.output)] = dim(along);
      one = one && axis.outputs[size_t(part.output)] >= 0;
    }
    if (one) out.push_back(axis);
  }
  return out;
}

/// What is cut: nodes with their axis, entries with the dimension that carries it.
struct Region {
  std::map<NodeId, NodeAxis> nodes;
  std::map<uint64_t, int> carried;  ///< by entry
  int64_t extent = 0, elements = 0;
};

class Slicer {
 public:
  Slicer(Graph g, PassContext& ctx)
      : g_(std::move(g)),
        ctx_(ctx),
        machine_(std::make_shared<Machine>(FindMachine(ctx.option<std::string>("machine")))) {}

  Graph Run() {
    std::string why;
    if (HasRoom(g_, &why)) return std::move(g_);
    const std::optional<Region> region = Best();
    if (!region) return std::move(g_);  // HsimdLayout says what has no room
    for (int64_t slices = 2; slices <= region->extent; ++slices) {
      if (region->extent % slices != 0) continue;
      Graph cut = Cut(*region, slices);
      if (slices < region->extent && !HasRoom(cut, &why)) continue;
      ctx_.Count("slices", slices);
      ctx_.Count("nodes", int64_t(region->nodes.size()));
      return cut;
    }
    return std::move(g_);
  }

 private:
  /// Whether every node has a layout with room, as fusion leaves them.
  bool HasRoom(const Graph& graph, std::string* why) const {
    Pipeline later;
    if (ctx_.option<bool>("fusion"))
      later.push_back(
          {"Fusion",
           {{"libraries", int64_t{0}}, {"multi_small", int64_t{0}}, {"multi_bytes", int64_t{0}}}});
    later.push_back("InferShape");
    later.push_back({"HsimdSplit", {{"machine", ctx_.option<std::string>("machine")}}});
    later.push_back("InferShape");
    const Graph fused = ApplyPasses(graph, later);
    NodeLowering lowering(fused, machine_);
    std::set<std::string> seen;  // slices are alike
    for (const NodePtr& n : fused.TopoOrder()) {
      if (!Runs(n) || !seen.insert(KeyOf(fused, n)).second) continue;
      if (RunsOn(fused, n, lowering) != NodeRuns::kNoRoom) continue;  // else HsimdLayout tells
      *why = n->Describe();
      return false;
    }
    return true;
  }
  /// The same for nodes that do the same with operands of the same shapes.
  static std::string KeyOf(const Graph& graph, const NodePtr& n) {
    std::string key = n->op()->name;
    if (IsOp(n, builtin::kFused))
      key += PrintGraph(*FusedBody(n));
    else
      key += n->Describe();
    for (const NodeEntry& e : n->inputs)
      if (e.node) key += " " + graph.GetAttr<ShapeMap>("shape")[e].ToString();
    return key;
  }

  /// The axis of a declared input that the most elements carry.
  std::optional<Region> Best() {
    for (const NodePtr& n : g_.TopoOrder())
      if (!LiesOffChip(n)) axes_.emplace(n->id(), AxesOfNode(g_, n));
    std::optional<Region> best;
    for (const NodePtr& input : g_.AllInputs()) {
      const std::vector<int64_t> dims = DimsOf(g_, NodeEntry(input));
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] < 2) continue;
        std::optional<Region> region = Flood(NodeEntry(input), int(d), dims[d]);
        if (region && (!best || region->elements > best->elements)) best = std::move(region);
      }
    }
    return best;
  }

  std::optional<Region> Flood(const NodeEntry& seed, int dim, int64_t extent) const {
    Region region;
    region.extent = extent;
    std::deque<NodeEntry> left;
    const auto carry = [&](const NodeEntry& e, int d) {
      const auto [it, fresh] = region.carried.emplace(e.key().packed(), d);
      if (!fresh) return it->second == d;
      const std::vector<int64_t> dims = DimsOf(g_, e);
      int64_t n = 1;
      for (const int64_t k : dims) n *= k;
      if (!LiesOffChip(e.node)) region.elements += n;
      left.push_back(e);
      return size_t(d) < dims.size() && dims[size_t(d)] == extent;
    };
    /// Takes a node in by an axis; false: another of its axes is carried already.
    const auto take = [&](const NodePtr& n, const NodeAxis& axis) {
      const auto [it, fresh] = region.nodes.emplace(n->id(), axis);
      if (!fresh) return it->second.inputs == axis.inputs && it->second.outputs == axis.outputs;
      for (uint32_t o = 0; o < n->num_outputs(); ++o)
        if (axis.outputs[o] >= 0 && !carry(NodeEntry(n, o), axis.outputs[o])) return false;
      for (uint32_t i = 0; i < n->num_inputs(); ++i)
        if (axis.inputs[i] >= 0 && !carry(n->inputs[i], axis.inputs[i])) return false;
      return true;
    };
    if (!carry(seed, dim)) return std::nullopt;
    while (!left.empty()) {
      const NodeEntry e = left.front();
      left.pop_front();
      const int d = region.carried.at(e.key().packed());
      if (!LiesOffChip(e.node))
        for (const NodeAxis& axis : axes_.at(e.node->id()))
          if (axis.outputs[e.index] == d) {
            if (!take(e.node, axis)) return std::nullopt;
            break;
          }
      for (const Use& use : e.node->uses()) {
        if (use.control || use.user->inputs[use.slot] != e) continue;
        for (const NodeAxis& axis : axes_.at(use.user->id()))
          if (axis.inputs[use.slot] == d) {
            if (!take(use.user, axis)) return std::nullopt;
            break;
          }
      }
    }
    if (region.nodes.empty()) return std::nullopt;
    // What is computed whole and read in slices would go off chip and come back: not done.
    for (const auto& [id, axis] : region.nodes) {
      const NodePtr n = g_.node(id);
      for (uint32_t i = 0; i < n->num_inputs(); ++i)
        if (axis.inputs[i] >= 0 && !LiesOffChip(n->inputs[i].node) &&
            !region.nodes.count(n->inputs[i].node->id()))
          return std::nullopt;
      // What is joined off chip is not read again.
      for (const Use& use : n->uses())
        if (!use.control && !region.nodes.count(use.user->id())) return std::nullopt;
    }
    return region;
  }

  /// A copy of the graph with the region in slices.
  Graph Cut(const Region& region, int64_t slices) const {
    Graph g = g_;
    const int64_t step = region.extent / slices;
    std::map<uint64_t, std::vector<NodeEntry>> twins;  // by carried entry, by slice
    std::map<uint64_t, NodeEntry> joined;
    const auto slice_of = [&](const NodeEntry& e, int64_t s) {
      std::vector<NodeEntry>& all = twins[e.key().packed()];
      while (int64_t(all.size()) <= s)
        all.push_back(NodeEntry(g.AddNode(kSlice, {e},
                                          {{"axis", int64_t(region.carried.at(e.key().packed()))},
                                           {"start", int64_t(all.size()) * step},
                                           {"size", step}})));
      return all[size_t(s)];
    };
    const auto join = [&](const NodeEntry& e) {
      NodeEntry& whole = joined[e.key().packed()];
      if (!whole) {
        whole = NodeEntry(g.AddNode(kJoin, twins.at(e.key().packed()),
                                    {{"axis", int64_t(region.carried.at(e.key().packed()))}}));
        g.SetOrigin(whole.node, e.node->origin());
      }
      return whole;
    };
    const std::vector<NodePtr> order = g.TopoOrder();
    for (int64_t s = 0; s < slices; ++s)
      for (const NodePtr& n : order) {
        const auto it = region.nodes.find(n->id());
        if (it == region.nodes.end()) continue;
        const NodeAxis& axis = it->second;
        std::vector<NodeEntry> inputs;
        for (uint32_t i = 0; i < n->num_inputs(); ++i) {
          const NodeEntry& e = n->inputs[i];
          inputs.push_back(!e.node || axis.inputs[i] < 0 ? e : slice_of(e, s));
        }
        if (IsView(n)) {
          if (inputs.size() > 1) inputs[1] = TargetOf(g, n, axis.outputs[0], step);
        }
        const NodePtr twin = g.AddCopy(n, inputs);
        for (uint32_t o = 0; o < n->num_outputs(); ++o)
          if (axis.outputs[o] >= 0)
            twins[NodeEntry(n, o).key().packed()].push_back(NodeEntry(twin, o));
      }
    // What others read is whole again. Nodes of the region that read an entry as it is do, too.
    for (const NodePtr& n : order) {
      if (!region.nodes.count(n->id())) continue;
      for (uint32_t o = 0; o < n->num_outputs(); ++o) {
        const NodeEntry e(n, o);
        bool outside = g.is_output(n);
        for (const Use& use : n->uses())
          outside = outside || (!use.control && !region.nodes.count(use.user->id()));
        if (outside && twins.count(e.key().packed())) g.ReplaceUses(e, join(e));
      }
    }
    g.EraseDead();
    return ApplyPasses(std::move(g), "InferType,InferShape");
  }

  /// What a Reshape of a slice makes.
  NodeEntry TargetOf(Graph& g, const NodePtr& view, int dim, int64_t step) const {
    std::vector<int64_t> dims = DimsOf(g_, NodeEntry(g_.node(view->id())));
    dims[size_t(dim)] = step;
    return g.AddConstant(Tensor::Ints(dims));
  }

  Graph g_;
  PassContext& ctx_;
  const MachinePtr machine_;
  std::map<NodeId, std::vector<NodeAxis>> axes_;
};

WEFT_REGISTER_PASS(HsimdSlice)
    .describe("runs what has no room in the memories of the PEs in slices of one axis")
    .set_body([](Graph g, PassContext& ctx) { return Slicer(std::move(g), ctx).Run(); })
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .option("machine", kDefaultMachine, "a built-in machine or a file")
    .option("fusion", true, "nodes are fused later")
    .statistic("slices", "of the axis")
    .statistic("nodes", "that stand once for each slice");

}  // namespace
}  // namespace hsimd
