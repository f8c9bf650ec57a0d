/// plugin_loader.cc: from a file to registered operators, passes and backends, or to
/// an error and nothing.
///
/// The order of checks: the file (plugin_file.cc), whether starting it survives (plugin_trial.cc),
/// dlopen with what its static initialisers register held back, the entry, versions and identity of
/// headers, then one commit of everything.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "plugin_file.h"
#include "plugin_host.h"
#include "plugin_trial.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr const char* kEntry = "weft_plugin_init_v1";
// The table and the struct may grow: one that is shorter was made before the members it lacks.
constexpr size_t kSmallestInfo = offsetof(WeftPluginInfo, abi_id);
// behind the info, for plugins that write more than they were asked to
constexpr size_t kRoom = 1024;

struct Loaded {
  PluginFile file;
  PluginInfo info;
};
struct Refused {
  PluginFile file;
  ErrorCode code;
  std::string message;
};
struct Plugins {
  std::mutex mutex;    // of the lists
  std::mutex loading;  // one at a time
  std::vector<Loaded> loaded;
  std::vector<Refused> refused;
};
Plugins& Table() {
  static Plugins* plugins = new Plugins;
  return *plugins;
}
thread_local bool t_loading = false;

bool SameFile(const PluginFile& a, const PluginFile& b) {
  return a.path == b.path || (a.device == b.device && a.inode == b.inode);
}

[[noreturn]] void Refuse(ErrorCode code, const PluginFile& file, const std::string& why,
                         const std::string& hint = {}) {
  ThrowError(code, fmt::format("plugin '{}' {}", file.path, why), "", hint);
}

void CheckAbi(const PluginFile& file, const std::string& theirs) {
  if (theirs != AbiId())
    Refuse(ErrorCode::kPluginAbi, file,
           fmt::format(
               "was compiled against other C++ headers: its identity is {}, this library's is {}",
               theirs, AbiId()),
           "compile it against the installed headers of this Weft " WEFT_VERSION
           ", or write it for the C interface (weft/plugin.h)");
}

/// dlopen is declared to throw nothing, but static initialisers of what it opens may; through this
/// pointer that is an exception as any other, in the child process that tries the plugin.
void* OpenFile(const PluginFile& file) {
  using Opener = void* (*)(const char*, int);
  static Opener volatile open = reinterpret_cast<Opener>(&dlopen);
  void* handle = nullptr;
  try {
    handle = open(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception& e) {
    Refuse(ErrorCode::kPlugin, file, fmt::format("threw from a static initialiser: {}", e.what()),
           "code that may fail belongs into the entry, not into a global variable");
  } catch (...) {
    Refuse(ErrorCode::kPlugin, file,
           "threw from a static initialiser: something that is not an exception");
  }
  if (!handle) {
    const char* why = dlerror();
    Refuse(ErrorCode::kPlugin, file,
           fmt::format("cannot be opened: {}", why ? why : "unknown reason"),
           "a symbol that is missing here belongs to a library it was not linked with");
  }
  return handle;
}

/// Calls the entry and reads what it says of itself, as much as both sides know.
WeftPluginInfo CallEntry(const PluginFile& file, void* handle, size_t* through_table) {
  auto entry = reinterpret_cast<WeftPluginInit>(dlsym(handle, kEntry));
  if (!entry)
    Refuse(ErrorCode::kPlugin, file, fmt::format("has no entry '{}'", kEntry),
           "weft_add_plugin adds one; a plugin in C defines it itself, with default visibility");
  alignas(WeftPluginInfo) char room[sizeof(WeftPluginInfo) + kRoom] = {};
  auto* info = reinterpret_cast<WeftPluginInfo*>(room);
  info->struct_size = sizeof(WeftPluginInfo);
  PluginEntryScope scope;
  WeftStatus status = WEFT_OK;
  try {
    status = entry(&PluginHost(), info);
  } catch (const Error& e) {
    Refuse(ErrorCode::kPlugin, file, fmt::format("threw from its entry: {}", e.message()),
           e.hint());
  } catch (const std::exception& e) {
    Refuse(ErrorCode::kPlugin, file, fmt::format("threw from its entry: {}", e.what()));
  } catch (...) {
    Refuse(ErrorCode::kPlugin, file, "threw from its entry: something that is not an exception");
  }
  if (status != WEFT_OK)
    Refuse(ErrorCode::kPlugin, file,
           fmt::format("refused to start: its entry returned status {}{}", status,
                       PluginFailure().empty() ? "" : ": " + PluginFailure()));
  if (info->struct_size < kSmallestInfo)
    Refuse(ErrorCode::kPluginAbi, file,
           fmt::format(
               "fills a WeftPluginInfo of {} bytes; the smallest that was ever released has {}",
               info->struct_size, kSmallestInfo),
           "the entry sets info->struct_size to the size it filled, as weft_plugin_describe does");
  WeftPluginInfo known{};
  std::memcpy(&known, info, std::min(info->struct_size, sizeof known));
  *through_table = scope.through_table;
  return known;
}

void CheckVersions(const PluginFile& file, const WeftPluginInfo& info) {
  const WeftHost& host = PluginHost();
  if (info.api_min > host.api_max || info.api_built < host.api_min || info.api_min > info.api_built)
    Refuse(
        ErrorCode::kPluginAbi, file,
        fmt::format("needs version {} to {} of the plugin interface, this library speaks {} to {}",
                    info.api_min, info.api_built, host.api_min, host.api_max),
        info.api_min > host.api_max ? "a newer Weft is needed" : "compile it for this Weft");
}

std::string CheckName(const PluginFile& file, const char* name) {
  const std::string text = name ? name : "";
  const bool good = !text.empty() && text.size() <= 64 &&
                    std::all_of(text.begin(), text.end(), [](unsigned char c) {
                      return isalnum(c) || c == '_' || c == '-' || c == '.';
                    });
  if (!good)
    Refuse(ErrorCode::kPlugin, file, "has no name, or one that is not of the form [A-Za-z0-9_.-]+");
  return text;
}

/// Opens, asks, checks, commits. `*opened` tells whether its code may have run.
PluginInfo LoadNow(const PluginFile& file, bool* opened) {
  if (file.abi_id) CheckAbi(file, *file.abi_id);
  StagingScope staged;
  *opened = true;
  void* handle = OpenFile(file);
  size_t through_table = 0;
  const WeftPluginInfo info = CallEntry(file, handle, &through_table);
  staged.Close();
  CheckVersions(file, info);
  if (info.abi_id) CheckAbi(file, info.abi_id);
  const bool cpp = staged.size() > through_table;
  if (cpp && !info.abi_id && !file.abi_id)
    Refuse(ErrorCode::kPluginAbi, file,
           "registers through C++ headers, but does not say which it was compiled against",
           "build it with weft_add_plugin, which adds that");
  PluginInfo p;
  p.name = CheckName(file, info.name);
  p.version = info.version ? info.version : "";
  p.doc = info.doc ? info.doc : "";
  p.path = file.path;
  p.tier = cpp || info.abi_id ? "C++" : "C";
  p.api = info.api_built;
  // Without the lock of the list, which another thread may have held when a child was forked; only
  // who loads writes it.
  for (const Loaded& other : Table().loaded)
    if (other.info.name == p.name)
      Refuse(ErrorCode::kDuplicate, file,
             fmt::format("is called '{}' as the one loaded from '{}'", p.name, other.info.path));
  try {
    p.items = staged.CommitAll(p.name);
  } catch (Error& e) {
    e.AddPlace(fmt::format("plugin '{}'", file.path));
    throw;
  }
  return p;
}

/// Marks this thread as loading: a plugin must not load another while it starts.
struct LoadingScope {
  LoadingScope() {
    WEFT_CHECK(!t_loading, kApiMisuse, "a plugin cannot load another plugin while it starts");
    lock = std::unique_lock(Table().loading);
    t_loading = true;
  }
  ~LoadingScope() { t_loading = false; }
  LoadingScope(const LoadingScope&) = delete;
  LoadingScope& operator=(const LoadingScope&) = delete;
  std::unique_lock<std::mutex> lock;
};

const Loaded* FindLoaded(const PluginFile& file) {
  for (const Loaded& l : Table().loaded)
    if (SameFile(l.file, file)) return &l;
  return nullptr;
}

/// Long for a few registrations, short for a user who waits.
constexpr double kTrialSeconds = 10;

double DefaultTrialSeconds() {
  const char* text = std::getenv("WEFT_PLUGIN_TRIAL_SECONDS");
  if (!text || !*text) return kTrialSeconds;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  WEFT_CHECK(*end == '\0' && seconds > 0, kUsage,
             "WEFT_PLUGIN_TRIAL_SECONDS is '{}', expected a number of seconds above 0", text);
  return seconds;
}

PluginInfo Trial(const PluginFile& file, double seconds) {
  if (seconds < 0) seconds = DefaultTrialSeconds();
  return RunPluginTrial(file.path, seconds, [&] {
    bool opened = false;
    return LoadNow(file, &opened);
  });
}

}  // namespace

