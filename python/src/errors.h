/// errors.h: Weft's errors as Python's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace weft::python {

/// Throws of the library become `weft.errors.<Class>`, by their code: each a `weft.Error` and the
/// builtin that fits.
void RegisterErrors();

/// Throws UserError of that kind, with a place: for what is wrong with an argument.
[[noreturn]] void ThrowBadInput(std::string message, std::string place = {}, std::string hint = {});

/// "list", "numpy.ndarray": for messages.
std::string TypeNameOf(nanobind::handle object);

}  // namespace weft::python
