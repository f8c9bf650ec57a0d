/// call.cc: the list of calls under way, and what ends them: SIGINT, the end of the interpreter.
///
/// Python's own handler of SIGINT only leaves a note that the main thread reads between
/// instructions, so a call that lasts would not hear of it. While the main thread is in one, a
/// handler of ours stands in front of Python's: it cancels the call and passes the signal on.
#include "call.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "weft/support/check.h"

namespace nb = nanobind;

namespace weft::python {

namespace {
/// Calls that this thread is in: a callback of one may make another.
thread_local int t_depth = 0;
}  // namespace

struct Calls {
  std::mutex mutex;
  std::condition_variable ended;
  CallScope* first = nullptr;
  bool closing = false;

  // Read by the handler of the signal.
  std::atomic<CallScope*> in_main{nullptr};
  std::atomic<int> handlers{0};
  struct sigaction former {};

  pthread_t main_thread{};
  std::atomic<bool> team_used{false};
  std::atomic<bool> team_lost{false};   // by a fork
  std::atomic<bool> locks_lost{false};  // by a fork while calls were under way

  static Calls& All() {
    static Calls* all = new Calls;  // never destroyed: threads may outlive static objects
    return *all;
  }

  static void OnSignal(int signal, siginfo_t* info, void* context) {
    Calls& all = All();
    all.handlers.fetch_add(1);
    if (CallScope* scope = all.in_main.load()) {
      scope->interrupted_ = true;
      if (scope->token_) scope->token_->Cancel();  // an atomic store
    }
    all.handlers.fetch_sub(1);
    if (all.former.sa_flags & SA_SIGINFO) {
      all.former.sa_sigaction(signal, info, context);
    } else if (all.former.sa_handler != SIG_DFL && all.former.sa_handler != SIG_IGN) {
      all.former.sa_handler(signal);
    }
  }

  void Watch(CallScope* scope) {
    scope->outer_ = in_main.load();
    if (!scope->outer_) {
      static const struct sigaction ours = [] {
        struct sigaction made {};
        made.sa_sigaction = OnSignal;
        made.sa_flags = SA_SIGINFO | SA_RESTART;
        sigemptyset(&made.sa_mask);
        return made;
      }();
      // `former` holds while `in_main` is null: it is what it was, or is not looked at.
      struct sigaction now {};
      if (sigaction(SIGINT, &ours, &now) != 0) return;
      former = now;
      // Without a handler the signal ends the process, or is ignored: as it should be.
      if (!(now.sa_flags & SA_SIGINFO) &&
          (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) {
        sigaction(SIGINT, &now, nullptr);
        return;
      }
    }
    in_main.store(scope);
    scope->watches_signal_ = true;
  }

  void Unwatch(CallScope* scope) {
    if (!scope->watches_signal_) return;
    if (!scope->outer_) {
      struct sigaction now {};
      sigaction(SIGINT, &former, &now);
      // A callback of the call has set another handler: that one stays.
      if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != OnSignal)
        sigaction(SIGINT, &now, nullptr);
    }
    in_main.store(scope->outer_);
    while (handlers.load() != 0) sched_yield();  // one in another thread still looks at it
  }

  /// Cancels what runs and waits for it: a thread that came back into an interpreter that is gone
  /// would end the process.
  static void EndAll() {
    Calls& all = All();
    const nb::gil_scoped_release released;
    std::unique_lock lock(all.mutex);
    all.closing = true;
    for (CallScope* scope = all.first; scope; scope = scope->next_)
      if (scope->token_) scope->token_->Cancel();
    all.ended.wait_for(lock, std::chrono::seconds(10), [&] { return !all.first; });
  }

  /// Python exits a thread that wants its lock while the interpreter ends, wherever that is: in
  /// code that makes an exception of an error it would end the process. So a thread of no more use
  /// gives the lock back, and waits for the end.
  void StayUnlessMain() const {
    if (t_depth > 0 || pthread_equal(pthread_self(), main_thread)) return;
    const nb::gil_scoped_release released;
    for (;;) pause();
  }

  static void AfterFork() {
    Calls& all = All();
    // No other thread is there: what they held is free, or lost.
    new (&all.mutex) std::mutex;
    new (&all.ended) std::condition_variable;
    if (all.first) all.locks_lost = true;
    if (all.team_used) all.team_lost = true;
    all.first = nullptr;
    all.main_thread = pthread_self();
  }
};

CallScope::CallScope(CancelToken* token, Threads threads) : token_(token) {
  Calls& all = Calls::All();
  const char* kSpawn = "start processes with multiprocessing's 'spawn' or 'forkserver'";
  if (all.locks_lost)
    ThrowError(ErrorCode::kApiMisuse,
               "this process was forked while the library was at work, and cannot use it", "",
               kSpawn);
  if (threads == Threads::kTeam) {
    if (all.team_lost)
      ThrowError(ErrorCode::kApiMisuse,
                 "this process was forked from one that had compiled or run programs; the threads "
                 "that they use do not exist here",
                 "", kSpawn);
    all.team_used.store(true, std::memory_order_relaxed);
  }
  bool closing;
  {
    const std::lock_guard lock(all.mutex);
    closing = all.closing;
    if (!closing) {
      next_ = all.first;
      if (next_) next_->before_ = this;
      all.first = this;
    }
  }
  if (closing) {
    all.StayUnlessMain();
    ThrowError(ErrorCode::kApiMisuse, "the interpreter is ending");
  }
  ++t_depth;
  if (pthread_equal(pthread_self(), all.main_thread)) all.Watch(this);
}

CallScope::~CallScope() {
  Calls& all = Calls::All();
  all.Unwatch(this);
  --t_depth;
  bool closing;
  {
    const std::lock_guard lock(all.mutex);
    if (next_) next_->before_ = before_;
    (before_ ? before_->next_ : all.first) = next_;
    closing = all.closing;
    if (closing && !all.first) all.ended.notify_all();
  }
  if (closing) all.StayUnlessMain();
}

void RaiseInterrupt(const CallScope& scope) {
  if (scope.interrupted() && PyErr_CheckSignals() != 0) throw nb::python_error();
}

void BindCalls(nb::module_& m) {
  Calls& all = Calls::All();
  all.main_thread = pthread_self();
  const nb::object threading = nb::module_::import_("threading");
  const auto main = nb::cast<unsigned long>(threading.attr("main_thread")().attr("ident"));
  all.main_thread = pthread_t(main);  // CPython's ident is the pthread_t
  sigaction(SIGINT, nullptr, &all.former);
  pthread_atfork(nullptr, nullptr, Calls::AfterFork);
  (void)m;
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(Calls::EndAll));
}

}  // namespace weft::python
