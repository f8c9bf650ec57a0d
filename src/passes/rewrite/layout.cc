/// layout.cc: Layout. Chooses, once for the whole graph, which tensors have their channels
/// innermost in memory, so that library calls that want them so pass them on without transposing.
///   needs      shape, dtype, subgraph
///   provides   layout
///   preserves  shape, dtype, value, subgraph, kernel, rtc
///   never      changes a shape or the meaning of a node; gives an input, an output or
///              a variable another layout
///   cost       linear in nodes and edges, and a least cut in a network of that size
///   source     layout assignment of XLA; as a least cut, this project
///
/// Library calls say what they wish for (FLayout) and take plain tensors all the same: that costs
/// them a transposition. A generated kernel takes any layout of each operand, but walks in the
/// order of memory only where its operands lie alike (LayoutGroups): each group of them has one
/// layout. Everything else wants plain tensors. A tensor whose maker and readers do not agree is
/// reordered once, which costs its bytes; the cheapest choice of all is taken:
///   before  %a = Conv(%x)         %b = Fused(%a)        %c = Conv(%b)        %d = Dft(%b)
///   after   %a = Conv(%x)  #last  %b = Fused(%a) #last  %c = Conv(%b) #last
///           %r = weft::Reorder(%b)                                           %d = Dft(%r)
/// Kernels that there are already keep the layouts that they were made for.
#include "weft/core/plan/layout.h"

#include <algorithm>
#include <optional>

#include "two_way_choice.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/layouts/layouts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/epilogue.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Extents that are not known yet, all alike: tensors of one graph are weighed against each other.
constexpr int64_t kGuessedExtent = 32;
/// A reorder costs the bytes of the tensor and as much as these for being one more step. So does a
/// transposition inside a library call, and a kernel that reads with strides, but for the step
/// (measured for f32[8, 64, 56, 56] on one core and on two: 0.22 to 0.33 ms more each).
constexpr int64_t kStepBytes = 4096;

enum class Force { kNone, kLast, kOdd };

class LayoutChooser {
 public:
  LayoutChooser(Graph& g, PassContext& ctx, Force force) : g_(g), ctx_(ctx), force_(force) {}

  void Run() {
    if (force_ != Force::kNone || AnyWish() || AnyKernelWith(Layout::kChannelsLast)) {
      bodies_ = g_.AttrOr<SubgraphMap>("subgraph");
      kernels_ = g_.AttrOr<KernelMap>("kernel");
      TypedEdit edit(g_);  // a reorder changes no row of what is there
      edit_ = &edit;
      Choose();
    }
    g_.SetAttr("layout", std::move(layouts_));
  }

 private:
  /// Whoever makes or reads tensors, as far as their layout goes: a variable of the choice.
  using End = int;
  struct Reader {
    NodePtr node;
    uint32_t slot;
    End end;
  };
  /// A tensor that could have its channels last.
  struct Candidate {
    NodeEntry entry;
    int64_t bytes;
    End maker;
    std::vector<Reader> readers = {};
    std::vector<End> ends = {};  ///< of the readers, distinct
  };

  bool AnyWish() const {
    const ShapeMap& shapes = g_.GetAttr<ShapeMap>("shape");
    for (NodePtr n : g_.TopoOrder()) {
      if (n->is_variable() ||
          (!ctx_.target().layout(n->op()) && !n->attrs.dict.find(builtin::kAnchor)))
        continue;
      const LayoutWish wish = LayoutWishOf(n, ctx_.target(), shapes, g_.GetAttr<TypeMap>("dtype"));
      if (!wish.inputs.empty() || !wish.outputs.empty()) return true;
    }
    return false;
  }
  bool AnyKernelWith(Layout layout) const {
    if (!g_.HasAttr("kernel")) return false;
    const KernelMap& kernels = g_.GetAttr<KernelMap>("kernel");
    for (NodeId id = 0; id < kernels.id_bound(); ++id)
      if (const LoweredKernel* k = kernels.find(id))
        if (std::count(k->layouts.begin(), k->layouts.end(), layout) > 0) return true;
    return false;
  }

