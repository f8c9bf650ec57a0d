/// plugin.h: plugins: shared libraries that register operators, passes, rules, backends
/// while the process runs.
///
///   PluginInfo p = LoadPlugin("./libdemo.so");     // throws, and then nothing of it is registered
///
/// A plugin is opened only from a path that holds a '/', never searched for; it is opened with
/// RTLD_NOW | RTLD_LOCAL and never closed. Two tiers: the C tier registers through a table of
/// functions (weft/plugin.h), the C++ tier by the ordinary macros, where the identity of the
/// headers it was compiled against equals ours (`AbiId`). What it registers is staged and committed
/// whole or not at all; every item names the plugin as its owner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/op/staging.h"
#include "weft/plugin.h"
#include "weft/support/api.h"

namespace weft {

struct PluginInfo {
  std::string name, version, doc;
  std::string path;                   ///< canonical
  std::string tier;                   ///< "C" or "C++"
  uint32_t api = 0;                   ///< version of weft/plugin.h that it was built for
  std::vector<RegisteredItem> items;  ///< what it registered, in order
};

struct PluginOptions {
  /// Load it in a child process first, so that one that crashes or throws while it starts ends that
  /// one and not us. The child is a fork: a plugin whose start needs other threads of this process
  /// must be loaded without.
  bool trial = true;
  /// A child that takes longer counts as failed. Negative: what
  /// WEFT_PLUGIN_TRIAL_SECONDS says, else 10.
  double trial_seconds = -1;
};

/// Loads a plugin, once: for a file that is loaded already it returns what is known. Throws kIo (no
/// such file), kPlugin, kPluginAbi, kDuplicate, kTypeConflict and what else registering throws; a
/// file that failed after it had been opened is refused with the same error until the process ends,
/// since its initialisers do not run twice.
WEFT_API PluginInfo LoadPlugin(const std::string& path, const PluginOptions& options = {});
/// Loads it in a child process only and tells what it would register. Throws what LoadPlugin would;
/// kPlugin with the signal where the child died.
WEFT_API PluginInfo TryPlugin(const std::string& path, const PluginOptions& options = {});
/// In the order of loading.
WEFT_API std::vector<PluginInfo> LoadedPlugins();
/// Identity of the C++ interface of this library: a hash of the public headers
/// and the compiler's ABI.
WEFT_API std::string AbiId();

// ---- for rooms that offer services to plugins ----

/// The table that plugins get; rooms fill in their part when they are linked in.
WEFT_API WeftHost& PluginHost();
/// Called by the registering functions of the table: throws
/// kApiMisuse outside of weft_plugin_init_v1.
WEFT_API void RequirePluginEntry();
/// Message of the calling thread's last failure at the C border, and how it is set.
WEFT_API const std::string& PluginFailure();
WEFT_API WeftStatus SetPluginFailure(WeftStatus status, std::string message);
/// Throws the error that a plugin's callback reported by its status; no-op for WEFT_OK.
WEFT_API void ThrowPluginStatus(WeftStatus status, const std::string& who);

}  // namespace weft
