/// plugin_host.h: while the entry of a plugin runs on this thread.
#pragma once

#include <cstddef>

namespace weft {

struct PluginEntryScope {
  PluginEntryScope();
  ~PluginEntryScope();
  PluginEntryScope(const PluginEntryScope&) = delete;
  PluginEntryScope& operator=(const PluginEntryScope&) = delete;
  size_t through_table = 0;  ///< registrations through WeftHost; others came from the C++ macros
};

}  // namespace weft