  void Choose() {
    plain_ = AddEnd(/*fixed=*/false);
    const std::vector<NodePtr> order = g_.TopoOrder();
    for (NodePtr n : order) LookAtOutputs(n);
    for (NodePtr n : order) LookAtInputs(n);
    for (const NodeEntry& e : g_.outputs)
      if (Candidate* c = Find(e)) AddEndOf(c, plain_);
    for (const Candidate& c : candidates_) {
      if (IsConstant(c.entry)) continue;  // reordered when the program is made
      std::vector<End> all = c.ends;
      if (std::find(all.begin(), all.end(), c.maker) == all.end()) all.push_back(c.maker);
      if (all.size() > 1) choice_.PayUnlessAlike(all, c.bytes + kStepBytes);
    }
    if (force_ == Force::kNone) chosen_ = choice_.Solve();
    const size_t count = candidates_.size();
    for (size_t i = 0; i < count; ++i) Arrange(candidates_[i]);
  }

  static bool IsConstant(const NodeEntry& e) { return bool(Graph::ConstantOf(e)); }

  End AddEnd(std::optional<bool> fixed = {}) {
    const End end = choice_.AddVariable();
    fixed_.push_back(fixed);
    if (fixed)
      choice_.Pay(end, *fixed ? TwoWayChoice::kForbidden : 0,
                  *fixed ? 0 : TwoWayChoice::kForbidden);
    return end;
  }
  static void AddEndOf(Candidate* c, End end) {
    if (std::find(c->ends.begin(), c->ends.end(), end) == c->ends.end()) c->ends.push_back(end);
  }
  int64_t BytesOf(const NodeEntry& e) const {
    try {
      const SymInt n = edit_->shape(e).num_elements();
      SymBindings guess;
      for (SymInt s : n.Symbols()) guess[s.symbol_name()] = kGuessedExtent;
      const int64_t bytes = DTypeBytes(edit_->dtype(e), Evaluate(n, guess));
      return std::clamp<int64_t>(bytes, 1, int64_t{1} << 40);
    } catch (const Error&) {  // larger than a number, or smaller than nothing
      return kStepBytes;
    }
  }
  bool MayLieLast(const NodeEntry& e) const {
    const Shape* s = edit_->shapes().find(e);
    const Type* t = edit_->types().find(e);
    if (!s || !t || !s->fully_known() || s->rank() < 3 || s->rank() > 5 || !t->is_tensor())
      return false;
    const int bits = DTypeBits(t->dtype);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
  }
  Candidate* Find(const NodeEntry& e) {
    const int* i = numbers_.find(e);
    return i ? &candidates_[size_t(*i)] : nullptr;
  }

