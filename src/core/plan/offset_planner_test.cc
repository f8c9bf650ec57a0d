/// offset_planner_test.cc: plans of random and of typical instances, checked pair by pair; known
/// optima; time.
#include "weft/core/plan/offset_planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <ostream>
#include <random>
#include <string>

#include "weft/support/error.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// The definition, in n^2.
bool Valid(const std::vector<PlanItem>& items, const Plan& plan) {
  for (size_t i = 0; i < items.size(); ++i) {
    const PlanItem& a = items[i];
    const int64_t at = plan.offsets[i];
    if (a.size == 0 || a.begin == a.end) continue;
    if (at < 0 || at % a.alignment || at + a.size > plan.arena_bytes) return false;
    for (size_t j = 0; j < i; ++j) {
      const PlanItem& b = items[j];
      if (b.size == 0 || b.begin == b.end) continue;
      const bool in_time = a.begin < b.end && b.begin < a.end;
      const bool in_room = at < plan.offsets[j] + b.size && plan.offsets[j] < at + a.size;
      if (in_time && in_room) return false;
    }
  }
  return true;
}

/// Step by step.
int64_t SlowPeak(const std::vector<PlanItem>& items, int steps) {
  int64_t peak = 0;
  for (int t = 0; t < steps; ++t) {
    int64_t live = 0;
    for (const PlanItem& i : items) live += i.begin <= t && t < i.end ? i.size : 0;
    peak = std::max(peak, live);
  }
  return peak;
}

bool Verifies(const std::vector<PlanItem>& items, const Plan& plan) {
  try {
    VerifyPlan(items, plan);
    return true;
  } catch (const InternalError&) {
    return false;
  }
}

TEST_CASE("random instances are planned without collision") {
  std::mt19937 rng(1);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const int n = int(rng() % 60), steps = 1 + int(rng() % 40);
    std::vector<PlanItem> items;
    for (int i = 0; i < n; ++i) {
      const int begin = int(rng() % unsigned(steps)),
                length = int(rng() % (round % 2 ? 4u : unsigned(steps)));
      items.push_back({int64_t(rng() % 1000), begin, std::min(steps, begin + length),
                       int64_t{1} << (rng() % 8)});
    }
    const Plan plan = PlanOffsets(items);
    CHECK(Valid(items, plan));
    CHECK(Verifies(items, plan));
    CHECK(PeakLive(items) == SlowPeak(items, steps));
    CHECK(plan.arena_bytes >= PeakLive(items));
    CHECK(PlanOffsets(items).offsets == plan.offsets);
  }
}

TEST_CASE("the checker agrees with the definition on damaged plans") {
  std::mt19937 rng(2);
  int bad = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<PlanItem> items;
    for (int i = 0; i < 8; ++i) {
      const int begin = int(rng() % 10);
      items.push_back({int64_t(1 + rng() % 10), begin, begin + int(rng() % 5), rng() % 2 ? 1 : 4});
    }
    Plan plan = PlanOffsets(items);
    plan.offsets[rng() % 8] = int64_t(rng() % 20) - 1;
    if (rng() % 4 == 0) --plan.arena_bytes;
    CHECK(Verifies(items, plan) == Valid(items, plan));
    bad += !Valid(items, plan);
  }
  CHECK(bad > 300);
  try {
    VerifyPlan({{8, 0, 2, 1}, {8, 5, 6, 1}, {8, 1, 3, 1}}, {{0, 0, 4}, 12});
    CHECK(false);
  } catch (const InternalError& e) {
    CHECK(std::string(e.what()).find("items 0 and 2 collide") != std::string::npos);
  }
}

TEST_CASE("edges") {
  CHECK(PlanOffsets({}).arena_bytes == 0);
  CHECK(PlanOffsets({{0, 0, 5, 64}, {100, 3, 3, 64}}).arena_bytes == 0);
  CHECK(PlanOffsets({{100, -5, 3, 64}}).arena_bytes == 100);
  // A chain needs two buffers.
  std::vector<PlanItem> chain;
  for (int i = 0; i < 50; ++i) chain.push_back({64, i, i + 2, 64});
  CHECK(PlanOffsets(chain).arena_bytes == 128);
  CHECK_THROWS_AS(PlanOffsets({{-1, 0, 1, 1}}), InternalError);
  CHECK_THROWS_AS(PlanOffsets({{1, 2, 1, 1}}), InternalError);
  CHECK_THROWS_AS(PlanOffsets({{1, 0, 1, 0}}), InternalError);
  CHECK_THROWS_AS(PlanOffsets({{INT64_MAX, 0, 2, 1}, {INT64_MAX, 1, 2, 1}}), UserError);
}

