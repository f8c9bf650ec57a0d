/// support_report.cc: prints what weft/runtime/placement.h says of every node of the graph that a
/// compilation would place.
#include "support_report.h"

#include <map>
#include <tuple>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/placement.h"
#include "weft/runtime/program/predict_arena.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

constexpr size_t kPlacesShown = 5;

std::string TypesOf(const NodePtr& n, const TypeMap& types) {
  std::vector<std::string> out;
  for (const NodeEntry& e : n->inputs) out.push_back(e.node ? types[e].ToString() : "_");
  return "(" + Join(out, ", ") + ")";
}

/// The user's nodes that a node stands for.
std::string PlaceText(NodePtr n) {
  if (n->origin() && !n->origin()->empty()) return Join(*n->origin(), "+");
  return n->Describe();
}

using Groups = std::map<std::tuple<std::string, std::string, std::string>, NodeGroup>;
struct Judged {
  Groups unsupported, between_regions, on_host;
};

void AddNode(const NodePtr& n, const TypeMap& types, const std::string& why, Groups* groups) {
  NodeGroup& u = (*groups)[{n->op()->name, TypesOf(n, types), why}];
  u.op = n->op()->name;
  u.dtypes = TypesOf(n, types);
  u.reason = why;
  ++u.count;
  if (u.places.size() < kPlacesShown) u.places.push_back(PlaceText(n));
}

/// The nodes of a graph and of its regions.
void Judge(const Graph& g, const Target& target, Judged* judged) {
  const Placement placement(g, target);
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  for (const NodePtr& n : g.TopoOrder()) {
    if (IsOp(n, builtin::kRegion)) Judge(*n->attr<GraphPtr>("body"), target, judged);
    if (IsOp(n, builtin::kRegion) || IsOp(n, builtin::kSizes)) continue;
    const Verdict v = placement.Of(n);
    Groups* into = nullptr;
    if (v.runner == Runner::kNobody) into = &judged->unsupported;
    if (v.runner == Runner::kBetween) into = &judged->between_regions;
    if (v.runner == Runner::kInterpreter && target.traits().device_memory) into = &judged->on_host;
    if (!into) continue;
    AddNode(n, types, v.why, into);
  }
}

/// What the delegate says of the nodes of a graph and of its bodies. Variables, constants and the
/// small tensors that inference follows go where they are read.
void Judge(const Graph& g, const DelegateSpec& delegate, Groups* unsupported) {
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  const ValueMap values = g.AttrOr<ValueMap>("value");
  for (const NodePtr& n : g.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    if (const SymTensorPtr* v = values.find(NodeEntry(n)); v && *v && (*v)->fully_known()) continue;
    for (const std::string& name : BodyNames(n))
      Judge(TypedBody(n, name, shapes, types), delegate, unsupported);
    const std::string why = delegate.delegate->WhyNot(g, n, delegate.options);
    if (!why.empty()) AddNode(n, types, why, unsupported);
  }
}

/// What a backend that makes programs of whole graphs says of the nodes of one.
void Judge(const Graph& g, const Backend& backend, Groups* unsupported) {
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  for (const NodePtr& n : g.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    const std::string why = backend.WhyNot(g, n);
    if (!why.empty()) AddNode(n, types, why, unsupported);
  }
}

void AddFindings(const std::vector<Finding>& findings, Groups* unsupported) {
  for (const Finding& f : findings) {
    if (f.op.empty()) continue;
    NodeGroup& u = (*unsupported)[{f.op, "", f.message}];
    u.op = f.op;
    u.reason = f.message;
    u.hint = f.hint;
    u.count += f.count;
    if (!f.place.empty()) u.places.push_back(f.place);
  }
}

std::vector<NodeGroup> ListOf(Groups groups) {
  std::vector<NodeGroup> list;
  for (auto& [key, u] : groups) list.push_back(std::move(u));
  return list;
}

}  // namespace

Support FindSupport(const Graph& graph, const std::vector<Finding>& findings, const Target& target,
                    const SymBindings& dims) {
  std::string why;
  if (target.traits().kernels && !FindKernelCompiler(target, &why)) {
    ThrowError(ErrorCode::kUnsupported,
               fmt::format("nothing is known about target '{}': {}", target.name(), why),
               "--support", "targets are cpu, ref, cuda:sm_90, and backends of plugins");
  }
  Judged judged;
  AddFindings(findings, &judged.unsupported);
  PassOptions options;
  options.target = target;
  if (!target.traits().kernels) {
    const std::shared_ptr<Backend> backend = GetBackend(target.name());
    Judge(SupportGraph(graph, *backend, dims, options, false), *backend, &judged.unsupported);
    return {ListOf(std::move(judged.unsupported)), {}, {}};
  }
  const Pipeline passes = StandardPipeline({PipelineEnd::kSimplified});
  Graph g = ProvideTypes(ApplyPasses(graph, passes, options), options);
  if (!Placement(g, target).WhyRegions().empty())
    g = ProvideTypes(ApplyPasses(std::move(g), RegionPipeline(), options), options);
  Judge(g, target, &judged);
  return {ListOf(std::move(judged.unsupported)), ListOf(std::move(judged.between_regions)),
          ListOf(std::move(judged.on_host))};
}

Support FindDelegateSupport(const Graph& graph, const std::vector<Finding>& findings,
                            const DelegateSpec& delegate) {
  delegate.delegate->Version();  // opens it, or says what is missing
  Groups unsupported;
  AddFindings(findings, &unsupported);
  // As the pass that divides graphs sees it.
  Judge(ProvideTypes(ApplyPasses(graph, StandardPipeline({PipelineEnd::kSimplified}))), delegate,
        &unsupported);
  return {ListOf(std::move(unsupported)), {}, {}};
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
  const int64_t without = CountNodes(support.unsupported);
  std::string out = without == 0 ? fmt::format("every node can run on {}", target)
                                 : fmt::format("{} nodes cannot run on {}:\n", without, target) +
                                       GroupsText(support.unsupported);
  bool line = without > 0;  // begins a new one
  const auto add = [&](const std::vector<NodeGroup>& groups, const char* how) {
    if (groups.empty()) return;
    const int64_t count = CountNodes(groups);
    out += line ? fmt::format("{} nodes run {}:\n", count, how)
                : fmt::format(", {} of them {}:\n", count, how);
    out += GroupsText(groups);
    line = true;
  };
  add(support.between_regions, "between regions, by the interpreter");
  add(support.on_host, "on the host");
  return line ? out : out + "\n";
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
