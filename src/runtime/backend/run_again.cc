/// run_again.cc: who may ask for a run to begin again.
#include "weft/runtime/backend/run_again.h"

#include <utility>

#include "weft/support/check.h"

namespace weft {
namespace {
thread_local bool possible_here = false;
}  // namespace

bool RunAgain::Possible() { return possible_here; }

void RunAgain::Ask() {
  WEFT_ICHECK(possible_here, "this run cannot begin again");
  throw Asked{};
}

RunAgain::Scope::Scope(bool possible) : before_(std::exchange(possible_here, possible)) {}
RunAgain::Scope::~Scope() { possible_here = before_; }

}  // namespace weft
