/// budget_program.cc: see budget_program.h. A way is chosen once per extents of the inputs, by the
/// exact account of its plan there (the certificate), and remembered.
#include "budget_program.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>

#include "runtime/binding/step_cost.h"
#include "runtime/memory/plan_report.h"
#include "runtime/program/tensors_at.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/recompute/recompute_search.h"
#include "weft/support/aligned_memory.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Ways = std::vector<std::unique_ptr<Program::Impl>>;

[[noreturn]] void ThrowUnmet(const MemoryReport& least, const MemoryBudget& budget, int64_t limit) {
  const std::string step =
      least.at_step < 0 ? "" : fmt::format(", most at '{}'", least.steps[size_t(least.at_step)]);
  ThrowError(
      ErrorCode::kOutOfMemory,
      fmt::format(
          "the memory budget of {} is less than a run can take here: {} of intermediate "
          "results{}, {} of results{}; it is held by {}",
          FormatBytes(limit), FormatBytes(least.arena_bytes), step, FormatBytes(least.output_bytes),
          budget.all
              ? fmt::format(", {} of inputs, {} of variables, {} of constants",
                            FormatBytes(least.input_bytes), FormatBytes(least.variable_bytes),
                            FormatBytes(least.constant_bytes))
              : "",
          NameHolders(least)),
      "",
      fmt::format("the least budget that works is {}{} ({}); the largest single step and the "
                  "results take {}",
                  budget.all ? "all:" : "", least.Counted(budget),
                  FormatBytes(least.Counted(budget)), FormatBytes(least.floor_bytes)));
}

/// Of all ways at the same extents.
struct Choice {
  size_t way = 0;
  int64_t limit = INT64_MAX;          ///< of what counts; of the least, what it takes
  std::vector<MemoryReport> reports;  ///< by way, as far as they were looked at
  const MemoryReport& taken() const { return reports[way]; }
};

/// Throws kOutOfMemory where no way meets the budget.
Choice ChooseWay(const Ways& ways, const MemoryBudget& budget,
                 const std::vector<TensorPtr>& tensors) {
  Choice c;
  for (size_t w = 0; w < ways.size(); ++w) {
    c.reports.push_back(ways[w]->Report(tensors));
    const int64_t bytes = c.reports[w].Counted(budget);
    if (w == 0) c.limit = budget.BytesOf(bytes);
    if (bytes < c.taken().Counted(budget)) c.way = w;
    if (bytes > c.limit) continue;
    c.way = w;
    return c;
  }
  if (budget.kind == MemoryBudget::Kind::kLeast)
    c.limit = c.taken().Counted(budget);
  else if (c.taken().exact())
    ThrowUnmet(c.taken(), budget, c.limit);
  return c;
}

class BudgetProgram final : public Program::Impl {
 public:
  explicit BudgetProgram(PlannedWays planned)
      : ways_(std::move(planned.ways)), budget_(planned.budget), known_(std::move(planned.known)) {
    const Program::Impl& first = *ways_.front();
    graph_ = first.graph_;
    place_ = first.place_;
    has_homes_ = first.has_homes_;
    num_flags_ = first.num_flags_;
    stats_ = ways_.back()->stats();
  }

  std::unique_ptr<State> NewState() const override {
    auto s = std::make_unique<BudgetState>();
    s->inner.resize(ways_.size());
    return s;
  }
  void Run(State& state, const std::vector<TensorPtr>& inputs,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    Enter enter(*this, state, inputs);
    enter.way().Run(enter.inner(), inputs, outputs);
  }
  Rest Start(State& state, const std::vector<TensorPtr>& inputs,
             std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    Enter enter(*this, state, inputs);
    return enter.way().Start(enter.inner(), inputs, outputs);
  }
  MemoryReport Report(const std::vector<TensorPtr>& tensors) const override {
    const Choice c = ChooseWay(ways_, budget_, tensors);
    MemoryReport r = c.taken();
    if (!known_.empty()) {
      r.ways = known_;
      r.way = known_.size() - 1;
      return r;
    }
    r.way = c.way;
    const SymBindings symbols = SymbolsOf(*this, tensors);
    for (size_t w = 0; w < ways_.size(); ++w) {
      r.ways.push_back(WayOf(ways_[w]->graph_, symbols));
      r.ways[w].peak_bytes =
          w < c.reports.size() ? c.reports[w].peak_bytes : ways_[w]->Report(tensors).peak_bytes;
    }
    return r;
  }
  std::vector<const Program::Impl*> Ways() const override {
    std::vector<const Program::Impl*> out;
    for (const auto& w : ways_) out.push_back(w.get());
    return out;
  }
  MemoryBudget budget() const override { return budget_; }
  WeightBytes weights() const override {
    WeightBytes most;  // ways share what they pack, and keep the constants that any of them reads
    for (const auto& w : ways_) {
      const WeightBytes one = w->weights();
      most.constants = std::max(most.constants, one.constants);
      most.packed = std::max(most.packed, one.packed);
    }
    return most;
  }
  void TakeTimes(State& state, const std::string& in, std::vector<StepTime>* times) const override {
    auto& s = static_cast<BudgetState&>(state);
    for (size_t w = 0; w < ways_.size(); ++w)
      if (s.inner[w]) ways_[w]->TakeTimes(*s.inner[w], in, times);
  }
  void TakeCallOptions(const CallOptions& options) override {
    Program::Impl::TakeCallOptions(options);
    for (const auto& w : ways_) w->TakeCallOptions(options);
  }

