/// schedule_exact.cc: the least sum of cycles, by best-first search (A*) over what is near, off
/// chip and computed. The estimate: nodes that have not run and results that are not off chip.
/// Reached only for problems without overlap: with it, cycles are not a sum.
#include <algorithm>
#include <queue>
#include <unordered_map>

#include "schedule_actions.h"

namespace hsimd {
namespace {

/// Bits of the three sets in one key.
constexpr int kShift = 16;

struct State {
  uint32_t near = 0, saved = 0, ran = 0;
  uint64_t key() const {
    return uint64_t(near) | uint64_t(saved) << kShift | uint64_t(ran) << (2 * kShift);
  }
  static State Of(uint64_t key) {
    const uint64_t mask = (1u << kShift) - 1;
    return {uint32_t(key & mask), uint32_t(key >> kShift & mask),
            uint32_t(key >> (2 * kShift) & mask)};
  }
};

struct Visit {
  int64_t cost = 0;
  uint64_t from = 0;
  Action action;
  bool closed = false;
};

class Search {
 public:
  Search(const ScheduleTables& tables, const Words& budgets, int64_t most_states)
      : t_(tables), p_(tables.problem), budgets_(budgets), most_states_(most_states) {}

  std::optional<Actions> Run() {
    State start;
    for (size_t v = 0; v < p_.values.size(); ++v)
      if (p_.values[v].in_dram) start.saved |= 1u << v;
    visits_[start.key()] = {};
    queue_.push({Rest(start), start.key()});
    while (!queue_.empty()) {
      const uint64_t key = queue_.top().second;
      queue_.pop();
      Visit& visit = visits_[key];
      if (visit.closed) continue;
      visit.closed = true;
      const State state = State::Of(key);
      if (Done(state)) return PathTo(key);
      if (int64_t(visits_.size()) > most_states_) return std::nullopt;
      Expand(state, visit.cost);
    }
    return std::nullopt;
  }

 private:
  bool Done(const State& s) const {
    if (s.ran != (1u << p_.nodes.size()) - 1) return false;
    for (size_t v = 0; v < p_.values.size(); ++v)
      if (p_.values[v].to_dram && !(s.saved >> v & 1)) return false;
    return true;
  }

  int64_t Rest(const State& s) const {
    int64_t rest = 0;
    for (size_t n = 0; n < p_.nodes.size(); ++n)
      if (!(s.ran >> n & 1)) rest += p_.nodes[n].cycles;
    for (size_t v = 0; v < p_.values.size(); ++v)
      if (p_.values[v].to_dram && !(s.saved >> v & 1)) rest += p_.values[v].store_cycles;
    return rest;
  }

  bool Fits(uint32_t near, const std::vector<int64_t>* workspace) const {
    for (size_t m = 0; m < budgets_.size(); ++m) {
      int64_t words = workspace != nullptr && !workspace->empty() ? (*workspace)[m] : 0;
      for (size_t v = 0; v < p_.values.size(); ++v)
        if (near >> v & 1 && p_.values[v].memory == int(m)) words += p_.values[v].words;
      if (words > budgets_[m]) return false;
    }
    return true;
  }

  void Reach(const State& from, int64_t cost, const State& to, const Action& action) {
    const auto [it, is_new] = visits_.try_emplace(to.key());
    Visit& visit = it->second;
    if (!is_new && (visit.closed || visit.cost <= cost)) return;
    visit = {cost, from.key(), action, false};
    queue_.push({cost + Rest(to), to.key()});
  }

  void Expand(const State& s, int64_t cost) {
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      const ScheduleProblem::Node& node = p_.nodes[n];
      const bool again = (s.ran >> n & 1) != 0;
      if (again && !node.may_run_again) continue;
      bool ready = true;
      for (int v : node.inputs) ready = ready && (s.near >> v & 1);
      for (int k : node.after) ready = ready && (s.ran >> k & 1);
      uint32_t outputs = 0;
      for (int v : node.outputs) outputs |= 1u << v;
      if (!ready || (again && (s.near & outputs) == outputs)) continue;
      const State to{s.near | outputs, s.saved, s.ran | 1u << n};
      if (Fits(to.near, &node.workspace_words))
        Reach(s, cost + node.cycles, to, {Action::kRun, int(n)});
    }
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const uint32_t bit = 1u << v;
      if (s.near & bit) {
        Reach(s, cost, {s.near & ~bit, s.saved, s.ran}, {Action::kDrop, int(v)});
        if (!(s.saved & bit))
          Reach(s, cost + p_.values[v].store_cycles, {s.near, s.saved | bit, s.ran},
                {Action::kStore, int(v)});
      } else if (s.saved & bit && Fits(s.near | bit, nullptr)) {
        Reach(s, cost + p_.values[v].load_cycles, {s.near | bit, s.saved, s.ran},
              {Action::kLoad, int(v)});
      }
    }
  }

  Actions PathTo(uint64_t key) {
    Actions actions;
    State start;
    for (size_t v = 0; v < p_.values.size(); ++v)
      if (p_.values[v].in_dram) start.saved |= 1u << v;
    while (key != start.key()) {
      const Visit& visit = visits_[key];
      actions.push_back(visit.action);
      key = visit.from;
    }
    std::reverse(actions.begin(), actions.end());
    return actions;
  }

  const ScheduleTables& t_;
  const ScheduleProblem& p_;
  const Words& budgets_;
  int64_t most_states_;
  std::unordered_map<uint64_t, Visit> visits_;
  /// (estimate, key), least first; the key breaks ties, so that the path is always the same.
  std::priority_queue<std::pair<int64_t, uint64_t>, std::vector<std::pair<int64_t, uint64_t>>,
                      std::greater<>>
      queue_;
};

}  // namespace

std::optional<Actions> LeastActions(const ScheduleTables& tables, const Words& budgets,
                                    int64_t most_states) {
  if (tables.problem.values.size() > kShift || tables.problem.nodes.size() > kShift)
    return std::nullopt;
  return Search(tables, budgets, most_states).Run();
}

}  // namespace hsimd
