/// build.cc: from a plan to fused nodes. Every fused node is made and takes over the uses
/// of its members first; then nothing outside uses a member, and the members move into the
/// body as they are.
///   before  %a = Exp(%x)   %b = Neg(%a)   %c = Library(%b)
///   then    %a = Exp(%x)   %b = Neg(%a)   %f = weft::Fused()     %c = Library(%f)
///   after                                 %f = weft::Fused(%x)   %c = Library(%f)
#include "build.h"

#include <algorithm>
#include <tuple>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/value_name.h"
#include "weft/core/op/op.h"

namespace weft {
namespace {

/// A value that a body may hold itself: one element, some that are read at fixed
/// places, or followed symbolically.
bool IsSmallConstant(const NodeEntry& e, const ValueMap& values,
                     const std::vector<uint64_t>& parameters) {
  if (TensorPtr t = Graph::ConstantOf(e)) {
    const uint64_t key = e.key().packed();
    return IsComputable(t->dtype()) &&
           (t->num_elements() == 1 ||
            std::binary_search(parameters.begin(), parameters.end(), key));
  }
  const SymTensorPtr* v = values.find(e);
  return v && *v && (*v)->fully_known();
}

/// The user's nodes that the members stand for, a few of them: names are for messages.
Origin OriginOf(const NodePtr* begin, const NodePtr* end) {
  constexpr size_t kMaxNames = 16;
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (!name.empty() && names.size() < kMaxNames &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  constexpr ptrdiff_t kAhead = 8;  // names and origins lie apart from what the sweep has read
  for (const NodePtr* n = begin; n != end && names.size() < kMaxNames; ++n) {
    if (end - n > kAhead) {
      PrefetchLine(&n[kAhead]->attrs.name);
      PrefetchLine(&n[kAhead]->origin());
    }
    if (!(*n)->origin())
      add((*n)->attrs.name);
    else
      for (const std::string& s : *(*n)->origin()) add(s);
  }
  return names.empty() ? nullptr
                       : std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::vector<Node*> ControlUsers(NodePtr n) {
  std::vector<Node*> users;
  for (const Use& u : n->uses())
    if (u.control) users.push_back(u.user);
  return users;
}

}  // namespace

FusedBuilder::FusedBuilder(Graph& g, const FusionPlan& plan)
    : g_(g), plan_(plan), bodies_(g.TakeAttrOr<SubgraphMap>("subgraph")), edit_(g) {}

void FusedBuilder::Run() {
  CollectMembers();
  FindCrossings();
  kernels_.resize(size_t(plan_.kernels));
  edit_.Reserve(g_.id_bound() + NodeId(plan_.kernels));
  for (int k = 0; k < plan_.kernels; ++k) AddFused(k);
  Redirect();
  if (plan_.has_control)
    for (int k = 0; k < plan_.kernels; ++k) RedirectControl(k);
  for (int k = 0; k < plan_.kernels; ++k) FillBody(k);
  Finish();
}

void FusedBuilder::CollectMembers() {
  begin_.assign(size_t(plan_.kernels) + 1, 0);
  for (NodeId id : plan_.ids)
    if (KernelOf(id) >= 0) ++begin_[size_t(KernelOf(id)) + 1];
  for (size_t k = 1; k < begin_.size(); ++k) begin_[k] += begin_[k - 1];
  members_.resize(begin_.back());
  member_ids_.resize(begin_.back());
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t i = 0; i < plan_.ids.size(); ++i)
    if (const int k = KernelOf(plan_.ids[i]); k >= 0) {
      const uint32_t place = next[size_t(k)]++;
      members_[place] = plan_.order[i];
      member_ids_[place] = plan_.ids[i];
    }
  if (!plan_.part_of.empty()) OrderByParts();
}

/// Part by part: nothing in one part reads another.
void FusedBuilder::OrderByParts() {
  std::vector<std::pair<NodePtr, NodeId>> sorted;
  for (int k = 0; k < plan_.kernels; ++k) {
    const uint32_t first = begin_[size_t(k)], last = begin_[size_t(k) + 1];
    const auto part = [&](uint32_t i) { return plan_.part_of[member_ids_[i]]; };
    bool several = false;
    for (uint32_t i = first; i < last; ++i) several |= part(i) != 0;
    if (!several) continue;
    sorted.clear();
    for (uint32_t i = first; i < last; ++i) sorted.emplace_back(members_[i], member_ids_[i]);
    std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
      return plan_.part_of[a.second] < plan_.part_of[b.second];
    });
    for (uint32_t i = first; i < last; ++i)
      std::tie(members_[i], member_ids_[i]) = sorted[i - first];
  }
}