 private:
  struct BudgetState : State {
    std::vector<int64_t> key;
    size_t taken = 0;          ///< of ways_
    int64_t counted_most = 0;  ///< of arena and results, whether or not a run is held to it
    std::vector<std::unique_ptr<State>> inner;  ///< by way, of those taken so far
  };
  /// What is found out once per extents.
  struct Taken {
    size_t way;
    int64_t limit;  ///< of all that counts
    int64_t most;   ///< of arena and results
    int64_t flops;
  };

  /// A run in the state of the way that fits.
  class Enter {
   public:
    Enter(const BudgetProgram& program, State& state, const std::vector<TensorPtr>& inputs)
        : program_(program), outer_(static_cast<BudgetState&>(state)) {
      program.Take(outer_, inputs);
      std::unique_ptr<State>& inner = outer_.inner[outer_.taken];
      if (!inner) inner = way().NewState();
      // One arena for all ways; on a device each has its own, as steps of another may still run.
      if (!program.place_.on_host() || !outer_.arena) outer_.arena = inner->arena;
      *inner = static_cast<const State&>(outer_);
    }
    ~Enter() {
      State& in = inner();
      outer_.arena = in.arena;
      outer_.arena_bytes = in.arena_bytes;
      outer_.live_bytes = in.live_bytes;
      outer_.bytes_moved = in.bytes_moved;
      outer_.tensor_bytes = in.tensor_bytes;
      outer_.scratch_bytes = in.scratch_bytes;
      outer_.output_bytes = in.output_bytes;
      outer_.inside_bytes = in.inside_bytes;
      outer_.kernels_failed = in.kernels_failed;
      outer_.packs = in.packs;
      outer_.budget_met = in.arena_bytes + in.inside_bytes + in.output_bytes <= outer_.counted_most;
      in.given_outputs.clear();
      in.apart.clear();
      in.replaced.clear();
    }
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;
    State& inner() { return *outer_.inner[outer_.taken]; }
    const Program::Impl& way() const { return *program_.ways_[outer_.taken]; }

   private:
    const BudgetProgram& program_;
    BudgetState& outer_;
  };

  void Take(BudgetState& s, const std::vector<TensorPtr>& inputs) const {
    std::vector<int64_t> key;
    const auto note = [&key](const Tensor& t) {
      key.push_back(t.rank());
      key.insert(key.end(), t.dims().begin(), t.dims().end());
    };
    for (const TensorPtr& t : inputs) note(*t);
    for (const auto& t : s.variables) note(*t);
    if (s.key == key && s.budget_bytes >= 0) return;
    const Taken taken = [&] {
      std::lock_guard lock(mutex_);
      return taken_.GetOrMake(key, [&] {
        std::vector<TensorPtr> all = inputs;
        all.insert(all.end(), s.variables.begin(), s.variables.end());
        const Choice c = ChooseWay(ways_, budget_, all);
        // Those that were looked at in vain hold calls, and what these have packed.
        for (size_t w = 0; w < ways_.size(); ++w)
          if (w != c.way) ways_[w]->ForgetBindings();
        ReturnFreeMemory();
        const MemoryReport& r = c.taken();
        return Taken{c.way, c.limit, c.limit - (r.Counted(budget_) - r.peak_bytes),
                     WayOf(ways_[c.way]->graph_, SymbolsOf(*this, all)).recompute_flops};
      });
    }();
    s.key = std::move(key);
    s.taken = taken.way;
    s.way = known_.empty() ? taken.way : known_.size() - 1;
    s.budget_bytes = taken.limit;
    s.counted_most = taken.most;
    // Where data decide sizes nothing is refused.
    s.most_bytes = ways_[taken.way]->graph_.HasAttr("storage") ? taken.most : INT64_MAX;
    s.recompute_flops = taken.flops;
  }

