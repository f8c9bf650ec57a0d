/// faked_backend.h: the backend "cuda" on the table of fake_driver.h and the libraries of
/// emulated_libraries.h, registered as "faked": programs run on it as on a GPU, their
/// kernels on emulated threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "emulated_libraries.h"
#include "weft/core/graph/graph.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/program/program.h"

namespace weft::e2e {

/// The same for all tests.
std::shared_ptr<EmulatedLibraries> TheLibraries();
/// The backend under test, which Ready makes anew.
std::shared_ptr<DeviceBackend>& TheBackend();
/// What the module of a GPU declares.
TargetTraits GpuTraits();

/// A driver without a past, and the backend on its device. False, and says so, where
/// there is no compiler.
bool Ready();
/// A program for the backend, with the passes of a GPU. `layout`: the pass
/// Layout, with its options.
std::shared_ptr<const Program> Compiled(const Graph& graph, const std::string& layout = "Layout");
/// Builds the kernels that have been asked for so far, in `units` translation units.
void Build(size_t units = 4);
/// Gives the backend back, and checks that nothing is left and nothing was misused.
void CheckClean();

}  // namespace weft::e2e
