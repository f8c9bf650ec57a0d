/// schedule_actions.cc: actions from an order and a policy, their time, and loads ahead of it.
#include "schedule_actions.h"

#include <algorithm>
#include <map>

#include "weft/support/check.h"

namespace hsimd {
namespace {

/// How deep values are computed again from values that are computed again.
constexpr int kDeepest = 8;

/// Room of one memory over time: what is taken from each cycle on.
class Room {
 public:
  explicit Room(int64_t budget) : budget_(budget) {}
  /// The first cycle >= `earliest` from which on `words` more fit.
  int64_t From(int64_t earliest, int64_t words) const {
    // Taken in the end, and before each change going backwards.
    int64_t used = used_;
    for (auto it = changes_.rbegin(); it != changes_.rend() && it->first > earliest; ++it) {
      used -= it->second;
      if (used + words > budget_) return it->first;
    }
    return earliest;
  }
  void Take(int64_t cycle, int64_t words) { Add(cycle, words); }
  void Free(int64_t cycle, int64_t words) { Add(cycle, -words); }
  int64_t Peak() const {
    int64_t used = 0, peak = 0;
    for (const auto& [cycle, change] : changes_) peak = std::max(peak, used += change);
    return peak;
  }

 private:
  void Add(int64_t cycle, int64_t words) {
    if (words == 0) return;
    changes_[cycle] += words;
    used_ += words;
  }
  int64_t budget_, used_ = 0;
  std::map<int64_t, int64_t> changes_;
};

/// Makes the actions of one policy.
class Maker {
 public:
  Maker(const ScheduleTables& tables, const ActionPolicy& policy, const Words& budgets,
        int64_t* work)
      : t_(tables),
        p_(tables.problem),
        policy_(policy),
        budgets_(budgets),
        work_(work),
        near_(p_.values.size(), 0),
        saved_(p_.values.size(), 0),
        locked_(p_.values.size(), 0),
        uses_(p_.values.size()),
        next_(p_.values.size(), 0),
        used_(p_.memories.size(), 0) {
    for (size_t k = 0; k < policy.order.size(); ++k)
      for (int v : tables.inputs[size_t(policy.order[k])]) uses_[size_t(v)].push_back(int(k));
    for (size_t v = 0; v < saved_.size(); ++v) saved_[v] = p_.values[v].in_dram;
  }

  std::optional<Actions> Make() {
    for (size_t k = 0; k < policy_.order.size(); ++k) {
      now_ = int(k);
      const int n = policy_.order[k];
      if (!Run(n, 0)) return std::nullopt;
      for (int v : t_.inputs[size_t(n)]) ++next_[size_t(v)];
      for (int v : p_.nodes[size_t(n)].outputs)
        if (p_.values[size_t(v)].to_dram) Store(v);
      for (const auto* values : {&t_.inputs[size_t(n)], &p_.nodes[size_t(n)].outputs})
        for (int v : *values)
          if (near_[size_t(v)] && (policy_.always_from_dram || NextUse(v) == kNever)) PutOut(v);
    }
    return std::move(actions_);
  }

 private:
  static constexpr int kNever = 1 << 30;

  int NextUse(int v) const {
    const auto& uses = uses_[size_t(v)];
    return next_[size_t(v)] < uses.size() ? uses[next_[size_t(v)]] : kNever;
  }

  bool Run(int n, int depth) {
    if (depth > kDeepest) return false;
    const ScheduleProblem::Node& node = p_.nodes[size_t(n)];
    const std::vector<int>& inputs = t_.inputs[size_t(n)];
    for (int v : inputs) ++locked_[size_t(v)];
    for (int v : node.outputs) ++locked_[size_t(v)];
    // What is computed again first: it needs room for what it is computed from.
    for (int v : inputs) {
      if (near_[size_t(v)] || saved_[size_t(v)]) continue;
      if (!t_.again[size_t(v)] || t_.producer[size_t(v)] < 0 ||
          !Run(t_.producer[size_t(v)], depth + 1))
        return false;
    }
    for (int v : inputs) {
      if (near_[size_t(v)]) continue;
      const ScheduleProblem::Value& value = p_.values[size_t(v)];
      if (!MakeRoom(value.memory, value.words)) return false;
      actions_.push_back({Action::kLoad, v});
      Bring(v);
    }
    Words more(p_.memories.size(), 0);
    if (!node.workspace_words.empty()) more = node.workspace_words;
    for (int v : node.outputs)
      if (!near_[size_t(v)])
        more[size_t(p_.values[size_t(v)].memory)] += p_.values[size_t(v)].words;
    for (size_t m = 0; m < more.size(); ++m)
      if (!MakeRoom(int(m), more[m])) return false;
    for (int v : inputs) --locked_[size_t(v)];
    for (int v : node.outputs) --locked_[size_t(v)];
    actions_.push_back({Action::kRun, n});
    for (int v : node.overwrites) saved_[size_t(v)] = 0;
    for (int v : node.outputs)
      if (!near_[size_t(v)]) Bring(v);
    return true;
  }