/// The fewest bytes: first fit in every order. Items of a smallest plan, pushed down as far as they
/// go and taken in the order of their offsets, are where first fit puts them, or higher.
int64_t Fewest(const std::vector<PlanItem>& items) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  int64_t fewest = INT64_MAX;
  do {
    std::vector<int64_t> at(items.size(), 0);
    int64_t arena = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      const PlanItem& a = items[order[k]];
      if (a.size == 0 || a.begin == a.end) continue;
      // Zero and what follows the end of another are all the places there are.
      std::vector<int64_t> places{0};
      for (size_t j = 0; j < k; ++j) {
        const int64_t end = at[order[j]] + items[order[j]].size;
        places.push_back((end + a.alignment - 1) / a.alignment * a.alignment);
      }
      std::sort(places.begin(), places.end());
      for (int64_t place : places) {
        bool free = true;
        for (size_t j = 0; j < k && free; ++j) {
          const PlanItem& b = items[order[j]];
          free = b.size == 0 || b.begin >= a.end || a.begin >= b.end ||
                 place >= at[order[j]] + b.size || at[order[j]] >= place + a.size;
        }
        if (!free) continue;
        at[order[k]] = place;
        break;
      }
      arena = std::max(arena, at[order[k]] + a.size);
    }
    fewest = std::min(fewest, arena);
  } while (std::next_permutation(order.begin(), order.end()));
  return fewest;
}

TEST_CASE("small instances are planned with the fewest bytes, and it is proven") {
  std::mt19937 rng(6);
  int above_live = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<PlanItem> items;
    const int n = 3 + int(rng() % 5);  // 7! orders
    for (int i = 0; i < n; ++i) {
      const int begin = int(rng() % 8);
      items.push_back({int64_t(1 + rng() % 9), begin, begin + 1 + int(rng() % 5),
                       round % 3 == 0   ? int64_t{1} << (rng() % 3)
                       : round % 3 == 1 ? 1
                                        : 4});
    }
    PlanEffort effort;
    effort.work = 10'000'000;
    const Plan plan = PlanOffsets(items, effort);
    CHECK(Valid(items, plan));
    const int64_t fewest = Fewest(items);
    // Sizes are rounded up to what the alignments have in common, the topmost too.
    int64_t unit = 0;
    for (const PlanItem& item : items) unit = std::gcd(unit, item.alignment);
    CHECK((plan.arena_bytes + unit - 1) / unit == (fewest + unit - 1) / unit);
    CHECK(plan.lower_bound <= fewest);
    // What rounding up to mixed alignments costs is not part of the bound.
    if (round % 3 == 1) CHECK(plan.optimal());
    above_live += fewest > PeakLive(items);
  }
  CHECK(above_live > 20);
}

/// Cuts a rectangle of `height` bytes and `steps` into pieces: a perfect packing is known to exist.
void Cut(std::mt19937& rng, int begin, int end, int64_t height, int depth,
         std::vector<PlanItem>* out) {
  if (depth == 0 || height < 2 || end - begin < 2) {
    out->push_back({height, begin, end, 1});
  } else if (rng() % 2) {
    const int64_t low = 1 + int64_t(rng() % uint64_t(height - 1));
    Cut(rng, begin, end, low, depth - 1, out);
    Cut(rng, begin, end, height - low, depth - 1, out);
  } else {
    const int mid = begin + 1 + int(rng() % unsigned(end - begin - 1));
    Cut(rng, begin, mid, height, depth - 1, out);
    Cut(rng, mid, end, height, depth - 1, out);
  }
}

TEST_CASE("where a perfect packing exists the plan is near it") {
  std::mt19937 rng(3);
  double worst = 0, sum = 0;
  const int rounds = 60;
  for (int round = 0; round < rounds; ++round) {
    std::vector<PlanItem> items;
    Cut(rng, 0, 1000, 100000, 7, &items);
    const Plan plan = PlanOffsets(items);
    VerifyPlan(items, plan);
    const double ratio = double(plan.arena_bytes) / 100000;
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  MESSAGE("arena / optimum: mean " << sum / rounds << ", worst " << worst);
  CHECK(sum / rounds < 1.15);
  CHECK(worst < 1.5);
}

TEST_CASE("the search finds perfect packings, and stops at a capacity") {
  std::mt19937 rng(7);
  int perfect = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<PlanItem> items;
    Cut(rng, 0, 1000, 100000, 5, &items);
    PlanEffort effort;
    effort.work = 300'000'000;
    const Plan plan = PlanOffsets(items, effort);
    VerifyPlan(items, plan);
    CHECK(plan.lower_bound == 100000);
    perfect += plan.optimal();
    effort.capacity = 130000;
    const Plan roomy = PlanOffsets(items, effort);
    CHECK(roomy.arena_bytes <= 130000);
    CHECK(roomy.arena_bytes >= plan.arena_bytes);
  }
  MESSAGE(perfect << " of 20 packings are perfect");
  CHECK(perfect >= 18);
}

