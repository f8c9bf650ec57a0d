/// errors.cc: the class of an error is looked up in weft.errors by the code; whatever is missing
/// there is a weft.Error.
#include "errors.h"

#include <exception>

#include "define/callback.h"
#include "weft/support/error.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

/// weft.errors: the class of each code, of others, and of what a function of the user has raised.
struct Classes {
  nb::dict by_code;
  nb::object base, callback;
  Classes() {
    const nb::object errors = nb::module_::import_("weft.errors");
    by_code = errors.attr("_CLASSES");
    base = errors.attr("Error");
    callback = errors.attr("CallbackError");
  }
  /// With the lock; kept for ever.
  static const Classes& Get() {
    static const Classes* made = new Classes;
    return *made;
  }
  nb::object Of(const Error& error, bool raised) const {
    if (raised) return callback;
    const nb::int_ code(int(error.code()));
    return by_code.contains(code) ? nb::object(by_code[code]) : base;
  }
};

/// An object of the class, as its __init__ makes it. No code of Python runs: a thread could be made
/// to leave it when the interpreter ends, and frames of C++ on its way would end the process.
nb::object Made(nb::handle type, const Error& error) {
  const nb::tuple none;
  auto* make = reinterpret_cast<newfunc>(
      PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type.ptr()), Py_tp_new));
  PyObject* object = make(reinterpret_cast<PyTypeObject*>(type.ptr()), none.ptr(), nullptr);
  if (!object) throw nb::python_error();
  nb::object made = nb::steal(object);
  const auto set = [&](const char* name, const nb::object& value) {
    if (PyObject_SetAttrString(made.ptr(), name, value.ptr()) != 0) throw nb::python_error();
  };
  const auto text = [](std::string_view s) {
    PyObject* decoded = PyUnicode_DecodeUTF8(s.data(), Py_ssize_t(s.size()), "replace");
    if (!decoded) throw nb::python_error();
    return nb::steal(decoded);
  };
  const nb::object all = text(error.what());
  set("args", nb::make_tuple(all));
  set("_text", all);
  set("message", text(error.message()));
  set("code", text(ErrorCodeName(error.code())));
  set("place", text(error.place()));
  set("hint", text(error.hint()));
  return made;
}

/// Sets the Python error of `error`. What a function of Python has raised is its cause, or where
/// it is no error but an end (KeyboardInterrupt), comes out as it was.
void RaiseError(const Error& error) {
  const auto* raised = dynamic_cast<const RaisedError*>(&error);
  if (raised && error.code() == ErrorCode::kCancelled) {
    PyErr_SetObject(raised->exception().type().ptr(), raised->exception().ptr());
    return;
  }
  try {
    const nb::object type = Classes::Get().Of(error, raised != nullptr);
    const nb::object made = Made(type, error);
    if (raised) PyException_SetCause(made.ptr(), nb::borrow(raised->exception()).release().ptr());
    PyErr_SetObject(type.ptr(), made.ptr());
  } catch (nb::python_error& e) {
    e.restore();
  }
}

}  // namespace

void RegisterErrors() {
  Classes::Get();
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
