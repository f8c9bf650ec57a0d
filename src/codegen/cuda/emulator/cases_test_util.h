/// cases_test_util.h: the cases of kernel_cases.h on the emulator; for tests only.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulated_kernel.h"
#include "tests/support/kernels/kernel_cases.h"

namespace weft::cuda {

/// Every kernel of the cases, about `per_unit` a translation unit, printed with `tuning`.
inline std::unique_ptr<EmulatedLibrary> BuildEmulated(const std::vector<KernelPtr>& kernels,
                                                      const CudaTuning& tuning = {}) {
  constexpr size_t kPerUnit = 32;
  std::vector<std::string> sources;
  for (size_t i = 0; i < kernels.size(); i += kPerUnit) {
    const auto from = kernels.begin() + std::ptrdiff_t(i);
    const auto to = kernels.begin() + std::ptrdiff_t(std::min(kernels.size(), i + kPerUnit));
    sources.push_back(PrintCuda(std::vector<KernelPtr>(from, to), tuning));
  }
  std::string why;
  auto library = EmulatedLibrary::Build(sources, &why);
  if (EmulatedLibrary::CanCompile())
    REQUIRE_MESSAGE(library != nullptr, why);
  else
    MESSAGE("skipped: ", why);
  return library;
}

/// Runs a case under some orders of threads and in some places of memory.
inline void CheckEmulated(const EmulatedLibrary& library, const kernel_cases::Case& c,
                          const CudaTuning& tuning, std::map<std::string, int64_t>* entries) {
  using Place = GuardedMemory::Place;
  const CudaSchedule schedule = ScheduleCuda(*c.kernel, tuning);
  uint64_t seed = 0;
  for (int multiprocessors : {1, 132}) {
    for (const Place place : {Place::kFront, Place::kBack, Place::kMisaligned}) {
      kernel_cases::Check(
          c,
          [&](const std::vector<void*>& buffers) {
            const std::string problem = RunEmulated(library, *c.kernel, schedule, buffers, c.dims,
                                                    {place, seed++, multiprocessors}, entries);
            CHECK_MESSAGE(problem == "", c.name);
          },
          0, place == Place::kFront && kernel_cases::MayRunInPlace(c));
    }
  }
}

}  // namespace weft::cuda
