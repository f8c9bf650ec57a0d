/// request.h: what a request may still use, asked from deep inside it.
///
/// An import, a pipeline and a run each have limits, a deadline and perhaps a token to cancel them.
/// The code that spends (a tensor that is allocated, a loop over a billion elements) lies far below
/// and knows none of them. It asks the scopes that its thread has open:
///
///   RequestScope scope(limits, &cancel);       // ApplyPasses, Compile, Session::Run ...
///   RequestScope::CheckTensor(bytes);          // before memory is allocated
///   RequestScope::Poll();                      // between pieces of work of a millisecond or less
///
/// Scopes nest; all that are open hold. A thread that a request starts has none of its own; it
/// takes those of the thread that started it, which waits for it: RequestScope::Borrow
/// borrow(current).
///
/// A host that has to look after something while a request goes on (a key pressed, a lock to be
/// lent) opens a PollCallback on its thread:
///
///   PollCallback watch([] { if (PyErr_CheckSignals()) throw py::error_already_set(); });
///   session.Run(inputs);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weft/support/api.h"
#include "weft/support/limits.h"

namespace weft {

/// Cancellation, shared by whoever started the work.
class WEFT_API CancelToken {
 public:
  CancelToken();
  void Cancel();
  bool cancelled() const;
  void Check() const;  ///< throws kCancelled

 private:
  std::shared_ptr<void> state_;
};

class WEFT_API RequestScope {
 public:
  /// Both must outlive the scope; `cancel` may be null. The deadline begins now.
  explicit RequestScope(const Limits& limits, const CancelToken* cancel = nullptr);
  ~RequestScope();
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

  /// Throws kCancelled or kLimit (deadline_s), and what a PollCallback of this thread throws. Some
  /// nanoseconds where no scope is open.
  static void Poll();
  /// One tensor of `bytes`: throws kLimit above `tensor_bytes` of a scope.
  static void CheckTensor(int64_t bytes);
  /// Before one more iteration of a loop that has run so many: throws kLimit where that is more
  /// than the `iterations` of a scope.
  static void CheckIterations(int64_t run);
  /// Memory to be allocated at once: throws kOutOfMemory for more than the machine has, which
  /// malloc may promise and the kernel takes back by killing a process.
  static void CheckMemory(int64_t bytes);

  /// The innermost scope of this thread; null where none is open.
  static const RequestScope* Current();
  /// Makes the scopes of another thread hold in this one.
  class WEFT_API Borrow {
   public:
    explicit Borrow(const RequestScope* current);
    ~Borrow();
    Borrow(const Borrow&) = delete;
    Borrow& operator=(const Borrow&) = delete;

   private:
    const RequestScope* before_;
  };

 private:
  const Limits& limits_;
  const CancelToken* cancel_;
  Deadline deadline_;
  const RequestScope* outer_;
};

/// While it lives, what this thread polls calls `callback`, on this thread: about every
/// `interval_s` during imports, pipelines, compilations and runs, whichever threads do the work;
/// only calls into libraries that take longer come between (a large product, a kernel for a GPU).
/// What it throws, of any type, ends the request as an error would: it goes through to the caller,
/// whose graphs, programs and sessions stay good. They nest; all that are open are called. The
/// callback may use the library; it is not called from within itself.
class WEFT_API PollCallback {
 public:
  explicit PollCallback(std::function<void()> callback, double interval_s = 0.02);
  ~PollCallback();
  PollCallback(const PollCallback&) = delete;
  PollCallback& operator=(const PollCallback&) = delete;
  /// Is one open on this thread? Then it waits for the threads that it starts, and polls meanwhile.
  static bool IsOpen();
  /// In a handler that makes errors of ours of exceptions: throws on what one of this thread has
  /// thrown in this request, which is its host's.
  static void PassOn();

 private:
  friend class RequestScope;
  void Call();
  const std::function<void()> callback_;
  const int64_t interval_ns_;
  int64_t due_ns_;
  bool is_called_ = false, has_thrown_ = false;
  PollCallback* const outer_;
};

}  // namespace weft
