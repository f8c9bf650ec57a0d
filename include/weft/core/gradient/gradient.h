/// gradient.h: asking for gradients, and what the pass Gradient says about the graph it leaves.
///
///   std::vector<NodeEntry> dw = Gradients(g, {loss}, {w, b});       // as a framework calls it
///
///   SetGradient(g, {loss}, {w, b});                                 // the same as a pass
///   g = ApplyPass(std::move(g), "Gradient");                        // .., grad_w, grad_b
///
/// A gradient is d(sum over i of <out_grads[i], ys[i]>) / dx: an entry of the shape and dtype of x.
/// Output gradients that are not given are ones. An x that no y depends on has zeros. Integers,
/// booleans and strings have none: asking for one is an error (kUnsupported). Gradients are
/// ordinary nodes, so gradients of gradients are asked for in the same way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/graph/graph_attr.h"

namespace weft {

namespace builtin {
/// (shape), attr dtype: structural zeros, which stand for an absent term of a gradient.
inline constexpr const char* kZeros = "weft::Zeros";
}  // namespace builtin

/// An entry by the id of its node, as attributes store it; without a node where an entry is absent.
struct EntryRef {
  static constexpr NodeId kAbsent = ~NodeId{0};
  NodeId node = kAbsent;
  uint32_t index = 0;

  EntryRef() = default;
  EntryRef(NodeId n, uint32_t i) : node(n), index(i) {}
  EntryRef(const NodeEntry& e)  // NOLINT: the same entry
      : node(e.node ? e.node->id() : kAbsent), index(e.node ? e.index : 0) {}
  explicit operator bool() const { return node != kAbsent; }
  /// The entry in `g`; null where it is absent or its node was erased.
  NodeEntry in(const Graph& g) const {
    const NodePtr n = node == kAbsent ? NodePtr() : g.node(node);
    return n ? NodeEntry(n, index) : NodeEntry();
  }
  friend bool operator==(const EntryRef& a, const EntryRef& b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator<(const EntryRef& a, const EntryRef& b) {
    return a.node != b.node ? a.node < b.node : a.index < b.index;
  }
};

/// Type of `grad_ys`, `grad_xs`, `grad_out` (given). Rewrites that replace an entry replace it here
/// too, and EraseDead spares what is named here. Text form: "3, 4:1, _".
struct EntryList : std::vector<EntryRef> {
  using std::vector<EntryRef>::vector;
  WEFT_API explicit EntryList(const std::vector<NodeEntry>& entries);
  WEFT_API std::vector<NodeEntry> in(const Graph& g) const;
  WEFT_API std::string ToString() const;
  WEFT_API static EntryList Parse(std::string_view text);
};

/// Type of `gradient_of` (given): the gradient of every entry that has one. Follows
/// rewrites on both sides.
class WEFT_API GradientMap {
 public:
  /// Gradient of `forward`; null where it has none, or where it has been erased since.
  NodeEntry find(const Graph& g, const NodeEntry& forward) const;
  void set(EntryRef forward, EntryRef backward);
  /// Pairs (forward, backward), ascending.
  std::vector<std::pair<EntryRef, EntryRef>> pairs() const;
  /// Outputs that the graph had before the gradients were appended.
  int64_t forward_outputs = 0;

  /// `from` has become `to`.
  void Replace(EntryRef from, EntryRef to);
  void Remap(const std::vector<NodeId>& map);
  std::string ToString() const;
  static GradientMap Parse(std::string_view text);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // Forward entries with one gradient (all terms of a sum) share a slot, so that a rewrite of
  // it is one write.
  std::vector<EntryRef> slots_;         // backward entries
  std::vector<uint32_t> next_;          // another slot of the same backward entry, or kNone
  EntryMap<uint32_t> slot_of_forward_;  // kNone: taken away
  EntryMap<uint32_t> slot_of_backward_;
};

/// Sets the attributes that the pass Gradient reads, for the next run of it. `out_grads` is empty
/// or has one entry per y; a null one means ones. Throws kApiMisuse on entries of another graph.
WEFT_API void SetGradient(Graph& g, const std::vector<NodeEntry>& ys,
                          const std::vector<NodeEntry>& xs,
                          const std::vector<NodeEntry>& out_grads = {});

/// Throws kApiMisuse unless that is a request about `g`: its entries, as many output gradients
/// as ys or none.
WEFT_API void CheckGradientRequest(const Graph& g, const std::vector<NodeEntry>& ys,
                                   const std::vector<NodeEntry>& xs,
                                   const std::vector<NodeEntry>& out_grads);

/// What a framework calls: gradients of `ys` with respect to each of `xs`, as nodes added to
/// `g`, whose outputs stay as they are; handles stay valid, and an error leaves the graph as
/// it was. Sets `gradient_of`.
WEFT_API std::vector<NodeEntry> Gradients(Graph& g, const std::vector<NodeEntry>& ys,
                                          const std::vector<NodeEntry>& xs,
                                          const std::vector<NodeEntry>& out_grads = {});

/// For rules, while gradients are being made: do two entries that were there before have one known
/// shape? A rule may then leave out a SumTo that Simplify would take away. False where nothing is
/// known, and outside of that time.
WEFT_API bool KnownSameShape(const NodeEntry& a, const NodeEntry& b);
/// For rules as well: the type and the shape of such an entry; unknown where nothing is known. What
/// a variable declares and what a constant is are known at any time.
WEFT_API Type KnownType(const NodeEntry& e);
WEFT_API Shape KnownShape(const NodeEntry& e);
/// The graph in which the gradients of this thread are being made, for rules that lend it to
/// another language; null outside of that time.
WEFT_API Graph* GradientGraph();
/// That time, on this thread; `types` and `shapes` (null: nothing is known) outlive it.
class WEFT_API GradientScope {
 public:
  struct Known {
    const GraphStore* store = nullptr;
    const TypeMap* types = nullptr;
    const ShapeMap* shapes = nullptr;
    Graph* graph = nullptr;
  };
  /// `made_in`: the graph itself, where rules are called; what GradientGraph tells.
  GradientScope(const Graph& g, const TypeMap* types, const ShapeMap* shapes,
                Graph* made_in = nullptr);
  ~GradientScope();
  GradientScope(const GradientScope&) = delete;
  GradientScope& operator=(const GradientScope&) = delete;

 private:
  const Known outer_;
};

/// A graph with gradients in two parts that run one after the other. An output of `forward` that
/// `backward` needs is an input of it.
struct GradientSplit {
  Graph forward;  ///< the outputs before the gradients, then what is retained ("retained_NAME")
  /// inputs: those of the whole that it needs, in order, then what it gets from forward
  Graph backward;
  /// For each of the last inputs of `backward` the output of `forward` that it takes, in order.
  std::vector<size_t> retained;
};
/// Splits what the pass Gradient left: the first `forward_outputs` outputs (by default what
/// `gradient_of` says) are the forward part's, the others the backward part's. A node goes forward
/// when a forward output needs it; the rest goes backward. Declared inputs and parameters are never
/// retained: both parts have their own. So have state variables, whose contents both parts find in
/// one store; what the backward part reads of one before the forward part writes it is retained.
/// kUnsupported where the forward part would have to run after a node of the backward part.
WEFT_API GradientSplit SplitGradient(const Graph& g, int64_t forward_outputs = -1);

}  // namespace weft
