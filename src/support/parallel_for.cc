/// parallel_for.cc: see weft/support/parallel_for.h.
#include "weft/support/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/support/request.h"

namespace weft {

void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t failed = count;  // the first piece that threw
  std::exception_ptr error;
  const auto work = [&] {
    for (size_t i; (i = next++) < count;) {
      try {
        body(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
      }
    }
  };
  const RequestScope* const request = RequestScope::Current();
  std::vector<std::thread> team;
  const size_t wanted = std::min(count, size_t(std::max(threads, 1)));
  team.reserve(wanted);
  for (size_t t = 1; t < wanted; ++t) {
    try {
      team.emplace_back([&] {
        const RequestScope::Borrow borrow(request);
        work();
      });
    } catch (const std::system_error&) {
      break;  // no more threads are available
    }
  }
  work();
  for (std::thread& t : team) t.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace weft
