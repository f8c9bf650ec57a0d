/// team_rest.cc: the OpenMP team of a thread sleeps while something else runs on it. Its threads
/// are in a parallel region meanwhile, in which all but the first wait as the system waits, for
/// nothing that they would look for. A team that has not worked since sleeps already.
#include "team_rest.h"

#include <condition_variable>
#include <exception>
#include <mutex>

#include "weft/runtime/backend/team_rest.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace weft::cpu {
namespace {

#ifdef _OPENMP
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

void RunAsTeamSleeps(const std::function<void()>& run) {
  if (omp_in_parallel() || (team_state.is_told && !team_state.worked)) return run();
  // A region of more threads would make some that the program does not use.
  const int threads = team_state.is_told ? team_state.threads : omp_get_max_threads();
  if (threads < 2) return run();
  Gate gate;
  std::exception_ptr thrown;
#pragma omp parallel num_threads(threads)
  {
    if (omp_get_thread_num() == 0) {
      try {
        run();
      } catch (...) {
        thrown = std::current_exception();
      }
      gate.Open();
    } else {
      gate.Wait();
    }
  }
  team_state.worked = false;
  if (thrown) std::rethrow_exception(thrown);
}

const bool registered = (SetTeamRest(RunAsTeamSleeps), true);
#endif

}  // namespace
}  // namespace weft::cpu
