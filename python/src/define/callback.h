/// callback.h: functions of Python that the library keeps and calls: what operators mean, their
/// rules, passes.
///
///   const HeldObject f(function);
///   Exprs values = WithPython("FCodeGen of operator 'demo::Scale'", [&] {
///     return ToExprs(f.get()(x));
///   });
///
/// They are called from any thread, with or without the interpreter's lock. What they raise goes
/// through the library as an error that names who has raised it, and comes out as a
/// weft.CallbackError whose cause it is. KeyboardInterrupt and its like come out as they are.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "weft/support/error.h"

namespace weft::python {

/// A Python object, copied and dropped without the interpreter's lock.
class HeldObject {
 public:
  HeldObject() = default;
  explicit HeldObject(nanobind::object object);
  explicit operator bool() const { return object_ != nullptr; }
  nanobind::handle get() const { return *object_; }

 private:
  std::shared_ptr<nanobind::object> object_;
};

/// What a function of Python has raised.
class RaisedError : public UserError {
 public:
  RaisedError(ErrorCode code, const std::string& message, HeldObject exception)
      : UserError(code, message), exception_(std::move(exception)) {}
  nanobind::handle exception() const { return exception_.get(); }

 private:
  HeldObject exception_;
};

[[noreturn]] void ThrowRaised(nanobind::python_error& error, const std::string& who);
/// Throws kApiMisuse where the interpreter has ended or is about to.
void CheckInterpreter(const std::string& who);

/// Calls `f` with the interpreter's lock; `who` is named where it raises. What it returns is used
/// without the lock: no object of Python.
template <class F>
auto WithPython(const std::string& who, F&& f) {
  CheckInterpreter(who);
  const nanobind::gil_scoped_acquire gil;
  try {
    return f();
  } catch (nanobind::python_error& error) {
    ThrowRaised(error, who);
  } catch (Error& error) {  // what it gave cannot be taken
    error.AddPlace(who);
    throw;
  }
}

}  // namespace weft::python
