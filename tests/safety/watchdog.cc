/// watchdog.cc: signal handlers that write one line. Sanitizers keep their own handlers and are
/// asked to call ours.
#include "watchdog.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

// Defined by the sanitizers' run-time library, absent elsewhere.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace weft::safety {
namespace {

char line[512];

void Say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}
void SayWhere() {
  Say("\nwhile at ");
  Say(line);
  Say("\n");
}
void OnDeath(int signal) {
  SayWhere();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
void OnTime(int) {
  Say("\ntoo much processor time");
  SayWhere();
  _exit(99);
}

}  // namespace

void StartWatchdog() {
  std::signal(SIGPROF, OnTime);
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(SayWhere);
  } else {
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(s, OnDeath);
  }
}

void Watch(const std::string& what, unsigned cpu_seconds) {
  std::strncpy(line, what.c_str(), sizeof line - 1);
  const itimerval once{{0, 0}, {time_t(cpu_seconds), 0}};
  setitimer(ITIMER_PROF, &once, nullptr);
}

}  // namespace weft::safety
