/// emulated_gpu.h: the backend "cuda" on a driver and libraries of ours, its kernels on emulated
/// threads; registered as "emulated-gpu". Made in src/backends/cuda/doubles, where it looks inside
/// of the backend.
///
/// Of the three doubles this is the one for what that backend does with a program: streams, graphs,
/// library calls, memory, failures. doubles/emulated_kernels.h runs the same kernels from a backend
/// of the host, without a driver: for what the printer computes, many graphs at a time.
/// counting_device.h is a device without CUDA: for what the runtime asks of any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/program/program.h"

namespace weft::e2e {

class EmulatedLibraries;

struct EmulatedGpu {
  /// A driver without a past, and the backend on its device. False, and says so, where there is no
  /// compiler.
  static bool Start();
  /// From now on the backend "cuda" of this process is an emulated one, made anew at each request:
  /// for programs that name their backend. They must not be linked with the module's registration.
  static bool StandInForCuda();
  /// A program for the backend, with the passes of a GPU. `layout`: the pass Layout, with its
  /// options.
  static std::shared_ptr<const Program> Compile(const Graph& graph,
                                                const std::string& layout = "Layout");
  /// Builds the kernels that have been asked for so far, in `units` translation units.
  static void BuildKernels(size_t units = 4);
  /// Gives the backend back, and checks that nothing is left and nothing was misused.
  static void CheckClean();
  /// Misuses of the driver since the last call.
  static std::vector<std::string> TakeProblems();
  /// What a library gives to a stream, which it knows as the driver does.
  static void Give(void* stream, std::function<void()> work);
  /// Recorded work that was replayed since Start.
  static int64_t replays();

  /// The same for all tests.
  static std::shared_ptr<EmulatedLibraries> libraries();
  /// The backend under test, which Start makes anew.
  static std::shared_ptr<DeviceBackend>& backend();
};

}  // namespace weft::e2e
