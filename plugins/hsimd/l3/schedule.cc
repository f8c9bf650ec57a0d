/// schedule.cc: the scheduler. Budgets are rounded down to the levels of a ladder that depends on
/// the problem alone, and a plan is the best of the plans for all levels up to its own: so cycles
/// never rise with memory, whatever the search finds.
#include "schedule.h"

#include <algorithm>
#include <numeric>

#include "schedule_actions.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

/// States of the exact search; the largest of some hundred graphs of nine values had 0.1 M.
constexpr int64_t kMostStates = 4'000'000;
/// A level is left after so many changes for every value that found nothing.
constexpr size_t kIdle = 40;
/// Runs that loads are moved ahead of.
constexpr int kAhead[] = {0, 1, 2, 4, 16, 1 << 20};

void CheckProblem(const ScheduleProblem& p) {
  const int values = int(p.values.size()), nodes = int(p.nodes.size());
  int64_t most = 0;
  const auto add = [&most](int64_t cycles) {
    WEFT_ICHECK(cycles >= 0, "{} cycles", cycles);
    WEFT_CHECK(cycles < int64_t{1} << 40 && (most += cycles) < int64_t{1} << 52, kOverflow,
               "cycles of a schedule leave 2^52");
  };
  std::vector<char> made(size_t(values), 0), ran(size_t(nodes), 0);
  for (int v = 0; v < values; ++v) {
    const ScheduleProblem::Value& value = p.values[size_t(v)];
    WEFT_ICHECK(value.words >= 0 && value.memory >= 0 && value.memory < int(p.memories.size()),
                "value '{}': {} words in memory {}", value.name, value.words, value.memory);
    WEFT_CHECK(value.words < int64_t{1} << 40, kOverflow, "value '{}' has {} words", value.name,
               value.words);
    add(value.load_cycles);
    add(value.store_cycles);
    made[size_t(v)] = value.in_dram;
  }
  for (int n = 0; n < nodes; ++n) {
    const ScheduleProblem::Node& node = p.nodes[size_t(n)];
    add(node.cycles);
    WEFT_ICHECK(node.workspace_words.empty() || node.workspace_words.size() == p.memories.size(),
                "node '{}': workspace of {} memories", node.name, node.workspace_words.size());
    for (int64_t words : node.workspace_words) WEFT_ICHECK(words >= 0, "node '{}'", node.name);
    for (int v : node.inputs)
      WEFT_ICHECK(v >= 0 && v < values && made[size_t(v)], "node '{}' reads value {} too soon",
                  node.name, v);
    for (int k : node.after)
      WEFT_ICHECK(k >= 0 && k < nodes && ran[size_t(k)], "node '{}' is after node {}", node.name,
                  k);
    for (int v : node.outputs) {
      WEFT_ICHECK(v >= 0 && v < values && !made[size_t(v)], "node '{}' makes value {} again",
                  node.name, v);
      made[size_t(v)] = 1;
    }
    ran[size_t(n)] = 1;
  }
}

bool Within(const Words& a, const Words& b) {
  for (size_t m = 0; m < a.size(); ++m)
    if (a[m] > b[m]) return false;
  return true;
}

/// xorshift; the standard library's distributions differ between implementations.
class Random {
 public:
  uint64_t Below(size_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ >> 16) % uint64_t(n);
  }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

class Scheduler {
 public:
  Scheduler(const ScheduleProblem& problem, const ScheduleEffort& effort)
      : p_(problem), t_(problem), effort_(effort) {
    for (const LeastBudget& least : LeastBudgets(problem)) least_.push_back(least.words);
    for (const ScheduleProblem::Memory& memory : problem.memories)
      budgets_.push_back(memory.budget);
    bound_ = Bound();
    given_.resize(problem.nodes.size());
    std::iota(given_.begin(), given_.end(), 0);
  }

