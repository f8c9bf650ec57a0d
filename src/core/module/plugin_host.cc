/// plugin_host.cc: the table that plugins get, as far as the core fills it, and messages
/// at the C border.
#include "plugin_host.h"

#include "weft/abi_id.h"
#include "weft/core/module/plugin.h"
#include "weft/support/check.h"
#include "weft/support/log.h"

namespace weft {
namespace {

thread_local std::string t_failure;
thread_local PluginEntryScope* t_entry = nullptr;

}  // namespace

PluginEntryScope::PluginEntryScope() {
  t_failure.clear();
  t_entry = this;
}
PluginEntryScope::~PluginEntryScope() { t_entry = nullptr; }

const std::string& PluginFailure() { return t_failure; }
WeftStatus SetPluginFailure(WeftStatus status, std::string message) {
  t_failure = std::move(message);
  return status;
}

void ThrowPluginStatus(WeftStatus status, const std::string& who) {
  if (status == WEFT_OK) return;
  const std::string why = t_failure.empty() ? "" : ": " + t_failure;
  t_failure.clear();
  // A plugin's number is not trusted: what is no code of ours is the plugin's fault.
  const bool known = status >= 101 && status < 900;
  ThrowError(known ? ErrorCode(status) : ErrorCode::kPlugin,
             fmt::format("{} failed with status {}{}", who, status, why));
}

void RequirePluginEntry() {
  WEFT_CHECK(
      t_entry, kApiMisuse,
      "a plugin registers inside weft_plugin_init_v1 only; call the table's functions there");
  ++t_entry->through_table;
}

std::string AbiId() { return WEFT_ABI_ID; }

WeftHost& PluginHost() {
  static WeftHost* host = [] {
    auto* h = new WeftHost{};
    h->struct_size = sizeof(WeftHost);
    h->api_min = h->api_max = WEFT_PLUGIN_API;
    h->version = WEFT_VERSION;
    h->abi_id = WEFT_ABI_ID;
    h->fail = [](WeftStatus status, const char* message) {
      return SetPluginFailure(status, message ? message : "");
    };
    h->last_error = [] { return t_failure.c_str(); };
    h->warn = [](const char* message) {
      if (message) WEFT_LOG(kWarning, "plugin: {}", message);
    };
    return h;
  }();
  return *host;
}

}  // namespace weft
