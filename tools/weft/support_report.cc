/// support_report.cc: a node is supported when its shapes are known before the run and one of these
/// runs it: a library call of the target, a kernel generated from its FCodeGen, the interpreter,
/// which is on the host whatever the target. The graph is looked at after simplification and
/// folding, as a compilation would see it.
#include "support_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/backend/backend.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr size_t kPlacesShown = 5;

class Judge {
 public:
  Judge(const Graph& g, const Target& target)
      : g_(g),
        target_(target),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")),
        values_(g.HasAttr("value") ? &g.GetAttr<ValueMap>("value") : nullptr),
        unknown_(g.HasAttr("unknown") ? &g.GetAttr<UnknownMap>("unknown") : nullptr) {}

  /// Empty: supported.
  std::string WhyNot(NodePtr n) const {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || IsFollowed(n)) return "";
    const Evaluator* evaluator = GetEvaluator();
    const std::string not_evaluated = evaluator ? evaluator->WhyNot(n) : "there is no evaluator";
    if (!target_.traits().kernels) return not_evaluated;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const NodeEntry e(n, i);
      if (shapes_[e].fully_known()) continue;
      const std::string* why = unknown_ ? unknown_->find(e) : nullptr;
      return fmt::format("the shape of output {} is not known before the run{}", i,
                         why ? ": " + *why : "");
    }
    if (target_.traits().device_memory)
      for (const NodeEntry& e : Operands(n))
        if (types_[e].is_tensor() && DTypeBits(types_[e].dtype) == 0)
          return fmt::format("tensors of {} have no place on a device", DTypeName(types_[e].dtype));
    // What neither calls nor kernels run is interpreted.
    return not_evaluated.empty() ? "" : WhyNoStep(n);
  }
  /// Empty: it runs on the target's device, if that has memory of its own; else why its operands
  /// are fetched for the host.
  std::string WhyOnHost(NodePtr n) const {
    if (!target_.traits().device_memory) return "";
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || IsFollowed(n)) return "";
    return WhyNoStep(n);
  }
  std::string Types(NodePtr n) const {
    std::vector<std::string> out;
    for (const NodeEntry& e : n->inputs) out.push_back(e.node ? types_[e].ToString() : "_");
    return "(" + Join(out, ", ") + ")";
  }

 private:
  /// Empty: a library call or a generated kernel runs it.
  std::string WhyNoStep(NodePtr n) const {
    if (view_.get(n->op(), false) || target_.compute(n->op())) return "";
    try {
      ExpandSingle(g_, n);
      return "";
    } catch (const UserError& e) {
      return e.message();
    }
  }
  /// A small integer tensor whose value is computed with the sizes, not by a step.
  bool IsFollowed(NodePtr n) const {
    if (!values_ || n->num_outputs() != 1) return false;
    const SymTensorPtr* v = values_->find(NodeEntry(n));
    if (!v || !*v) return false;
    const auto& all = (*v)->elements;
    return std::all_of(all.begin(), all.end(), [](SymInt s) { return s.known(); });
  }
  static std::vector<NodeEntry> Operands(NodePtr n) {
    std::vector<NodeEntry> all;
    for (const NodeEntry& e : n->inputs)
      if (e.node) all.push_back(e);
    for (uint32_t i = 0; i < n->num_outputs(); ++i) all.emplace_back(n, i);
    return all;
  }
  const Graph& g_;
  const Target target_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const ValueMap* values_;
  const UnknownMap* unknown_;
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
};

/// The user's nodes that a node stands for.
std::string Place(NodePtr n) {
  if (n->origin() && !n->origin()->empty()) return Join(*n->origin(), "+");
  return n->Describe();
}

}  // namespace

Support FindSupport(const Graph& graph, const std::vector<Finding>& findings,
                    const Target& target) {
  std::string why;
  if (target.traits().kernels && !FindKernelCompiler(target, &why)) {
    ThrowError(ErrorCode::kUnsupported,
               fmt::format("nothing is known about target '{}': {}", target.name(), why),
               "--support", "targets are cpu, ref, cuda:sm_90");
  }
  using Groups = std::map<std::tuple<std::string, std::string, std::string>, NodeGroup>;
  Groups groups, on_host;
  for (const Finding& f : findings) {
    if (f.op.empty()) continue;
    NodeGroup& u = groups[{f.op, "", f.message}];
    u.op = f.op;
    u.reason = f.message;
    u.hint = f.hint;
    u.count += f.count;
    if (!f.place.empty()) u.places.push_back(f.place);
  }
  PassOptions options;
  options.target = target;
  const Graph g = ApplyPasses(graph,
                              target.traits().kernels ? "Simplify,FoldConstants,Simplify,InferShape"
                                                      : "InferType,InferShape",
                              options);
  const Judge judge(g, target);
  for (NodePtr n : g.TopoOrder()) {
    std::string reason = judge.WhyNot(n);
    Groups& into = reason.empty() ? on_host : groups;
    if (reason.empty()) reason = judge.WhyOnHost(n);
    if (reason.empty()) continue;
    const std::string types = judge.Types(n);
    NodeGroup& u = into[{n->op()->name, types, reason}];
    u.op = n->op()->name;
    u.dtypes = types;
    u.reason = reason;
    ++u.count;
    if (u.places.size() < kPlacesShown) u.places.push_back(Place(n));
  }
  Support out;
  for (auto& [key, u] : groups) out.unsupported.push_back(std::move(u));
  for (auto& [key, u] : on_host) out.on_host.push_back(std::move(u));
  return out;
}

int64_t CountNodes(const std::vector<NodeGroup>& groups) {
  int64_t nodes = 0;
  for (const NodeGroup& u : groups) nodes += u.count;
  return nodes;
}

namespace {

std::string GroupsText(const std::vector<NodeGroup>& groups) {
  std::string out;
  for (const NodeGroup& u : groups) {
    out += fmt::format("  {} x {}{}: {}\n", u.count, u.op, u.dtypes, u.reason);
    if (!u.hint.empty()) out += fmt::format("      hint: {}\n", u.hint);
    if (!u.places.empty())
      out += fmt::format("      at {}{}\n", Join(u.places, ", "),
                         int64_t(u.places.size()) < u.count ? ", ..." : "");
  }
  return out;
}

}  // namespace

std::string SupportText(const Support& support, const std::string& target) {
  const int64_t without = CountNodes(support.unsupported), on_host = CountNodes(support.on_host);
  std::string out = without == 0 ? fmt::format("every node can run on {}", target)
                                 : fmt::format("{} nodes cannot run on {}:\n", without, target) +
                                       GroupsText(support.unsupported);
  if (on_host == 0) return without == 0 ? out + "\n" : out;
  out += without == 0 ? fmt::format(", {} of them on the host:\n", on_host)
                      : fmt::format("{} nodes run on the host:\n", on_host);
  return out + GroupsText(support.on_host);
}

Json SupportJson(const std::vector<NodeGroup>& groups) {
  Json out = Json::array();
  for (const NodeGroup& u : groups)
    out.push_back({{"op", u.op},
                   {"dtypes", u.dtypes},
                   {"reason", u.reason},
                   {"hint", u.hint},
                   {"count", u.count},
                   {"places", u.places}});
  return out;
}

}  // namespace weft::tool