  void LookAtOutputs(const NodePtr& n) {
    std::vector<End> ends(n->num_outputs(), plain_);
    if (!n->is_variable()) {
      const size_t inputs = n->num_inputs();
      std::vector<End> all = EndsOf(n);
      for (uint32_t k = 0; k < n->num_outputs(); ++k) ends[k] = all[inputs + k];
      all.resize(inputs);
      input_ends_.set(n, std::move(all));
    }
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const NodeEntry e(n, k);
      if (!MayLieLast(e) || LiesAlikeInAll(edit_->shape(e))) continue;
      numbers_.set(e, int(candidates_.size()));
      candidates_.push_back({e, BytesOf(e), ends[k]});
    }
  }
  void LookAtInputs(const NodePtr& n) {
    if (n->is_variable()) return;
    const std::vector<End>& ends = *input_ends_.find(n);
    for (uint32_t i = 0; i < n->num_inputs(); ++i)
      if (Candidate* c = n->inputs[i].node ? Find(n->inputs[i]) : nullptr) {
        c->readers.push_back({n, i, ends[i]});
        AddEndOf(c, ends[i]);
      }
  }

  /// What a node takes its inputs as and gives its outputs as.
  std::vector<End> EndsOf(const NodePtr& n) {
    const size_t inputs = n->num_inputs(), all = inputs + n->num_outputs();
    std::vector<End> ends(all, plain_);
    if (IsOp(n, builtin::kReorder)) {  // from an earlier run: takes and gives what is wanted
      for (End& end : ends) end = AddEnd();
      return ends;
    }
    if (const LoweredKernel* k = kernels_.find(n)) {
      for (size_t i = 0; i < all; ++i)
        if (k->layout(i) == Layout::kChannelsLast) ends[i] = AddEnd(/*fixed=*/true);
      return ends;
    }
    const LayoutWish wish = LayoutWishOf(n, ctx_.target(), edit_->shapes(), edit_->types());
    const auto ask = [&](const std::vector<Layout>& wished, size_t first, size_t count,
                         const auto& entry) {
      for (size_t i = 0; i < wished.size() && i < count; ++i) {
        const NodeEntry e = entry(i);
        if (wished[i] != Layout::kChannelsLast || !e.node || !MayLieLast(e)) continue;
        if (LiesAlikeInAll(edit_->shape(e))) {
          SayLast(e);
          continue;
        }
        ends[first + i] = AddEnd();
        choice_.Pay(ends[first + i], BytesOf(e), 0);
      }
    };
    ask(wish.inputs, 0, inputs, [&](size_t i) { return n->inputs[i]; });
    ask(wish.outputs, inputs, n->num_outputs(),
        [&](size_t i) { return NodeEntry(n, uint32_t(i)); });
    const GraphPtr* body = bodies_.find(n);
    if (body && !AnchoredCallOf(n)) AskKernel(n, &ends);
    return ends;
  }
  /// Of the two names of one memory, the one that saves a library call from asking what it is.
  void SayLast(const NodeEntry& e) {
    if (e.node->is_variable() || IsConstant(e) || g_.is_output(e.node)) return;
    layouts_.set(e, Layout::kChannelsLast);
  }
  void AskKernel(const NodePtr& n, std::vector<End>* ends) {
    const size_t inputs = n->num_inputs();
    const auto entry = [&](int operand) {
      return size_t(operand) < inputs ? n->inputs[uint32_t(operand)]
                                      : NodeEntry(n, uint32_t(size_t(operand) - inputs));
    };
    const std::optional<ComputeSpec> spec = TryExpand(g_, n, nullptr);
    if (!spec) return;  // no kernel either
    const auto groups = LayoutGroups(*spec, n->attrs.dict.find("parts") != nullptr);
    bool reduces = false;
    for (const ExprNode* e : PostOrder(spec->values)) reduces |= e->kind() == ExprKind::kReduce;
    std::vector<bool> written(ends->size());
    for (auto [i, k] : WrittenInputs(n)) {
      written[size_t(i)] = true;
      if (k >= 0) written[inputs + size_t(k)] = true;
    }
    const auto bytes = [&](const std::vector<int>& operands) {
      int64_t sum = 0;
      for (int operand : operands) sum += BytesOf(entry(operand));
      return sum;
    };
    for (const LayoutGroup& group : groups) {
      if (std::any_of(group.operands.begin(), group.operands.end(),
                      [&](int operand) { return written[size_t(operand)]; }))
        continue;  // a variable lies there
      // Rows that are made of something else are best walked through as that lies (measured: an
      // embedding and its normalisation, given with another axis first, take 2.3 times as long when
      // the lanes are channels).
      if (force_ == Force::kNone && reduces && size_t(group.operands[0]) >= inputs) continue;
      const End end = AddEnd();
      choice_.Pay(end, bytes(group.strided_plain), bytes(group.strided_last));
      for (int operand : group.operands) (*ends)[size_t(operand)] = end;
    }
  }

  bool LiesLast(End end, const Candidate& c) const {
    if (fixed_[size_t(end)]) return *fixed_[size_t(end)];
    if (force_ == Force::kNone) return chosen_[size_t(end)];
    // Odd: results that one loop writes lie alike; what a kernel reads may lie otherwise.
    return force_ == Force::kLast ||
           (fixed_[size_t(c.maker)] ? c.entry.node->id() : NodeId(c.maker)) % 2 == 1;
  }
  /// A kernel that is still to be made: each of its operands may lie in its own way.
  bool TakesAny(const Reader& r) const {
    return r.end != plain_ && bodies_.find(r.node) && !AnchoredCallOf(r.node) &&
           !kernels_.find(r.node);
  }
  void Arrange(const Candidate& c) {
    const bool last = LiesLast(c.maker, c);
    const std::vector<Reader> readers = c.readers;
    if (last) Tell(c.entry);
    NodePtr other;
    const auto reordered = [&] {
      if (!other) other = AddReorder(c.entry, !last);
      return NodeEntry(other);
    };
    const auto differs = [&](const Reader& r) { return LiesLast(r.end, c) != last; };
    // A kernel that alone differs reads with strides what a reorder would have to write first.
    const bool alone = force_ != Force::kLast && !IsConstant(c.entry) &&
                       std::count_if(readers.begin(), readers.end(), differs) == 1 &&
                       !(last && g_.is_output(c.entry.node));
    for (const Reader& r : readers)
      if (differs(r) && !(alone && TakesAny(r))) g_.SetInput(r.node, r.slot, reordered());
    for (size_t i = 0; last && i < g_.outputs.size(); ++i)
      if (g_.outputs[i] == c.entry) g_.outputs.set(i, reordered());
  }
  void Tell(const NodeEntry& e) {
    layouts_.set(e, Layout::kChannelsLast);
    ctx_.Count("channels-last", 1);
  }
  NodePtr AddReorder(const NodeEntry& e, bool last) {
    const NodeEntry r = edit_->Add(builtin::kReorder, {e}, {}, e);
    g_.MergeOrigin(r.node, e.node);
    if (last) Tell(r);
    ctx_.Count("reorders", 1);
    return r.node;
  }

  Graph& g_;
  PassContext& ctx_;
  const Force force_;
  TypedEdit* edit_ = nullptr;  // while the layouts are chosen
  SubgraphMap bodies_;
  KernelMap kernels_;
  TwoWayChoice choice_;
  std::vector<std::optional<bool>> fixed_;  ///< of each end
  std::vector<bool> chosen_;
  End plain_ = 0;
  EntryMap<int> numbers_;
  std::vector<Candidate> candidates_;
  NodeMap<std::vector<End>> input_ends_;
  LayoutMap layouts_;
};