void FusedBuilder::Read(const EntryKey& e) {
  if (e.index == 0)
    result_[e.id] = kRead;
  else
    more_results_.emplace(e, kRead);
}
void FusedBuilder::Cross(Node* user, uint32_t slot, const EntryKey& e, int kernel) {
  if (!e.present() || KernelOf(e.id) < 0 || KernelOf(e.id) == kernel) return;
  crossings_.push_back({user, slot, e});
  Read(e);
}
void FusedBuilder::FindCrossings() {
  result_.assign(g_.id_bound(), kNotRead);
  for (size_t i = 0; i < plan_.ids.size(); ++i) {
    const int kernel = KernelOf(plan_.ids[i]);
    for (uint32_t k = plan_.input_begin[i]; k < plan_.input_begin[i + 1]; ++k)
      Cross(plan_.order[i].get(), k - plan_.input_begin[i], plan_.inputs[k], kernel);
  }
  // What no output reaches reads as well, until it is erased.
  if (plan_.ids.size() != g_.num_nodes())
    for (NodeId id = 0; id < g_.id_bound(); ++id) {
      const NodePtr n = g_.node(id);
      if (!n || KernelOf(id) != FusionPlan::kUnreached) continue;
      for (uint32_t i = 0; i < n->num_inputs(); ++i)
        if (const NodeEntry& e = n->inputs[i]; e.node)
          Cross(n.get(), i, {e.node->id(), e.index}, FusionPlan::kUnreached);
    }
  for (const NodeEntry& e : g_.outputs)
    if (KernelOf(e.node->id()) >= 0) Read({e.node->id(), e.index});
  // What is written is a result, whether or not anything reads it.
  static const Op* const assign = Op::Find(builtin::kAssign);
  if (plan_.writes)
    for (size_t i = 0; i < plan_.ids.size(); ++i)
      if (KernelOf(plan_.ids[i]) >= 0 && plan_.order[i]->op() == assign) Read({plan_.ids[i], 0});
}

/// How many results each part of the kernel has.
Ints FusedBuilder::ResultsOfParts(int kernel) const {
  Ints results;
  if (plan_.part_of.empty()) return results;
  for (uint32_t m = begin_[size_t(kernel)]; m < begin_[size_t(kernel) + 1]; ++m) {
    const NodeId id = member_ids_[m];
    const size_t part = size_t(plan_.part_of[id]);
    if (part >= results.size()) results.resize(part + 1);
    results[part] += result_[id] == kRead;
    if (more_results_.empty()) continue;
    for (uint32_t i = 1; i < members_[m]->num_outputs(); ++i)
      results[part] += int64_t(more_results_.count(EntryKey{id, i}));
  }
  return results;
}

/// The fused node of a kernel, without inputs so far; its results in member order.
void FusedBuilder::AddFused(int kernel) {
  static const Op* const fused = Op::Get(builtin::kFused);
  Kernel& k = kernels_[size_t(kernel)];
  k.body = std::make_shared<Graph>();
  AttrDict attrs = {{"body", GraphPtr(k.body)}};
  if (const Ints parts = ResultsOfParts(kernel); parts.size() > 1) attrs["parts"] = parts;
  k.node = g_.AddNode(fused, {}, std::move(attrs));
  g_.SetOrigin(k.node, OriginOf(begin(kernel), end(kernel)));
  auto add = [&](NodePtr n, uint32_t index, int* result) {
    *result = int(k.results.size());
    const NodeEntry from(n, index), to(k.node, uint32_t(*result));
    k.results.push_back(from);
    edit_.KnowAs(to, from);
    if (std::string name = ValueName(g_, from); !name.empty())
      SetValueName(&g_, to, std::move(name));
    g_.MergeOrigin(k.node, n);
  };
  for (uint32_t m = begin_[size_t(kernel)]; m < begin_[size_t(kernel) + 1]; ++m) {
    const NodeId id = member_ids_[m];
    if (result_[id] == kRead) add(members_[m], 0, &result_[id]);
    if (more_results_.empty()) continue;
    for (uint32_t i = 1; i < members_[m]->num_outputs(); ++i)
      if (auto it = more_results_.find(EntryKey{id, i}); it != more_results_.end())
        add(members_[m], i, &it->second);
  }
  bodies_.set(k.node, k.body);
}

NodeEntry FusedBuilder::FusedEntry(const EntryKey& e) const {
  const int result = e.index == 0 ? result_[e.id] : more_results_.at(e);
  return {kernels_[size_t(KernelOf(e.id))].node, uint32_t(result)};
}

