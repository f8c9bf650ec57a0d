/// team_rest_test.cc: what runs while the team sleeps runs once, on this thread, and may throw.
#include "weft/runtime/backend/team_rest.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace weft {
namespace {

int ThreadsOfALoop() {
  std::atomic<int> count{0};
#pragma omp parallel
  ++count;
  return count;
}

TEST_CASE("the team sleeps: once, here, and what is thrown goes through") {
  const std::thread::id here = std::this_thread::get_id();
  const int before = ThreadsOfALoop();
  for (int round = 0; round < 100; ++round) {
    int runs = 0;
    RunAsTeamSleeps([&] {
      ++runs;
      CHECK((std::this_thread::get_id() == here));
    });
    CHECK(runs == 1);
    CHECK_THROWS_AS(RunAsTeamSleeps([] { throw std::runtime_error("x"); }), std::runtime_error);
    CHECK(ThreadsOfALoop() == before);  // it is awake again
  }
}

TEST_CASE("the team sleeps: several threads at a time, each with its own") {
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) RunAsTeamSleeps([&] { ++runs; });
    });
  for (std::thread& t : threads) t.join();
  CHECK(runs == 200);
}

}  // namespace
}  // namespace weft
