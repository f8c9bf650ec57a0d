/// errors.cc: the class of an error is looked up in weft.errors by the code; whatever is missing
/// there is a weft.Error.
#include "errors.h"

#include <exception>

#include "define/callback.h"
#include "weft/support/error.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

/// Sets the Python error of `error`. What a function of Python has raised is its cause, or where
/// it is no error but an end (KeyboardInterrupt), comes out as it was.
void RaiseError(const Error& error) {
  const auto* raised = dynamic_cast<const RaisedError*>(&error);
  if (raised && error.code() == ErrorCode::kCancelled) {
    PyErr_SetObject(raised->exception().type().ptr(), raised->exception().ptr());
    return;
  }
  try {
    const nb::object raise =
        nb::module_::import_("weft.errors").attr(raised ? "_make_callback" : "_make");
    const nb::object made =
        raise(int(error.code()), nb::str(error.message().c_str(), error.message().size()),
              nb::str(error.place().c_str(), error.place().size()),
              nb::str(error.hint().c_str(), error.hint().size()), nb::str(error.what()));
    if (raised) PyException_SetCause(made.ptr(), nb::borrow(raised->exception()).release().ptr());
    PyErr_SetObject(made.type().ptr(), made.ptr());
  } catch (nb::python_error& e) {
    e.restore();
  }
}

}  // namespace

void RegisterErrors() {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& error) {
      RaiseError(error);
    }
  });
}

void ThrowBadInput(std::string message, std::string place, std::string hint) {
  ThrowError(ErrorCode::kBadInput, std::move(message), std::move(place), std::move(hint));
}

std::string TypeNameOf(nb::handle object) {
  const nb::handle type = object.type();
  const std::string name = nb::cast<std::string>(type.attr("__qualname__"));
  const std::string module = nb::cast<std::string>(nb::str(type.attr("__module__")));
  return module == "builtins" ? name : module + "." + name;
}

}  // namespace weft::python
