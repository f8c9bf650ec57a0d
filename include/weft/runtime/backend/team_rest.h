/// team_rest.h: threads of a backend sleep while an engine runs that brings its own. A team that
/// waits for its next work looks for it without pause for milliseconds, on the cores that the
/// engine wants: a network in two parts took up to 1.4 times what its parts take.
#pragma once

#include <functional>

#include "weft/support/api.h"

namespace weft {

/// Calls `run` once, on this thread, and lets the threads that this one's loops run on sleep until
/// it has returned. What `run` throws goes through.
using RunWithTeamAsleep = void (*)(const std::function<void()>& run);
/// By the module of a backend whose threads look for work without pause.
WEFT_API void SetTeamRest(RunWithTeamAsleep rest);
/// By the module that was loaded, else as it is.
WEFT_API void RunAsTeamSleeps(const std::function<void()>& run);

}  // namespace weft
