/// verify_schedule.cc: checks a schedule from its steps and stays alone.
#include <algorithm>
#include <map>

#include "schedule.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

/// Whether a stay of the value covers [begin, end).
bool IsNear(const Schedule& schedule, int value, int64_t begin, int64_t end) {
  return std::any_of(schedule.stays.begin(), schedule.stays.end(), [&](const Stay& stay) {
    return stay.value == value && stay.begin <= begin && stay.end >= end;
  });
}

/// Whether something put the value there in this stay before `cycle`.
bool IsThere(const ScheduleProblem& p, const Schedule& schedule, int value, int64_t cycle) {
  for (const Stay& stay : schedule.stays) {
    if (stay.value != value || stay.begin > cycle || stay.end < cycle) continue;
    for (const ScheduleStep& step : schedule.steps) {
      if (step.begin < stay.begin || step.end > cycle) continue;
      if (step.kind == ScheduleStep::kLoad && step.index == value) return true;
      if (step.kind != ScheduleStep::kRun) continue;
      const auto& outputs = p.nodes[size_t(step.index)].outputs;
      if (std::count(outputs.begin(), outputs.end(), value)) return true;
    }
  }
  return false;
}

void CheckRoom(const ScheduleProblem& p, const Schedule& schedule) {
  for (size_t m = 0; m < p.memories.size(); ++m) {
    std::map<int64_t, int64_t> change;
    for (const Stay& stay : schedule.stays)
      if (p.values[size_t(stay.value)].memory == int(m)) {
        change[stay.begin] += p.values[size_t(stay.value)].words;
        change[stay.end] -= p.values[size_t(stay.value)].words;
      }
    for (const ScheduleStep& step : schedule.steps)
      if (step.kind == ScheduleStep::kRun && !p.nodes[size_t(step.index)].workspace_words.empty()) {
        change[step.begin] += p.nodes[size_t(step.index)].workspace_words[m];
        change[step.end] -= p.nodes[size_t(step.index)].workspace_words[m];
      }
    int64_t used = 0;
    for (const auto& [cycle, words] : change) {
      used += words;
      WEFT_ICHECK(used <= p.memories[m].budget, "cycle {}: {} words of {}, budget {}", cycle, used,
                  p.memories[m].name, p.memories[m].budget);
    }
  }
}

}  // namespace

void VerifySchedule(const ScheduleProblem& p, const Schedule& schedule) {
  std::vector<int64_t> ran(p.nodes.size(), -1), saved(p.values.size(), -1);
  for (size_t v = 0; v < saved.size(); ++v)
    if (p.values[v].in_dram) saved[v] = 0;
  int64_t link = 0, machine = 0;
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const ScheduleStep& step = schedule.steps[k];
    const bool run = step.kind == ScheduleStep::kRun;
    int64_t& unit = run || !p.overlap ? machine : link;
    WEFT_ICHECK(step.begin >= unit, "step {} begins in cycle {}, before {}", k, step.begin, unit);
    unit = step.end;
    WEFT_ICHECK(step.end <= schedule.cycles, "step {} ends behind the end", k);
    if (run) {
      const ScheduleProblem::Node& node = p.nodes[size_t(step.index)];
      WEFT_ICHECK(step.end - step.begin == node.cycles, "step {}: {} cycles", k, node.cycles);
      WEFT_ICHECK(step.again == (ran[size_t(step.index)] >= 0), "step {}: runs again or not", k);
      WEFT_ICHECK(!step.again || node.may_run_again, "step {}: '{}' ran again", k, node.name);
      for (int v : node.inputs)
        WEFT_ICHECK(
            IsNear(schedule, v, step.begin, step.end) && IsThere(p, schedule, v, step.begin),
            "step {}: '{}' of '{}' is not near", k, p.values[size_t(v)].name, node.name);
      for (int v : node.outputs)
        WEFT_ICHECK(IsNear(schedule, v, step.begin, step.end), "step {}: no room for '{}'", k,
                    p.values[size_t(v)].name);
      for (int n : node.after)
        WEFT_ICHECK(ran[size_t(n)] >= 0 && ran[size_t(n)] <= step.begin,
                    "step {}: '{}' has not run", k, p.nodes[size_t(n)].name);
      for (int v : node.overwrites) saved[size_t(v)] = INT64_MAX;
      if (!step.again) ran[size_t(step.index)] = step.end;
    } else {
      const ScheduleProblem::Value& value = p.values[size_t(step.index)];
      const bool load = step.kind == ScheduleStep::kLoad;
      WEFT_ICHECK(step.end - step.begin == (load ? value.load_cycles : value.store_cycles),
                  "step {}: cycles of '{}'", k, value.name);
      WEFT_ICHECK(IsNear(schedule, step.index, step.begin, step.end), "step {}: '{}' is not near",
                  k, value.name);
      if (load) {
        WEFT_ICHECK(saved[size_t(step.index)] >= 0 && saved[size_t(step.index)] <= step.begin,
                    "step {}: '{}' does not lie off chip", k, value.name);
      } else {
        WEFT_ICHECK(IsThere(p, schedule, step.index, step.begin), "step {}: '{}' is not there", k,
                    value.name);
        if (saved[size_t(step.index)] < 0) saved[size_t(step.index)] = step.end;
      }
    }
  }
  for (size_t n = 0; n < ran.size(); ++n)
    WEFT_ICHECK(ran[n] >= 0, "node '{}' does not run", p.nodes[n].name);
  for (size_t v = 0; v < saved.size(); ++v)
    WEFT_ICHECK(!p.values[v].to_dram || saved[v] >= 0, "'{}' does not lie off chip in the end",
                p.values[v].name);
  CheckRoom(p, schedule);
}

}  // namespace hsimd