Graph LayoutPass(Graph g, PassContext& ctx) {
  const std::string force = ctx.option<std::string>("force");
  WEFT_CHECK(force.empty() || force == "last" || force == "odd", kApiMisuse,
             "Layout: force is \"last\" or \"odd\", not \"{}\"", force);
  LayoutChooser(g, ctx,
                force.empty()    ? Force::kNone
                : force == "odd" ? Force::kOdd
                                 : Force::kLast)
      .Run();
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(layout, kDerived, LayoutMap)
    .describe("order of the elements of an entry in memory")
    .hidden()
    .text([](const Layout& l) { return l == Layout::kChannelsLast ? "last" : "plain"; },
          [](const std::string& s) {
            WEFT_CHECK(s == "last" || s == "plain", kSyntax, "no layout '{}'", s);
            return s == "last" ? Layout::kChannelsLast : Layout::kPlain;
          });

WEFT_REGISTER_PASS(Layout)
    .describe("chooses which tensors have their channels innermost in memory, for library calls")
    .set_body(LayoutPass)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("subgraph")
    .provide_graph_attr("layout")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .preserve_graph_attr("subgraph")
    .preserve_graph_attr("kernel")
    .preserve_graph_attr("rtc")
    .option("force", std::string(),
            "for tests: \"last\" puts every tensor that may so, \"odd\" every second one")
    .statistic("channels-last", "tensors with their channels innermost")
    .statistic("reorders", "copies between two layouts");

}  // namespace
}  // namespace weft
