/// options.cc: limits, pipelines, checks and paths of Python's kinds.
#include "options.h"

#include "errors.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/error.h"

namespace nb = nanobind;

namespace weft::python {

Limits ToLimits(nb::handle object) {
  if (object.is_none()) return {};
  if (PyUnicode_Check(object.ptr())) return Limits::Parse(nb::cast<std::string>(object));
  if (!PyDict_Check(object.ptr()))
    ThrowError(ErrorCode::kUsage, "a " + TypeNameOf(object) + " for limits", "",
               "give 'nodes=1000,deadline_s=30' or a dict");
  std::string text;
  for (const auto& [key, value] : nb::borrow<nb::dict>(object)) {
    if (!text.empty()) text += ",";
    text += nb::cast<std::string>(nb::str(key)) + "=" + nb::cast<std::string>(nb::str(value));
  }
  return Limits::Parse(text);
}

Option ToOption(const std::string& name, nb::handle value) {
  if (PyBool_Check(value.ptr())) return Option(name, value.ptr() == Py_True);
  if (PyLong_Check(value.ptr())) return Option(name, nb::cast<int64_t>(value));
  if (PyFloat_Check(value.ptr())) return Option(name, nb::cast<double>(value));
  if (PyUnicode_Check(value.ptr())) return Option(name, nb::cast<std::string>(value));
  ThrowError(ErrorCode::kUnknownOption,
             "option '" + name + "': a " + TypeNameOf(value) + " is not a value of an option");
}

namespace {

PassSpec ToPass(nb::handle item) {
  if (PyUnicode_Check(item.ptr())) return PassSpec(nb::cast<std::string>(item));
  if (!PyTuple_Check(item.ptr()) || nb::len(item) != 2)
    ThrowError(ErrorCode::kUsage, "a " + TypeNameOf(item) + " in a pipeline", "",
               "give names of passes, or (name, {option: value})");
  std::vector<Option> options;
  for (const auto& [key, value] : nb::cast<nb::dict>(item[1]))
    options.push_back(ToOption(nb::cast<std::string>(key), value));
  return PassSpec(nb::cast<std::string>(item[0]), std::move(options));
}

}  // namespace

Pipeline ToPipeline(nb::handle object) {
  if (PyUnicode_Check(object.ptr())) return ParsePipeline(nb::cast<std::string>(object));
  std::vector<PassSpec> passes;
  for (const nb::handle item : nb::iter(object)) passes.push_back(ToPass(item));
  return Pipeline(std::move(passes));
}

Checks ToChecks(nb::handle object) {
  Checks checks;
  if (object.is_none()) return checks;
  const auto add = [&](const std::string& name) {
    if (name == "all") {
      checks = Checks::All();
    } else if (name == "preserved") {
      checks.preserved = true;
    } else if (name == "changed") {
      checks.changed = true;
    } else if (name == "deterministic") {
      checks.deterministic = true;
    } else if (name == "equivalent") {
      checks.equivalent = true;
    } else {
      ThrowError(ErrorCode::kUsage, "'" + name + "' is not a check", "",
                 "checks are preserved, changed, deterministic, equivalent, all");
    }
  };
  if (PyUnicode_Check(object.ptr())) {
    add(nb::cast<std::string>(object));
  } else {
    for (const nb::handle item : nb::iter(object)) add(nb::cast<std::string>(item));
  }
  return checks;
}

std::string ToPath(nb::handle object) {
  const nb::object path = nb::steal(PyOS_FSPath(object.ptr()));
  if (!path.is_valid()) throw nb::python_error();
  if (PyBytes_Check(path.ptr()))
    return std::string(PyBytes_AsString(path.ptr()), size_t(PyBytes_Size(path.ptr())));
  const nb::object bytes = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
  if (!bytes.is_valid()) throw nb::python_error();
  return std::string(PyBytes_AsString(bytes.ptr()), size_t(PyBytes_Size(bytes.ptr())));
}

}  // namespace weft::python
