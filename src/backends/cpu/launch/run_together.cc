/// run_together.cc: see run_together.h.
#include "run_together.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>

#include "polled_range.h"
#include "weft/support/request.h"

namespace weft::cpu {

void RunTogether(size_t count, int threads, const std::function<void(size_t)>& part) {
#ifdef _OPENMP
  const int team = int(std::min(count, size_t(std::max(threads, 1))));
  if (team > 1 && !omp_in_parallel()) {
    FirstError error;
    const RequestScope* const request = RequestScope::Current();
#pragma omp parallel num_threads(team)
    {
      const RequestScope::Borrow borrow(request);
      // The system may grant fewer threads than were asked for.
      for (auto k = size_t(omp_get_thread_num()); k < count; k += size_t(omp_get_num_threads())) {
        try {
          if (!error.set()) part(k);
        } catch (...) {
          error.Keep(std::current_exception());
        }
      }
    }
    return error.Rethrow();
  }
#endif
  for (size_t k = 0; k < count; ++k) part(k);
}

}  // namespace weft::cpu
