/// layout.cc: Layout. Chooses, once for the whole graph, which tensors lie in memory with their channels innermost, so that
/// library calls that want them so pass them on without transposing them in between.
///   needs      kernel, shape, dtype
///   provides   layout
///   preserves  shape, dtype, value, subgraph, kernel, rtc
///   never      changes a shape or the meaning of a node; gives an input or output of the graph another layout
///   cost       linear in nodes and edges
///   source     layout assignment of XLA; the classes of tensors that must agree are this project's
///
/// Library calls say what they wish for (FLayout) and take plain tensors all the same. An element-wise kernel that walks
/// through all its tensors in one line does not care, as long as they lie alike: they are one class. Everything else wants
/// plain ones. A class gets the layout where that saves more transpositions than it costs:
///   before  %a = Conv(%x)             %b = Fused(%a)        %c = Conv(%b)        %y = ReduceMean(%b)
///   after   %a = Conv(%x)  #last      %b = Fused(%a) #last  %c = Conv(%b) #last  %r = weft::Reorder(%b)  %y = ReduceMean(%r)
#include "weft/core/layout.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "weft/codegen/attr_types.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/op.h"
#include "weft/core/pass.h"

namespace weft {
namespace {

bool IsPosition(const Expr& e) { return e->kind() == ExprKind::kIndex && e->index() == 0; }

/// For each buffer of a kernel that goes element by element through what it reads and writes: does it go through this one?
/// (Of the others it reads fixed elements.) Nothing for any other kernel, or one that computes with positions.
std::optional<std::vector<uint8_t>> WalkedBuffers(const Kernel& kernel) {
  if (kernel.tmpl != KernelTemplate::kElementwise || kernel.dims.size() != 1) return {};
  std::vector<uint8_t> walked(kernel.buffers.size(), 0), fixed(kernel.buffers.size(), 0);
  std::vector<const ExprNode*> stack;
  std::unordered_set<const ExprNode*> seen;
  for (const KernelStore& store : kernel.stores) {
    if (!IsPosition(store.offset)) return {};
    walked[size_t(store.buffer)] = 1;
    stack.push_back(store.value.get());
  }
  while (!stack.empty()) {
    const ExprNode* e = stack.back();
    stack.pop_back();
    if (!seen.insert(e).second) continue;
    if (e->kind() == ExprKind::kIndex || e->kind() == ExprKind::kReduceVar ||
        e->kind() == ExprKind::kReduce)
      return {};
    if (e->kind() != ExprKind::kLoad) {
      for (const Expr& o : e->operands()) stack.push_back(o.get());
      continue;
    }
    if (e->has_guard() || e->num_indices() != 1) return {};
    const Expr& at = e->operand(0);
    if (!IsPosition(at) && !at->is_invariant()) return {};
    (IsPosition(at) ? walked : fixed)[size_t(e->buffer())] = 1;
  }
  for (size_t b = 0; b < walked.size(); ++b)
    if (walked[b] && fixed[b]) return {};
  return walked;
}

class LayoutChooser {
 public:
  LayoutChooser(Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        shapes_(g.MoveCopyAttr<ShapeMap>("shape")),
        types_(g.MoveCopyAttr<TypeMap>("dtype")),
        kernels_(g.MoveCopyAttr<KernelMap>("kernel")),
        wishes_(Op::GetAttr<FLayout>("FLayout." + ctx.target().substr(0, ctx.target().find(':')))) {
  }

  void Run() {
    for (NodePtr n : g_.TopoOrder()) Look(n);
    for (const NodeEntry& e : g_.outputs) RefuseRead(e);
    // What an edit would clear leaves the graph meanwhile: a reorder changes none of it.
    auto values = g_.TakeAttrOr<ValueMap>("value");
    auto bodies = g_.TakeAttrOr<SubgraphMap>("subgraph");
    const bool compiled = g_.HasAttr("rtc");
    auto code = g_.TakeAttrOr<RtcMap>("rtc");
    Decide();
    g_.SetAttr("shape", std::move(shapes_));
    g_.SetAttr("dtype", std::move(types_));
    g_.SetAttr("value", std::move(values));
    g_.SetAttr("subgraph", std::move(bodies));
    g_.SetAttr("kernel", std::move(kernels_));
    if (compiled) g_.SetAttr("rtc", std::move(code));
    g_.SetAttr("layout", std::move(layouts_));
  }

 private:
  /// A tensor that could have its channels last.
  struct Candidate {
    NodeEntry entry;
    int parent;               ///< of the class
    bool made_plain = true;   ///< whoever makes it makes it plain
    bool read_plain = false;  ///< somebody wants it plain
    int64_t saved = 0;        ///< transpositions, of the class
    int64_t reorders = 0;     ///< what they cost, of the class
  };

  int Find(int c) {
    while (candidates_[size_t(c)].parent != c) {
      int& up = candidates_[size_t(c)].parent;
      up = candidates_[size_t(up)].parent;
      c = up;
    }
    return c;
  }
  /// -1: it has to be plain.
  int CandidateOf(const NodeEntry& e) {
    if (const int* c = numbers_.find(e)) return *c;
    const Shape* s = shapes_.find(e);
    const Type* t = types_.find(e);
    int c = -1;
    if (s && t && s->fully_known() && s->rank() >= 3 && s->rank() <= 5 && t->is_tensor() &&
        t->dtype == DType::kF32) {
      c = int(candidates_.size());
      candidates_.push_back({e, c});
    }
    numbers_.set(e, c);
    return c;
  }
  void RefuseRead(const NodeEntry& e) {
    if (const int c = CandidateOf(e); c >= 0) candidates_[size_t(c)].read_plain = true;
  }
  void AcceptRead(const NodePtr& n, uint32_t slot) {
    accepted_.insert(uint64_t{n->id()} << 32 | slot);
  }

  void Look(const NodePtr& n) {
    if (n->is_variable()) return;
    if (IsOp(n, builtin::kReorder)) {  // from an earlier run: takes and gives what is wanted
      if (const int c = CandidateOf(n->inputs[0]); c >= 0) AcceptRead(n, 0);
      if (const int c = CandidateOf(NodeEntry(n)); c >= 0)
        candidates_[size_t(c)].made_plain = false;
      return;
    }
    if (const LoweredKernel* k = kernels_.find(n))
      if (!k->is_multi() && JoinKernel(n, *k->kernel)) return;
    const FLayout* f = kernels_.find(n) ? nullptr : wishes_.find(n->op());
    const LayoutWish wish = f ? (*f)(n) : LayoutWish();
    for (uint32_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry e = n->inputs[i];
      const int c = e.node ? CandidateOf(e) : -1;
      if (c < 0) continue;
      if (i < wish.inputs.size() && wish.inputs[i] == Layout::kChannelsLast) {
        ++candidates_[size_t(Find(c))].saved;
        AcceptRead(n, i);
      } else {
        candidates_[size_t(c)].read_plain = true;
      }
    }
    for (uint32_t i = 0; i < n->num_outputs() && i < wish.outputs.size(); ++i) {
      const int c = CandidateOf(NodeEntry(n, i));
      if (c < 0 || wish.outputs[i] != Layout::kChannelsLast) continue;
      ++candidates_[size_t(Find(c))].saved;
      candidates_[size_t(c)].made_plain = false;
    }
  }

  /// One class of all tensors that the kernel goes through; false where it does not, or they differ in shape.
  bool JoinKernel(const NodePtr& n, const Kernel& kernel) {
    const auto walked = WalkedBuffers(kernel);
    if (!walked || walked->size() != n->num_inputs() + n->num_outputs()) return false;
    std::vector<int> members;
    for (uint32_t b = 0; b < walked->size(); ++b) {
      if (!(*walked)[b]) continue;
      const NodeEntry e = b < n->num_inputs() ? n->inputs[b] : NodeEntry(n, b - n->num_inputs());
      const int c = CandidateOf(e);
      if (c < 0 ||
          !shapes_[e].same(shapes_[candidates_[size_t(members.empty() ? c : members[0])].entry]))
        return false;
      members.push_back(c);
    }
    for (int c : members) {
      const int a = Find(members[0]), b = Find(c);
      if (a == b) continue;
      candidates_[size_t(b)].parent = a;
      candidates_[size_t(a)].saved += candidates_[size_t(b)].saved;
    }
    for (uint32_t b = 0; b < walked->size(); ++b) {
      if (b >= n->num_inputs())
        candidates_[size_t(CandidateOf(NodeEntry(n, b - n->num_inputs())))].made_plain = false;
      else if ((*walked)[b])
        AcceptRead(n, b);
      else
        RefuseRead(n->inputs[b]);
    }
    return true;
  }

  void Decide() {
    for (size_t c = 0; c < candidates_.size(); ++c)
      candidates_[size_t(Find(int(c)))].reorders +=
          candidates_[c].made_plain || candidates_[c].read_plain;
    const size_t count = candidates_.size();
    for (size_t c = 0; c < count; ++c) {
      const Candidate& root = candidates_[size_t(Find(int(c)))];
      if (root.saved <= root.reorders) continue;
      const Candidate& me = candidates_[c];
      ctx_.Count("channels-last", 1);
      if (me.made_plain) {
        const NodeEntry last = AddReorder(me.entry, true);
        layouts_.set(last, Layout::kChannelsLast);
      } else {
        layouts_.set(me.entry, Layout::kChannelsLast);
        if (me.read_plain) AddReorder(me.entry, false);
      }
    }
  }

  /// A reorder of `e` for those who accept any layout, or for all others.
  NodeEntry AddReorder(const NodeEntry& e, bool for_accepting) {
    const std::vector<Use> uses(e.node->uses().begin(), e.node->uses().end());
    const NodePtr r = g_.AddNode(builtin::kReorder, {e}, {}, e.node->attrs.name);
    g_.MergeOrigin(r, e.node);
    for (const Use& u : uses) {
      if (u.control || u.user->inputs[u.slot].index != e.index) continue;
      const bool accepts = accepted_.count(uint64_t{u.user->id()} << 32 | u.slot) != 0;
      if (accepts == for_accepting) g_.SetInput(u.user, u.slot, NodeEntry(r));
    }
    for (size_t i = 0; !for_accepting && i < g_.outputs.size(); ++i)
      if (g_.outputs[i] == e) g_.outputs.set(i, NodeEntry(r));
    shapes_.set(NodeEntry(r), Shape(shapes_[e]));
    types_.set(NodeEntry(r), types_[e]);
    ctx_.Count("reorders", 1);
    return NodeEntry(r);
  }

  Graph& g_;
  PassContext& ctx_;
  ShapeMap shapes_;
  TypeMap types_;
  KernelMap kernels_;
  const OpMap<FLayout>& wishes_;
  EntryMap<int> numbers_;
  std::vector<Candidate> candidates_;
  std::unordered_set<uint64_t> accepted_;  // uses, looked up only
  LayoutMap layouts_;
};

Graph LayoutPass(Graph g, PassContext& ctx) {
  LoadBackendModule(ctx.target().substr(0, ctx.target().find(':')));
  LayoutChooser(g, ctx).Run();
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(layout, kDerived, LayoutMap)
    .describe("in which order the elements of an entry lie in memory")
    .hidden();

WEFT_REGISTER_PASS(Layout)
    .describe(
        "chooses which tensors lie in memory with their channels innermost, for library calls")
    .set_body(LayoutPass)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("kernel")
    .provide_graph_attr("layout")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .preserve_graph_attr("subgraph")
    .preserve_graph_attr("kernel")
    .preserve_graph_attr("rtc")
    .statistic("channels-last", "tensors that lie so")
    .statistic("reorders", "copies between two layouts");

}  // namespace
}  // namespace weft
