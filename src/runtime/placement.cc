/// placement.cc: see placement.h.
#include "weft/runtime/placement.h"

#include "weft/codegen/lower/lower.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/run_bodies.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/plan/storage.h"
#include "weft/core/takes_dtype.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Empty: the interpreter runs it.
std::string WhyNotInterpreted(const NodePtr& n) {
  const Evaluator* evaluator = GetEvaluator();
  return evaluator ? evaluator->WhyNot(n) : "no evaluator is registered";
}

/// Inputs may be declared as what this build has no values of: sparse tensors, lists of lists.
/// Empty: it can be fed.
std::string WhyNotFed(const NodePtr& n) {
  if (!n->is_variable()) return {};
  const Type type = DeclaredType(n);
  return type.kind == TypeKind::kOpaque ? "values of its type are not supported" : "";
}

/// What it reads and gives.
std::vector<NodeEntry> Operands(const NodePtr& n) {
  std::vector<NodeEntry> all;
  for (const NodeEntry& e : n->inputs)
    if (e.node) all.push_back(e);
  for (uint32_t i = 0; i < n->num_outputs(); ++i) all.emplace_back(n, i);
  return all;
}

}  // namespace

Placement::Placement(const Graph& graph, const Target& target)
    : g_(graph),
      target_(target),
      shapes_(graph.GetAttr<ShapeMap>("shape")),
      types_(graph.GetAttr<TypeMap>("dtype")),
      values_(graph.HasAttr("value") ? &graph.GetAttr<ValueMap>("value") : nullptr),
      unknown_(graph.HasAttr("unknown") ? &graph.GetAttr<UnknownMap>("unknown") : nullptr) {
  // A run is told the extents of what is fed, and of the variables that its store has.
  std::vector<NodePtr> told = graph.AllInputs();
  for (const NodePtr& v : StateVariables(graph)) told.push_back(v);
  for (const NodePtr& p : told)
    for (SymInt d : shapes_[NodeEntry(p)].dims())
      if (d.known() && d.is_symbol()) bound_.insert(d.symbol_name());
}

/// Empty: it has a place in a plan.
std::string Placement::WhyLate(const NodeEntry& e) const {
  if (std::string why = WhyNotFed(e.node); !why.empty()) return why;
  const Type* t = types_.find(e);
  if (!t || !HasArenaPlace(*t))
    return fmt::format("output {} is of type {}", e.index, t ? t->ToString() : "?");
  const Shape* s = shapes_.find(e);
  bool known = s && s->fully_known();
  if (known)
    for (SymInt d : s->dims())
      for (SymInt symbol : d.Symbols()) known = known && bound_.count(symbol.symbol_name());
  if (known) return {};
  const std::string* why = unknown_ ? unknown_->find(e) : nullptr;
  return fmt::format("output {} has the shape {}, which is not known before the run{}", e.index,
                     s ? s->ToString() : "?", why ? ": " + *why : "");
}

const FCompute* LibraryRoutine(const Target& target, const NodePtr& n, const TypeMap& types) {
  static const auto& any_target = Op::GetAttr<FCompute>("FCompute");
  const std::optional<AnchoredCall> call = AnchoredCallOf(n);
  const Op* op = call ? call->anchor->op() : n->op();
  const FCompute* own = target.compute(op);
  if (own && !call && !IsTaken(TakesDTypeOf(target, op), types[NodeEntry(n)].dtype)) own = nullptr;
  return own ? own : any_target.find(op);
}

bool RunsBodies(const Target& target, const NodePtr& n) {
  static const auto& runs = Op::GetAttr<FRunBodies>("FRunBodies");
  return target.traits().kernels && HasControlBodies(n) && runs.find(n->op());
}

bool CanPlanBody(const Graph& body, const Target& target) {
  return target.traits().kernels && TellsItsSizes(body) &&
         Placement(body, target).WhyRegions().empty();
}

bool Placement::AnyBodyFits(const NodePtr& n) const {
  bool any = false;
  for (const std::string& name : BodyNames(n)) {
    const std::optional<Graph> body = FittingBody(n, name, shapes_, types_, values_);
    any = any || (body && CanPlanBody(*body, target_));
  }
  return any;
}

Verdict Placement::Of(const NodePtr& n) const {
  static const auto& views = Op::GetAttr<TIsView>("TIsView");
  if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) return {};
  const SymTensorPtr* followed =
      values_ && n->num_outputs() == 1 ? values_->find(NodeEntry(n)) : nullptr;
  if (followed && *followed && (*followed)->fully_known()) return {};
  const std::string not_interpreted = WhyNotInterpreted(n);
  const auto interpreted = [&](Runner runner, std::string why) -> Verdict {
    if (!not_interpreted.empty()) return {Runner::kNobody, not_interpreted};
    return {runner, std::move(why)};
  };
  if (!target_.traits().kernels) return interpreted(Runner::kInterpreter, {});
  if (target_.traits().device_memory)
    for (const NodeEntry& e : Operands(n))
      if (const Type& t = types_[e]; t.is_tensor() && t.known() && DTypeBits(t.dtype) == 0)
        return {Runner::kNobody,
                fmt::format("tensors of {} have no place on a device", DTypeName(t.dtype))};
  for (uint32_t i = 0; i < n->num_outputs(); ++i)
    if (std::string late = WhyLate(NodeEntry(n, i)); !late.empty())
      return interpreted(Runner::kBetween, std::move(late));
  for (const NodeEntry& e : n->inputs)
    if (std::string late = e.node ? WhyLate(e) : ""; !late.empty())
      return interpreted(Runner::kBetween, "it reads what is known late: " + late);
  if (views.get(n->op(), false)) return {};
  if (LibraryRoutine(target_, n, types_)) return {Runner::kLibrary, {}};
  if (RunsBodies(target_, n) && AnyBodyFits(n)) return {Runner::kBodies, {}};
  std::string why;
  if (TryExpand(g_, n, &why)) return {Runner::kKernel, {}};
  return interpreted(Runner::kInterpreter, std::move(why));
}

std::string Placement::WhyRegions() const {
  for (const NodePtr& n : g_.TopoOrder())
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (const std::string late = WhyLate(NodeEntry(n, i)); !late.empty())
        return n->Describe() + ": " + late;
  return {};
}

}  // namespace weft
