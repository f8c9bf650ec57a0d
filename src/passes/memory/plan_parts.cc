/// plan_parts.cc: see plan_parts.h. Only what is so at every size is said here: whether the parts
/// lie together, fit and save anything is asked when sizes are known (runtime: join_blocks.h).
#include "plan_parts.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/alias.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/tensor/followed_value.h"

namespace weft {
namespace {

/// An operator that gives outputs of a node: itself, or one in a fused body.
struct Inside {
  NodePtr op;
  std::vector<int> outputs;      ///< of the node, by that of the operator; -1: none
  std::vector<NodeEntry> outer;  ///< its operands in the graph around; null: absent, or of the body
};

/// Empty where an operator reads what another one of the body computes.
std::vector<Inside> OperatorsOf(const NodePtr& n, const Graph* body) {
  std::vector<Inside> all;
  if (!body) {
    all.push_back({n, {}, {n->inputs.begin(), n->inputs.end()}});
    for (uint32_t k = 0; k < n->num_outputs(); ++k) all[0].outputs.push_back(int(k));
    return all;
  }
  const std::vector<NodePtr>& inputs = body->inputs();
  for (size_t k = 0; k < body->outputs.size(); ++k) {
    const NodeEntry& e = body->outputs[k];
    if (e.node->is_variable()) return {};
    auto it = std::find_if(all.begin(), all.end(), [&](const Inside& i) { return i.op == e.node; });
    if (it == all.end()) {
      all.push_back({e.node, std::vector<int>(e.node->num_outputs(), -1), {}});
      it = std::prev(all.end());
      for (const NodeEntry& in : e.node->inputs) {
        const auto at = std::find(inputs.begin(), inputs.end(), in.node);
        it->outer.push_back(at == inputs.end() ? NodeEntry()
                                               : n->inputs[size_t(at - inputs.begin())]);
      }
    }
    if (it->outputs[e.index] >= 0) return {};
    it->outputs[e.index] = int(k);
  }
  return all;
}

class Context final : public AliasContext {
 public:
  Context(const Graph& g, const NodePtr& n, const Graph* body, const Inside& inside)
      : n_(n),
        inside_(inside),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        values_(ValuesOf(g)),
        own_values_(body ? ValuesOf(*body) : nullptr),
        facts_(g.AttrOr<Facts>("facts")) {}
  const NodePtr& node() const override { return inside_.op; }
  const Shape& in(int i) const override {
    const NodeEntry& e = inside_.outer.at(size_t(i));
    return e.node ? shapes_[e] : unknown_;
  }
  const Shape& out(int i) const override {
    const int k = inside_.outputs.at(size_t(i));
    return k < 0 ? unknown_ : shapes_[NodeEntry(n_, uint32_t(k))];
  }
  SymTensorPtr in_value(int i) const override {
    if (size_t(i) >= inside_.outer.size()) return nullptr;
    const NodeEntry &outer = inside_.outer[size_t(i)], &own = inside_.op->inputs[size_t(i)];
    for (const auto& [values, e] : {std::pair(values_, outer), std::pair(own_values_, own)}) {
      const SymTensorPtr* v = values && e.node ? values->find(e) : nullptr;
      if (v && *v) return *v;
    }
    const TensorPtr t = own.node ? Graph::ConstantOf(own) : nullptr;
    return t ? FollowedValueOf(*t) : nullptr;
  }
  const Facts& facts() const override { return facts_; }

 private:
  static const ValueMap* ValuesOf(const Graph& g) {
    return g.HasAttr("value") ? &g.GetAttr<ValueMap>("value") : nullptr;
  }
  const NodePtr& n_;
  const Inside& inside_;
  const ShapeMap& shapes_;
  const ValueMap *values_, *own_values_;
  const Facts facts_;
  const Shape unknown_;
};

}  // namespace

std::vector<StoragePart> CopiedParts(const Graph& g, const NodePtr& n, const StoragePlan& plan,
                                     const LayoutMap& layouts) {
  static const auto& alias = Op::GetAttr<FAlias>("FAlias");
  if (!WrittenInputs(n).empty()) return {};
  const GraphPtr body = IsOp(n, builtin::kFused) ? FusedBody(n) : nullptr;
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  const auto place = [&](const NodeEntry& e) {
    const int* s = e.node && layouts[e] == Layout::kPlain ? plan.of.find(e) : nullptr;
    return s && plan.storages[size_t(*s)].kind == StorageKind::kArena ? *s : -1;
  };
  std::vector<StoragePart> parts;
  std::set<int> once;
  size_t outputs = 0;  // of which all elements are known
  const std::vector<Inside> all = OperatorsOf(n, body.get());
  for (const Inside& inside : all) {
    const FAlias* f = alias.find(inside.op->op());
    if (!f) return {};
    const Context context(g, n, body.get(), inside);
    for (size_t i = 0; i < inside.outer.size(); ++i)
      if (inside.outer[i].node && !context.in(int(i)).has_rank()) return {};
    if (!inside.outer[0].node || !context.out(0).has_rank()) return {};
    size_t into = 0;
    for (const AliasPart& a : (*f)(context)) {
      if (inside.outputs[size_t(a.output)] < 0) return {};
      const NodeEntry in = inside.outer[size_t(a.input)],
                      out(n, uint32_t(inside.outputs[size_t(a.output)]));
      const int from = place(in), to = place(out), bits = DTypeBits(types[out].dtype);
      if (from < 0 || to < 0 || from == to || bits == 0 || bits % 8 != 0 ||
          types[in].dtype != types[out].dtype || !a.at.known() || !a.rows.known())
        return {};
      StoragePart p;
      p.node = n->id();
      p.part = a.into ? from : to;
      p.whole = a.into ? to : from;
      p.bytes_before = a.at * SymInt(int64_t{bits / 8});
      p.rows = a.rows;
      if (!once.insert(p.part).second) return {};  // it cannot lie in two places
      into += a.into;
      outputs += !a.into;
      parts.push_back(p);
    }
    if (into > 0 && (into != inside.outer.size() || inside.outputs.size() != 1)) return {};
    outputs += into > 0;
  }
  return outputs == n->num_outputs() ? parts : std::vector<StoragePart>();
}

}  // namespace weft
