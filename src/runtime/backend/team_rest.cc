/// team_rest.cc: see team_rest.h.
#include "weft/runtime/backend/team_rest.h"

#include <atomic>

namespace weft {
namespace {

std::atomic<RunWithTeamAsleep>& Rest() {
  static std::atomic<RunWithTeamAsleep> rest{nullptr};
  return rest;
}

}  // namespace

void SetTeamRest(RunWithTeamAsleep rest) { Rest().store(rest, std::memory_order_release); }

void RunAsTeamSleeps(const std::function<void()>& run) {
  const RunWithTeamAsleep rest = Rest().load(std::memory_order_acquire);
  rest ? rest(run) : run();
}

}  // namespace weft
