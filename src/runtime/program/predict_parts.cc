/// predict_parts.cc: follows the programs that would
/// be made of the planned graph: plans, the bodies of their nodes, regions and what stands between
/// them.
#include "predict_parts.h"

#include <algorithm>
#include <map>

#include "program_impl.h"
#include "runtime/binding/binding.h"
#include "runtime/binding/size_limits.h"
#include "runtime/memory/plan_report.h"
#include "runtime/plan/instruction.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/body_types.h"
#include "weft/runtime/placement.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// Values of sizes, and of those that data decide the most.
class Sizes : public SizeBounds {
 public:
  /// `unbounded`: takes the names of what has no bound; null: that throws.
  Sizes(Facts facts, const SymBindings& bindings, std::vector<std::string>* unbounded)
      : SizeBounds(std::move(facts), bindings), unbounded_(unbounded) {}
  /// 0 or kUnsupported where there is no bound. `at_most` becomes true where it is one.
  int64_t Most(SymInt e, const NodePtr& n, bool* at_most) {
    const int64_t most = SizeBounds::Most(e, at_most);
    if (most == kNone && unbounded_) {
      const std::string name = n ? UserName(n) : e.ToString();
      if (std::find(unbounded_->begin(), unbounded_->end(), name) == unbounded_->end())
        unbounded_->push_back(name);
      return 0;
    }
    WEFT_CHECK(most < kNone, kUnsupported, "{}: data decide the size {}, and nothing bounds it",
               n ? n->Describe() : "a buffer", e.ToString());
    return most;
  }
  int64_t MostBytes(const Type& type, const Shape& shape, const NodePtr& n, bool* at_most) {
    if (type.is_tensor() && DTypeBits(type.dtype) == 0) return 0;  // strings are not counted
    if (unbounded_ && (!type.is_tensor() || !shape.has_rank())) {
      unbounded_->push_back(UserName(n));
      return 0;
    }
    WEFT_CHECK(type.is_tensor() && shape.has_rank(), kUnsupported,
               "{}: the size of {}{} is known only when it runs", n->Describe(), type.ToString(),
               shape.ToString());
    int64_t count = 1;
    for (SymInt d : shape.dims()) count = CheckedMul(count, Most(d, n, at_most));
    return DTypeBytes(type.dtype, count);
  }

 private:
  std::vector<std::string>* const unbounded_;
};

class Predictor {
 public:
  /// `report`: as PredictParts takes it.
  Predictor(Backend& backend, const CallOptions& calls, const SymBindings& bindings,
            MemoryReport* report)
      : backend_(backend),
        calls_(calls),
        target_(backend.target()),
        bindings_(bindings),
        report_(report) {}

  /// `limits`: of sizes around, where the graph is a body.
  /// `outermost`: its regions are reported.
  ArenaParts Of(const Graph& g, const SizeLimits& limits, bool outermost = false) const {
    Sizes sizes(g.AttrOr<Facts>("facts"), bindings_, report_ ? &report_->unbounded : nullptr);
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    for (const NodePtr& p : g.AllInputs())
      for (SymInt d : shapes[NodeEntry(p)].dims())
        if (const auto it = d.known() ? limits.find(d) : limits.end(); it != limits.end())
          if (d.is_unbacked()) sizes.SetMost(d, it->second);
    sizes.Limit(UnbackedSizes(g));
    return HasPlan(g) ? OfPlan(g, &sizes) : OfRegions(g, &sizes, outermost);
  }
  ArenaParts OfAllBodies(const Graph& g) const {
    ArenaParts out;
    const std::vector<NodePtr> order = g.TopoOrder();
    if (std::none_of(order.begin(), order.end(),
                     [&](const NodePtr& n) { return RunsBodies(target_, n); }))
      return out;
    Sizes sizes(g.AttrOr<Facts>("facts"), bindings_, report_ ? &report_->unbounded : nullptr);
    sizes.Limit(UnbackedSizes(g));
    for (const NodePtr& n : order) out.Larger(OfBodies(g, n, &sizes, true));
    return out;
  }

