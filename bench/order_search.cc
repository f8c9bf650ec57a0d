/// order_search.cc: what SearchOrder finds, and what it takes: small-world graphs beside a search
/// with a hundred times the work, and large ones of two kinds.
///
///   bench_order_search [rounds]
#include "weft/core/plan/order_search.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/support/random/small_world.h"

namespace {

using namespace weft;

/// A residual network, its gradients, and those of the weights last.
MemoryProblem Training(std::mt19937* random, int n) {
  MemoryProblem p;
  const auto add = [&p](std::vector<int> inputs, int64_t bytes) {
    const int v = int(p.values.size());
    p.nodes.emplace_back();
    p.nodes.back().inputs = std::move(inputs);
    p.nodes.back().outputs = {v};
    p.values.push_back({bytes, v});
    return v;
  };
  std::vector<int> x = {add({}, 1024)};
  for (int k = 0; k < n / 3; ++k) {
    std::vector<int> inputs = {x.back()};
    if (k > 4 && (*random)() % 3 == 0) inputs.push_back(x[x.size() - 1 - (*random)() % 4]);
    x.push_back(add(inputs, 64 * (1 + int64_t((*random)() % 16))));
  }
  int dy = add({x.back()}, 512);
  std::vector<std::vector<int>> weights;
  for (size_t k = x.size(); k-- > 1;) {
    weights.push_back({x[k - 1], dy});
    dy = add({dy, x[k]}, p.values[size_t(x[k - 1])].bytes);
  }
  for (const std::vector<int>& inputs : weights) add(inputs, 0);
  return p;
}

double Seconds(const MemoryProblem& p, OrderPlan* plan) {
  const auto start = std::chrono::steady_clock::now();
  *plan = SearchOrder(p);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  for (const int n : {16, 24, 32, 40, 48}) {
    std::mt19937 random(12);
    double found = 0, given = 0, worst = 1, seconds = 0, longest = 0;
    int proven = 0, best_proven = 0;
    for (int round = 0; round < rounds; ++round) {
      const MemoryProblem p = SmallWorld(&random, n);
      OrderPlan plan;
      const double took = Seconds(p, &plan);
      OrderEffort much;
      much.work = 2'000'000'000;
      const OrderPlan best = SearchOrder(p, much);
      const double ratio = double(plan.peak) / double(best.peak);
      found += ratio;
      worst = std::max(worst, ratio);
      given += double(UseOf(p, GivenOrder(p)).peak) / double(best.peak);
      seconds += took;
      longest = std::max(longest, took);
      proven += plan.optimal();
      best_proven += best.optimal();
    }
    std::printf(
        "n %d: %.4f of the best (worst %.3f), given order %.3f, proven %d, best proven %d of %d, "
        "%.2f ms (longest %.2f)\n",
        n, found / rounds, worst, given / rounds, proven, best_proven, rounds,
        seconds / rounds * 1e3, longest * 1e3);
  }
  for (const int n : {1000, 10'000, 100'000}) {
    std::mt19937 random(1);
    for (const bool training : {true, false}) {
      const MemoryProblem p = training ? Training(&random, n) : SmallWorld(&random, n);
      OrderPlan plan;
      const double took = Seconds(p, &plan);
      std::printf("%s, %d nodes: given %lld, found %lld, bound %lld bytes, %.3f s\n",
                  training ? "training" : "small world", n,
                  static_cast<long long>(UseOf(p, GivenOrder(p)).peak),
                  static_cast<long long>(plan.peak), static_cast<long long>(plan.lower_bound),
                  took);
      std::fflush(stdout);
    }
  }
}