  void Bring(int v) {
    near_[size_t(v)] = 1;
    used_[size_t(p_.values[size_t(v)].memory)] += p_.values[size_t(v)].words;
    resident_.push_back(v);
  }

  void Store(int v) {
    if (saved_[size_t(v)]) return;
    saved_[size_t(v)] = 1;
    actions_.push_back({Action::kStore, v});
  }

  bool ComputedAgain(int v) const {
    return t_.again[size_t(v)] != 0 && policy_.recompute[size_t(v)] != 0;
  }

  void PutOut(int v) {
    if (NextUse(v) != kNever && !ComputedAgain(v)) Store(v);
    // What others are computed again from is computed again itself, or was off chip.
    near_[size_t(v)] = 0;
    used_[size_t(p_.values[size_t(v)].memory)] -= p_.values[size_t(v)].words;
    resident_.erase(std::find(resident_.begin(), resident_.end(), v));
    actions_.push_back({Action::kDrop, v});
  }

  /// Small: put out first.
  double Worth(int v) const {
    const int next = NextUse(v);
    if (next == kNever) return -1;
    const ScheduleProblem::Value& value = p_.values[size_t(v)];
    const double soon = 1.0 / double(next - now_ + 1);
    if (policy_.worth == 0) return soon * policy_.keep[size_t(v)];
    double back = double(value.load_cycles);
    if (!saved_[size_t(v)]) back += double(value.store_cycles);
    if (!saved_[size_t(v)] && ComputedAgain(v))
      back = double(p_.nodes[size_t(t_.producer[size_t(v)])].cycles);
    return (back + 0.01) / double(value.words + 1) * soon * policy_.keep[size_t(v)];
  }

  bool MakeRoom(int memory, int64_t words) {
    while (used_[size_t(memory)] + words > budgets_[size_t(memory)]) {
      int least = -1;
      double worth = 0;
      *work_ += 10 * int64_t(resident_.size());
      for (int v : resident_) {
        if (locked_[size_t(v)] || p_.values[size_t(v)].memory != memory) continue;
        const double w = Worth(v);
        if (least < 0 || w < worth || (w == worth && v < least)) least = v, worth = w;
      }
      if (least < 0) return false;
      PutOut(least);
    }
    return true;
  }

  const ScheduleTables& t_;
  const ScheduleProblem& p_;
  const ActionPolicy& policy_;
  const Words& budgets_;
  int64_t* work_;
  std::vector<char> near_, saved_;
  std::vector<int> locked_, resident_;
  std::vector<std::vector<int>> uses_;
  std::vector<size_t> next_;
  Words used_;
  Actions actions_;
  int now_ = 0;
};

}  // namespace

ScheduleTables::ScheduleTables(const ScheduleProblem& p) : problem(p) {
  producer.assign(p.values.size(), -1);
  again.assign(p.values.size(), 0);
  for (size_t v = 0; v < p.values.size(); ++v) again[v] = p.values[v].in_dram;
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    const ScheduleProblem::Node& node = p.nodes[n];
    bool can = node.may_run_again;
    for (int v : node.inputs) can = can && again[size_t(v)];
    Words words(p.memories.size(), 0);
    if (!node.workspace_words.empty()) words = node.workspace_words;
    std::vector<int> values = node.inputs;
    values.insert(values.end(), node.outputs.begin(), node.outputs.end());
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (int v : values) words[size_t(p.values[size_t(v)].memory)] += p.values[size_t(v)].words;
    needs.push_back(std::move(words));
    inputs.push_back(node.inputs);
    std::sort(inputs.back().begin(), inputs.back().end());
    inputs.back().erase(std::unique(inputs.back().begin(), inputs.back().end()),
                        inputs.back().end());
    for (int v : node.outputs) {
      producer[size_t(v)] = int(n);
      again[size_t(v)] = can;
    }
  }
}