 private:
  ArenaParts OfPlan(const Graph& g, Sizes* sizes) const {
    ArenaParts out;
    const EntryMap<int>& of = g.GetAttr<StoragePlan>("storage").of;
    const ExecutionPlan plan = MakePlanWithoutCode(g, backend_);
    std::vector<NodePtr> writers(plan.storages.size());
    for (const NodePtr& n : g.TopoOrder())
      for (uint32_t i = 0; i < n->num_outputs(); ++i)
        if (const int* s = of.find(NodeEntry(n, i)); s && *s >= 0) writers[size_t(*s)] = n;
    std::vector<int64_t> bytes;
    for (size_t k = 0; k < plan.storages.size(); ++k) {
      const Storage& s = plan.storages[k];
      const bool placed = s.kind == StorageKind::kArena;
      bytes.push_back(placed ? sizes->Most(s.bytes, writers[k], &out.at_most) : 0);
    }
    const auto most = [&](SymInt e) { return sizes->SizeBounds::Most(e, &out.at_most); };
    const std::vector<int64_t> scratch =
        Binder(plan, g.AttrOr<Facts>("facts")).ScratchAt(most, backend_, calls_);
    ArenaSizes laid{std::move(bytes), scratch, {}};
    bool at_most = out.at_most;
    for (const ExecutionPlan::Part& p : plan.parts) {
      const auto most_of = [&](SymInt e) { return sizes->SizeBounds::Most(e, &at_most); };
      laid.parts.push_back({most_of(p.bytes_before), most_of(p.rows) == 1});
    }
    // Which blocks lie in others then is not known; no run takes more than with none that does.
    if (at_most) laid.parts.clear();
    out.arena = LayArena(plan, laid).arena_bytes;
    for (const NodePtr& n : g.TopoOrder()) out.Larger(OfBodies(g, n, sizes, true));
    return out;
  }
  /// What regions give each other is kept from run to run; what nodes between them give lives until
  /// it is read last.
  ArenaParts OfRegions(const Graph& g, Sizes* sizes, bool outermost) const {
    ArenaParts out;
    std::vector<MemoryHolder>* const regions = outermost && report_ ? &report_->blocks : nullptr;
    int64_t kept = 0;
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    const TypeMap& types = g.GetAttr<TypeMap>("dtype");
    std::map<EntryKey, size_t> last;
    std::vector<NodePtr> order;
    for (const NodePtr& n : g.TopoOrder()) {
      if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
      for (const NodeEntry& e : n->inputs)
        if (e.node) last[e.key()] = order.size();
      for (uint32_t i = 0; i < n->num_outputs(); ++i)
        last.emplace(NodeEntry(n, i).key(), order.size());
      order.push_back(n);
    }
    std::vector<int64_t> dies(order.size() + 1, 0);
    int64_t live = 0, most = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      const NodePtr& n = order[k];
      const bool region = IsOp(n, builtin::kRegion);
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        const NodeEntry e(n, i);
        if (std::count(g.outputs.begin(), g.outputs.end(), e)) continue;
        if (IsOp(n, builtin::kSizes)) continue;  // empty
        const NodePtr who = region ? (*n->attr<GraphPtr>("body")).outputs[i].node : n;
        const int64_t bytes = sizes->MostBytes(types[e], shapes[e], who, &out.at_most);
        if (regions && bytes > 0)
          regions->push_back({UserName(who), MemoryKind::kArena, bytes, -1, int(k),
                              region ? int(order.size()) : int(last.at(e.key())) + 1,
                              region ? "kept for the next run" : "until it is read last"});
        if (region) {
          kept = CheckedAdd(kept, bytes);
          continue;
        }
        live = CheckedAdd(live, bytes);
        dies[last.at(e.key())] += bytes;
      }
      most = std::max(most, live);
      live -= dies[k];
      const ArenaParts inside =
          region ? Of(*n->attr<GraphPtr>("body"), sizes->limits()) : OfBodies(g, n, sizes, false);
      if (regions && inside.sum() > 0)
        regions->push_back({UserName(n), MemoryKind::kArena, inside.sum(), -1, int(k), int(k) + 1,
                            region ? "while the region runs" : "while its bodies run"});
      out.Larger(inside);
    }
    out.arena = CheckedAdd(out.arena, CheckedAdd(kept, most));
    return out;
  }

  /// `placed`: it is a step of a plan, which has places for its results.
  ArenaParts OfBodies(const Graph& g, const NodePtr& n, Sizes* sizes, bool placed) const {
    ArenaParts out;
    if (!RunsBodies(target_, n)) return out;
    bool any = false;
    std::vector<ArenaParts> bodies;
    for (const std::string& name : BodyNames(n)) {
      const Graph& body = *n->attr<GraphPtr>(name);
      any = any || IsPlanned(body);
      bodies.push_back(IsPlanned(body) ? Of(body, sizes->limits()) : ArenaParts());
    }
    if (!any) return out;
    // Parts that run at the same time have an arena each.
    const bool together = IsOp(n, builtin::kConcurrent);
    for (const ArenaParts& b : bodies) {
      out.at_most = out.at_most || b.at_most || (!together && b.sum() != bodies[0].sum());
      out.inside = together ? CheckedAdd(out.inside, b.sum()) : std::max(out.inside, b.sum());
    }
    if (IsOp(n, "Scan")) out.inside = CheckedMul(out.inside, n->attr<int64_t>("parts"));
    out.at_most = out.at_most || !RunsOnce(n);
    out.inside = CheckedAdd(out.inside, Held(g, n, sizes, placed, &out.at_most));
    return out;
  }
  /// A body runs, whatever comes.
  static bool RunsOnce(const NodePtr& n) {
    if (!IsOp(n, "Loop")) return true;
    const auto holds = [](const NodeEntry& e) {
      const TensorPtr t = e.node ? Graph::ConstantOf(e) : nullptr;
      return !e.node || (t && t->num_elements() == 1 && t->at_int(0) > 0);
    };
    return holds(n->inputs[0]) && holds(n->inputs[1]);
  }
  /// What LoopStates and StackedResult (ops/util) hold: second places of states that have one, and
  /// slices that do not lie together where they end up.
  static int64_t Held(const Graph& g, const NodePtr& n, Sizes* sizes, bool placed, bool* at_most) {
    int64_t held = 0;
    const bool loop = IsOp(n, "Loop");
    if (!loop && !IsOp(n, "Scan")) return held;
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    const TypeMap& types = g.GetAttr<TypeMap>("dtype");
    const size_t others = size_t(n->attr<int64_t>("num_captures")) +
                          (loop ? 2 : size_t(n->attr<int64_t>("num_scan_inputs")));
    const size_t states = n->num_inputs() - others;
    const Ints axes = n->has_attr("scan_output_axes") ? n->attr<Ints>("scan_output_axes") : Ints();
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const NodeEntry e(n, k);
      const bool state = k < states;
      if (state && !placed) continue;
      if (!state && placed &&
          LieTogether(types[e], shapes[e], k - states < axes.size() ? axes[k - states] : 0, n,
                      sizes))
        continue;
      held = CheckedAdd(held, sizes->MostBytes(types[e], shapes[e], n, at_most));
    }
    return held;
  }
  static bool LieTogether(const Type& type, const Shape& s, int64_t axis, const NodePtr& n,
                          Sizes* sizes) {
    if (DTypeBits(type.dtype) % 8 != 0) return false;
    int64_t before = 1;
    bool ignored = false;
    for (int d = 0; d < (axis < 0 ? axis + s.rank() : axis); ++d)
      before = CheckedMul(before, sizes->Most(s[d], n, &ignored));
    return before == 1;
  }

  Backend& backend_;
  const CallOptions& calls_;
  const Target target_;
  const SymBindings& bindings_;
  MemoryReport* const report_;
};

}  // namespace

int64_t ArenaParts::sum() const { return CheckedAdd(arena, inside); }

void ArenaParts::Larger(const ArenaParts& other) {
  arena = std::max(arena, other.arena);
  inside = std::max(inside, other.inside);
  at_most = at_most || other.at_most;
}

ArenaParts PredictParts(const Graph& planned, Backend& backend, const CallOptions& calls,
                        const SymBindings& bindings, MemoryReport* report) {
  return Predictor(backend, calls, bindings, report).Of(planned, {}, report != nullptr);
}

ArenaParts PredictBodies(const Graph& planned, Backend& backend, const CallOptions& calls,
                         const SymBindings& bindings, MemoryReport* report) {
  return Predictor(backend, calls, bindings, report).OfAllBodies(planned);
}

}  // namespace weft