  const std::vector<std::unique_ptr<Program::Impl>> ways_;
  const MemoryBudget budget_;
  const std::vector<MemoryWay> known_;
  mutable std::mutex mutex_;
  mutable BoundedCache<std::vector<int64_t>, Taken> taken_{64};
};

}  // namespace

std::unique_ptr<Program::Impl> MakeBudgetProgram(PlannedWays planned) {
  return std::make_unique<BudgetProgram>(std::move(planned));
}

MemoryWay WayOf(const Graph& graph, const SymBindings& bindings) {
  MemoryWay way;
  const ShapeMap& shapes = graph.GetAttr<ShapeMap>("shape");
  const auto copies = graph.AttrOr<NodeMap<std::string>>("recompute_of");
  for (const NodePtr& n : graph.TopoOrder()) {
    if (!copies.find(n)) continue;
    ++way.copies;
    way.recompute_flops += FlopsAt(n, shapes, bindings);
  }
  return way;
}

namespace {

/// Of the nodes of a way that nothing runs twice in, and so of all that have its code.
ScratchMap ScratchOf(const Program::Impl& way, const MemoryReport& report) {
  ScratchMap scratch;
  if (!way.graph_.HasAttr("order")) return scratch;  // regions plan each by itself
  const std::vector<NodeId>& order = way.graph_.GetAttr<Order>("order").nodes;
  for (const MemoryHolder& h : report.blocks)
    if (h.kind == MemoryKind::kScratch && size_t(h.begin) < order.size())
      scratch.set(order[size_t(h.begin)], h.bytes);
  return scratch;
}

/// The most that tensors in the arena take at once.
int64_t TensorPeak(const MemoryReport& report) {
  std::vector<int64_t> live = report.live;
  for (const MemoryHolder& h : report.blocks)
    if (h.kind == MemoryKind::kScratch)
      for (size_t k = size_t(h.begin); k < std::min(size_t(h.end), live.size()); ++k)
        live[k] -= h.bytes;
  return live.empty() ? report.arena_bytes : *std::max_element(live.begin(), live.end());
}

SymBindings Scaled(SymBindings symbols, int64_t times, int64_t part) {
  for (auto& [name, value] : symbols) value = std::max<int64_t>(1, value / part * times);
  return symbols;
}

/// Another way, the least that is found for extents `at`, where those that there are take more.
void AddLeastAt(const SymBindings& at, const SymBindings& hints, const PlanWay& plan,
                PlannedWays* out) {
  constexpr int64_t kWorth = 64;  // part of the arena
  if (at == hints) return;
  const auto report = [&](const Program::Impl& way) { return way.Report(TensorsAt(way, at)); };
  try {
    const MemoryReport whole = report(*out->ways.front());
    int64_t least = whole.arena_bytes;
    for (const auto& way : out->ways) least = std::min(least, report(*way).arena_bytes);
    std::unique_ptr<Program::Impl> way = plan(0, ScratchOf(*out->ways.front(), whole), at);
    if (report(*way).arena_bytes > least - least / kWorth) return;
    out->known.push_back(WayOf(way->graph_, hints));
    out->ways.push_back(std::move(way));
  } catch (const Error& e) {
    // Not extents that the graph takes, or larger than there are; unless the request has ended.
    RequestScope::Poll();
    if (e.code() == ErrorCode::kCancelled || e.code() >= ErrorCode::kDevice) throw;
  }
}

/// The ways by what they compute again, so that the first that fits is the cheapest.
void SortByCost(PlannedWays* planned) {
  std::vector<size_t> order(planned->ways.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return planned->known[a].recompute_flops < planned->known[b].recompute_flops;
  });
  Ways sorted;
  for (const size_t k : order) sorted.push_back(std::move(planned->ways[k]));
  planned->ways = std::move(sorted);
}

}  // namespace