void FusedBuilder::Redirect() {
  for (const Crossing& c : crossings_) g_.SetInput(c.user, c.slot, FusedEntry(c.entry));
  for (size_t i = 0; i < g_.outputs.size(); ++i)
    if (const NodeEntry e = g_.outputs[i];
        e.node->id() < plan_.kernel_of.size() && KernelOf(e.node->id()) >= 0)
      g_.outputs.set(i, FusedEntry({e.node->id(), e.index}));
}

/// Before the kernel runs what ran before any member; after it what ran after any.
void FusedBuilder::RedirectControl(int kernel) {
  const NodePtr f = kernels_[size_t(kernel)].node;
  for (const NodePtr* n = begin(kernel); n != end(kernel); ++n) {
    for (Node* d : (*n)->control_deps)
      if (!IsMember(d->id(), kernel)) f->control_deps.push_back(d);
    for (Node* user : ControlUsers(*n))
      if (user != f.get() && !IsMember(user->id(), kernel)) user->control_deps.push_back(f);
  }
  for (const NodePtr* n = begin(kernel); n != end(kernel); ++n)
    for (Node* user : ControlUsers(*n)) user->control_deps.remove(*n);
}

/// The graph inside one fused node.
class FusedBuilder::Body {
 public:
  Body(FusedBuilder& b, Kernel& kernel, size_t members)
      : b_(b), kernel_(kernel), body_(*kernel.body), inner_(body_) {
    inner_.Reserve(NodeId(members + members / 8 + 4));
  }

  /// `ids`: of the members in the graph around.
  void Fill(const NodePtr* members, const NodeId* ids, size_t count) {
    body_.MoveNodes(b_.g_, members, count, [this](const NodeEntry& e) { return StandIn(e); });
    for (size_t i = 0; i < count; ++i) b_.edit_.MoveRows(ids[i], inner_, members[i]->id());
    body_.outputs = kernel_.results;
    inner_.Finish();
  }

 private:
  /// What stands in the body for an entry of the graph around it.
  NodeEntry StandIn(const NodeEntry& e) {
    auto [it, fresh] = outside_.try_emplace(e.key());
    if (!fresh) return it->second;
    NodeEntry in;
    if (!IsSmallConstant(e, b_.edit_.values(), b_.plan_.parameters)) {
      in = NodeEntry(body_.AddInput("", b_.edit_.type(e), b_.edit_.shape(e)));
      kernel_.node->inputs.push_back(e);
    } else if (TensorPtr t = Graph::ConstantOf(e)) {
      in = body_.AddConstant(t);
    } else {
      in = FollowedValue(e);
    }
    return it->second = inner_.KnowAs(in, b_.edit_, e);
  }
  /// A followed value, rebuilt from its elements: a vector of extents, brought to the entry's shape
  /// and dtype.
  NodeEntry FollowedValue(const NodeEntry& e) {
    const SymTensor& v = *b_.edit_.value(e);
    const int64_t count = int64_t(v.elements.size());
    NodeEntry x = inner_.Add(builtin::kShapeTensor, {}, {{"dims", Shape(v.elements)}},
                             {Shape{SymInt(count)}, Type(DType::kI64),
                              std::make_shared<SymTensor>(SymTensor{{count}, v.elements})});
    const Type i64(DType::kI64), t = b_.edit_.type(e);
    if (v.dims.size() != 1) {
      const NodeEntry dims = inner_.AddConstant(Tensor::Ints(v.dims));
      x = inner_.Add("Reshape", {x, dims}, {}, {b_.edit_.shape(e), i64, nullptr});
    }
    if (t.dtype != DType::kI64)
      x = inner_.Add("Cast", {x}, {{"to", t.dtype}}, {b_.edit_.shape(e), t, nullptr});
    return x;
  }

  FusedBuilder& b_;
  Kernel& kernel_;
  Graph& body_;
  TypedEdit inner_;
  std::unordered_map<EntryKey, NodeEntry> outside_;  // of the graph, and what stands for them
};

void FusedBuilder::FillBody(int kernel) {
  const size_t count = size_t(end(kernel) - begin(kernel));
  Body(*this, kernels_[size_t(kernel)], count)
      .Fill(begin(kernel), &member_ids_[begin_[size_t(kernel)]], count);
}

void FusedBuilder::Finish() {
  g_.EraseDead();
  edit_.Finish();
  // Fused nodes of an earlier run, whose rows an edit has cleared since.
  for (NodePtr n : g_.TopoOrder())
    if (IsOp(n, builtin::kFused) && !bodies_.find(n)) bodies_.set(n, FusedBody(n));
  g_.SetAttr("subgraph", std::move(bodies_));
}

}  // namespace weft