std::optional<Actions> MakeActions(const ScheduleTables& tables, const ActionPolicy& policy,
                                   const Words& budgets, int64_t* work) {
  return Maker(tables, policy, budgets, work).Make();
}

Schedule TimeActions(const ScheduleTables& tables, const Actions& actions, const Words& budgets) {
  const ScheduleProblem& p = tables.problem;
  Schedule out;
  std::vector<Room> rooms;
  for (int64_t budget : budgets) rooms.emplace_back(budget);
  int64_t link = 0, machine = 0;
  const size_t values = p.values.size();
  std::vector<int64_t> there(values, 0), saved(values, 0), last_use(values, 0),
      ran_at(p.nodes.size(), 0);
  std::vector<int> stay(values, -1), runs(p.nodes.size(), 0);
  std::vector<char> was_near(values, 0);
  const auto begin_stay = [&](int v, int64_t cycle) {
    stay[size_t(v)] = int(out.stays.size());
    out.stays.push_back({v, cycle, cycle});
    rooms[size_t(p.values[size_t(v)].memory)].Take(cycle, p.values[size_t(v)].words);
  };
  const auto take_unit = [&](int64_t& unit, int64_t begin, int64_t cycles) {
    unit = begin + cycles;
    if (!p.overlap) link = machine = unit;
    out.cycles = std::max(out.cycles, unit);
    return unit;
  };
  for (const Action& action : actions) {
    const size_t at = size_t(action.index);
    if (action.kind == Action::kDrop) {
      const int64_t end = std::max(last_use[at], there[at]);
      out.stays[size_t(stay[at])].end = end;
      rooms[size_t(p.values[at].memory)].Free(end, p.values[at].words);
      stay[at] = -1;
    } else if (action.kind == Action::kLoad) {
      const ScheduleProblem::Value& value = p.values[at];
      const int64_t begin =
          rooms[size_t(value.memory)].From(std::max(link, saved[at]), value.words);
      there[at] = last_use[at] = take_unit(link, begin, value.load_cycles);
      begin_stay(action.index, begin);
      out.steps.push_back({ScheduleStep::kLoad, action.index, begin, there[at], was_near[at] != 0});
      was_near[at] = 1;
    } else if (action.kind == Action::kStore) {
      const int64_t begin = std::max(link, there[at]);
      saved[at] = take_unit(link, begin, p.values[at].store_cycles);
      last_use[at] = std::max(last_use[at], saved[at]);
      out.steps.push_back({ScheduleStep::kStore, action.index, begin, saved[at], false});
      if (!p.values[at].to_dram) out.spilled_words += p.values[at].words;
    } else {
      const ScheduleProblem::Node& node = p.nodes[at];
      int64_t begin = machine;
      for (int v : node.inputs) begin = std::max(begin, there[size_t(v)]);
      for (int n : node.after) begin = std::max(begin, ran_at[size_t(n)]);
      Words more(p.memories.size(), 0);
      if (!node.workspace_words.empty()) more = node.workspace_words;
      for (int v : node.outputs) {
        if (stay[size_t(v)] < 0)
          more[size_t(p.values[size_t(v)].memory)] += p.values[size_t(v)].words;
        else
          begin = std::max(begin, last_use[size_t(v)]);  // written again where it lies
      }
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t m = 0; m < more.size(); ++m) {
          const int64_t from = more[m] > 0 ? rooms[m].From(begin, more[m]) : begin;
          moved = moved || from > begin;
          begin = from;
        }
      }
      const int64_t end = take_unit(machine, begin, node.cycles);
      for (int v : node.outputs) {
        if (stay[size_t(v)] < 0) begin_stay(v, begin);
        there[size_t(v)] = last_use[size_t(v)] = end;
        was_near[size_t(v)] = 1;
      }
      for (int v : node.inputs) last_use[size_t(v)] = std::max(last_use[size_t(v)], end);
      if (!node.workspace_words.empty())
        for (size_t m = 0; m < rooms.size(); ++m) {
          rooms[m].Take(begin, node.workspace_words[m]);
          rooms[m].Free(end, node.workspace_words[m]);
        }
      out.steps.push_back({ScheduleStep::kRun, action.index, begin, end, runs[at] > 0});
      out.recomputed += runs[at]++ > 0;
      ran_at[at] = std::max(ran_at[at], end);
    }
  }
  for (size_t v = 0; v < values; ++v)
    if (stay[v] >= 0) out.stays[size_t(stay[v])].end = std::max(last_use[v], there[v]);
  const auto by_begin = [](const auto& a, const auto& b) { return a.begin < b.begin; };
  std::stable_sort(out.steps.begin(), out.steps.end(), by_begin);
  std::stable_sort(out.stays.begin(), out.stays.end(), by_begin);
  for (const Room& room : rooms) out.peak_words.push_back(room.Peak());
  return out;
}

