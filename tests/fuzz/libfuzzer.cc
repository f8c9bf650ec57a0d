/// libfuzzer.cc: one target under libFuzzer; WEFT_FUZZ_TARGET is its name.
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const weft::fuzz::Target& target = *weft::fuzz::FindTarget(WEFT_FUZZ_TARGET);
  weft::fuzz::RunChecked(target, {reinterpret_cast<const char*>(data), size});
  return 0;
}
