/// run_again.h: runs that begin again, for calls that find out too late that
/// they needed an operand.
///
/// A library call may be handed an operand in the place of its result (CallStep::operand). What it
/// overwrites it could save before, every time, for the rare time that it needs it afterwards. It
/// need not where a run may begin again: nothing overwrites what is fed or constant, so the
/// same steps meet the same values.
///
///   if (!RunAgain::Possible()) Save(operand);
///   Overwrite(operand);
///   if (needed after all && !saved) RunAgain::Ask();
#pragma once

#include "weft/support/api.h"

namespace weft {

class WEFT_API RunAgain {
 public:
  /// May the call that runs on this thread ask? False outside of runs, in those that write
  /// variables, and in a run that has begun again.
  static bool Possible();
  /// Leaves the call by an exception that the run catches. Requires Possible().
  [[noreturn]] static void Ask();

  /// For who runs the steps: what is thrown by Ask, and whether those on this thread may.
  /// The innermost scope decides.
  struct Asked {};
  class WEFT_API Scope {
   public:
    explicit Scope(bool possible);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const bool before_;
  };
};

}  // namespace weft
