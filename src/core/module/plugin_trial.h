/// plugin_trial.h: does something in a child process first, to see whether it survives.
#pragma once

#include <functional>
#include <string>

#include "weft/core/module/plugin.h"

namespace weft {

/// Runs `load` in a fork of this process and gives its result. Throws the error that it
/// threw there, or kPlugin with the signal, and the last of what it wrote, where the child
/// died or took too long.
PluginInfo RunPluginTrial(const std::string& path, double seconds,
                          const std::function<PluginInfo()>& load);

}  // namespace weft
