/// checked.cc: the cold path of checked arithmetic.
#include "weft/support/checked.h"

#include "weft/support/check.h"

namespace weft {

void ThrowOverflow(int64_t a, const char* op, int64_t b) {
  WEFT_THROW(kOverflow, "size arithmetic overflows 64 bits: {} {} {}", a, op, b);
}

}  // namespace weft
