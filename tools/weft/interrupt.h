/// interrupt.h: work that ends early, and tells what it has, when somebody presses Ctrl-C.
#pragma once

namespace weft::tool {

/// As a shell's for a process that SIGINT has ended.
inline constexpr int kInterruptedCode = 130;

/// While one lives, the first SIGINT or SIGTERM is noted; a second one ends the process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  static bool Requested();
};

}  // namespace weft::tool
