/// libfuzzer.cc: a target under libFuzzer; HSIMD_FUZZ_TARGET names it.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fuzz_targets.h"
#include "weft/support/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const hsimd::FuzzTarget& target : hsimd::FuzzTargets()) {
    if (std::strcmp(target.name, HSIMD_FUZZ_TARGET) != 0) continue;
    try {
      target.run({reinterpret_cast<const char*>(data), size});
    } catch (const weft::UserError&) {
    }
  }
  return 0;
}
