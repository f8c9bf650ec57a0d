/// device_util.h: programs on the device under test, which is that of the backend that
/// WEFT_DEVICE_TEST_BACKEND names (default "cuda").
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/runtime/backend/backend.h"

namespace weft::e2e {

inline std::string BackendName() {
  const std::string named = Env("WEFT_DEVICE_TEST_BACKEND");
  return named.empty() ? "cuda" : named;
}
inline bool Ready() {
  static const std::optional<Caught> why = Catch([] { GetBackend(BackendName()); });
  if (why) MESSAGE("skipped: " << why->text);
  return !why;
}
inline std::shared_ptr<const Program> OnDevice(const Graph& g, bool fusion = true) {
  CompileOptions options;
  options.backend = BackendName();
  options.fusion = fusion;
  return Compile(g, options);
}

/// Has it memory of its own? Only there steps are recorded.
inline bool IsDevice() { return GetBackend(BackendName())->device() != nullptr; }

/// The graph on the device against the interpreter in double precision, with and without
/// fusion, thrice each: the third run of equal extents is a recording. Then twice without
/// waiting for the first.
inline void CheckGraph(const Graph& g, const std::vector<SymBindings>& bindings,
                       bool all_on_device = true) {
  for (const bool fusion : {true, false}) {
    CAPTURE(fusion);
    const auto program = OnDevice(g, fusion);
    const ProgramStats& stats = program->stats();
    if (all_on_device) {
      CHECK(stats.interpreted == 0);
      CHECK(stats.kernels + stats.library_calls > 0);
    }
    Session session(program);
    uint64_t seed = 1;
    for (const SymBindings& bind : bindings) {
      const Reference want = RunReference(g, ++seed, bind);
      for (int run = 0; run < 4; ++run) {
        CAPTURE(run);
        CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
      }
      PendingRun first = session.Start(want.inputs), second = session.Start(want.inputs);
      CHECK(Difference(second.Wait(), want.outputs) <= 1);
      CHECK(Difference(first.Wait(), want.outputs) <= 1);
    }
    if (all_on_device && IsDevice()) {
      CHECK(stats.replays >= 4 * int64_t(bindings.size()));
      CHECK(stats.host_waits == 0);
    }
  }
}

inline void CheckGraph(const std::string& text, const std::vector<SymBindings>& bindings,
                       bool all_on_device = true) {
  CAPTURE(text);
  CheckGraph(FromText(text), bindings, all_on_device);
}

}  // namespace weft::e2e
