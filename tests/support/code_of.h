/// code_of.h: for tests: the code of the error that a call throws.
#pragma once

#include "weft/support/error.h"

namespace weft {

/// ErrorCode(0) when `f` throws nothing. Anything but a weft::Error goes through.
template <class F>
ErrorCode CodeOf(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode(0);
}

}  // namespace weft
