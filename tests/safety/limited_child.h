/// limited_child.h: runs a function in a child process with little memory and little time, and
/// reports what it cost and how it ended.
#pragma once

#include <functional>
#include <string>

namespace weft::safety {

struct ChildLimits {
  double cpu_seconds = 10;
  int64_t address_bytes = 0;  ///< growth of the address space from `body` on; 0: no bound
};
struct ChildReport {
  bool died = false;       ///< by a signal or with an exit code of its own
  std::string how;         ///< "signal 11", "exit code 3"; empty when it did not die
  std::string text;        ///< what `body` returned
  double cpu_seconds = 0;  ///< of `body`: user and system time
};

/// `prepare` runs first, without the bound on memory: it loads what a process loads once.
ChildReport RunLimited(const ChildLimits& limits, const std::function<void()>& prepare,
                       const std::function<std::string()>& body);

}  // namespace weft::safety
