/// plugin_file.h: what can be told of a plugin's file without running any of its code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

struct PluginFile {
  std::string path;  ///< canonical
  uint64_t device = 0, inode = 0;
  std::optional<std::string> abi_id;  ///< of the note that the C++ tier carries
};

/// Throws kPlugin for a path without '/', kIo where there is no such file, kPlugin where it is no
/// shared library for this machine.
PluginFile InspectPlugin(const std::string& path);

}  // namespace weft