  Schedule Plan(ScheduleMode mode) {
    CheckBudgets();
    // The search sums cycles, so it is exact without overlap alone; values that leave DRAM it does
    // not know.
    const bool stays = std::all_of(p_.nodes.begin(), p_.nodes.end(),
                                   [](const auto& node) { return node.overwrites.empty(); });
    if (mode == ScheduleMode::kPlan && !p_.overlap && stays &&
        std::max(p_.values.size(), p_.nodes.size()) <= size_t(std::max(0, effort_.exact_values)))
      if (const auto actions = LeastActions(t_, budgets_, kMostStates))
        return Finished(TimeActions(t_, *actions, budgets_), mode);
    const std::vector<Words> ladder = Ladder();
    std::vector<Words> below;
    for (const Words& level : ladder)
      if (Within(level, budgets_)) below.push_back(level);
    if (mode != ScheduleMode::kPlan) {
      Offer(Simple(mode), below.back(), mode);
      return Finished(best_, mode);
    }
    order_for_memory_ = OrderForMemory();
    cheap_again_ = CheapAgain();
    ActionPolicy policy = Simple(ScheduleMode::kReuse);
    for (const Words& level : below) {
      if (best_known_ && best_.cycles <= bound_) break;
      Offer(Simple(ScheduleMode::kFromDram), level, ScheduleMode::kFromDram);
      Offer(Simple(ScheduleMode::kReuse), level, ScheduleMode::kReuse);
      Search(level, &policy, effort_.work / int64_t(ladder.size()));
    }
    return Finished(best_, best_.mode);
  }

 private:
  void CheckBudgets() const {
    const auto least = LeastBudgets(p_);
    for (size_t m = 0; m < least.size(); ++m)
      WEFT_CHECK(least[m].words <= budgets_[m], kLimit,
                 "node '{}' needs {} words of {} at once, the budget is {}",
                 p_.nodes[size_t(least[m].node)].name, least[m].words, p_.memories[m].name,
                 budgets_[m]);
  }

  /// From the least to the words with which nothing has to leave.
  std::vector<Words> Ladder() const {
    const Words full = FullBudgets(p_);
    const int64_t steps =
        std::clamp<int64_t>(4000 / int64_t(p_.nodes.size() + 1), 20, 200) / 20 * 20;
    std::vector<Words> ladder{least_};
    for (int64_t k = 1; k <= steps; ++k) {
      Words level;
      for (size_t m = 0; m < full.size(); ++m)
        level.push_back(std::max(least_[m], full[m] / steps * k + full[m] % steps * k / steps));
      if (level != ladder.back()) ladder.push_back(std::move(level));
    }
    return ladder;
  }

