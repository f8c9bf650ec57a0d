/// c_options.h: WeftOptions as what it asks for. Private to the C API.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "c_object.h"
#include "weft/onnx/import.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft::capi {

/// The options that the caller's header knows; what it does not know has its default.
inline WeftOptions OptionsOf(const WeftOptions* given) {
  WeftOptions o{};
  if (!given) return o;
  WEFT_CHECK(given->struct_size >= sizeof(size_t), kApiMisuse, "WeftOptions.struct_size is {}",
             given->struct_size);
  std::memcpy(&o, given, std::min(given->struct_size, sizeof o));
  return o;
}

struct Setup {
  explicit Setup(const WeftOptions* given) {
    const WeftOptions o = OptionsOf(given);
    WEFT_CHECK(o.threads >= 0, kApiMisuse, "WeftOptions.threads is {}", o.threads);
    has_backend = o.backend != nullptr;
    if (o.backend) compile.backend = o.backend;
    if (o.passes) compile.pipeline = o.passes;
    compile.threads = o.threads;
    compile.calls = {o.tune != 0, o.tf32 != 0};
    if (o.limits) import.limits = Limits::Parse(o.limits);
    compile.passes.limits = import.limits;
    if (o.overridable) import.overridable = Split(o.overridable, ',');
    import.strict = o.strict != 0;
    if (o.cancel) compile.passes.cancel = o.cancel->token;
    if (o.memory_budget)
      compile.memory.budget = MemoryBudget::Parse(o.memory_budget, "WeftOptions.memory_budget");
    if (o.feedback) compile.feedback = Split(o.feedback, ';');
    if (o.hints) compile.memory.hints = ParseBindings({o.hints}, "WeftOptions.hints");
  }
  /// A compiled program runs on its own backend unless another one is asked for.
  LoadOptions Load() const {
    return {has_backend ? compile.backend : "", compile.threads, import.limits, compile.calls,
            compile.memory.budget};
  }
  CompileOptions compile;
  ImportOptions import;
  bool has_backend = false;
};

/// Runs `f`, which makes a program, until the caller cancels it.
template <class F>
void Cancellable(const Setup& setup, F&& f) {
  const Limits none = Limits::Parse("tensor_bytes=" + std::to_string(INT64_MAX));
  const RequestScope scope(none, &setup.compile.passes.cancel);
  RequestScope::Poll();
  f();
}

}  // namespace weft::capi
