/// schedule_test.cc: schedules against exhaustive search, budgets that are never passed, cycles
/// that never rise with memory.
#include "schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "weft/support/error.h"

namespace hsimd {
namespace {

using Rng = std::mt19937_64;

int64_t Draw(Rng& rng, int64_t low, int64_t high) {
  return low + int64_t(rng() % uint64_t(high - low + 1));
}

/// Up to nine values: random graphs, and ladders of a forward and a backward pass, in which each
/// step back reads what its step forward made. Costs as in notes: 20 to 400 cycles, 8 words a
/// cycle; with `cheap`, half of the nodes take little.
ScheduleProblem SmallGraph(Rng& rng, bool ladder, bool cheap, size_t most = 9) {
  ScheduleProblem p;
  p.overlap = false;
  p.memories = {{"LM", 0}};
  const auto value = [&](bool in_dram) {
    ScheduleProblem::Value v;
    v.name = "v" + std::to_string(p.values.size());
    v.words = Draw(rng, 1, 8);
    v.load_cycles = v.store_cycles = v.words * Draw(rng, 5, 12);
    v.in_dram = in_dram;
    p.values.push_back(v);
    return int(p.values.size()) - 1;
  };
  const auto node = [&](std::vector<int> inputs) {
    ScheduleProblem::Node n;
    n.name = "n" + std::to_string(p.nodes.size());
    n.cycles = cheap && Draw(rng, 0, 1) ? Draw(rng, 1, 20) : Draw(rng, 20, 400);
    n.inputs = std::move(inputs);
    n.outputs = {value(false)};
    n.may_run_again = Draw(rng, 0, 5) > 0;
    p.nodes.push_back(n);
    return n.outputs[0];
  };
  if (ladder) {
    std::vector<int> forward{value(true)};
    const int64_t depth = Draw(rng, 2, 4);
    for (int64_t k = 0; k < depth; ++k) forward.push_back(node({forward.back()}));
    int back = forward.back();
    for (int64_t k = depth; k-- > 0 && p.values.size() < most;)
      back = node({back, forward[size_t(k)]});
    p.values[size_t(back)].to_dram = true;
  } else {
    for (int64_t k = Draw(rng, 1, 2); k > 0; --k) value(true);
    while (p.values.size() + 1 < most) {
      std::vector<int> inputs;
      for (int64_t k = Draw(rng, 1, 3); k > 0; --k)
        inputs.push_back(int(Draw(rng, 0, int64_t(p.values.size()) - 1)));
      node(inputs);
      if (Draw(rng, 0, 5) == 0 && p.nodes.size() > 1)
        p.nodes.back().after = {int(Draw(rng, 0, int64_t(p.nodes.size()) - 2))};
    }
    for (auto& v : p.values) v.to_dram = !v.in_dram && Draw(rng, 0, 4) == 0;
    p.values.back().to_dram = true;
  }
  return p;
}

/// A training step: layers forward, loss, layers backward, updates of weights; two memories.
ScheduleProblem TrainingStep(Rng& rng, int layers, bool overlap) {
  ScheduleProblem p;
  p.overlap = overlap;
  p.memories = {{"LM0", 0}, {"LM1", 0}};
  const auto value = [&](int64_t words, int memory, bool in_dram, bool to_dram) {
    p.values.push_back({"v" + std::to_string(p.values.size()), words, memory, words / 8 + 1,
                        words / 8 + 1, in_dram, to_dram});
    return int(p.values.size()) - 1;
  };
  const auto node = [&](int64_t cycles, std::vector<int> inputs, int output, bool again) {
    p.nodes.push_back(
        {"n" + std::to_string(p.nodes.size()), cycles, std::move(inputs), {output}, {}, {}, again});
    return output;
  };
  std::vector<int> x{value(500, 0, true, false)}, w;
  for (int l = 0; l < layers; ++l) {
    const int64_t words = Draw(rng, 100, 800);
    w.push_back(value(Draw(rng, 50, 400), 1, true, false));
    const int sum =
        node(Draw(rng, 50, 600), {x.back(), w.back()}, value(words, 0, false, false), true);
    x.push_back(node(words / 16, {sum}, value(words, 0, false, false), true));
  }
  int grad = node(20, {x.back()}, value(p.values[size_t(x.back())].words, 0, false, false), true);
  for (int l = layers; l-- > 0;) {
    const int dw = node(Draw(rng, 50, 600), {grad, x[size_t(l)]},
                        value(p.values[size_t(w[size_t(l)])].words, 1, false, false), true);
    node(p.values[size_t(dw)].words / 16, {dw, w[size_t(l)]},
         value(p.values[size_t(dw)].words, 1, false, true), false);
    if (l > 0)
      grad = node(Draw(rng, 50, 600), {grad, w[size_t(l)], x[size_t(l)]},
                  value(p.values[size_t(x[size_t(l)])].words, 0, false, false), true);
  }
  return p;
}

/// Dijkstra over what is near, off chip and computed, without any estimate.
int64_t LeastCycles(const ScheduleProblem& p) {
  using State = std::tuple<unsigned, unsigned, unsigned>;
  const size_t values = p.values.size(), nodes = p.nodes.size();
  unsigned saved = 0, results = 0;
  for (size_t v = 0; v < values; ++v) {
    saved |= unsigned(p.values[v].in_dram) << v;
    results |= unsigned(p.values[v].to_dram) << v;
  }
  std::map<State, int64_t> cost{{State{0, saved, 0}, 0}};
  std::set<std::pair<int64_t, State>> queue{{0, State{0, saved, 0}}};
  const auto words = [&](unsigned near) {
    int64_t sum = 0;
    for (size_t v = 0; v < values; ++v) sum += near >> v & 1 ? p.values[v].words : 0;
    return sum;
  };
  while (!queue.empty()) {
    const auto [at, state] = *queue.begin();
    queue.erase(queue.begin());
    const auto [near, off, ran] = state;
    if (ran == (1u << nodes) - 1 && (off & results) == results) return at;
    const auto reach = [&](unsigned n, unsigned o, unsigned r, int64_t more) {
      if (words(n) > p.memories[0].budget) return;
      const State to{n, o, r};
      const auto [it, is_new] = cost.emplace(to, at + more);
      if (!is_new && it->second <= at + more) return;
      if (!is_new) queue.erase({it->second, to});
      it->second = at + more;
      queue.insert({at + more, to});
    };
    for (size_t n = 0; n < nodes; ++n) {
      bool ready = !(ran >> n & 1) || p.nodes[n].may_run_again;
      for (int v : p.nodes[n].inputs) ready = ready && (near >> v & 1);
      for (int k : p.nodes[n].after) ready = ready && (ran >> k & 1);
      if (ready) reach(near | 1u << p.nodes[n].outputs[0], off, ran | 1u << n, p.nodes[n].cycles);
    }
    for (size_t v = 0; v < values; ++v) {
      const unsigned bit = 1u << v;
      if (near & bit) reach(near & ~bit, off, ran, 0);
      if (near & bit) reach(near, off | bit, ran, p.values[v].store_cycles);
      if (off & bit && !(near & bit)) reach(near | bit, off, ran, p.values[v].load_cycles);
    }
  }
  return -1;
}

TEST_CASE("schedule: small graphs against exhaustive search") {
  Rng rng(11);
  struct Sum {
    double logs = 0, worst = 1;
    void Add(double ratio) {
      logs += std::log(ratio);
      worst = std::max(worst, ratio);
    }
  };
  Sum exact, searched, reuse, dram;
  int cases = 0;
  for (int k = 0; k < 60; ++k) {
    ScheduleProblem p = SmallGraph(rng, k % 2 == 0, k % 4 < 2);
    const int64_t least = LeastBudgets(p)[0].words, full = FullBudgets(p)[0];
    int64_t before = INT64_MAX, before_searched = INT64_MAX;
    for (int step = 0; step < 5; ++step) {
      p.memories[0].budget = least + (full - least) * step / 4;
      CAPTURE(k);
      CAPTURE(step);
      const int64_t optimum = LeastCycles(p);
      const Schedule best = PlanSchedule(p);
      ScheduleEffort effort;
      effort.exact_values = 0;
      effort.work = 30'000'000;
      const Schedule found = PlanSchedule(p, ScheduleMode::kPlan, effort);
      const Schedule belady = PlanSchedule(p, ScheduleMode::kReuse);
      const Schedule from_dram = PlanSchedule(p, ScheduleMode::kFromDram);
      for (const Schedule* s : {&best, &found, &belady, &from_dram}) {
        VerifySchedule(p, *s);
        REQUIRE(s->cycles >= optimum);
        REQUIRE(s->bound_cycles <= optimum);
        REQUIRE(s->peak_words[0] <= p.memories[0].budget);
      }
      REQUIRE(best.cycles == optimum);
      REQUIRE(found.cycles <= belady.cycles);
      REQUIRE(found.cycles <= from_dram.cycles);
      REQUIRE(best.cycles <= before);
      REQUIRE(found.cycles <= before_searched);
      before = best.cycles;
      before_searched = found.cycles;
      exact.Add(double(best.cycles) / double(optimum));
      searched.Add(double(found.cycles) / double(optimum));
      reuse.Add(double(belady.cycles) / double(optimum));
      dram.Add(double(from_dram.cycles) / double(optimum));
      ++cases;
    }
  }
  const auto mean = [cases](const Sum& sum) { return std::exp(sum.logs / cases); };
  MESSAGE(cases, " cases: plan ", mean(exact), ", without exact search ", mean(searched),
          " (worst ", searched.worst, "), reuse ", mean(reuse), " (", reuse.worst, "), from DRAM ",
          mean(dram), " (", dram.worst, ")");
  CHECK(mean(searched) <= 1.01);
  CHECK(searched.worst <= 1.10);
}

/// The least cycles where link and machine work side by side: Dijkstra over what is near, off chip
/// and computed, and how long what is under way still takes. Things start when others end.
int64_t LeastOverlapped(const ScheduleProblem& p) {
  // near, off chip, ran, load or store under way (value + 1, negative: a store), cycles left, node
  // under way + 1, cycles left
  using State = std::array<int64_t, 7>;
  const size_t values = p.values.size(), nodes = p.nodes.size();
  int64_t off = 0, results = 0;
  for (size_t v = 0; v < values; ++v) {
    off |= int64_t(p.values[v].in_dram) << v;
    results |= int64_t(p.values[v].to_dram) << v;
  }
  std::map<State, int64_t> cost;
  std::set<std::pair<int64_t, State>> queue;
  const auto reach = [&](const State& to, int64_t at) {
    int64_t words = 0;
    for (size_t v = 0; v < values; ++v) words += to[0] >> v & 1 ? p.values[v].words : 0;
    if (words > p.memories[0].budget) return;
    const auto [it, is_new] = cost.emplace(to, at);
    if (!is_new && it->second <= at) return;
    if (!is_new) queue.erase({it->second, to});
    it->second = at;
    queue.insert({at, to});
  };
  reach({0, off, 0, 0, 0, 0, 0}, 0);
  while (!queue.empty()) {
    const auto [at, s] = *queue.begin();
    queue.erase(queue.begin());
    if (s[2] == (int64_t{1} << nodes) - 1 && (s[1] & results) == results && !s[3] && !s[5])
      return at;
    const int64_t link = s[3] > 0 ? s[3] - 1 : s[3] < 0 ? -s[3] - 1 : -1;
    // Time goes on to the next end.
    if (s[3] || s[5]) {
      const int64_t step = std::min(s[3] ? s[4] : INT64_MAX, s[5] ? s[6] : INT64_MAX);
      State to = s;
      if (s[3] && (to[4] -= step) == 0) {
        if (s[3] < 0) to[1] |= int64_t{1} << link;
        to[3] = 0;
      }
      if (s[5] && (to[6] -= step) == 0) {
        to[2] |= int64_t{1} << (s[5] - 1);
        to[5] = 0;
      }
      reach(to, at + step);
    }
    const int64_t running = s[5] ? s[5] - 1 : -1;
    const int64_t made = running < 0 ? -1 : p.nodes[size_t(running)].outputs[0];
    for (size_t v = 0; v < values; ++v) {
      const int64_t bit = int64_t{1} << v;
      const bool there = (s[0] & bit) && !(s[3] > 0 && link == int64_t(v)) && made != int64_t(v);
      bool in_use = !there || link == int64_t(v);
      if (running >= 0)
        for (int i : p.nodes[size_t(running)].inputs) in_use = in_use || i == int(v);
      if (!in_use) reach({s[0] & ~bit, s[1], s[2], s[3], s[4], s[5], s[6]}, at);
      if (s[3]) continue;
      if (there && !(s[1] & bit))
        reach({s[0], s[1], s[2], -int64_t(v) - 1, p.values[v].store_cycles, s[5], s[6]}, at);
      if (!(s[0] & bit) && (s[1] & bit))
        reach({s[0] | bit, s[1], s[2], int64_t(v) + 1, p.values[v].load_cycles, s[5], s[6]}, at);
    }
    for (size_t n = 0; n < nodes && !s[5]; ++n) {
      const int64_t out = int64_t{1} << p.nodes[n].outputs[0];
      bool ready = !(s[2] >> n & 1) || (p.nodes[n].may_run_again && !(s[0] & out));
      for (int v : p.nodes[n].inputs) ready = ready && (s[0] >> v & 1) && !(s[3] > 0 && link == v);
      for (int k : p.nodes[n].after) ready = ready && (s[2] >> k & 1);
      if (ready) reach({s[0] | out, s[1], s[2], s[3], s[4], int64_t(n) + 1, p.nodes[n].cycles}, at);
    }
  }
  return -1;
}

TEST_CASE("schedule: small graphs with overlap against exhaustive search") {
  Rng rng(14);
  double logs = 0, worst = 1, reuse_logs = 0, reuse_worst = 1;
  int cases = 0;
  for (int k = 0; k < 30; ++k) {
    ScheduleProblem p = SmallGraph(rng, k % 2 == 0, k % 4 < 2, 6);
    p.overlap = true;
    const int64_t least = LeastBudgets(p)[0].words, full = FullBudgets(p)[0];
    int64_t before = INT64_MAX;
    for (int step = 0; step < 4; ++step) {
      p.memories[0].budget = least + (full - least) * step / 3;
      CAPTURE(k);
      CAPTURE(step);
      const int64_t optimum = LeastOverlapped(p);
      ScheduleEffort effort;
      effort.work = 30'000'000;
      const Schedule plan = PlanSchedule(p, ScheduleMode::kPlan, effort);
      const Schedule reuse = PlanSchedule(p, ScheduleMode::kReuse, effort);
      VerifySchedule(p, plan);
      REQUIRE(plan.cycles >= optimum);
      REQUIRE(plan.bound_cycles <= optimum);
      REQUIRE(plan.cycles <= before);
      before = plan.cycles;
      const double ratio = double(plan.cycles) / double(optimum);
      const double of_reuse = double(reuse.cycles) / double(optimum);
      logs += std::log(ratio);
      reuse_logs += std::log(of_reuse);
      worst = std::max(worst, ratio);
      reuse_worst = std::max(reuse_worst, of_reuse);
      ++cases;
    }
  }
  MESSAGE(cases, " cases with overlap: plan ", std::exp(logs / cases), " (worst ", worst,
          "), reuse ", std::exp(reuse_logs / cases), " (", reuse_worst, ")");
  CHECK(std::exp(logs / cases) <= 1.01);
  CHECK(worst <= 1.10);
}

TEST_CASE("schedule: training steps under ten budgets") {
  Rng rng(12);
  for (const auto& [layers, overlap] : {std::pair{3, true}, {8, true}, {8, false}, {20, true}}) {
    ScheduleProblem p = TrainingStep(rng, layers, overlap);
    const auto full = FullBudgets(p);
    const auto least = LeastBudgets(p);
    int64_t before = 0;
    ScheduleEffort effort;
    effort.work = 100'000'000;
    std::string curve;
    for (int percent = 100; percent >= 10; percent -= 10) {
      for (size_t m = 0; m < full.size(); ++m)
        p.memories[m].budget = std::max(least[m].words, full[m] * percent / 100);
      const Schedule plan = PlanSchedule(p, ScheduleMode::kPlan, effort);
      const Schedule reuse = PlanSchedule(p, ScheduleMode::kReuse, effort);
      const Schedule dram = PlanSchedule(p, ScheduleMode::kFromDram, effort);
      for (const Schedule* s : {&plan, &reuse, &dram}) {
        VerifySchedule(p, *s);
        REQUIRE(s->cycles >= s->bound_cycles);
        for (size_t m = 0; m < full.size(); ++m) {
          REQUIRE(s->peak_words[m] <= p.memories[m].budget);
        }
      }
      CAPTURE(percent);
      REQUIRE(plan.cycles <= reuse.cycles);
      REQUIRE(plan.cycles <= dram.cycles);
      REQUIRE(plan.cycles >= before);
      before = plan.cycles;
      curve += " " + std::to_string(plan.cycles) + "/" + std::to_string(reuse.cycles) + "/" +
               std::to_string(dram.cycles);
      if (percent == 50) {
        const Schedule again = PlanSchedule(p, ScheduleMode::kPlan, effort);
        CHECK(again.cycles == plan.cycles);
        CHECK(again.steps.size() == plan.steps.size());
      }
    }
    MESSAGE(layers, " layers, overlap ", overlap, ": plan/reuse/DRAM at 100 % .. 10 %:", curve);
  }
}

TEST_CASE("schedule: a budget below the least is told with its node") {
  Rng rng(13);
  ScheduleProblem p = TrainingStep(rng, 3, true);
  const auto least = LeastBudgets(p);
  p.memories[0].budget = 1 << 20;
  p.memories[1].budget = least[1].words - 1;
  try {
    PlanSchedule(p);
    FAIL("planned");
  } catch (const weft::Error& e) {
    CHECK(e.code() == weft::ErrorCode::kLimit);
    CHECK(e.message().find("'" + p.nodes[size_t(least[1].node)].name + "'") != std::string::npos);
    CHECK(e.message().find(std::to_string(least[1].words)) != std::string::npos);
    CHECK(e.message().find("LM1") != std::string::npos);
  }
  p.memories[1].budget += 1;
  const Schedule plan = PlanSchedule(p);
  VerifySchedule(p, plan);
  // A verifier that accepts everything would not do.
  Schedule early = plan;
  for (auto& step : early.steps)
    if (step.kind == ScheduleStep::kRun && step.begin > 0) {
      --step.begin, --step.end;
      break;
    }
  CHECK_THROWS_AS(VerifySchedule(p, early), weft::InternalError);
  p.memories[1].budget = 1;
  CHECK_THROWS_AS(VerifySchedule(p, plan), weft::InternalError);
}

TEST_CASE("schedule: copies that Checkpoint made run behind what holds them back") {
  // a is wide; its copy b runs behind the loss, so a need not stay.
  ScheduleProblem p;
  p.memories = {{"LM", 100}};
  const auto value = [&](int64_t words, bool in_dram, bool to_dram) {
    p.values.push_back(
        {"v" + std::to_string(p.values.size()), words, 0, words, words, in_dram, to_dram});
    return int(p.values.size()) - 1;
  };
  const int x = value(10, true, false), a = value(60, false, false), b = value(60, false, false);
  const int loss = value(20, false, false), grad = value(20, false, true);
  p.nodes.push_back({"a", 50, {x}, {a}, {}, {}, true});
  p.nodes.push_back({"loss", 50, {a}, {loss}, {}, {}, true});
  p.nodes.push_back({"a again", 50, {x}, {b}, {}, {1}, true});
  p.nodes.push_back({"grad", 50, {b, loss}, {grad}, {}, {}, true});
  const Schedule plan = PlanSchedule(p);
  VerifySchedule(p, plan);
  int runs = 0;
  for (const ScheduleStep& step : plan.steps) runs += step.kind == ScheduleStep::kRun;
  CHECK(runs == 4);
  CHECK(plan.spilled_words == 0);
}

TEST_CASE("schedule: new state is written behind the last reader of the old") {
  // Room for w and one more value, so that w leaves; whatever is planned, nothing loads it behind
  // the write, and nothing that reads it runs again there.
  ScheduleProblem p;
  p.memories = {{"LM", 40}};
  const auto value = [&](int64_t words, bool in_dram, bool to_dram) {
    p.values.push_back(
        {"v" + std::to_string(p.values.size()), words, 0, words, words, in_dram, to_dram});
    return int(p.values.size()) - 1;
  };
  const int w = value(20, true, false), a = value(20, false, false), b = value(20, false, false);
  const int now = value(20, false, false), y = value(20, false, true);
  p.nodes.push_back({"a", 5, {w}, {a}, {}, {}, true, {}});
  p.nodes.push_back({"b", 5, {a}, {b}, {}, {}, true, {}});
  p.nodes.push_back({"now", 5, {w}, {now}, {}, {}, true, {}});
  p.nodes.push_back({"write", 20, {now}, {}, {}, {0, 2}, false, {w}});
  p.nodes.push_back({"y", 5, {b}, {y}, {}, {}, true, {}});
  for (const bool overlap : {true, false})
    for (const ScheduleMode mode :
         {ScheduleMode::kFromDram, ScheduleMode::kReuse, ScheduleMode::kPlan}) {
      p.overlap = overlap;
      const Schedule plan = PlanSchedule(p, mode);
      VerifySchedule(p, plan);
      // A load behind the write is found.
      Schedule late = plan;
      const int64_t end = late.cycles;
      late.steps.push_back({ScheduleStep::kLoad, w, end, end + 20, true});
      late.stays.push_back({w, end, end + 20});
      late.cycles = end + 20;
      CHECK_THROWS_AS(VerifySchedule(p, late), weft::InternalError);
    }
}

}  // namespace
}  // namespace hsimd