  int64_t Bound() const {
    int64_t runs = 0, link = 0;
    std::vector<char> used(p_.values.size(), 0);
    for (const ScheduleProblem::Node& node : p_.nodes) {
      runs += node.cycles;
      for (int v : node.inputs) used[size_t(v)] = 1;
    }
    for (size_t v = 0; v < used.size(); ++v) {
      if (used[v] && p_.values[v].in_dram) link += p_.values[v].load_cycles;
      if (p_.values[v].to_dram && !p_.values[v].in_dram) link += p_.values[v].store_cycles;
    }
    if (!p_.overlap) return runs + link;
    // The first node waits for what it loads; the last one makes nothing that others read, and what
    // it makes is stored behind it.
    int64_t first = -1, last = -1;
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      int64_t loads = 0, stores = 0;
      bool can_be_first = p_.nodes[n].after.empty(), can_be_last = true;
      for (int v : t_.inputs[n]) {
        can_be_first = can_be_first && p_.values[size_t(v)].in_dram;
        loads += p_.values[size_t(v)].load_cycles;
      }
      for (int v : p_.nodes[n].outputs) {
        can_be_last = can_be_last && !used[size_t(v)];
        if (p_.values[size_t(v)].to_dram) stores += p_.values[size_t(v)].store_cycles;
      }
      if (can_be_first && (first < 0 || loads < first)) first = loads;
      if (can_be_last && (last < 0 || stores < last)) last = stores;
    }
    return std::max(link, std::max<int64_t>(first, 0) + runs + std::max<int64_t>(last, 0));
  }

  ActionPolicy Simple(ScheduleMode mode) const {
    ActionPolicy policy;
    policy.order = given_;
    policy.keep.assign(p_.values.size(), 1);
    policy.recompute.assign(p_.values.size(), 0);
    policy.always_from_dram = mode == ScheduleMode::kFromDram;
    return policy;
  }

  /// The cycles of a policy at a level, or nothing; keeps the schedule where it is the best so far.
  std::optional<int64_t> Offer(const ActionPolicy& policy, const Words& level, ScheduleMode mode) {
    const std::optional<Actions> actions = MakeActions(t_, policy, level, &work_);
    if (!actions) return std::nullopt;
    int64_t least = INT64_MAX;
    for (int runs : kAhead) {
      const Schedule timed =
          TimeActions(t_, p_.overlap ? Ahead(t_, *actions, level, runs) : *actions, level);
      work_ += 150 * int64_t(actions->size());
      least = std::min(least, timed.cycles);
      if (!best_known_ || timed.cycles < best_.cycles) {
        best_known_ = true;
        best_ = timed;
        best_.mode = mode;
      }
      if (!p_.overlap) break;
    }
    return least;
  }

  /// Values that are cheaper to compute again than to store and load.
  std::vector<char> CheapAgain() const {
    std::vector<char> cheap(p_.values.size(), 0);
    for (size_t v = 0; v < cheap.size(); ++v)
      if (t_.again[v] && t_.producer[v] >= 0)
        cheap[v] = p_.nodes[size_t(t_.producer[v])].cycles <
                   p_.values[v].load_cycles + p_.values[v].store_cycles;
    return cheap;
  }

  /// Next is what frees the most words, or takes the fewest.
  std::vector<int> OrderForMemory() const {
    std::vector<int> readers(p_.values.size(), 0), order;
    for (const auto& inputs : t_.inputs)
      for (int v : inputs) ++readers[size_t(v)];
    std::vector<char> ran(p_.nodes.size(), 0), made(p_.values.size(), 0);
    for (size_t v = 0; v < made.size(); ++v) made[v] = p_.values[v].in_dram;
    while (order.size() < p_.nodes.size()) {
      int best = -1;
      int64_t least = 0;
      for (size_t n = 0; n < p_.nodes.size(); ++n) {
        bool ready = !ran[n];
        for (int v : t_.inputs[n]) ready = ready && made[size_t(v)];
        for (int k : p_.nodes[n].after) ready = ready && ran[size_t(k)];
        if (!ready) continue;
        int64_t more = 0;
        for (int v : p_.nodes[n].outputs) more += p_.values[size_t(v)].words;
        for (int v : t_.inputs[n])
          if (readers[size_t(v)] == 1) more -= p_.values[size_t(v)].words;
        if (best < 0 || more < least) best = int(n), least = more;
      }
      order.push_back(best);
      ran[size_t(best)] = 1;
      for (int v : t_.inputs[size_t(best)]) --readers[size_t(v)];
      for (int v : p_.nodes[size_t(best)].outputs) made[size_t(v)] = 1;
    }
    return order;
  }

  /// Moves a node to another place between those that it needs and those that need it.
  void MoveNode(std::vector<int>* order, Random* random) const {
    const size_t from = random->Below(order->size());
    const int n = (*order)[from];
    size_t low = from, high = from;
    const auto before = [&](int a, int b) {  // whether a has to run before b
      for (int v : p_.nodes[size_t(a)].outputs)
        if (std::binary_search(t_.inputs[size_t(b)].begin(), t_.inputs[size_t(b)].end(), v))
          return true;
      const auto& after = p_.nodes[size_t(b)].after;
      return std::find(after.begin(), after.end(), a) != after.end();
    };
    while (low > 0 && !before((*order)[low - 1], n)) --low;
    while (high + 1 < order->size() && !before(n, (*order)[high + 1])) ++high;
    const size_t to = low + random->Below(high - low + 1);
    order->erase(order->begin() + long(from));
    order->insert(order->begin() + long(to), n);
  }

  /// Changes the policy while that costs nothing; leaves the best in it.
  void Search(const Words& level, ActionPolicy* policy, int64_t work) {
    const int64_t until = work_ + work;
    int64_t cycles = INT64_MAX;
    const auto consider = [&](const ActionPolicy& other) {
      const std::optional<int64_t> c = Offer(other, level, ScheduleMode::kPlan);
      if (!c || *c > cycles) return;
      cycles = *c;
      *policy = other;
    };
    const ActionPolicy found_below = *policy;
    consider(found_below);
    for (const std::vector<int>& order : {given_, order_for_memory_})
      for (int worth : {0, 1})
        for (bool again : {false, true}) {
          ActionPolicy other = Simple(ScheduleMode::kPlan);
          other.order = order;
          other.worth = worth;
          if (again) other.recompute = cheap_again_;
          consider(other);
        }
    Random random;
    const size_t values = p_.values.size();
    if (values == 0 || p_.nodes.empty()) return;
    int64_t least = cycles;
    for (size_t idle = 0; work_ < until && cycles > bound_ && idle < kIdle * values; ++idle) {
      if (cycles < least) least = cycles, idle = 0;
      ActionPolicy other = *policy;
      for (uint64_t changes = 1 + random.Below(3); changes > 0; --changes) {
        const size_t v = random.Below(values);
        switch (random.Below(8)) {
          case 0:
          case 1:
          case 2:
            other.keep[v] *= random.Below(2) == 0 ? 4 : 0.25;
            break;
          case 3:
          case 4:
            other.recompute[v] = !other.recompute[v];
            break;
          case 5:
            other.worth = 1 - other.worth;
            break;
          default:
            MoveNode(&other.order, &random);
        }
      }
      work_ += 20 * int64_t(values);
      consider(other);
    }
  }

  Schedule Finished(Schedule schedule, ScheduleMode mode) const {
    schedule.mode = mode;
    schedule.bound_cycles = bound_;
    return schedule;
  }

  const ScheduleProblem& p_;
  ScheduleTables t_;
  const ScheduleEffort& effort_;
  Words least_, budgets_;
  std::vector<int> given_, order_for_memory_;
  std::vector<char> cheap_again_;
  Schedule best_;
  bool best_known_ = false;
  int64_t bound_ = 0, work_ = 0;
};

}  // namespace

