/// store.cc: VariableStore, a mapping from names to arrays.
#include <nanobind/stl/map.h>

#include "arrays.h"
#include "call.h"
#include "graph.h"
#include "options.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

/// A store is locked while a run writes to it, so nobody waits for it with the interpreter's lock.
template <class F>
auto Unlocked(F&& f) {
  CancelToken token;
  return WithoutGil(token, Threads::kNone, std::forward<F>(f));
}

/// collections.abc's view of the mapping.
// A store is locked by runs, which may want the interpreter's lock before they give it back: so
// nobody waits for a store with that in hand.
std::vector<std::string> NamesOf(const VariableStore& s) {
  return Unlocked([&] { return s.Names(); });
}
bool Has(const VariableStore& s, const std::string& name) {
  return Unlocked([&] { return s.Has(name); });
}

template <char kind>
nb::object ViewOf(nb::handle_t<VariableStore> self) {
  const char* name = kind == 'K' ? "KeysView" : kind == 'V' ? "ValuesView" : "ItemsView";
  return nb::module_::import_("collections.abc").attr(name)(self);
}

}  // namespace

void BindStore(nb::module_& m) {
  nb::class_<VariableStore>(
      m, "VariableStore", nb::is_weak_referenceable(),
      "State variables by name, which sessions share and runs write: a mapping to arrays. What it "
      "gives and takes are copies.")
      .def(nb::init<>())
      .def("__len__", [](const VariableStore& s) { return NamesOf(s).size(); })
      .def(
          "__contains__",
          [](const VariableStore& s, nb::handle name) {
            return PyUnicode_Check(name.ptr()) && Has(s, nb::cast<std::string>(name));
          },
          nb::sig("def __contains__(self, name: object, /) -> bool"))
      .def(
          "__iter__",
          [](const VariableStore& s) { return nb::cast(NamesOf(s)).attr("__iter__")(); },
          nb::sig("def __iter__(self) -> typing.Iterator[str]"))
      .def(
          "__getitem__",
          [](const VariableStore& s, const std::string& name) {
            return ToArray(Unlocked([&] { return s.Get(name); }), true);
          },
          nb::sig("def __getitem__(self, name: str, /) -> typing.Any"))
      .def(
          "__setitem__",
          [](VariableStore& s, const std::string& name, nb::handle value) {
            const TensorPtr tensor = ToTensor(value, {{}, "variable", &name});
            Unlocked([&] { s.Set(name, tensor); });
          },
          nb::sig("def __setitem__(self, name: str, value: ArrayLike, /) -> None"))
      .def("__delitem__",
           [](VariableStore& s, const std::string& name) {
             Unlocked([&] {
               if (!s.Erase(name)) (void)s.Get(name);  // raises
             });
           })
      .def("keys", &ViewOf<'K'>, nb::sig("def keys(self) -> typing.KeysView[str]"))
      .def("values", &ViewOf<'V'>, nb::sig("def values(self) -> typing.ValuesView[typing.Any]"))
      .def("items", &ViewOf<'I'>, nb::sig("def items(self) -> typing.ItemsView[str, typing.Any]"))
      .def(
          "get",
          [](const VariableStore& s, const std::string& name, nb::object otherwise) {
            if (!Has(s, name)) return otherwise;
            return ToArray(Unlocked([&] { return s.Get(name); }), true);
          },
          "name"_a, "default"_a = nb::none(),
          nb::sig("def get(self, name: str, default: typing.Any = None) -> typing.Any"))
      .def(
          "pop",
          [](VariableStore& s, const std::string& name, const nb::args& otherwise) {
            if (!Has(s, name) && otherwise.size() == 1) return nb::object(otherwise[0]);
            nb::object value = ToArray(Unlocked([&] { return s.Get(name); }), true);
            Unlocked([&] { s.Erase(name); });
            return value;
          },
          "name"_a, "default"_a,
          nb::sig("def pop(self, name: str, *default: typing.Any) -> typing.Any"))
      .def(
          "setdefault",
          [](VariableStore& s, const std::string& name, nb::handle value) {
            const TensorPtr tensor = ToTensor(value, {{}, "variable", &name});
            Unlocked([&] { s.SetIfAbsent(name, tensor); });
            return ToArray(Unlocked([&] { return s.Get(name); }), true);
          },
          "name"_a, "default"_a,
          nb::sig("def setdefault(self, name: str, default: ArrayLike) -> typing.Any"))
      .def(
          "update",
          [](nb::handle_t<VariableStore> self, const nb::args& other, const nb::kwargs& named) {
            nb::module_::import_("collections.abc")
                .attr("MutableMapping")
                .attr("update")(self, *other, **named);
          },
          "other"_a, "named"_a,
          nb::sig("def update(self, *other: typing.Any, **named: typing.Any) -> None"))
      .def("clear",
           [](VariableStore& s) {
             for (const std::string& name : NamesOf(s)) Unlocked([&] { s.Erase(name); });
           })
      .def_prop_ro("nbytes",
                   [](const VariableStore& s) { return Unlocked([&] { return s.num_bytes(); }); })
      .def_prop_ro(
          "metadata",
          [](const VariableStore& s) { return Unlocked([&] { return s.AllMetadata(); }); },
          "Texts that go with the variables into checkpoints (a copy).")
      .def(
          "adopt",
          [](VariableStore& s, const std::string& name, nb::handle array) {
            const std::shared_ptr<Tensor> tensor = ToWritable(array, {{}, "variable", &name});
            Unlocked([&] { s.Adopt(name, tensor); });
          },
          "name"_a, "array"_a, nb::sig("def adopt(self, name: str, array: typing.Any) -> None"),
          "From now on the variable is what is in `array`, which runs read and write in place, and "
          "which may be read and written between runs.")
      .def(
          "sync", [](VariableStore& s) { Unlocked([&] { s.Sync(); }); },
          "Before adopted arrays are looked at or written between runs on a device.")
      .def(
          "set_metadata",
          [](VariableStore& s, const std::string& key, std::string value) {
            Unlocked([&] { s.SetMetadata(key, std::move(value)); });
          },
          "key"_a, "value"_a)
      .def(
          "save",
          [](const VariableStore& s, nb::handle path) {
            const std::string file = ToPath(path);
            Unlocked([&] { s.Save(file); });
          },
          "path"_a, nb::sig("def save(self, path: PathLike) -> None"),
          "Writes a checkpoint: at any moment the old or the new file is there.")
      .def(
          "load",
          [](VariableStore& s, nb::handle path) {
            const std::string file = ToPath(path);
            Unlocked([&] { s.Load(file); });
          },
          "path"_a, nb::sig("def load(self, path: PathLike) -> None"),
          "Takes variables and metadata from a checkpoint of the same model.")
      .def("__repr__", [](const VariableStore& s) {
        return "<VariableStore: " + std::to_string(NamesOf(s).size()) + " variables>";
      });
}

}  // namespace weft::python
