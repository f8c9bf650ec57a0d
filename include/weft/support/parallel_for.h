/// parallel_for.h: a loop whose pieces take long, such as one kernel to compile each, on threads of
/// its own. Kernels that run have a team that waits for them (backends/cpu/util/threads.h).
#pragma once

#include <cstddef>
#include <functional>

#include "weft/support/api.h"

namespace weft {

/// Runs body(0) .. body(count - 1) on up to `threads` threads, this one among them: who is free
/// takes the next. The scopes of this thread's request hold in all (weft/support/request.h). Where
/// the machine has no more threads, those that there are do all. Where pieces throw, the others run
/// all the same, and then what the first of them threw, in the order of the loop, is thrown. A
/// thread that has a PollCallback only waits and polls; what that throws is thrown when the pieces
/// that have begun have ended.
WEFT_API void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& body);

}  // namespace weft
