/// parallel_for.cc: see weft/support/parallel_for.h.
#include "weft/support/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/support/limits.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// A scope of its own around the threads that are to stop.
struct Stop {
  static const Limits& NoLimits() {
    static const Limits none = [] {
      Limits l;
      l.tensor_bytes = l.iterations = INT64_MAX;
      return l;
    }();
    return none;
  }
  CancelToken token;
  RequestScope scope{NoLimits(), &token};
};

}  // namespace

void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  size_t failed = count;  // the first piece that threw
  std::exception_ptr error;
  const auto work = [&] {
    for (size_t i; !stopped && (i = next++) < count;) {
      try {
        body(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
      }
    }
  };
  // Pieces take longer than a callback may wait.
  const bool watches = PollCallback::IsOpen();
  std::optional<Stop> stop;
  if (watches) stop.emplace();
  const RequestScope* const request = RequestScope::Current();
  std::condition_variable ended;
  size_t working = 0;
  std::vector<std::thread> team;
  const size_t wanted = std::min(count, size_t(std::max(threads, 1)));
  team.reserve(wanted);
  for (size_t t = watches ? 0 : 1; t < wanted; ++t) {
    try {
      std::lock_guard lock(mutex);
      team.emplace_back([&] {
        const RequestScope::Borrow borrow(request);
        work();
        std::lock_guard done(mutex);
        --working;
        ended.notify_one();
      });
      ++working;
    } catch (const std::system_error&) {
      break;  // no more threads are available
    }
  }
  std::exception_ptr polled;
  if (!watches || team.empty()) {
    work();
  } else {
    constexpr std::chrono::milliseconds kTick(5);
    try {
      for (std::unique_lock lock(mutex);
           !ended.wait_for(lock, kTick, [&] { return working == 0; });) {
        lock.unlock();
        RequestScope::Poll();
        lock.lock();
      }
    } catch (...) {
      polled = std::current_exception();
      stopped = true;
      stop->token.Cancel();
    }
  }
  for (std::thread& t : team) t.join();
  if (polled) std::rethrow_exception(polled);
  if (error) std::rethrow_exception(error);
}

}  // namespace weft
