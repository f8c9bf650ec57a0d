/// interrupt.cc: see interrupt.h.
#include "interrupt.h"

#include <csignal>

namespace weft::tool {
namespace {

volatile std::sig_atomic_t requested = 0;

void Note(int) { requested = 1; }

}  // namespace

InterruptScope::InterruptScope() {
  requested = 0;
  struct sigaction action = {};
  action.sa_handler = Note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one ends the process
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}
InterruptScope::~InterruptScope() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}
bool InterruptScope::Requested() { return requested != 0; }

}  // namespace weft::tool
