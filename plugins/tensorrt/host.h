/// host.h: the table of functions of the host, and what callbacks of the C tier have in common:
/// inside of the plugin a failure is an exception, at its border a status.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "weft/plugin.h"

namespace weft_tensorrt {

extern const WeftHost* weft;

struct Failure {
  WeftStatus status;
  std::string text;
};

/// A function of the host that may fail.
inline void Check(WeftStatus status) {
  if (status != WEFT_OK) throw Failure{status, weft->last_error()};
}

/// Runs `f`; what it throws becomes a status.
template <class F>
WeftStatus Guarded(F f) noexcept {
  try {
    f();
    return WEFT_OK;
  } catch (const Failure& e) {
    return weft->fail(e.status, e.text.c_str());
  } catch (const std::bad_alloc&) {
    return weft->fail(WEFT_E_OUT_OF_MEMORY, "no memory on the host");
  } catch (const std::exception& e) {
    return weft->fail(WEFT_E_INTERNAL, e.what());
  } catch (...) {
    return weft->fail(WEFT_E_INTERNAL, "an exception of an unknown type");
  }
}

/// What the user has set, and defaults.
struct Settings {
  explicit Settings(const WeftDelegateOptions* options);
  /// What an engine depends on, as text.
  std::string Key() const;

  bool tf32, fp16, bf16, profile;
  int64_t workspace_mib, level;
  std::string timing_cache, extents;
};
extern const WeftOptionDef kOptions[];
extern const size_t kNumOptions;

}  // namespace weft_tensorrt