std::vector<PluginInfo> LoadedPlugins() {
  std::lock_guard lock(Table().mutex);
  std::vector<PluginInfo> list;
  for (const Loaded& l : Table().loaded) list.push_back(l.info);
  return list;
}

PluginInfo TryPlugin(const std::string& path, const PluginOptions& options) {
  const LoadingScope scope;
  const PluginFile file = InspectPlugin(path);
  if (const Loaded* known = FindLoaded(file)) return known->info;
  if (file.abi_id) CheckAbi(file, *file.abi_id);
  return Trial(file, options.trial_seconds);
}

PluginInfo LoadPlugin(const std::string& path, const PluginOptions& options) {
  const LoadingScope scope;
  const PluginFile file = InspectPlugin(path);
  Plugins& t = Table();
  if (const Loaded* known = FindLoaded(file)) return known->info;
  for (const Refused& r : t.refused)
    if (SameFile(r.file, file))
      ThrowError(r.code, r.message, "",
                 "it was refused before, and is not tried again in this process");
  if (file.abi_id) CheckAbi(file, *file.abi_id);
  if (options.trial) Trial(file, options.trial_seconds);
  {
    std::lock_guard lock(t.mutex);
    t.loaded.reserve(t.loaded.size() + 1);  // what is committed must get into the list
  }
  // Its initialisers do not run twice, whatever ended the first attempt: noted beforehand, since
  // memory may be what ran out.
  t.refused.push_back({file, ErrorCode::kOutOfMemory,
                       fmt::format("out of memory while plugin '{}' was loaded", file.path)});
  bool opened = false;
  try {
    Loaded entry{file, LoadNow(file, &opened)};
    t.refused.pop_back();
    std::lock_guard lock(t.mutex);
    t.loaded.push_back(std::move(entry));
    return t.loaded.back().info;
  } catch (const Error& e) {
    if (!opened) {
      t.refused.pop_back();
    } else {
      t.refused.back().code = e.code();
      t.refused.back().message = e.message();
    }
    throw;
  } catch (...) {
    if (!opened) t.refused.pop_back();
    throw;
  }
}

}  // namespace weft
