/// call.h: calls into the library without the interpreter's lock.
///
///   auto program = WithoutGil(token, Threads::kTeam, [&] { return Compile(graph, options); });
///
/// While one runs, Ctrl-C in the main thread cancels it (`token`), and so does the end of the
/// interpreter, which waits for all of them. After a fork what needs a thread team that the parent
/// had started is refused: the child has none of its threads.
#pragma once

#include <nanobind/nanobind.h>

#include "weft/support/error.h"
#include "weft/support/request.h"

namespace weft::python {

/// Whether a call may start or use the team of threads.
enum class Threads : uint8_t { kNone, kTeam };

/// Made and destroyed with the GIL held.
class CallScope {
 public:
  /// Throws kApiMisuse after a fork or while the interpreter ends.
  CallScope(CancelToken* token, Threads threads);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  /// Ctrl-C has cancelled it.
  bool interrupted() const { return interrupted_; }

 private:
  friend struct Calls;
  CancelToken* token_;
  CallScope *next_ = nullptr, *before_ = nullptr;
  CallScope* outer_ = nullptr;  // of the main thread
  bool watches_signal_ = false;
  volatile bool interrupted_ = false;
};

/// The error of a call that was cancelled: what Python's handler of the signal raises, where it
/// was Ctrl-C. Returns where it raises nothing.
void RaiseInterrupt(const CallScope& scope);

template <class F>
auto WithoutGil(CancelToken& token, Threads threads, F&& f) {
  const CallScope scope(&token, threads);
  try {
    const nanobind::gil_scoped_release released;
    return f();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) RaiseInterrupt(scope);
    throw;
  }
}

/// In module.cc, once.
void BindCalls(nanobind::module_& m);

}  // namespace weft::python