PlannedWays PlanWays(const MemoryBudget& budget, const SymBindings& hints, bool is_static,
                     const PlanWay& plan) {
  const RecomputeMemo memo;  // most ways are looked for in the same graph
  PlannedWays out;
  out.budget = budget;
  std::vector<MemoryReport> reports;
  ScratchMap scratch;
  const ScratchMap none;
  using Bytes = std::function<int64_t(const MemoryReport&)>;
  int64_t last = 0;  // of the way that was planned last
  /// Keeps a way that takes less than all before, of the bytes that `of` counts.
  const auto add = [&](int64_t arena_bytes, const ScratchMap& taken, const Bytes& of) {
    out.ways.push_back(plan(arena_bytes, taken, hints));
    const Program::Impl& way = *out.ways.back();
    MemoryReport r = way.Report(TensorsAt(way, hints));
    last = of(r);
    if (std::any_of(reports.begin(), reports.end(),
                    [&](const MemoryReport& other) { return last >= of(other); })) {
      out.ways.pop_back();  // it gains nothing
      return false;
    }
    if (reports.empty()) scratch = ScratchOf(way, r);
    out.known.push_back(WayOf(way.graph_, hints));
    out.known.back().peak_bytes = r.peak_bytes;
    reports.push_back(std::move(r));
    return true;
  };
  const auto arena_of = [](const MemoryReport& r) { return r.arena_bytes; };
  try {
    add(INT64_MAX, none, arena_of);
  } catch (const Error& e) {
    // The rank of an input comes with a run, and so does the choice; there is one way then.
    if (e.code() != ErrorCode::kUnsupported || out.ways.empty()) throw;
    return out;
  }
  const int64_t whole = reports[0].Counted(budget), arena = reports[0].arena_bytes;
  const int64_t limit = budget.BytesOf(whole);
  const auto meets = [&] { return reports.back().Counted(budget) <= limit; };
  // What is not the arena stays as it is.
  int64_t target = limit == INT64_MAX ? 0 : limit - (whole - arena);
  if (is_static) {
    // What a search counts and what a plan takes differ by gaps between blocks.
    constexpr int kRounds = 8;
    for (int round = 0; round < kRounds && target > 0 && !meets(); ++round) {
      const bool gained = add(target, scratch, arena_of);
      const int64_t beyond = reports.back().Counted(budget) - limit;
      target -= gained ? std::max(std::min(beyond, target / 8), target / 64) : target / 8;
    }
    // The search may be led astray by large scratch memory where it cannot get round it.
    if (!meets()) add(0, scratch, arena_of);
    if (!meets()) add(0, none, arena_of);
  } else {
    // Other extents than those of the hints want other ways.
    const auto add_all = [&](std::vector<int64_t> targets, const ScratchMap& taken,
                             const Bytes& of) {
      std::sort(targets.rbegin(), targets.rend());
      for (const int64_t bytes : targets) {
        if (bytes < 0 || bytes >= of(reports.back())) continue;
        add(bytes, taken, of);
        // Well above: that was the least already, gaps aside.
        if (last > bytes + bytes / 16) return;
      }
    };
    add_all({arena / 4 * 3, arena / 2, arena / 4, target, 0}, scratch, arena_of);
    // Library calls take other scratch memory there, often much less.
    if (reports[0].scratch_bytes >= arena / 16) {
      const int64_t tensors = TensorPeak(reports[0]);
      add_all({tensors / 4 * 3, tensors / 2, 0}, none, TensorPeak);
    }
    // Nor do their shares of the memory stay the same. Elsewhere than for the least it is not worth
    // the time, and calls for other extents take memory of the process.
    if (budget.kind == MemoryBudget::Kind::kLeast) {
      constexpr int64_t kFewer = 8;
      for (const int64_t more : {2, 4}) AddLeastAt(Scaled(hints, more, 1), hints, plan, &out);
      AddLeastAt(Scaled(hints, 1, kFewer), hints, plan, &out);
    }
    SortByCost(&out);
    out.known.clear();
    // What was packed for the hints is not kept for runs of other extents.
    for (const auto& way : out.ways) way->ForgetBindings();
    return out;
  }
  if (budget.kind != MemoryBudget::Kind::kLeast) {
    if (!meets() && reports.back().exact()) ThrowUnmet(reports.back(), budget, limit);
    out.budget.kind = MemoryBudget::Kind::kBytes;
    out.budget.bytes = limit;
  }
  out.ways.erase(out.ways.begin(), out.ways.end() - 1);
  return out;
}

}  // namespace weft
