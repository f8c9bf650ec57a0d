/// run_together.h: several parts of a run at the same time, by threads of the one team.
#pragma once

#include <cstddef>
#include <functional>

namespace weft::cpu {

/// part(0) .. part(count - 1), each once, by at most `threads` threads, which act for the request
/// of the caller. What a part launches has no other thread. When all have ended the first exception
/// is thrown.
void RunTogether(size_t count, int threads, const std::function<void(size_t)>& part);

}  // namespace weft::cpu
