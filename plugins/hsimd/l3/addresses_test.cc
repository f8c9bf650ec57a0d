/// addresses_test.cc: no two values that are near at once share a word, within the budgets.
#include "addresses.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "weft/support/error.h"

namespace hsimd {
namespace {

using Rng = std::mt19937_64;

int64_t Draw(Rng& rng, int64_t low, int64_t high) {
  return low + int64_t(rng() % uint64_t(high - low + 1));
}

ScheduleProblem RandomGraph(Rng& rng) {
  ScheduleProblem p;
  p.overlap = Draw(rng, 0, 1) != 0;
  p.memories = {{"LM0", 0}, {"LM1", 0}};
  const auto value = [&](bool in_dram) {
    const int64_t words = Draw(rng, 1, 200);
    p.values.push_back({"v", words, int(Draw(rng, 0, 1)), words / 8, words / 8, in_dram, false});
    return int(p.values.size()) - 1;
  };
  for (int64_t k = Draw(rng, 1, 4); k > 0; --k) value(true);
  for (int64_t k = Draw(rng, 5, 25); k > 0; --k) {
    ScheduleProblem::Node node;
    node.name = "n" + std::to_string(p.nodes.size());
    node.cycles = Draw(rng, 5, 50);
    for (int64_t i = Draw(rng, 1, 3); i > 0; --i)
      node.inputs.push_back(int(Draw(rng, std::max<int64_t>(0, int64_t(p.values.size()) - 8),
                                     int64_t(p.values.size()) - 1)));
    node.outputs = {value(false)};
    node.may_run_again = true;
    p.nodes.push_back(node);
  }
  p.values.back().to_dram = true;
  return p;
}

TEST_CASE("addresses: values that are near at once lie apart") {
  Rng rng(21);
  int cut = 0;
  for (int k = 0; k < 60; ++k) {
    ScheduleProblem p = RandomGraph(rng);
    const auto least = LeastBudgets(p);
    const auto full = FullBudgets(p);
    const int64_t share = k % 5;
    const std::vector<int64_t> alignment =
        k % 3 == 0 ? std::vector<int64_t>{4, 1} : std::vector<int64_t>{};
    for (size_t m = 0; m < full.size(); ++m)
      p.memories[m].budget =
          least[m].words + (full[m] - least[m].words) * share / 4 + (alignment.empty() ? 0 : 16);
    ScheduleEffort effort;
    effort.work = 10'000'000;
    const PlacedSchedule placed = PlanPlacedSchedule(p, alignment, ScheduleMode::kPlan, effort);
    const Schedule& schedule = placed.schedule;
    CAPTURE(k);
    if (schedule.cycles > PlanSchedule(p, ScheduleMode::kPlan, effort).cycles) ++cut;
    VerifySchedule(p, schedule);
    REQUIRE(placed.addresses.base.size() == schedule.stays.size());
    for (size_t a = 0; a < schedule.stays.size(); ++a) {
      const Stay& x = schedule.stays[a];
      const auto& value = p.values[size_t(x.value)];
      const int64_t base = placed.addresses.base[a];
      REQUIRE(base >= 0);
      if (x.begin == x.end) continue;
      REQUIRE(base + value.words <= p.memories[size_t(value.memory)].budget);
      REQUIRE(base + value.words <= placed.addresses.used_words[size_t(value.memory)]);
      if (!alignment.empty()) REQUIRE(base % alignment[size_t(value.memory)] == 0);
      for (size_t b = 0; b < a; ++b) {
        const Stay& y = schedule.stays[b];
        const auto& other = p.values[size_t(y.value)];
        if (other.memory != value.memory || x.end <= y.begin || y.end <= x.begin) continue;
        const int64_t at = placed.addresses.base[b];
        REQUIRE((base + value.words <= at || at + other.words <= base));
      }
    }
  }
  MESSAGE(cut, " of 60 schedules took more cycles so that addresses fit");
}

TEST_CASE("addresses: what alignment leaves no room for is told") {
  ScheduleProblem p;
  p.memories = {{"LM", 10}};
  p.values = {{"a", 5, 0, 1, 1, true, false}, {"b", 5, 0, 1, 1, false, true}};
  p.nodes = {{"n", 4, {0}, {1}, {}, {}, true}};
  CHECK(PlanPlacedSchedule(p).addresses.used_words[0] == 10);
  try {
    PlanPlacedSchedule(p, {8});
    FAIL("planned");
  } catch (const weft::Error& e) {
    CHECK(e.code() == weft::ErrorCode::kLimit);
    CHECK(e.message().find("LM") != std::string::npos);
  }
}

}  // namespace
}  // namespace hsimd