TEST_CASE("a plan can be cancelled") {
  std::mt19937 rng(8);
  std::vector<PlanItem> items;
  for (int i = 0; i < 400; ++i) {
    const int begin = int(rng() % 60);
    items.push_back({int64_t(1 + rng() % 100000), begin, begin + 1 + int(rng() % 30), 1});
  }
  Limits limits;
  limits.deadline_s = 0.05;
  const RequestScope scope(limits);
  PlanEffort effort;
  effort.work = INT64_MAX / 2;
  CHECK_THROWS_AS(PlanOffsets(items, effort), UserError);
}

/// Share above the lower bound, after checking the plan.
double Above(const std::vector<PlanItem>& items, const std::string& what) {
  const auto begin = std::chrono::steady_clock::now();
  const Plan plan = PlanOffsets(items);
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  VerifyPlan(items, plan);
  MESSAGE(what << ": " << items.size() << " items in " << s * 1e3 << " ms, arena / lower bound "
               << double(plan.arena_bytes) / double(plan.lower_bound));
  return double(plan.arena_bytes) / double(plan.lower_bound) - 1;
}

TEST_CASE("the nested lifetimes of training leave almost no gaps") {
  // Results of a forward pass that the backward pass reads in reverse, with temporaries, masks,
  // gradients of weights that wait for the optimizer, and skips.
  std::mt19937 rng(5);
  const int rounds = 40;
  double sum = 0;
  int above = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<PlanItem> items;
    const int layers = 10 + int(rng() % 60), end = 4 * layers + 4;
    int64_t size = 64 * int64_t(1000 + rng() % 20000);
    const auto add = [&items](int64_t bytes, int from, int to) {
      items.push_back({(bytes + 63) / 64 * 64, from, to, 64});
    };
    for (int i = 0; i < layers; ++i) {
      if (rng() % 6 == 0) size = size / 2 + 64;
      const int64_t bytes = size * int64_t(1 + rng() % 2);
      const int forward = 2 * i, backward = 4 * layers - 2 * i;
      add(bytes, forward, backward + 1);
      if (rng() % 2) add(bytes, forward, forward + 2);
      if (rng() % 3 == 0) add(bytes / 4, forward + 1, backward);
      add(bytes, backward - 2, backward + 1);
      add(64 * int64_t(1 + rng() % 3000), backward, rng() % 2 ? end : backward + 2);
      if (rng() % 4 == 0) add(bytes, forward, forward + 6);
    }
    const Plan plan = PlanOffsets(items);
    VerifyPlan(items, plan);
    const double ratio = double(plan.arena_bytes) / double(PeakLive(items));
    sum += ratio;
    above += ratio > 1.01;
    CHECK(ratio <= 1.05);
  }
  CHECK(sum / rounds <= 1.004);
  CHECK(above <= rounds / 10);
}

TEST_CASE("a hundred thousand items") {
  std::mt19937 rng(4);
  const int n = 100000;
  std::vector<PlanItem> inference, training, random;
  for (int i = 0; i < n; ++i) {
    const int64_t size = 64 * int64_t(1 + rng() % 4096);
    const int length = rng() % 10 == 0 ? 2 + int(rng() % 200) : 1 + int(rng() % 3);
    inference.push_back({size, i, i + 1 + length, 64});
    // Activations live from the forward pass to their place in the backward pass.
    training.push_back({size, i, i % 2 ? 2 * n - i : i + 2, 64});
    const int begin = int(rng() % unsigned(n));
    random.push_back({size, begin, begin + 1 + int(rng() % 1000), 64});
  }
  CHECK(Above(inference, "inference") <= 0.01);
  CHECK(Above(training, "training") <= 0.01);
  CHECK(Above(random, "random") <= 0.04);
}

}  // namespace
}  // namespace weft
