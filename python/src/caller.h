/// caller.h: a program as a function that a framework's compiler calls (`weft._weft._Caller`).
#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

void BindCaller(nanobind::module_& m);

}  // namespace weft::python
