/// program.h: programs as Python holds them.
#pragma once

#include <memory>

#include "weft/runtime/program/program.h"

namespace weft::python {

/// nanobind's shared pointers are to what is not const; nothing of a program can be changed.
using SharedProgram = std::shared_ptr<Program>;
inline SharedProgram Shared(std::shared_ptr<const Program> program) {
  return std::const_pointer_cast<Program>(std::move(program));
}

}  // namespace weft::python
