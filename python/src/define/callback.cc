/// callback.cc: see callback.h.
#include "callback.h"

#include "../errors.h"

namespace nb = nanobind;

namespace weft::python {

HeldObject::HeldObject(nb::object object)
    : object_(new nb::object(std::move(object)), [](nb::object* held) {
        // What the library keeps may go when the interpreter has: then so has the object.
        if (!Py_IsInitialized()) return;
        const nb::gil_scoped_acquire gil;
        delete held;
      }) {}

void CheckInterpreter(const std::string& who) {
  if (Py_IsInitialized()) return;
  ThrowError(ErrorCode::kApiMisuse, "the interpreter has ended, whose function this is", who);
}

void ThrowRaised(nb::python_error& error, const std::string& who) {
  const nb::object exception = nb::borrow(error.value());
  const bool is_error = PyErr_GivenExceptionMatches(exception.ptr(), PyExc_Exception) != 0;
  std::string text = TypeNameOf(exception);
  try {
    // Lone surrogates have no UTF-8.
    const nb::str told(exception);
    const nb::object said =
        nb::steal(PyUnicode_AsEncodedString(told.ptr(), "utf-8", "backslashreplace"));
    if (!said.is_valid()) throw nb::python_error();
    const auto bytes = nb::borrow<nb::bytes>(said);
    if (bytes.size() > 0) text += ": " + std::string(bytes.c_str(), bytes.size());
  } catch (nb::python_error&) {
    // Its __str__ raises as well: the name of its class has to do.
  }
  throw RaisedError(is_error ? ErrorCode::kPlugin : ErrorCode::kCancelled, who + " raised " + text,
                    HeldObject(exception));
}

}  // namespace weft::python