Schedule PlanSchedule(const ScheduleProblem& problem, ScheduleMode mode,
                      const ScheduleEffort& effort) {
  CheckProblem(problem);
  return Scheduler(problem, effort).Plan(mode);
}

std::vector<LeastBudget> LeastBudgets(const ScheduleProblem& problem) {
  const ScheduleTables tables(problem);
  std::vector<LeastBudget> least(problem.memories.size());
  for (size_t n = 0; n < problem.nodes.size(); ++n)
    for (size_t m = 0; m < least.size(); ++m)
      if (least[m].node < 0 || tables.needs[n][m] > least[m].words)
        least[m] = {tables.needs[n][m], int(n)};
  return least;
}

std::vector<int64_t> FullBudgets(const ScheduleProblem& problem) {
  const ScheduleTables tables(problem);
  std::vector<int> last(problem.values.size(), -1);
  for (size_t n = 0; n < problem.nodes.size(); ++n)
    for (int v : tables.inputs[n]) last[size_t(v)] = int(n);
  Words near(problem.memories.size(), 0), full(problem.memories.size(), 0);
  std::vector<char> is_near(problem.values.size(), 0);
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    const ScheduleProblem::Node& node = problem.nodes[n];
    for (const auto* values : {&tables.inputs[n], &node.outputs})
      for (int v : *values) {
        const ScheduleProblem::Value& value = problem.values[size_t(v)];
        if (!is_near[size_t(v)]) near[size_t(value.memory)] += value.words;
        is_near[size_t(v)] = 1;
      }
    for (size_t m = 0; m < near.size(); ++m)
      full[m] =
          std::max(full[m], near[m] + (node.workspace_words.empty() ? 0 : node.workspace_words[m]));
    for (const auto* values : {&tables.inputs[n], &node.outputs})
      for (int v : *values)
        if (is_near[size_t(v)] && last[size_t(v)] <= int(n)) {
          near[size_t(problem.values[size_t(v)].memory)] -= problem.values[size_t(v)].words;
          is_near[size_t(v)] = 0;
        }
  }
  return full;
}

}  // namespace hsimd
