/// out_of_memory.h: memory that gives out is an error with a code, as any other.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "weft/support/check.h"

namespace weft {

/// What `f` gives. Where memory gives out, or more is asked for than a container can ever hold:
/// kOutOfMemory, "no memory to `what`".
template <class F>
auto WithMemoryTo(const char* what, const std::string& place, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  ThrowError(ErrorCode::kOutOfMemory, fmt::format("no memory to {}", what), place);
}

}  // namespace weft
