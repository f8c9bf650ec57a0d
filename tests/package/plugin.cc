/// plugin.cc: a module that links libweft.so and exports one function only.
#include "weft/support/api.h"
#include "weft/support/check.h"

extern "C" WEFT_API int weft_package_probe(int value) {
  WEFT_CHECK(value >= 0, kInternal, "expected a value that is not negative, got {}", value);
  return value + 1;
}