Actions Ahead(const ScheduleTables& tables, const Actions& actions, const Words& budgets,
              int runs) {
  const ScheduleProblem& p = tables.problem;
  // Stores right behind the run that makes the value.
  std::vector<std::vector<int>> stored_at(actions.size());
  std::vector<int> made_at(p.values.size(), -1);
  std::vector<char> moved(actions.size(), 0);
  for (size_t k = 0; k < actions.size(); ++k) {
    const Action& action = actions[k];
    if (action.kind == Action::kRun)
      for (int v : p.nodes[size_t(action.index)].outputs) made_at[size_t(v)] = int(k);
    if (action.kind == Action::kStore && made_at[size_t(action.index)] >= 0) {
      stored_at[size_t(made_at[size_t(action.index)])].push_back(action.index);
      moved[k] = 1;
    }
  }
  Actions list;
  for (size_t k = 0; k < actions.size(); ++k) {
    if (!moved[k]) list.push_back(actions[k]);
    for (int v : stored_at[k]) list.push_back({Action::kStore, v});
  }
  // Words taken behind each action; a run takes its workspace too.
  std::vector<Words> used(list.size() + 1, Words(p.memories.size(), 0));
  Words now(p.memories.size(), 0);
  std::vector<char> near(p.values.size(), 0);
  for (size_t k = 0; k < list.size(); ++k) {
    const Action& action = list[k];
    const auto words_of = [&](int v) -> int64_t& {
      return now[size_t(p.values[size_t(v)].memory)];
    };
    Words extra(p.memories.size(), 0);
    if (action.kind == Action::kDrop) {
      words_of(action.index) -= p.values[size_t(action.index)].words;
      near[size_t(action.index)] = 0;
    } else if (action.kind == Action::kLoad) {
      words_of(action.index) += p.values[size_t(action.index)].words;
      near[size_t(action.index)] = 1;
    } else if (action.kind == Action::kRun) {
      const ScheduleProblem::Node& node = p.nodes[size_t(action.index)];
      if (!node.workspace_words.empty()) extra = node.workspace_words;
      for (int v : node.outputs)
        if (!near[size_t(v)]) words_of(v) += p.values[size_t(v)].words, near[size_t(v)] = 1;
    }
    for (size_t m = 0; m < now.size(); ++m) used[k][m] = now[m] + extra[m];
  }
  for (size_t k = 0; k < list.size(); ++k) {
    if (list[k].kind != Action::kLoad) continue;
    const int v = list[k].index;
    const size_t m = size_t(p.values[size_t(v)].memory);
    const int64_t words = p.values[size_t(v)].words;
    size_t to = k;
    int passed = 0;
    for (size_t at = k; at > 0; --at) {
      const Action& before = list[at - 1];
      if (before.kind == Action::kLoad || used[at - 1][m] + words > budgets[m]) break;
      if (before.kind != Action::kRun && before.index == v) break;
      if (before.kind == Action::kRun && ++passed > runs) break;
      // Its own room, in front of what it has passed.
      if (at == 1 || used[at - 2][m] + words <= budgets[m]) to = at - 1;
    }
    if (to == k) continue;
    // It is near behind all that it passes.
    const Action load = list[k];
    const Words behind = to > 0 ? used[to - 1] : Words(p.memories.size(), 0);
    for (size_t i = k; i > to; --i) {
      list[i] = list[i - 1];
      used[i] = used[i - 1];
      used[i][m] += words;
    }
    list[to] = load;
    // A run in front takes its workspace only while it runs: at most what stands there.
    used[to] = behind;
    used[to][m] += words;
  }
  return list;
}

}  // namespace hsimd
